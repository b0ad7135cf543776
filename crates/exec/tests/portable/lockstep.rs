//! Runs two programs side by side.

use fairwater_exec::interp::{Input, Machine, Outcome};
use fairwater_lang::{Program, Signal, Signals, VarId};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// What a datapath measures at one ACK; time passes by the value of `Ack.now`.
/// A flow under one program.
pub(crate) struct Flow<'p> {
    machine: Machine<'p>,
    cwnd: u64,
    rate: u64,
    now_us: u64,
}

impl<'p> Flow<'p> {
    pub(crate) fn new(program: &'p Program) -> Self {
        Self {
            machine: Machine::new(program, 0),
            cwnd: 14480,
            rate: 0,
            now_us: 0,
        }
    }

    pub(crate) fn ack(&mut self, signals: &Signals) -> Outcome {
        let mut signals = *signals;
        self.now_us += signals[Signal::Now];
        signals[Signal::Now] = self.now_us;
        let outcome = self.machine.invoke(&Input {
            signals,
            cwnd: self.cwnd,
            rate: self.rate,
            stage: None,
        });
        self.cwnd = outcome.cwnd;
        self.rate = outcome.rate;
        outcome
    }

    /// The time of the latest ACK, µs.
    pub(crate) const fn now_us(&self) -> u64 {
        self.now_us
    }

    pub(crate) fn variable(&self, id: VarId) -> u64 {
        self.machine.variables()[usize::from(id.0)]
    }
}

/// ACKs of small and medium numbers; some of no RTT sample yet, of losses and of timeouts.
pub(crate) fn acks() -> impl Strategy<Value = Vec<Signals>> {
    let value = prop_oneof![
        2 => Just(0),
        4 => 0..20_u64,
        4 => 0..100_000_u64,
        1 => select(vec![1 << 31, (1 << 32) - 2]),
    ];
    let rtt = prop_oneof![1 => Just(u64::MAX), 4 => 1..100_000_u64];
    let ack = (vec(value, Signal::COUNT), rtt, any::<bool>(), 0..30_000_u64);
    let ack = ack.prop_map(|(values, rtt, timeout, passed)| {
        let mut signals: Signals = Signal::ALL.into_iter().zip(values).collect();
        signals[Signal::RttSampleUs] = rtt;
        signals[Signal::WasTimeout] = timeout.into();
        signals[Signal::Now] = passed;
        signals
    });
    vec(ack, 1..40)
}

/// Both programs do the same at each ACK, and the pairs of variables have equal values after it.
pub(crate) fn agree(left: &Program, right: &Program, pairs: &[(VarId, VarId)], acks: &[Signals]) {
    let (mut a, mut b) = (Flow::new(left), Flow::new(right));
    for (at, ack) in acks.iter().enumerate() {
        let outcomes = (a.ack(ack), b.ack(ack));
        assert_eq!(outcomes.0, outcomes.1, "ACK {at}\n{left}\n{right}");
        if outcomes.0.fault.is_some() {
            return;
        }
        for (l, r) in pairs {
            let values = (a.variable(*l), b.variable(*r));
            assert_eq!(values.0, values.1, "ACK {at}: {l:?} {r:?}\n{left}\n{right}");
        }
    }
}
