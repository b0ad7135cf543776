//! Our own encoding, version 1.
//!
//! Numbers are little-endian and need no alignment. Offsets are in bytes from the beginning of
//! the message. Every message begins with the same 8 bytes, in this and in every later version:
//!
//! | offset | field |
//! | --- | --- |
//! | 0 | the bytes `FW` |
//! | 2 | u8 version: 1 |
//! | 3 | u8 type |
//! | 4 | u32 length of the whole message, bytes: at most [`MAX_MESSAGE`] |
//!
//! From a datapath to a plane:
//!
//! | type | message | after the header | bytes |
//! | --- | --- | --- | --- |
//! | 0x01 | Hello | 8 u64 instance · 16 u32 signals · 20 u32 max_programs · 24 u32 inferred · 28 u32 degraded · 32 u32 abilities (1 window, 2 rate, 4 ECN, 8 idle restart) · 36 u32 fallback (0 Cubic, 1 Reno, 2 release) · 40 name | 40 + name |
//! | 0x02 | Created | 8 flow · 16 u32 mss · 20 u32 tag · 24 u64 cwnd · 32 u64 srtt_us · 40 u64 now_us · 48 local · 76 remote · 104 u64 rate · 112 u64 ssthresh (2⁶⁴ − 1: none) · 120 algorithm | 120 + name |
//! | 0x03 | Resumed | as Created | 120 + name |
//! | 0x04 | Reported | 8 flow · 16 u32 program · 20 u32 flags (1: there is a time) · 24 u64 time_us · 32 u64 cwnd · 40 u64 rate · 48 u64 fields | 48 + 8 n |
//! | 0x05 | Faulted | 8 flow · 16 u32 fault | 20 |
//! | 0x06 | Closed | 8 flow | 16 |
//! | 0x07 | Refused | 8 u8 type refused · 9 u8 reason · 10 u16 flags (1: there is a flow) · 12 u32 program · 16 flow | 24 |
//! | 0x08 | MssChanged | 8 flow · 16 u32 mss, not 0 | 20 |
//!
//! From a plane to a datapath:
//!
//! | type | message | after the header | bytes |
//! | --- | --- | --- | --- |
//! | 0x81 | Welcome | 8 u64 instance · 16 u32 alive_us | 20 |
//! | 0x82 | Install | 8 u32 program, not 0 · 12 u32 flags (1: idle restart) · 16 body | 16 + body |
//! | 0x83 | Uninstall | 8 u32 program, not 0 | 12 |
//! | 0x84 | Command | 8 flow · 16 u16 flags (1 switch, 2 cwnd, 4 rate, 8 withdraw) · 18 u16 n · 20 u32 program · 24 u64 cwnd · 32 u64 rate · 40 n updates | 40 + 10 n |
//! | 0x85 | HandOver | 8 flow · 16 algorithm | 16 + name |
//! | 0x87 | Refused | as above | 24 |
//!
//! Within these:
//!
//! | field | bytes |
//! | --- | --- |
//! | flow | u32 slot · 4 u32 generation |
//! | local, remote | u8 family, 4 or 6 · 1 u8 zero · 2 u16 port · 4 u32 flow information · 8 u32 scope · 12 address: 16 bytes, of which IPv4 uses the first 4 |
//! | update | u16 variable · 2 u64 value |
//! | name, algorithm | UTF-8, up to the message's end, at most [`MAX_NAME`] bytes |
//!
//! What a flag says is not there is zero, and so is what has no meaning: each message has one
//! encoding, and any other bytes are malformed.

mod address;
mod decode;
mod encode;

use crate::error::{DecodeErrorKind, ErrorAt};
use crate::{ToDatapath, ToPlane};

pub(crate) use decode::{decode_to_datapath, decode_to_plane, frame};
pub(crate) use encode::{encode_to_datapath, encode_to_plane};

/// What every message begins with. As a number it is no message type of libccp's.
pub const MAGIC: [u8; 2] = *b"FW";

/// The version that this module is.
pub const VERSION: u8 = 1;

/// The bound on a message, bytes: well above the largest program that compiles
/// (`fairwater_lang::bounds`).
pub const MAX_MESSAGE: usize = 1 << 17;

/// The bound on a name, bytes.
pub const MAX_NAME: usize = 255;

/// Where the type is.
pub(crate) const TYPE_AT: usize = 3;

const HEADER: usize = 8;

/// The type of a Hello: what is refused of a plane that takes no more datapaths.
pub const HELLO: u8 = 0x01;
const CREATED: u8 = 0x02;
const RESUMED: u8 = 0x03;
const REPORTED: u8 = 0x04;
const FAULTED: u8 = 0x05;
const CLOSED: u8 = 0x06;
const REFUSED_TO_PLANE: u8 = 0x07;
const MSS_CHANGED: u8 = 0x08;
const WELCOME: u8 = 0x81;
const INSTALL: u8 = 0x82;
const UNINSTALL: u8 = 0x83;
const COMMAND: u8 = 0x84;
const HAND_OVER: u8 = 0x85;

/// The type of a Refused to a datapath: what is refused of one is never answered.
pub const REFUSED_TO_DATAPATH: u8 = 0x87;

impl ToPlane<'_> {
    /// Its type in our encoding: what a [`Refusal`](crate::Refusal) there calls it.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Hello(_) => HELLO,
            Self::Created { .. } => CREATED,
            Self::Resumed { .. } => RESUMED,
            Self::Reported { .. } => REPORTED,
            Self::MssChanged { .. } => MSS_CHANGED,
            Self::Faulted { .. } => FAULTED,
            Self::Closed { .. } => CLOSED,
            Self::Refused(_) => REFUSED_TO_PLANE,
        }
    }
}

impl ToDatapath<'_> {
    /// Its type in our encoding: what a [`Refusal`](crate::Refusal) there calls it.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Welcome(_) => WELCOME,
            Self::Install { .. } => INSTALL,
            Self::Uninstall { .. } => UNINSTALL,
            Self::Command { .. } => COMMAND,
            Self::HandOver { .. } => HAND_OVER,
            Self::Refused(_) => REFUSED_TO_DATAPATH,
        }
    }
}

/// Reported: the report carries the datapath's time.
const HAS_TIME: u32 = 1;
/// Install: flows restart after an idle period.
const IDLE_RESTART: u32 = 1;
/// Refused: the message refused was about a flow.
const HAS_FLOW: u16 = 1;
/// Command: what it carries.
const SWITCH: u16 = 1;
const CWND: u16 = 2;
const RATE: u16 = 4;
const WITHDRAW: u16 = 8;

/// `value` where `flag` is among `flags`; where it is not, the value must be zero.
fn present<F, T>(flags: F, flag: F, value: T, at: usize) -> Result<Option<T>, ErrorAt>
where
    F: core::ops::BitAnd<Output = F> + Default + PartialEq + Copy,
    T: Default + PartialEq,
{
    if flags & flag != F::default() {
        Ok(Some(value))
    } else if value == T::default() {
        Ok(None)
    } else {
        Err(DecodeErrorKind::Value.at(at))
    }
}
