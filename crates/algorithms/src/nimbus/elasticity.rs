//! Whether cross traffic answers to pulses ("Elasticity detection", §3.2).

use std::f64::consts::PI;
use std::fmt;
use std::sync::Arc;

use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};

use super::pulse::FREQUENCY_HZ;

/// Window of cross traffic that is examined, µs.
pub(super) const WINDOW_US: u64 = 5_000_000;
/// The spectrum is computed this often, µs.
const EACH_US: u64 = 100_000;
/// What is taken to be between the peaks at least, as a share of the capacity. Where cross traffic
/// is all but constant, what the measurement of S errs by would else decide.
const FLOOR: f64 = 0.005;
/// η from which traffic is elastic.
pub(super) const THRESHOLD: f64 = 2.0;

/// The plan of the transform, shared by all flows.
#[derive(Clone)]
pub(super) struct Plan {
    fft: Arc<dyn RealToComplex<f64>>,
    /// Hann's window: a drift of z, which is no answer to pulses, stays at low frequencies.
    window: Arc<[f64]>,
    step_us: u64,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("samples", &self.window.len())
            .finish()
    }
}

impl Plan {
    /// For samples this often, µs.
    pub(super) fn new(step_us: u64) -> Self {
        let samples = (WINDOW_US / step_us.max(1)).max(2) as usize;
        let hann = |i| libm::sin(PI * i as f64 / samples as f64).powi(2);
        Self {
            fft: RealFftPlanner::new().plan_fft_forward(samples),
            window: (0..samples).map(hann).collect(),
            step_us,
        }
    }
}

/// z of the last 5 s, and how much of it is at the pulses' frequency.
#[derive(Debug)]
pub(super) struct Detector {
    plan: Plan,
    /// z at each step, a ring.
    ring: Vec<f64>,
    /// The next place, and how many are filled.
    next: usize,
    filled: usize,
    /// The ring is filled up to this time, µs.
    until_us: Option<u64>,
    computed_us: u64,
    input: Vec<f64>,
    spectrum: Vec<Complex<f64>>,
    scratch: Vec<Complex<f64>>,
    elasticity: Option<f64>,
}

impl Detector {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            ring: vec![0.0; plan.window.len()],
            next: 0,
            filled: 0,
            until_us: None,
            computed_us: 0,
            input: plan.fft.make_input_vec(),
            spectrum: plan.fft.make_output_vec(),
            scratch: plan.fft.make_scratch_vec(),
            elasticity: None,
            plan: plan.clone(),
        }
    }

    /// η as of the last computation; `None` before there are 5 s of samples.
    pub(super) fn elasticity(&self) -> Option<f64> {
        self.elasticity
    }

    /// Cross traffic is `z` since the last call, of a bottleneck of this capacity, in one unit.
    /// Returns η where it was computed anew.
    pub(super) fn sample(&mut self, time_us: u64, z: f64, capacity: f64) -> Option<f64> {
        let step = self.plan.step_us.max(1);
        let until = self.until_us.get_or_insert(time_us.saturating_sub(step));
        let due = (time_us.saturating_sub(*until) / step).min(self.ring.len() as u64);
        *until = if due == self.ring.len() as u64 {
            time_us
        } else {
            *until + due * step
        };
        for _ in 0..due {
            self.ring[self.next] = z;
            self.next = (self.next + 1) % self.ring.len();
        }
        self.filled = (self.filled + due as usize).min(self.ring.len());
        if self.filled < self.ring.len() || time_us < self.computed_us.saturating_add(EACH_US) {
            return None;
        }
        self.computed_us = time_us;
        self.elasticity = Some(self.compute(capacity));
        self.elasticity
    }

    /// η: the peak at f_p over the greatest between f_p and 2 f_p.
    fn compute(&mut self, capacity: f64) -> f64 {
        let mean = self.ring.iter().sum::<f64>() / self.ring.len() as f64;
        let (newer, older) = self.ring.split_at(self.next);
        let samples = older.iter().chain(newer);
        for ((to, z), hann) in self
            .input
            .iter_mut()
            .zip(samples)
            .zip(self.plan.window.iter())
        {
            *to = (z - mean) * hann;
        }
        // The lengths are the plan's own: it cannot refuse them.
        let transformed = self.plan.fft.process_with_scratch(
            &mut self.input,
            &mut self.spectrum,
            &mut self.scratch,
        );
        let bin = FREQUENCY_HZ * WINDOW_US as f64 / 1e6;
        let greatest = |from: f64, to: f64| {
            let bins = self.spectrum.get(from as usize..to as usize);
            bins.unwrap_or_default()
                .iter()
                .map(|c| c.norm_sqr())
                .fold(0.0, f64::max)
                .sqrt()
        };
        // Hann's window spreads a peak over its neighbours.
        let (peak, others) = (
            greatest(bin - 1.0, bin + 2.0),
            greatest(bin + 3.0, 2.0 * bin - 2.0),
        );
        // A sinusoid's peak is a quarter of its amplitude times the samples.
        let others = others.max(FLOOR * capacity * self.ring.len() as f64 / 4.0);
        match transformed {
            Ok(()) if others > 0.0 => peak / others,
            _ => 0.0,
        }
    }
}
