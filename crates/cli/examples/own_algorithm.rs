//! An algorithm of one's own on this machine's TCP, as `fw_aimd`, until Ctrl-C:
//! `cargo build --example own_algorithm && sudo target/debug/examples/own_algorithm`.

use fairwater_linux::{Options, SIGNALS, Session};
use fairwater_plane::*;

const PROGRAM: &str = "
    (def (Report (volatile lost 0)))
    (when true
      (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
      (when (> Micros Flow.rtt_sample_us) (report) (reset)))";

#[derive(Clone, Copy)]
struct Aimd(Field, u64);

impl Algorithm for Aimd {
    fn name(&self) -> &str {
        "aimd"
    }
    fn new_flow(&self, info: &FlowInfo, _: &mut Control) -> Box<dyn Flow> {
        Box::new(Aimd(self.0, info.mss.into()))
    }
}

impl Flow for Aimd {
    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let (lost, cwnd, mss) = (report[self.0] > 0, report.cwnd(), self.1);
        control.set_cwnd(if lost { mss.max(cwnd / 2) } else { cwnd + mss });
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut plane = Plane::new("linux", SIGNALS);
    plane.add(|programs| Ok(Aimd(programs.add("aimd", PROGRAM)?.field("lost")?, 0)))?;
    let mut session = Session::attach(plane, Options::default())?;
    loop {
        session.turn(std::time::Duration::from_millis(50));
    }
}
