//! Random programs, and the golden ones of `lang`, over random streams.

use super::Agree;
use super::edges::EDGES;
use fairwater_exec::interp::{Input, Stage};
use fairwater_lang::{Program, Signal, Signals, VarId, arbitrary, compile};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use std::fmt;

/// A stage whose programs are known by index.
#[derive(Debug, Clone)]
struct StagePlan {
    switch: Option<usize>,
    cwnd: Option<u64>,
    rate: Option<u64>,
    updates: Vec<(u16, u64)>,
}

#[derive(Clone)]
struct Step {
    signals: Signals,
    cwnd: u64,
    rate: u64,
    stage: Option<StagePlan>,
}

impl fmt::Debug for Step {
    /// On one line: a stream has many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            signals,
            cwnd,
            rate,
            stage,
        } = self;
        write!(
            f,
            "signals {signals:?} cwnd {cwnd} rate {rate} stage {stage:?}"
        )
    }
}

/// Source text, shown as it is.
#[derive(Clone)]
struct Source(String);

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn number() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![
        4 => 0..3000_u64,
        2 => select(EDGES.to_vec()),
        2 => (0..64_u32, any::<u64>()).prop_map(|(bits, n)| n >> bits),
    ]
}

fn cwnd() -> impl Strategy<Value = u64> {
    prop_oneof![20 => 1..10_000_000_u64, 1 => number()]
}

fn rate() -> impl Strategy<Value = u64> {
    prop_oneof![20 => 0..1_000_000_000_u64, 1 => number()]
}

fn stage(programs: usize) -> impl Strategy<Value = StagePlan> {
    let updates = vec((0..160_u16, number()), 0..20);
    (of(0..programs), of(cwnd()), of(rate()), updates).prop_map(|(switch, cwnd, rate, updates)| {
        StagePlan {
            switch,
            cwnd,
            rate,
            updates,
        }
    })
}

fn step(programs: usize) -> impl Strategy<Value = Step> {
    let signals = arbitrary::signals(number());
    let stage = proptest::option::weighted(0.2, stage(programs));
    (signals, cwnd(), rate(), stage).prop_map(|(signals, cwnd, rate, stage)| Step {
        signals,
        cwnd,
        rate,
        stage,
    })
}

/// Time mostly goes on by a few µs; at times it jumps.
fn with_time(mut steps: Vec<Step>) -> Vec<Step> {
    let mut now = 0_u64;
    for step in &mut steps {
        let signal = &mut step.signals[Signal::Now];
        now = if *signal < 3000 {
            now.wrapping_add(*signal)
        } else {
            *signal
        };
        *signal = now;
    }
    steps
}

fn agree_on(agree: Agree, sources: &[Source], steps: &[Step]) -> Result<(), TestCaseError> {
    let compiled: Result<Vec<Program>, _> = sources
        .iter()
        .map(|source| compile("random.ccp", &source.0).map(|compiled| compiled.program))
        .collect();
    let programs = compiled.map_err(|errors| TestCaseError::fail(errors.render(false)))?;
    let stages: Vec<Option<Stage<'_>>> = steps
        .iter()
        .map(|step| {
            step.stage.as_ref().map(|plan| Stage {
                switch: plan.switch.map(|i| &programs[i]),
                cwnd: plan.cwnd,
                rate: plan.rate,
                updates: plan.updates.iter().map(|&(i, v)| (VarId(i), v)).collect(),
            })
        })
        .collect();
    let stream: Vec<_> = steps
        .iter()
        .zip(&stages)
        .map(|(step, stage)| Input {
            signals: step.signals,
            cwnd: step.cwnd,
            rate: step.rate,
            stage: stage.as_ref(),
        })
        .collect();
    let programs: Vec<_> = programs.iter().collect();
    agree(&programs, &stream).map_err(TestCaseError::fail)
}

fn config() -> ProptestConfig {
    let config = ProptestConfig {
        max_shrink_time: 60_000,
        max_shrink_iters: 10_000,
        ..ProptestConfig::default()
    };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => config,
        None => ProptestConfig {
            cases: 200,
            ..config
        },
    }
}

pub(crate) fn random_programs_agree(agree: Agree) {
    let source = arbitrary::source().prop_map(Source);
    let stream = vec(step(2), 1..60).prop_map(with_time);
    proptest!(config(), |(sources in vec(source, 2), steps in stream)| {
        agree_on(agree, &sources, &steps)?;
    });
}

fn golden() -> std::io::Result<Vec<Source>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../lang/tests/pass");
    let mut sources = Vec::new();
    for file in std::fs::read_dir(folder)? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "ccp") {
            sources.push(Source(std::fs::read_to_string(path)?));
        }
    }
    Ok(sources)
}

pub(crate) fn golden_programs_agree(agree: Agree) {
    let sources = golden().unwrap_or_else(|error| panic!("{error}"));
    assert!(!sources.is_empty());
    let programs = sources.len();
    let stream = vec(step(programs), 60..120).prop_map(with_time);
    let few = ProptestConfig {
        cases: config().cases.div_ceil(10),
        ..config()
    };
    proptest!(few, |(first in 0..programs, steps in stream)| {
        let mut sources = sources.clone();
        sources.rotate_left(first);
        agree_on(agree, &sources, &steps)?;
    });
}
