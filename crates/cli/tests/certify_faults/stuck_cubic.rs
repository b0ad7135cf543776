//! CUBIC with a planted bug: after a timeout the window stays at two packets.

use fairwater_plane::{Algorithm, Control, Field, Flow, FlowInfo, Programs, Report};

const PROGRAM: &str = "
    (def (Report (volatile lost 0) (volatile timeout 0)))
    (when true
      (:= Report.lost (+ Report.lost Ack.lost_pkts_sample)))
    (when Flow.was_timeout
      (:= Report.timeout 1) (report) (reset))
    (when (> Micros Flow.rtt_sample_us) (report) (reset))";

/// Growth constant, segments/s³ (RFC 9438 §5).
const C: f64 = 0.4;
/// What a reduction leaves (RFC 9438 §4.6).
const BETA: f64 = 0.7;

pub(crate) struct StuckCubic {
    lost: Field,
    timeout: Field,
}

impl StuckCubic {
    pub(crate) fn new(programs: &mut Programs) -> Self {
        let program = programs.add("stuck_cubic", PROGRAM).unwrap();
        Self {
            lost: program.field("lost").unwrap(),
            timeout: program.field("timeout").unwrap(),
        }
    }
}

impl Algorithm for StuckCubic {
    fn name(&self) -> &str {
        "stuck_cubic"
    }

    fn new_flow(&self, info: &FlowInfo, _: &mut Control<'_>) -> Box<dyn Flow> {
        Box::new(StuckFlow {
            lost: self.lost,
            timeout: self.timeout,
            mss: u64::from(info.mss),
            w_max: None,
            epoch_us: 0,
            reduced_us: 0,
            is_stuck: false,
        })
    }
}

struct StuckFlow {
    lost: Field,
    timeout: Field,
    mss: u64,
    /// Segments; `None` in slow start.
    w_max: Option<f64>,
    epoch_us: u64,
    reduced_us: u64,
    is_stuck: bool,
}

impl Flow for StuckFlow {
    fn on_report(&mut self, report: &Report<'_>, control: &mut Control<'_>) {
        let now_us = report.time_us();
        let segments = report.cwnd() as f64 / self.mss as f64;
        self.is_stuck |= report[self.timeout] > 0;
        if self.is_stuck {
            // The bug.
            control.set_cwnd(2 * self.mss);
            return;
        }
        let mut cwnd = segments;
        // One reduction in a fifth of a second stands for one in a round trip.
        if report[self.lost] > 0 && now_us > self.reduced_us + 200_000 {
            self.w_max = Some(segments);
            (self.epoch_us, self.reduced_us) = (now_us, now_us);
            cwnd = segments * BETA;
        } else if let Some(w_max) = self.w_max {
            let t = now_us.saturating_sub(self.epoch_us) as f64 / 1e6;
            let k = (w_max * (1.0 - BETA) / C).cbrt();
            // At most half a window more a round trip (RFC 9438 §4.4).
            let target = C * (t - k).powi(3) + w_max;
            cwnd = target.clamp(segments * 0.7, segments * 1.5);
        } else {
            cwnd *= 2.0;
        }
        control.set_cwnd(((cwnd * self.mss as f64) as u64).max(2 * self.mss));
    }
}
