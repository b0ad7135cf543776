//! What the transport measured for one ACK.

use core::mem::offset_of;

use fairwater_lang::{Signal, SignalSet, Signals};

use crate::fw_error;
use crate::fw_error::FW_ERROR_ARGUMENT;
use crate::sized::Versioned;

/// `rtt_sample_us` when there is no sample yet.
pub const FW_NO_RTT: u64 = u64::MAX;

/// `bytes_acked` is filled in.
pub const FW_SIGNAL_BYTES_ACKED: u32 = 1;
/// `bytes_misordered` is filled in.
pub const FW_SIGNAL_BYTES_MISORDERED: u32 = 2;
/// `ecn_bytes` is filled in.
pub const FW_SIGNAL_ECN_BYTES: u32 = 4;
/// `ecn_packets` is filled in.
pub const FW_SIGNAL_ECN_PACKETS: u32 = 8;
/// `lost_packets` is filled in.
pub const FW_SIGNAL_LOST_PACKETS: u32 = 16;
/// `now_us` is filled in; it always must be.
pub const FW_SIGNAL_NOW: u32 = 32;
/// `packets_acked` is filled in.
pub const FW_SIGNAL_PACKETS_ACKED: u32 = 64;
/// `packets_misordered` is filled in.
pub const FW_SIGNAL_PACKETS_MISORDERED: u32 = 128;
/// `bytes_in_flight` is filled in.
pub const FW_SIGNAL_BYTES_IN_FLIGHT: u32 = 256;
/// `bytes_pending` is filled in.
pub const FW_SIGNAL_BYTES_PENDING: u32 = 512;
/// `packets_in_flight` is filled in.
pub const FW_SIGNAL_PACKETS_IN_FLIGHT: u32 = 1024;
/// `rate_incoming` is filled in.
pub const FW_SIGNAL_RATE_INCOMING: u32 = 2048;
/// `rate_outgoing` is filled in.
pub const FW_SIGNAL_RATE_OUTGOING: u32 = 4096;
/// `rtt_sample_us` is filled in.
pub const FW_SIGNAL_RTT_SAMPLE: u32 = 8192;
/// `was_timeout` is filled in.
pub const FW_SIGNAL_WAS_TIMEOUT: u32 = 16384;

/// `app_limited` is filled in.
pub const FW_SIGNAL_APP_LIMITED: u32 = 32768;
/// `undo` is filled in.
pub const FW_SIGNAL_UNDO: u32 = 65536;

/// What the transport measured: for this ACK, and of the flow now (the primitive congestion
/// signals of the CCP paper, Table 2, up to `was_timeout`). What a transport does not measure
/// stays zero, and is left out of `signals` in fw_options.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct fw_signals {
    /// sizeof(fw_signals).
    pub size: usize,
    /// Bytes that this ACK newly acknowledges in order.
    pub bytes_acked: u64,
    /// Bytes that it newly acknowledges out of order (SACK).
    pub bytes_misordered: u64,
    /// Bytes that it says were marked with ECN CE.
    pub ecn_bytes: u64,
    /// Packets that it says were marked with ECN CE.
    pub ecn_packets: u64,
    /// Packets newly declared lost.
    pub lost_packets: u64,
    /// The time of this ACK on the transport's clock, microseconds.
    pub now_us: u64,
    /// Packets that this ACK newly acknowledges in order.
    pub packets_acked: u64,
    /// Packets that it newly acknowledges out of order (SACK).
    pub packets_misordered: u64,
    /// Bytes sent and neither acknowledged nor declared lost, after this ACK.
    pub bytes_in_flight: u64,
    /// Bytes that the application has written and the transport has not sent yet.
    pub bytes_pending: u64,
    /// Packets sent and neither acknowledged nor declared lost, after this ACK.
    pub packets_in_flight: u64,
    /// The rate at which data arrives at the receiver, bytes per second; 0 until measured.
    pub rate_incoming: u64,
    /// The rate at which data is sent, bytes per second; 0 until measured.
    pub rate_outgoing: u64,
    /// The most recent RTT sample, microseconds; 0 or FW_NO_RTT before the first.
    pub rtt_sample_us: u64,
    /// Not 0 when this call is due to a retransmission timeout rather than an ACK.
    pub was_timeout: u64,
    /// Not 0 when the most recently sent of the data that this ACK newly acknowledges was sent
    /// while the application had less to send than window and rate allowed (RFC 9002 section
    /// 7.8); as before when this ACK acknowledges nothing.
    pub app_limited: u64,
    /// Not 0 when the transport found since the last call that its last reduction of the window
    /// was for a spurious loss or timeout (RFC 4015, RFC 3708, RFC 5682) and took it back, and
    /// fw_set_controls() has been told.
    pub undo: u64,
}

// SAFETY: `repr(C)`, `size` first, and integers all the way.
unsafe impl Versioned for fw_signals {
    const FIRST: usize = offset_of!(Self, app_limited);
}

impl fw_signals {
    /// The values.
    pub(crate) const fn values(&self) -> Signals {
        // By index.
        Signals::from_array([
            self.bytes_acked,
            self.bytes_misordered,
            self.ecn_bytes,
            self.ecn_packets,
            self.lost_packets,
            self.now_us,
            self.packets_acked,
            self.packets_misordered,
            self.bytes_in_flight,
            self.bytes_pending,
            self.packets_in_flight,
            self.rate_incoming,
            self.rate_outgoing,
            rtt_sample(self.rtt_sample_us),
            (self.was_timeout != 0) as u64,
            (self.app_limited != 0) as u64,
            (self.undo != 0) as u64,
        ])
    }
}

/// No RTT is shorter than the clock's unit: 0 is the absence of a sample.
pub(crate) const fn rtt_sample(us: u64) -> u64 {
    if us == 0 { FW_NO_RTT } else { us }
}

/// The signals of `FW_SIGNAL_…` bits; 0 is those of CCP Table 2.
pub(crate) fn signal_set(bits: u32) -> Result<SignalSet, fw_error> {
    if bits & !SignalSet::ALL.bits() != 0 {
        return Err(FW_ERROR_ARGUMENT);
    }
    if bits == 0 {
        return Ok(SignalSet::CCP);
    }
    let mut set: SignalSet = Signal::ALL
        .into_iter()
        .filter(|signal| bits & (1 << *signal as u32) != 0)
        .collect();
    set.insert(Signal::Now);
    Ok(set)
}
