//! Additive increase, multiplicative decrease (CCP §4.2).

use fairwater_plane::*;

const PROGRAM: &str = "
(def (Report (volatile acked 0) (volatile lost 0)))
(when true
  (:= Report.acked (+ Report.acked Ack.bytes_acked))
  (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
  (when (> Micros Flow.rtt_sample_us) (report) (reset)))";

#[derive(Clone, Copy)]
struct Aimd {
    acked: Field,
    lost: Field,
    mss: u64,
}

impl Aimd {
    fn new(programs: &mut Programs) -> Result<Self, AlgorithmError> {
        let program = programs.add("aimd", PROGRAM)?;
        Ok(Self {
            acked: program.field("acked")?,
            lost: program.field("lost")?,
            mss: 0,
        })
    }
}

impl Algorithm for Aimd {
    fn name(&self) -> &str {
        "aimd"
    }

    fn new_flow(&self, info: &FlowInfo, _: &mut Control) -> Box<dyn Flow> {
        Box::new(Self {
            mss: info.mss.into(),
            ..*self
        })
    }
}

impl Flow for Aimd {
    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let cwnd = report.cwnd();
        control.set_cwnd(match report[self.lost] {
            0 => cwnd + report[self.acked] * self.mss / cwnd,
            _ => (cwnd / 2).max(self.mss),
        });
    }
}

fn main() -> Result<(), PlaneError> {
    let mut plane = Plane::new();
    plane.add(Aimd::new)?;
    Ok(())
}
