//! What the options of a segment say, all together.

use super::{AccEcn, SackBlock, SackBlocks, TcpOption, TcpOptions};
use crate::ParseError;

/// What the options of a segment say, all together. Of a kind that comes twice, the last counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OptionSummary {
    /// Maximum segment size, bytes.
    pub mss: Option<u16>,
    /// Shift of the receive window, as sent.
    pub window_scale: Option<u8>,
    /// Selective acknowledgements may be sent.
    pub sack_permitted: bool,
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// Counters of accurate ECN.
    pub acc_ecn: Option<AccEcn>,
    /// Fast Open, with or without a cookie.
    pub fast_open: bool,
    /// The segment is signed (RFC 2385, RFC 5925): its header must not be changed.
    pub is_signed: bool,
    /// Multipath TCP.
    pub mptcp: bool,
    sack: [SackBlock; SackBlocks::MAX],
    sack_count: u8,
}

impl OptionSummary {
    /// Reads them all.
    ///
    /// # Errors
    /// An option lies about its length.
    pub fn of(options: TcpOptions<'_>) -> Result<Self, ParseError> {
        let mut summary = Self::default();
        for option in options {
            match option? {
                TcpOption::Mss(mss) => summary.mss = Some(mss),
                TcpOption::WindowScale(shift) => summary.window_scale = Some(shift),
                TcpOption::SackPermitted => summary.sack_permitted = true,
                TcpOption::Sack(blocks) => {
                    summary.sack_count = 0;
                    for (into, block) in summary.sack.iter_mut().zip(blocks.iter()) {
                        *into = block;
                        summary.sack_count += 1;
                    }
                }
                TcpOption::Timestamps { value, echo } => summary.timestamps = Some((value, echo)),
                TcpOption::FastOpen(_) => summary.fast_open = true,
                TcpOption::Md5(_) | TcpOption::Authentication(_) => summary.is_signed = true,
                TcpOption::Mptcp(_) => summary.mptcp = true,
                TcpOption::AccEcn(counters) => summary.acc_ecn = Some(counters),
                TcpOption::Unknown { .. } => {}
            }
        }
        Ok(summary)
    }

    /// The blocks of selective acknowledgements, the first of them first.
    #[must_use]
    pub fn sack(&self) -> &[SackBlock] {
        self.sack.get(..usize::from(self.sack_count)).unwrap_or(&[])
    }
}
