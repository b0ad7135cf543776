//! Programs as libccp runs them.

use fairwater_exec::portable::{self, Append, Inexpressible};
use fairwater_lang::{Program, VarId};

/// Values that a report of libccp's carries behind the program's own where there is room: the
/// time, cwnd and the rate, which libccp's encoding has no place for.
pub(super) const APPENDED: usize = 3;

/// What a flow is switched to when it is withdrawn: libccp has no fallback of its own for a flow
/// whose agent is there. RFC 5681 §3.1: the loss window of one segment after a timeout, then growth
/// by one segment a window; and a cut in half at a loss, at most once in 100 ms, which stands for
/// the RTT of §3.2. It reports nothing. [`SEGMENT`] is the flow's MSS once it is known.
pub(super) const FALLBACK: &str = "
(def (segment 1460))
(when Flow.was_timeout
  (:= Cwnd segment)
  (reset))
(when (&& (> Ack.lost_pkts_sample 0) (> Micros 100000))
  (:= Cwnd (max (* 2 segment) (/ Cwnd 2)))
  (reset))
(when (> Ack.bytes_acked 0)
  (:= Cwnd (+ Cwnd (/ (* segment Ack.bytes_acked) Cwnd))))";

/// The variable of [`FALLBACK`] that is the size of a segment, bytes.
pub(super) const SEGMENT: &str = "segment";

/// A program in libccp's encoding.
#[derive(Debug)]
pub(super) struct Portable {
    /// What INSTALL carries from its counts on.
    pub(super) body: Vec<u8>,
    /// Whether its reports end with the [`APPENDED`] values.
    pub(super) is_appended: bool,
    /// Control registers, and what each switch to the program must set them to.
    pub(super) presets: Vec<(u16, u64)>,
    /// The control register of each variable, if it has one.
    controls: Vec<Option<u16>>,
}

impl Portable {
    pub(super) fn of(program: &Program) -> Result<Self, Inexpressible> {
        let encoded = portable::encode(program, Append::Flow)?;
        let control = |at: usize| {
            let variable = VarId(u16::try_from(at).ok()?);
            let register = encoded.controls.get(&variable)?;
            u16::try_from(*register).ok()
        };
        Ok(Self {
            controls: (0..program.variables.len()).map(control).collect(),
            presets: encoded
                .presets
                .iter()
                .filter_map(|(register, value)| Some((u16::try_from(*register).ok()?, *value)))
                .collect(),
            is_appended: encoded.appended,
            body: encoded.body,
        })
    }

    #[inline]
    pub(super) fn control(&self, variable: u16) -> Option<u16> {
        self.controls.get(usize::from(variable)).copied().flatten()
    }
}
