//! libccp's encoding (libccp 1.2, portus 0.9), so that datapaths and agents written for CCP work
//! with ours.
//!
//! Numbers are little-endian and need no alignment. Offsets are in bytes from the beginning of
//! the message. Every message begins with
//! `0 u16 type · 2 u16 length of the whole message · 4 u32 sid`.
//!
//! | type | message | after the header | bytes | here |
//! | --- | --- | --- | --- | --- |
//! | 0 | CREATE | 8 u32 cwnd · 12 u32 mss · 16 u32 source address · 20 u32 port · 24 u32 destination address · 28 u32 port · 32 char\[64\] algorithm, NUL-padded | 96 | Created; Resumed is sent as it too |
//! | 1 | MEASURE | 8 u32 program · 12 u32 n · 16 u64 fields | 16 + 8 n | Reported; n = 0: Closed. Faulted is sent as n = 0 too |
//! | 2 | INSTALL | 8 u32 program · 12 u32 events · 16 u32 instructions · 20 both, 16 bytes each | 20 + 16 (events + instructions) | Install, whose body is from byte 12 on |
//! | 3 | UPDATE_FIELDS | 8 u32 n · 12 entries | 12 + 13 n | Command without a switch |
//! | 4 | CHANGE_PROG | 8 u32 program · 12 u32 n · 16 entries | 16 + 13 n | Command with a switch |
//! | 5 | READY | 8 u32 datapath | 12 | Hello |
//!
//! An entry is `0 u8 register type · 1 u32 register · 5 u64 value`. Types 0 and 8 are control
//! registers (8: volatile ones; they share their numbers, and 0 is sent); type 2 is cwnd
//! (register 4) or the rate (register 5), of which the last of each counts. Others are malformed.
//!
//! # What is lost
//!
//! Peers of this dialect take packets of several messages (portus) or read the first message of
//! a packet alone (libccp): [`Dialect::split`](crate::Dialect::split) tells them apart. portus
//! reads at most 1,024 bytes at once, libccp messages of at most [`MAX_MESSAGE`].
//!
//! - Numbers above the 32 bits of a field (cwnd in CREATE) are sent as 2³² − 1.
//! - Addresses are four octets in their order on the network, as the kernel keeps them, so IPv6
//!   addresses other than those of IPv4 are sent as 0.0.0.0. Ports are numbers; above 65,535
//!   they are read as 0.
//! - CREATE has no time and no RTT: both are read as 0. A report has no time, cwnd or rate.
//! - READY has the low 32 bits of the instance; name, signals and bounds are read as libccp's.
//! - A fault ends the flow for the agent, which could not do anything for it any more; the
//!   datapath goes on under its fallback.
//! - Welcome, Uninstall, withdrawal and refusals cannot be said.
//!
//! # Flow names
//!
//! The sid is one number from 1 on. Its predecessor's low 20 bits are the slot, and its high 12
//! bits the low bits of the generation: [`sid_of`] and [`flow_of`]. libccp's own sids thus have
//! generation 0, and successive tenants of a slot of ours differ for 4,096 generations.

mod decode;
mod encode;

use fairwater_lang::SignalSet;

use crate::{Abilities, Capabilities, Fallback, FlowId, SignalQualities};

pub(crate) use decode::{decode_to_datapath, decode_to_plane, frame};
pub(crate) use encode::{encode_to_datapath, encode_to_plane};

/// The bound on a message, bytes: libccp's.
pub const MAX_MESSAGE: usize = 32_678;

/// The bound on an algorithm's name, bytes: one less than its field, for libccp and portus look
/// for a NUL.
pub const MAX_NAME: usize = 63;

/// libccp's control registers. It does not check what it is told, so no more is ever sent.
pub const MAX_CONTROLS: u16 = 110;

/// The most entries of one UPDATE_FIELDS: libccp reads their number as a signed byte.
pub const MAX_UPDATES: usize = 127;

/// The most entries of one CHANGE_PROG: libccp's bound.
pub const MAX_UPDATES_OF_SWITCH: usize = 222;

/// How many programs libccp keeps unless told otherwise.
pub const MAX_PROGRAMS: u32 = 10;

/// What a libccp can do, which has no message to say it: its programs set window and rate, and it
/// knows of nothing else. Whether flows negotiate ECN is their transport's affair. The plane gives it
/// a program for a fallback.
pub const CAPABILITIES: Capabilities = Capabilities {
    signals: SignalQualities::exact(SignalSet::CCP),
    abilities: Abilities {
        window: true,
        rate: true,
        ecn: true,
        idle_restart: false,
    },
    fallback: Fallback::Reno,
    max_programs: MAX_PROGRAMS,
};

/// Where the type is; its upper byte is 0.
pub(crate) const TYPE_AT: usize = 0;

const HEADER: usize = 8;

const CREATE: u8 = 0;
const MEASURE: u8 = 1;
const INSTALL: u8 = 2;
const UPDATE_FIELDS: u8 = 3;
const CHANGE_PROG: u8 = 4;
pub(crate) const READY: u8 = 5;

/// Bytes of CREATE's field for the algorithm's name.
const NAME_FIELD: usize = 64;

/// Register types of entries.
const CONTROL: u8 = 0;
pub(crate) const IMPLICIT: u8 = 2;
const VOLATILE_CONTROL: u8 = 8;
/// Implicit registers that an entry may set.
const CWND: u32 = 4;
const RATE: u32 = 5;

const SLOT_BITS: u32 = 20;
const SLOT_MASK: u32 = (1 << SLOT_BITS) - 1;

/// The sid of a flow: `None` for slots from 2²⁰ on.
#[must_use]
pub const fn sid_of(flow: FlowId) -> Option<u32> {
    if flow.slot > SLOT_MASK {
        return None;
    }
    Some((flow.generation << SLOT_BITS | flow.slot).wrapping_add(1))
}

/// The flow of a sid. Each sid is one flow's; the generation is below 2¹².
#[must_use]
pub const fn flow_of(sid: u32) -> FlowId {
    let number = sid.wrapping_sub(1);
    FlowId {
        slot: number & SLOT_MASK,
        generation: number >> SLOT_BITS,
    }
}
