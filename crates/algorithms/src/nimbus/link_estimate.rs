//! μ where nobody set it: the greatest rate received, which is μ only if the flow had the link.

use crate::windowed::WindowedMax;

use super::elasticity::WINDOW_US;
use super::{MEMORY_US, Observed, pulse};

/// Cross traffic of at most this share of μ is none: the error of S and R.
const NONE_SHARE: f64 = 0.05;
/// Delay control that holds a queue this many times its target, so many loops long, has no hold of
/// it.
const FAILED_QUEUE: u64 = 2;
const FAILED_LOOPS: u64 = 5;

/// What was found, and how far it can be believed.
#[derive(Debug, Clone, Default)]
pub(super) struct LinkEstimate {
    greatest: WindowedMax,
    /// R is not to be trusted until then, µs.
    holes_until_us: u64,
    /// The flow competes until then, whatever η says, µs. What it has received is no measure of
    /// the link before it has tried to get its share.
    trial_until_us: Option<u64>,
    /// Since when there was no cross traffic to be seen, µs.
    alone_us: Option<u64>,
    /// Since when the queue has been longer than delay control would have it, µs.
    late_us: Option<u64>,
}

impl LinkEstimate {
    /// R, bytes/s, over less than a pulse: pulses find out what the link carries. Not while there
    /// are holes, and for `whole_us` after a loss: what was delivered out of order, and what fills
    /// a hole, is then told apart only on the whole, and R jumps when the last hole is filled.
    pub(super) fn received(&mut self, time_us: u64, rate: f64, lost: bool, whole_us: u64) {
        if time_us < self.holes_until_us {
            return;
        }
        // Further losses do not extend it: on a lossy path nothing would ever be found.
        if lost {
            self.holes_until_us = time_us.saturating_add(whole_us);
        }
        self.greatest.update(time_us, rate as u64, MEMORY_US);
    }

    /// Bytes/s; 0 before anything was received.
    pub(super) fn rate(&self) -> f64 {
        self.greatest.get().unwrap_or(0) as f64
    }

    /// A trial begins: for as long as it takes to see a whole spectrum.
    pub(super) fn begin_trial(&mut self, time_us: u64) {
        self.trial_until_us = Some(time_us.saturating_add(WINDOW_US));
        self.alone_us = None;
        self.late_us = None;
    }

    pub(super) fn on_trial(&self, time_us: u64) -> bool {
        self.trial_until_us.is_some_and(|until| time_us < until)
    }

    /// Whether what there is to be tried for is the flow's already: for two pulses and a round
    /// trip no more was received the faster it sent, so `cross`, z of these packets, was nothing.
    pub(super) fn has_the_link(&mut self, cross: Option<f64>, seen: &Observed) -> bool {
        if cross.is_none_or(|z| z > NONE_SHARE * seen.capacity) {
            self.alone_us = None;
            return false;
        }
        let since = *self.alone_us.get_or_insert(seen.time_us);
        let enough_us = seen.rtt_us.saturating_add(2 * pulse::PERIOD_US);
        seen.time_us.saturating_sub(since) > enough_us
    }

    /// Delay control takes over.
    pub(super) fn end_trial(&mut self) {
        self.trial_until_us = None;
        self.late_us = None;
    }

    /// Whether delay control fails: the queue stays long whatever it does, so it is not of its
    /// making, and it would give way for ever.
    pub(super) fn delay_control_fails(&mut self, target_us: u64, seen: &Observed) -> bool {
        if seen.rtt_us <= seen.base_us.saturating_add(FAILED_QUEUE * target_us) {
            self.late_us = None;
            return false;
        }
        let since = *self.late_us.get_or_insert(seen.time_us);
        let loop_us = seen.rtt_us.saturating_add(pulse::PERIOD_US);
        seen.time_us.saturating_sub(since) > loop_us.saturating_mul(FAILED_LOOPS)
    }
}
