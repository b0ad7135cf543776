//! Estimate of μ where it is not configured: the greatest rate received. That is μ only if the flow
//! had the link to itself at some time.

use crate::windowed::WindowedMax;

use super::elasticity::WINDOW_US;
use super::{MEMORY_US, Observed, pulse};

/// Cross traffic of at most this share of μ is none: the error of S and R.
const NONE_SHARE: f64 = 0.05;
/// Delay control has failed when the queue stays above this many times its target for so many control
/// loops.
const FAILED_QUEUE: u64 = 2;
const FAILED_LOOPS: u64 = 5;

/// The estimate of μ, and the state of the trial that finds it.
#[derive(Debug, Clone, Default)]
pub(super) struct LinkEstimate {
    greatest: WindowedMax,
    /// Until then R is not used, µs.
    holes_until_us: u64,
    /// Until then the flow competes, whatever η says, µs: before the flow has tried to get its share,
    /// what it received says nothing about the link.
    trial_until_us: Option<u64>,
    /// Since when no cross traffic was seen, µs.
    alone_us: Option<u64>,
    /// Since when the queue has been above the limit of delay control, µs.
    late_us: Option<u64>,
}

impl LinkEstimate {
    /// Takes R, bytes/s, measured over less than a pulse, since pulses probe what the link carries.
    /// For `whole_us` after a loss R is ignored: it jumps when the last hole in the sequence is filled.
    pub(super) fn received(&mut self, time_us: u64, rate: f64, lost: bool, whole_us: u64) {
        if time_us < self.holes_until_us {
            return;
        }
        // Further losses do not extend that time: on a lossy path R would always be ignored.
        if lost {
            self.holes_until_us = time_us.saturating_add(whole_us);
        }
        self.greatest.update(time_us, rate as u64, MEMORY_US);
    }

    /// Bytes/s; 0 before anything was received.
    pub(super) fn rate(&self) -> f64 {
        self.greatest.get().unwrap_or(0) as f64
    }

    /// A trial begins; it lasts for the window of the spectrum.
    pub(super) fn begin_trial(&mut self, time_us: u64) {
        self.trial_until_us = Some(time_us.saturating_add(WINDOW_US));
        self.alone_us = None;
        self.late_us = None;
    }

    pub(super) fn on_trial(&self, time_us: u64) -> bool {
        self.trial_until_us.is_some_and(|until| time_us < until)
    }

    /// Whether the flow already has the whole link: for two pulses and a round trip `cross`, the
    /// estimate z of cross traffic, was about 0.
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

    /// Whether delay control fails: the queue stays long although the flow gives way, so others fill
    /// it, and the flow would give way for ever.
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
