//! Hybla (Caini and Firrincieli, Int. J. of Satellite Communications and Networking 22(5), 2004):
//! a flow over a long path sends as it would over one of 25 ms.
//!
//! ρ is the RTT in units of a reference RTT₀. Slow start adds 2^ρ - 1 segments for each that is
//! delivered, congestion avoidance ρ² segments a round trip; so the rate, cwnd / RTT, rises as fast
//! as that of a Reno over RTT₀. The plane knows ρ and sets both.

use std::sync::Arc;

use fairwater_plane::{Algorithm, AlgorithmError, Control, Flow, FlowInfo, Programs, Report};

use crate::parameter::{Configuration, ParameterField, ParameterSpec};
use crate::window::{Doubling, Marks, Pace, Period, Shape, Window};

/// How a [`Hybla`] behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HyblaConfig {
    /// RTT₀: the RTT of the path to be equal with, from 100 µs to 1 s.
    pub reference_us: u64,
    /// Whether ECN marks count as congestion (RFC 3168 §6.1.2).
    pub ecn: bool,
    /// How often flows report.
    pub report: Period,
}

impl Default for HyblaConfig {
    /// The paper's RTT₀.
    fn default() -> Self {
        Self {
            reference_us: 25_000,
            ecn: true,
            report: Period::default(),
        }
    }
}

impl Configuration for HyblaConfig {
    const NAME: &'static str = "hybla";
    const SUMMARY: &'static str =
        "Hybla (Caini and Firrincieli): long paths grow as fast as short ones";
    const PARAMETERS: &'static [ParameterSpec<Self>] = &[
        ParameterSpec::new(
            "rtt0",
            "RTT of the path whose growth longer paths match",
            |c| ParameterField::Micros(&mut c.reference_us, 100..=1_000_000),
        ),
        ParameterSpec::ecn(|c| ParameterField::Boolean(&mut c.ecn)),
        ParameterSpec::report(|c| ParameterField::Period(&mut c.report)),
    ];

    fn build(self, programs: &mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError> {
        Ok(Box::new(Hybla::new(programs, self)?))
    }
}

/// Hybla. To losses it is Reno.
#[derive(Debug)]
pub struct Hybla {
    window: Arc<Window>,
    reference_us: u64,
}

/// ρ above which slow start grows no faster: eightfold each round trip. The paper spreads the bursts
/// over the round trip and bounds them by an estimate of the bandwidth; without, 2^ρ is so far
/// beyond what the path takes that many halvings have to follow.
const MOST_DOUBLINGS: f64 = 3.0;

impl Hybla {
    /// Compiles the program.
    ///
    /// # Errors
    /// [`AlgorithmError::OutOfRange`] for a reference or a report period out of its range.
    pub fn new(programs: &mut Programs, config: HyblaConfig) -> Result<Self, AlgorithmError> {
        config.check()?;
        let shape = Shape {
            doubling: Doubling::AsPlaneSays,
            marks: Marks::as_loss(config.ecn),
            period: config.report,
            ..Shape::RENO
        };
        Ok(Self {
            window: Arc::new(Window::load(programs, "hybla", shape)?),
            reference_us: config.reference_us,
        })
    }
}

impl Algorithm for Hybla {
    fn name(&self) -> &str {
        "hybla"
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        self.window.begin(info, control);
        let mut flow = HyblaFlow {
            window: Arc::clone(&self.window),
            reference_us: self.reference_us,
            pace: Pace::NONE,
            gain: 1024,
        };
        if info.srtt_us > 0 {
            flow.open(info.srtt_us, control);
        }
        Box::new(flow)
    }
}

struct HyblaFlow {
    window: Arc<Window>,
    reference_us: u64,
    pace: Pace,
    gain: u64,
}

impl HyblaFlow {
    /// RTT / RTT₀, at least 1: short paths are Reno's.
    fn rho(&self, rtt_us: u64) -> f64 {
        (rtt_us as f64 / self.reference_us as f64).max(1.0)
    }

    /// Slow start, in 1024th of what is delivered.
    fn open(&mut self, rtt_us: u64, control: &mut Control) {
        let doublings = self.rho(rtt_us).min(MOST_DOUBLINGS);
        let gain = (1024.0 * (doublings.exp2() - 1.0)).round() as u64;
        self.window.gain(gain, &mut self.gain, control);
    }
}

impl Flow for HyblaFlow {
    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let sample = self.window.read(report);
        // The least RTT: queues of its own would make a flow ever more eager.
        if sample.min_rtt_us == u64::MAX {
            return;
        }
        self.open(sample.min_rtt_us, control);
        let cwnd = sample.cwnd_to_grow();
        let rho = self.rho(sample.min_rtt_us);
        let pace = Pace::of(((cwnd as f64 / (rho * rho)) as u64).max(1));
        self.window.pace(pace, &mut self.pace, control);
    }

    fn on_mss(&mut self, mss: u32, control: &mut Control) {
        self.window.set_mss(mss, control);
    }
}
