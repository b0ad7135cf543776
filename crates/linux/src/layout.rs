//! Offsets and constants of what the kernel side keeps in a socket, taken from the types of
//! `bpf/socket.h`.

use std::mem::offset_of;

use crate::skeleton::datapath::types;

/// Flag of congestion controls whose connections negotiate ECN.
pub(crate) const NEEDS_ECN: u32 = types::cong_flags::TCP_CONG_NEEDS_ECN.0;
/// `sk_pacing_status` of a socket that the kernel paces.
pub(crate) const SK_PACING_NEEDED: u32 = types::sk_pacing::SK_PACING_NEEDED.0;
/// Offset of `slot` in the private area of a socket, bytes.
pub(crate) const PRIVATE_SLOT: usize = offset_of!(types::socket_private, slot);
