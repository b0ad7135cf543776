//! How soon the plane answers a report of Linux TCP.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fairwater_linux::Options;
use fairwater_plane::{Algorithm, AlgorithmError, Control, Flow, FlowInfo, Programs, Report};
use rustix::time::{ClockId, clock_gettime};

use crate::bulk::{Pace, throughput};
use crate::hosted::Hosted;
use crate::record::Record;
use crate::statistics::percentiles;

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Rounds; each measures every pace once.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Seconds of a pace in a round.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Print all values as JSON.
    #[arg(long)]
    json: bool,
}

/// Reports at each ACK, and sets the window at each report.
const PROGRAM: &str =
    "(def (Report (acked 0))) (when true (:= Report.acked Ack.bytes_acked) (report))";

/// What the application writes: how much at a time, and how long it waits then; as results name it.
const PACES: [(&str, usize, Duration); 3] = [
    ("10ms", 1_000, Duration::from_millis(10)),
    ("2ms", 1_000, Duration::from_millis(2)),
    ("200us", 1_000, Duration::from_micros(200)),
];

/// The median, the 95th and the 99th percentile, as results name them.
const MEASURES: [&str; 3] = ["reaction_p50", "reaction_p95", "reaction_p99"];

/// From the ACK to the answer, µs.
type Delays = Arc<Mutex<Vec<u64>>>;

struct Timed(Delays);

struct TimedFlow(Delays);

impl Timed {
    fn build(programs: &mut Programs, delays: Delays) -> Result<Self, AlgorithmError> {
        programs.add("timed", PROGRAM)?;
        Ok(Self(delays))
    }
}

impl Algorithm for Timed {
    fn name(&self) -> &str {
        "timed"
    }

    fn new_flow(&self, _: &FlowInfo, _: &mut Control<'_>) -> Box<dyn Flow> {
        Box::new(TimedFlow(Arc::clone(&self.0)))
    }
}

impl Flow for TimedFlow {
    fn on_report(&mut self, report: &Report<'_>, control: &mut Control<'_>) {
        control.set_cwnd(report.cwnd() + 1_000);
        let delay_us = now_us().saturating_sub(report.time_us());
        let mut delays = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        delays.push(delay_us);
    }
}

/// The kernel side's clock.
fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let part = |n: i64| u64::try_from(n).unwrap_or(0);
    part(now.tv_sec) * 1_000_000 + part(now.tv_nsec) / 1_000
}

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let delays = Delays::default();
    let heard = Arc::clone(&delays);
    let fill = move |plane: &mut fairwater_plane::Plane| {
        plane
            .add(|programs| Timed::build(programs, heard))
            .map(drop)
    };
    let hosted = Hosted::start(fill, Options::default())?;
    let mut record = Record::new("reaction");
    let mut counts = PACES.map(|_| 0);
    for _ in 0..arguments.rounds {
        record.begin_round()?;
        for (pace, count) in PACES.iter().zip(&mut counts) {
            let (name, bytes, wait) = *pace;
            delays
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clear();
            let time = Duration::from_secs(arguments.seconds);
            let pace = Pace::Chunk(bytes, wait);
            throughput("fw_timed", 1, pace, Duration::ZERO, time)?;
            let taken = std::mem::take(&mut *delays.lock().unwrap_or_else(PoisonError::into_inner));
            *count += taken.len();
            let values = percentiles(taken);
            let values = values.ok_or_else(|| anyhow::anyhow!("no report in {time:?}"))?;
            for (measure, us) in MEASURES.iter().zip(values) {
                #[expect(clippy::cast_precision_loss, reason = "µs")]
                record.push(measure, &[("ack", name)], us as f64);
            }
        }
        record.end_round()?;
    }
    let work = hosted.stop();
    if arguments.json {
        println!("{}", record.json()?);
        return Ok(());
    }
    for ((name, ..), count) in PACES.iter().zip(counts) {
        let [p50, p95, p99] = MEASURES.map(|measure| record.rounds(measure, &[("ack", name)]));
        println!(
            "ACK → answer, an ACK each {name}: p50 {p50:.1} µs, p95 {p95:.1} µs, p99 {p99:.1} µs ({count} reports)"
        );
    }
    eprintln!("{} reports in all", work.reports);
    Ok(())
}
