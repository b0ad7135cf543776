//! The members' program: it adds up what the inner algorithm's program would have seen.

use fairwater_plane::{
    AlgorithmError, Control, Field, FlowInfo, Programs, Report, Signal, SignalSet, Signals, Var,
};

use super::{CongestionManagerConfig, Share};

/// A report of a member.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// Counts summed over the invocations since the last report, the others as at the last ACK.
    pub(super) signals: Signals,
    /// Invocations since the last report.
    pub(super) acks: u64,
    /// Bytes in flight before the last ACK: nearly what is in flight again once the member has
    /// answered that ACK.
    pub(super) out: u64,
    /// Minimum RTT since the last report, µs.
    pub(super) min_rtt_us: u64,
    /// cwnd in force, bytes.
    pub(super) cwnd: u64,
    /// Pacing rate in force, bytes/s.
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

const PROGRAM: &str = include_str!("member.ccp");

/// Signals that the pool itself reads, and so the program always.
const NEEDED: [Signal; 5] = [
    Signal::BytesAcked,
    Signal::LostPkts,
    Signal::BytesInFlight,
    Signal::RttSampleUs,
    Signal::WasTimeout,
];

impl Collector {
    /// Compiles the program for an inner algorithm that reads these signals: a datapath need not
    /// have more than these and what the pool reads.
    pub(super) fn load(
        programs: &mut Programs,
        inner: SignalSet,
        config: &CongestionManagerConfig,
    ) -> Result<Self, AlgorithmError> {
        let is_read = |signal| {
            inner.contains(signal)
                || NEEDED.contains(&signal)
                || (config.share == Share::Demand && signal == Signal::BytesPending)
        };
        // A report has its time, and what a datapath undoes is a member's window, not the pool's.
        let signals = Signal::ALL
            .into_iter()
            .filter(|s| !matches!(s, Signal::Now | Signal::Undo));
        let read: Vec<Signal> = signals.filter(|signal| is_read(*signal)).collect();
        let optional = read.iter().filter(|signal| !NEEDED.contains(signal));
        let switch = |signal: &Signal| format!("reads_{}", short(*signal));
        let switches: Vec<String> = optional.map(switch).collect();
        let mut constants = vec![("reports_per_rtt", config.reports.into())];
        constants.extend(switches.iter().map(|name| (name.as_str(), true.into())));
        let program = programs.add_with("member", PROGRAM, &constants)?;
        let field = |signal: &Signal| Ok((*signal, program.field(short(*signal))?));
        Ok(Self {
            fields: read
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
        self.set_mss(info.mss, control);
    }

    /// Tells the program the size of segments, bytes.
    pub(super) fn set_mss(&self, mss: u32, control: &mut Control) {
        control.update(self.mss, mss.max(1));
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

/// The signal's name without `Ack.` or `Flow.`.
fn short(signal: Signal) -> &'static str {
    let name = signal.name();
    name.split_once('.').map_or(name, |(_, short)| short)
}
