//! The members' program: it adds up what the inner algorithm's program would have seen.

use fairwater_plane::{
    AlgorithmError, Control, Field, FlowInfo, Programs, Report, Signal, SignalSet, Signals, Var,
};

use super::{CongestionManagerConfig, Share};

/// What a report of a member says: signals by index, those that count things summed over the
/// invocations since the last report, the others as they are now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) signals: Signals,
    /// Invocations since the last report.
    pub(super) acks: u64,
    /// What was in flight before the last of them, bytes: and so, nearly, what is again when the
    /// member has answered it.
    pub(super) out: u64,
    /// The least RTT since the last report, µs.
    pub(super) min_rtt_us: u64,
    /// What the member was told to have, as far as it goes by it: bytes and bytes/s.
    pub(super) cwnd: u64,
    pub(super) rate: u64,
}

impl Sample {
    pub(super) fn of(&self, signal: Signal) -> u64 {
        self.signals[signal]
    }
}

/// The program's handles.
#[derive(Debug, Clone)]
pub(super) struct Collector {
    fields: Vec<(Signal, Field)>,
    acks: Field,
    out: Field,
    min_rtt_us: Field,
    mss: Var,
}

/// What the pool itself goes by.
const NEEDED: [Signal; 5] = [
    Signal::BytesAcked,
    Signal::LostPkts,
    Signal::BytesInFlight,
    Signal::RttSampleUs,
    Signal::WasTimeout,
];

/// Those that are summed between reports.
const COUNTED: [Signal; 7] = [
    Signal::BytesAcked,
    Signal::BytesMisordered,
    Signal::EcnBytes,
    Signal::EcnPackets,
    Signal::LostPkts,
    Signal::PacketsAcked,
    Signal::PacketsMisordered,
];

impl Collector {
    /// Compiles the program for an inner algorithm that reads these signals: a datapath need not
    /// have more than that one and the pool go by.
    pub(super) fn load(
        programs: &mut Programs,
        inner: SignalSet,
        config: &CongestionManagerConfig,
    ) -> Result<Self, AlgorithmError> {
        let mut signals = inner;
        for signal in NEEDED {
            signals.insert(signal);
        }
        if config.share == Share::Demand {
            signals.insert(Signal::BytesPending);
        }
        // A report has its time, and what a datapath undoes is a member's window, not the pool's.
        let signals: Vec<Signal> = signals
            .iter()
            .filter(|s| !matches!(s, Signal::Now | Signal::Undo))
            .collect();
        let constants = [("reports_per_rtt", config.reports.into())];
        let program = programs.add_with("member", &source(&signals), &constants)?;
        let field = |signal: &Signal| Ok((*signal, program.field(short(*signal))?));
        Ok(Self {
            fields: signals
                .iter()
                .map(field)
                .collect::<Result<_, AlgorithmError>>()?,
            acks: program.field("acks")?,
            out: program.field("out")?,
            min_rtt_us: program.field("min_rtt_us")?,
            mss: program.variable("mss")?,
        })
    }

    /// Tells the program what only the plane knows of a new member.
    pub(super) fn begin(&self, info: &FlowInfo, control: &mut Control) {
        control.update(self.mss, info.mss.max(1));
    }

    pub(super) fn read(&self, report: &Report) -> Sample {
        let mut signals = Signals::default();
        for (signal, field) in &self.fields {
            signals[*signal] = report[*field];
        }
        signals[Signal::Now] = report.time_us();
        Sample {
            signals,
            acks: report[self.acks],
            out: report[self.out],
            min_rtt_us: report[self.min_rtt_us],
            cwnd: report.cwnd(),
            rate: report.rate(),
        }
    }
}

/// The signal's name without what it is of.
fn short(signal: Signal) -> &'static str {
    let name = signal.name();
    name.split_once('.').map_or(name, |(_, short)| short)
}

/// The program. cwnd is the plane's to set. But until the plane's word comes, a member that lost
/// something sends one segment at most, which repairs it, and has a window of one after a timeout,
/// when nothing that was sent is on its way any more. For a round trip from a loss on, each ACK is
/// reported: the window is to shrink with what arrives, or as much is lost again. That nothing is
/// out is told at once as well: the next ACK may be long in coming.
fn source(signals: &[Signal]) -> String {
    let mut fields = String::new();
    let mut folds = String::new();
    for signal in signals {
        let (name, full) = (short(*signal), signal.name());
        if COUNTED.contains(signal) {
            fields += &format!("\n    (volatile {name} 0)");
            folds += &format!("\n  (:= Report.{name} (+ Report.{name} {full}))");
        } else if *signal == Signal::WasTimeout {
            fields += &format!("\n    (volatile {name} false)");
            folds += &format!("\n  (when {full} (:= Report.{name} true))");
        } else {
            let first = if *signal == Signal::RttSampleUs {
                "+infinity"
            } else {
                "0"
            };
            fields += &format!("\n    ({name} {first})");
            folds += &format!("\n  (:= Report.{name} {full})");
        }
    }
    format!(
        "(const (reports_per_rtt 4))

(def
  (Report{fields}
    (volatile acks 0)
    (out 0)
    (volatile min_rtt_us +infinity))
  (mss 1448)
  (lost_us 0))

(when true{folds}
  (when (> Ack.lost_pkts_sample 0)
    (:= lost_us Ack.now)
    (:= Cwnd (max mss (min Cwnd (+ Flow.bytes_in_flight mss)))))
  (:= Report.acks (+ Report.acks 1))
  (:= Report.out (max Flow.bytes_in_flight
    (min Cwnd (+ (+ Flow.bytes_in_flight Ack.bytes_acked) (* mss Ack.lost_pkts_sample)))))
  (:= Report.min_rtt_us (min Report.min_rtt_us Flow.rtt_sample_us))
  (fallthrough))

(when Flow.was_timeout
  (:= Cwnd mss)
  (report)
  (reset))

(when (|| (|| (< (- Ack.now lost_us) Flow.rtt_sample_us) (== Flow.bytes_in_flight 0))
          (> Micros (/ Flow.rtt_sample_us reports_per_rtt)))
  (report)
  (reset))
"
    )
}
