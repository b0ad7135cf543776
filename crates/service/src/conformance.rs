//! Whether a datapath's exact signals move.
//!
//! The service sees no signals, but what programs report of them. Which fields of a report tell of
//! a signal is found by running the program on a made-up path, with the signal and without: a field
//! that never leaves one value without the signal, and mostly does with it, is a *witness*. A
//! flow whose witnesses all stay at that value while other fields move has a datapath that does
//! not fill the signal in.
//!
//! The first flow of each program is watched, for its first reports; later ones cost a branch. What
//! cannot be found this way: a signal that stands still at another value than none, that reaches no
//! report, that is right for the first flow alone, or that rarely moves on a sound path (losses,
//! marks, timeouts, limits of the application). What is in flight or pending is 0 at each ACK of a flow that
//! sends one packet at a time, and is not judged either.

use fairwater_exec::interp;
use fairwater_exec::invocation::{Registers, initial, reset_volatile};
use fairwater_lang::{Program, Signal, SignalSet, Signals};
use fairwater_plane::{Capabilities, FlowId, SignalQuality};

/// A flow is judged by so many reports, over at least so long, µs.
pub(crate) const REPORTS: u32 = 128;
const WATCHED_US: u64 = 1_000_000;

/// Signals that move wherever data is delivered for a while.
const STEADY: [Signal; 5] = [
    Signal::BytesAcked,
    Signal::PacketsAcked,
    Signal::RateIncoming,
    Signal::RateOutgoing,
    Signal::RttSampleUs,
];

/// What one datapath's reports have shown.
#[derive(Debug, Default)]
pub(crate) struct Conformance {
    /// By position in the catalogue.
    programs: Vec<State>,
    /// Signals that the operator was told of.
    named: SignalSet,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Unseen,
    Watching(Box<Watch>),
    Judged,
}

/// The first flow of a program.
#[derive(Debug)]
pub(crate) struct Watch {
    flow: FlowId,
    since_us: u64,
    last_us: u64,
    reports: u32,
    /// The fields of its first report.
    first: Vec<u64>,
    /// Fields that were the same in all reports, by index.
    unmoved: Vec<usize>,
}

impl Conformance {
    /// Takes in a report. Yields the flow when it has been watched for long enough.
    #[inline]
    pub(crate) fn on_report(
        &mut self,
        position: u32,
        flow: FlowId,
        time_us: u64,
        fields: &[u64],
    ) -> Option<Box<Watch>> {
        match self.programs.get(position as usize) {
            Some(State::Judged) => None,
            _ => self.watch(position as usize, flow, time_us, fields),
        }
    }

    #[cold]
    fn watch(
        &mut self,
        position: usize,
        flow: FlowId,
        time_us: u64,
        fields: &[u64],
    ) -> Option<Box<Watch>> {
        if position >= self.programs.len() {
            self.programs.resize_with(position + 1, State::default);
        }
        let state = self.programs.get_mut(position)?;
        let watch = match state {
            State::Judged => return None,
            State::Unseen => {
                *state = State::Watching(Box::new(Watch::new(flow, time_us, fields)));
                return None;
            }
            State::Watching(watch) => watch,
        };
        if watch.flow != flow {
            // The flow that was watched has ended, or reports too rarely.
            if time_us.saturating_sub(watch.last_us) > WATCHED_US {
                **watch = Watch::new(flow, time_us, fields);
            }
            return None;
        }
        if !watch.take_in(time_us, fields) {
            return None;
        }
        match std::mem::replace(state, State::Judged) {
            State::Watching(watch) => Some(watch),
            State::Unseen | State::Judged => None,
        }
    }

    /// The signals that the datapath calls exact and that did not move, each the first time: those
    /// that explain the most fields. Signals that explain the same fields cannot be told apart, and
    /// are one entry.
    pub(crate) fn judge(
        &mut self,
        watch: &Watch,
        witnesses: &[(Signal, Witnesses)],
        capabilities: &Capabilities,
    ) -> Vec<Vec<Signal>> {
        let is_suspect = |(signal, witnesses): &&(Signal, Witnesses)| {
            capabilities.signals.of(*signal) == SignalQuality::Exact && watch.lacks(witnesses)
        };
        let suspects: Vec<_> = witnesses.iter().filter(is_suspect).collect();
        let mut unmoved = Vec::new();
        for (_, explained) in &suspects {
            let by_more = |(_, other): &&(Signal, Witnesses)| explained.is_part_of(other);
            let alike = suspects.iter().filter(|(_, other)| other == explained);
            let alike: Vec<_> = alike.map(|(signal, _)| *signal).collect();
            let named = alike.iter().any(|signal| self.named.contains(*signal));
            if named || suspects.iter().copied().any(|other| by_more(&other)) {
                continue;
            }
            alike.iter().for_each(|signal| self.named.insert(*signal));
            unmoved.push(alike);
        }
        unmoved
    }
}

impl Watch {
    fn new(flow: FlowId, time_us: u64, fields: &[u64]) -> Self {
        Self {
            flow,
            since_us: time_us,
            last_us: time_us,
            reports: 1,
            first: fields.to_vec(),
            unmoved: (0..fields.len()).collect(),
        }
    }

    /// Returns whether that is enough.
    fn take_in(&mut self, time_us: u64, fields: &[u64]) -> bool {
        let first = &self.first;
        self.unmoved.retain(|at| fields.get(*at) == first.get(*at));
        self.last_us = time_us;
        self.reports = self.reports.saturating_add(1);
        self.reports >= REPORTS && time_us.saturating_sub(self.since_us) >= WATCHED_US
    }

    /// Reports that were watched.
    pub(crate) const fn reports(&self) -> u32 {
        self.reports
    }

    /// Whether all witnesses of a signal stood still without it, while other fields moved.
    fn lacks(&self, witnesses: &Witnesses) -> bool {
        let still = |(field, value): &(usize, u64)| {
            self.unmoved.contains(field) && self.first.get(*field) == Some(value)
        };
        self.unmoved.len() < self.first.len()
            && !witnesses.0.is_empty()
            && witnesses.0.iter().all(still)
    }
}

/// Report fields that tell of a signal, and the value that each has without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Witnesses(Vec<(usize, u64)>);

impl Witnesses {
    /// Whether the other has all of these, and more.
    fn is_part_of(&self, other: &Self) -> bool {
        other.0.len() > self.0.len() && self.0.iter().all(|witness| other.0.contains(witness))
    }
}

/// The witnesses of each signal that moves wherever data is delivered and that the program reads.
pub(crate) fn witnesses(program: &Program) -> Vec<(Signal, Witnesses)> {
    let sound = PATHS.map(|path| reports(program, &path, None));
    let read = STEADY.into_iter();
    read.filter(|signal| program.signals.contains(*signal))
        .map(|signal| {
            let lacking = PATHS.map(|path| reports(program, &path, Some(signal)));
            let fields = 0..program.report_len();
            let witnesses =
                fields.filter_map(|field| Some((field, witness(field, &sound, &lacking)?)));
            (signal, Witnesses(witnesses.collect()))
        })
        .collect()
}

/// The field's one value without the signal, if most reports with the signal have another.
fn witness(field: usize, sound: &[Reports; 2], lacking: &[Reports; 2]) -> Option<u64> {
    const FEW: usize = 8;
    if sound.iter().chain(lacking).any(|run| run.len() < FEW) {
        return None;
    }
    let value = *lacking[0].first()?.get(field)?;
    let has_it = |report: &Vec<u64>| report.get(field) == Some(&value);
    let stands_still = lacking.iter().flatten().all(has_it);
    let moves = sound
        .iter()
        .all(|run| run.iter().filter(|report| has_it(report)).count() * 2 < run.len());
    (stands_still && moves).then_some(value)
}

type Reports = Vec<Vec<u64>>;

/// A path that delivers evenly and loses nothing.
#[derive(Debug, Clone, Copy)]
struct Path {
    /// Packets per ACK, and the time between ACKs and of a round trip, µs.
    packets: u64,
    every_us: u64,
    rtt_us: u64,
    cwnd: u64,
}

/// Two, so that a field that happens to stand still on one is not taken for a witness.
const PATHS: [Path; 2] = [
    Path {
        packets: 2,
        every_us: 5_000,
        rtt_us: 20_000,
        cwnd: 14_480,
    },
    Path {
        packets: 5,
        every_us: 4_000,
        rtt_us: 33_000,
        cwnd: 90_000,
    },
];

/// What the program reports on the path, without a plane; `absent` is a signal that is not filled
/// in.
fn reports(program: &Program, path: &Path, absent: Option<Signal>) -> Reports {
    const ACKS: u64 = 200;
    const MSS: u64 = 1448;
    let mut registers = Registers {
        cwnd: path.cwnd,
        ..Registers::default()
    };
    let mut variables = initial(program);
    let mut all = Reports::new();
    for ack in 1..=ACKS {
        let bytes = path.packets * MSS;
        let rate = bytes * 1_000_000 / path.every_us;
        let mut signals: Signals = [
            (Signal::Now, ack * path.every_us),
            (Signal::BytesAcked, bytes),
            (Signal::PacketsAcked, path.packets),
            (Signal::BytesInFlight, bytes * path.rtt_us / path.every_us),
            (
                Signal::PacketsInFlight,
                path.packets * path.rtt_us / path.every_us,
            ),
            (Signal::BytesPending, 1 << 20),
            (Signal::RateIncoming, rate + ack % 3),
            (Signal::RateOutgoing, rate + ack % 5),
            (Signal::RttSampleUs, path.rtt_us + 100 * (ack % 7)),
        ]
        .into_iter()
        .collect();
        if let Some(absent) = absent {
            signals[absent] = Signals::default()[absent];
        }
        if interp::run(program, &mut registers, &mut variables, &signals) {
            all.push(
                variables
                    .iter()
                    .copied()
                    .take(program.report_len())
                    .collect(),
            );
            reset_volatile(program, &mut variables);
        }
    }
    all
}
