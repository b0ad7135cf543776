//! Additive increase and multiplicative decrease, all of it in the plane: the most that reporting
//! can cost.

use fairwater_plane::{
    Algorithm, AlgorithmError, Control, Field, Flow, FlowInfo, Programs, Report,
};

const PROGRAM: &str = "
(def (Report (volatile acked 0) (volatile lost 0)))
(when true
  (:= Report.acked (+ Report.acked Ack.bytes_acked))
  (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
  (report))";

#[derive(Clone, Copy)]
pub(super) struct EachAck {
    acked: Field,
    lost: Field,
    mss: u64,
    /// No second reduction before then, µs.
    until_us: u64,
}

impl EachAck {
    pub(super) fn new(programs: &mut Programs) -> Result<Self, AlgorithmError> {
        let program = programs.add("each_ack", PROGRAM)?;
        Ok(Self {
            acked: program.field("acked")?,
            lost: program.field("lost")?,
            mss: 0,
            until_us: 0,
        })
    }
}

impl Algorithm for EachAck {
    fn name(&self) -> &str {
        "each_ack"
    }

    fn new_flow(&self, info: &FlowInfo, _: &mut Control) -> Box<dyn Flow> {
        Box::new(Self {
            mss: info.mss.into(),
            ..*self
        })
    }
}

impl Flow for EachAck {
    fn on_report(&mut self, report: &Report, control: &mut Control) {
        /// Longer than the path's round trip with its buffer full.
        const ROUND_TRIP_US: u64 = 50_000;
        let cwnd = report.cwnd();
        if report[self.lost] == 0 {
            control.set_cwnd(cwnd + report[self.acked] * 10 * self.mss / cwnd);
        } else if report.time_us() >= self.until_us {
            self.until_us = report.time_us() + ROUND_TRIP_US;
            control.set_cwnd((cwnd / 2).max(self.mss));
        }
    }
}
