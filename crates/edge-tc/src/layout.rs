//! Offsets and constants of the memory that the programs share with the process, taken from the types
//! of `bpf/edge.h`. The compiler compares them with what Rust relies on.

use std::mem::{offset_of, size_of};

use fairwater_exec::frame as exec;
use fairwater_lang::Signal;
use fairwater_wire::ParseError;

use crate::skeleton::types;

/// Most rules.
pub const MAX_RULES: usize = 64;

/// Most programs of flows.
pub const MAX_PROGRAMS: usize =
    (size_of::<types::plane>() - offset_of!(types::plane, programs)) / 32;

/// Offsets in the plane's page, bytes.
pub(crate) mod plane {
    use std::mem::{offset_of, size_of};

    use crate::skeleton::types::plane;

    pub(crate) const HEARTBEAT_US: usize = offset_of!(plane, heartbeat_us);
    /// Size of the page, a multiple of the machine's pages.
    pub(crate) const SIZE: usize = size_of::<plane>().next_multiple_of(4096);
}

/// Offsets in `struct settings`, bytes.
pub(crate) mod settings {
    use std::mem::offset_of;

    use crate::skeleton::types::settings;

    pub(crate) const IDLE_NS: usize = offset_of!(settings, idle_ns);
    pub(crate) const CLOSING_NS: usize = offset_of!(settings, closing_ns);
    pub(crate) const CLOCK_NS: usize = offset_of!(settings, clock_ns);
    pub(crate) const ACTIVE: usize = offset_of!(settings, active);
    pub(crate) const RULE_COUNT: usize = offset_of!(settings, rule_count);
    /// Size of the mapping.
    pub(crate) const SIZE: usize = 4096;
}

/// Offsets in `struct connection`, bytes.
pub(crate) mod connection {
    use std::mem::offset_of;

    use crate::skeleton::types::connection;

    pub(crate) const SLOT: usize = offset_of!(connection, slot);
    pub(crate) const UNA: usize = offset_of!(connection, una);
    pub(crate) const NXT: usize = offset_of!(connection, nxt);
    pub(crate) const SEEN_NS: usize = offset_of!(connection, seen_ns);
    pub(crate) const BITS: usize = offset_of!(connection, bits);
    pub(crate) const FATE: usize = offset_of!(connection, fate);
    pub(crate) const MSS: usize = offset_of!(connection, mss);
}

/// Offsets in `struct controlled`, bytes.
pub(crate) mod controlled {
    use std::mem::offset_of;

    use crate::skeleton::types::{controlled, enforcement, sender};

    const ENFORCEMENT: usize = offset_of!(controlled, enforcement);
    pub(crate) const LIMIT: usize = ENFORCEMENT + offset_of!(enforcement, limit);
    pub(crate) const TOLD: usize = ENFORCEMENT + offset_of!(enforcement, told);
    pub(crate) const TRANSLATES_ECN: usize = ENFORCEMENT + offset_of!(enforcement, translates_ecn);
    pub(crate) const SRTT_NS: usize =
        offset_of!(controlled, sender) + offset_of!(sender, srtt_ns);
}

const _: () = assert!(size_of::<types::connection>() <= 128);
const _: () = assert!(types::counter::IGNORED.0 as usize == ParseError::COUNT);
const _: () = assert!(types::counter::NOT_IP.0 as usize == ParseError::NotIp.index());
const _: () = assert!(
    types::counter::TCP_OPTION_LENGTH.0 as usize == ParseError::TcpOptionLength.index()
);
const _: () = assert!(offset_of!(types::frame, signals) == exec::SIGNALS as usize);
const _: () = assert!(offset_of!(types::frame, stage) == exec::STAGE as usize);
const _: () = assert!(offset_of!(types::frame, report) == exec::REPORT as usize);
const _: () = assert!(size_of::<types::frame>() == exec::VARIABLES as usize);
const _: () = assert!(Signal::COUNT == types::signal::SIGNALS.0 as usize);
