//! A known history of packets, and what each stack's controller makes of it: every signal.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairwater_algorithms::Choice;
use fairwater_datapath::{Signal, Signals};
use fairwater_plane::{Algorithm, Control, Field, Flow, FlowInfo, Report};
use fairwater_proto::SignalQuality;

use crate::{Options, QuicError, Stack};

/// What the plane was reported, in order.
pub(crate) type Seen = Arc<Mutex<Vec<Signals>>>;

/// The signals that all stacks have.
fn measured() -> impl Iterator<Item = Signal> {
    Signal::ALL
        .into_iter()
        .filter(|signal| *signal != Signal::Undo)
}

struct Probe {
    fields: Vec<(Signal, Field)>,
    seen: Seen,
}

struct ProbeFlow {
    fields: Vec<(Signal, Field)>,
    seen: Seen,
}

impl Algorithm for Probe {
    fn name(&self) -> &str {
        "probe"
    }

    fn new_flow(&self, _: &FlowInfo, _: &mut Control<'_>) -> Box<dyn Flow> {
        Box::new(ProbeFlow {
            fields: self.fields.clone(),
            seen: Arc::clone(&self.seen),
        })
    }
}

impl Flow for ProbeFlow {
    fn on_report(&mut self, report: &Report<'_>, _: &mut Control<'_>) {
        let signals = self
            .fields
            .iter()
            .map(|(signal, field)| (*signal, report[*field]));
        self.seen.lock().unwrap().push(signals.collect());
    }
}

/// An algorithm that reports these signals at each invocation.
fn probe(signals: Vec<Signal>) -> (Choice, Seen) {
    let seen = Seen::default();
    let shared = Arc::clone(&seen);
    let choice = Choice::new("probe", move |programs| {
        let declared = signals
            .iter()
            .map(|s| format!("(volatile s{} 0)", *s as u8));
        let declared: String = declared.collect();
        let set = signals.iter().map(|s| {
            let value = match s {
                Signal::WasTimeout | Signal::AppLimited | Signal::Undo => {
                    format!("(if {} 1 0)", s.name())
                }
                _ => s.name().to_owned(),
            };
            format!("(:= Report.s{} {value})", *s as u8)
        });
        let set: String = set.collect();
        let source = format!("(def (Report {declared})) (when true {set} (report))");
        let program = programs.add("probe", &source)?;
        let mut fields = Vec::new();
        for signal in &signals {
            fields.push((*signal, program.field(&format!("s{}", *signal as u8))?));
        }
        let seen = Arc::clone(&shared);
        Ok(Box::new(Probe { fields, seen }))
    });
    (choice, seen)
}

/// Options for the probe, which starts at this moment, and what it sees.
pub(crate) fn probed() -> (Options, Instant, Seen) {
    let (choice, seen) = probe(measured().collect());
    let start = Instant::now();
    let options = Options::default().lockstep(start).algorithm(choice);
    (options, start, seen)
}

/// The last report has these values.
#[track_caller]
pub(crate) fn assert_last(seen: &Seen, count: usize, expected: &[(Signal, u64)]) {
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), count, "{:?}", seen.last());
    let last = seen.last().unwrap();
    for (signal, value) in expected {
        assert_eq!(last[*signal], *value, "{}: {last:?}", signal.name());
    }
}

pub(crate) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

const STACKS: [Stack; 3] = [Stack::Noq, Stack::Quinn, Stack::S2n];

#[test]
fn each_stack_declares_each_signal() {
    for stack in STACKS {
        for signal in measured() {
            let quality = stack.signals().of(signal);
            assert_ne!(quality, SignalQuality::Absent, "{stack} {}", signal.name());
        }
        assert_eq!(stack.signals().of(Signal::Undo), SignalQuality::Absent);
    }
}

#[cfg(feature = "noq")]
#[test]
fn what_a_stack_lacks_refuses_an_algorithm_by_name() {
    let (choice, _) = probe(vec![Signal::Undo]);
    let options = Options::default().embedded();
    let refused = options.clone().algorithm(choice).noq("probe").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "probe cannot run on noq: it has no signal Ack.undo"
    );
    let refused = options.noq("dctcp").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "dctcp cannot run on noq: its flows cannot negotiate ECN"
    );
    assert!(options.clone().accept_degraded_ecn().noq("dctcp").is_ok());
    assert!(matches!(options.noq("none"), Err(QuicError::Unknown(_))));
    assert!(matches!(
        options.noq("copa:no=1"),
        Err(QuicError::Algorithm(_))
    ));
    assert!(matches!(options.noq(""), Err(QuicError::Name)));
    let linked = Options::default().plane("/nowhere/plane.ring");
    assert!(matches!(
        linked.noq("copa:delta=0.1"),
        Err(QuicError::Parameters(_))
    ));
    // A plane in another process may have it.
    assert!(linked.noq("my-own").is_ok());
}

#[cfg(feature = "noq")]
#[test]
fn every_built_in_algorithm_but_dctcp_runs_on_noq() {
    let options = Options::default().lockstep(Instant::now());
    for entry in fairwater_algorithms::all() {
        let factory = options.noq(entry.name);
        assert_eq!(factory.is_ok(), entry.name != "dctcp", "{}", entry.name);
    }
}
