//! Rates of a run while it lasts.

use std::collections::VecDeque;
use std::time::Duration;

use fairwater_experiment::{FlowProgress, Progress};
use fairwater_net::Time;

use super::record::Try;
use crate::clock::Clock;
use crate::emulator::Emulator;
use crate::sampler::Sampler;

/// Ticks a live rate is taken over.
const RATE_TICKS: usize = 5;

/// Live rates.
pub(super) struct Live {
    clock: Clock,
    started: Option<Time>,
    bytes: Vec<VecDeque<(Time, u64)>>,
}

impl Live {
    pub(super) fn new(clock: Clock, flows: usize) -> Self {
        Live {
            clock,
            started: None,
            bytes: vec![VecDeque::with_capacity(RATE_TICKS + 1); flows],
        }
    }

    pub(super) fn update(
        &mut self,
        run: &Try<'_>,
        emulator: &Emulator,
        sampler: &Sampler,
        progress: &mut Progress,
    ) {
        let now = self.clock.now();
        progress.flows.clear();
        for (index, (flow, history)) in run.flows.iter().zip(&mut self.bytes).enumerate() {
            let bytes = emulator.live.of(index);
            if bytes > 0 && self.started.is_none() {
                self.started = Some(now);
            }
            history.push_back((now, bytes));
            if history.len() > RATE_TICKS + 1 {
                history.pop_front();
            }
            let (since, before) = history.front().copied().unwrap_or((now, bytes));
            let seconds = now.since(since).as_secs_f64();
            let sample = sampler.latest(index);
            progress.flows.push(FlowProgress {
                label: flow.name.clone(),
                throughput_bps: if seconds > 0.0 {
                    (bytes - before) as f64 * 8.0 / seconds
                } else {
                    0.0
                },
                cwnd_bytes: sample.as_ref().map(|sample| sample.cwnd_bytes()),
                srtt: sample
                    .as_ref()
                    .map(|sample| Duration::from_micros(sample.srtt_us.into())),
                retransmissions: sample.map(|sample| sample.retransmissions),
            });
        }
        progress.elapsed = self
            .started
            .map_or(Duration::ZERO, |started| now.since(started))
            .min(progress.duration);
    }
}
