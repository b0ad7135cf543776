//! An algorithm of your own on this machine's TCP: registers `fw_aimd` until Ctrl-C. See
//! docs/own-algorithm.md.

use fairwater_linux::Options;
use fairwater_plane::{Algorithm, Control, Field, Flow, FlowInfo, Plane, Report};

/// Runs in the kernel at each ACK: counts lost packets, and reports once per round trip.
const PROGRAM: &str = "
    (def (Report (volatile lost 0)))
    (when true
      (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
      (when (> Micros Flow.rtt_sample_us) (report) (reset)))";

/// Additive increase, multiplicative decrease.
struct Aimd {
    lost: Field,
}

/// One connection under `Aimd`.
struct AimdFlow {
    lost: Field,
    mss: u64,
}

impl Algorithm for Aimd {
    fn name(&self) -> &str {
        "aimd"
    }

    fn new_flow(&self, info: &FlowInfo, _: &mut Control<'_>) -> Box<dyn Flow> {
        Box::new(AimdFlow {
            lost: self.lost,
            mss: info.mss.into(),
        })
    }
}

impl Flow for AimdFlow {
    fn on_report(&mut self, report: &Report<'_>, control: &mut Control<'_>) {
        let cwnd = if report[self.lost] > 0 {
            report.cwnd() / 2
        } else {
            report.cwnd() + self.mss
        };
        control.set_cwnd(cwnd.max(self.mss));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut plane = Plane::new();
    plane.add(|programs| {
        let program = programs.add("aimd", PROGRAM)?;
        Ok(Aimd {
            lost: program.field("lost")?,
        })
    })?;
    let (mut server, _) = fairwater_linux::server(plane, Options::default())?;
    eprintln!("fw_aimd is registered; Ctrl-C ends it.");
    server.run()?;
    Ok(())
}
