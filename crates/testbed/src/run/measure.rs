//! What a try measured, from what was recorded of it.

use std::time::Duration;

use fairwater_net::Time;
use fairwater_results::{AtBottleneck, Lateness, RunResult, Series, SocketSample, Window};

use super::Measured;
use super::record::{Recorded, Try};
use crate::error::TestbedError;

impl Try<'_> {
    pub(super) fn measure(
        &self,
        recorded: &Recorded,
        lateness: Lateness,
    ) -> Result<Measured, TestbedError> {
        let log = &recorded.emulator.packets;
        let experiment = self.run.experiment;
        let begin = log.first_data(self.flows.len());
        let window = Window {
            from: begin + experiment.measure.from.since(Time::ZERO),
            to: begin + experiment.duration,
        };
        let capacity = &self.forward.capacity;
        let mut flows = Vec::with_capacity(self.flows.len());
        for (index, (flow, sender)) in self.flows.iter().zip(&self.run.senders).enumerate() {
            let samples = recorded.samples.get(index).map_or(&[][..], Vec::as_slice);
            let ran_under = samples
                .last()
                .map(|sample| sample.congestion_control.as_str());
            if let Some(other) = ran_under.filter(|name| *name != sender.congestion_control) {
                return Err(TestbedError::Traffic {
                    label: flow.name.clone(),
                    reason: format!(
                        "it ran under `{other}` instead of `{}`",
                        sender.congestion_control
                    ),
                });
            }
            let finished = recorded.finished.get(index);
            let at_link = AtBottleneck::of_flow(log, index as u8, window, capacity);
            let counted = retransmissions(samples, window);
            let own_cpu = finished.map_or(Duration::ZERO, |finished| finished.cpu);
            let shared_cpu = recorded.process_cpu.as_secs_f64() / self.flows.len() as f64;
            flows.push(RunResult {
                name: flow.name.clone(),
                congestion_control: sender.congestion_control.clone(),
                throughput_bps: at_link.throughput_bps,
                utilisation: at_link.utilisation,
                queueing_delay_ms: at_link.queueing_delay_ms(),
                loss: at_link.loss,
                packets: at_link.packets,
                dropped: at_link.dropped + at_link.lost,
                marked: at_link.marked,
                retransmissions: finished
                    .and_then(|finished| finished.retransmissions)
                    .filter(|_| window.from == begin)
                    .unwrap_or(counted),
                cpu_seconds: Some(own_cpu.as_secs_f64() + shared_cpu),
                emulator_cpu_seconds: Some(recorded.emulator.cpu.as_secs_f64()),
                fallback: recorded.fallbacks[index].fallback(),
                disturbed: false,
                disturbance: None,
                tries: 1,
                steal: Some(recorded.steal),
                lateness_ms: Some(lateness),
                real_time: Some(recorded.emulator.real_time),
                series: Series {
                    tcp: samples
                        .iter()
                        .filter(|sample| begin <= sample.at && sample.at < window.to)
                        .cloned()
                        .map(|mut sample| {
                            sample.at = Time::ZERO + sample.at.since(begin);
                            sample
                        })
                        .collect(),
                    link: at_link.intervals,
                },
            });
        }
        Ok(Measured {
            flows,
            bottleneck: AtBottleneck::of_all(log, self.flows.len(), window, capacity),
        })
    }
}

/// Segments that a sender sent again within the window; the samples count from the connection on.
fn retransmissions(samples: &[SocketSample], window: Window) -> u64 {
    let count = |sample: Option<&SocketSample>| sample.map_or(0, |s| s.retransmissions.into());
    let before: u64 = count(samples.iter().rfind(|sample| sample.at < window.from));
    count(samples.last()).saturating_sub(before)
}
