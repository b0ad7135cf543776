//! What the plane costs in CPU at many flows (CCP §7.2.2, Figure 13b): its own, and the whole
//! machine's against the kernel running the same algorithm over the same load, in user space, in the
//! kernel and in interrupts.

use std::time::{Duration, Instant};

use fairwater_linux::Options;

use crate::bulk::{Pace, throughput};
use crate::hosted::{Hosted, Work};
use crate::record::{MachineTicks, Record, tick_seconds};

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The algorithm: one whose reports can be each 10 ms.
    #[arg(long, default_value = "reno")]
    algorithm: String,
    /// The kernel's algorithm to compare with; the one of the same name if not given.
    #[arg(long)]
    against: Option<String>,
    /// Flows at once; each of several numbers.
    #[arg(long, value_delimiter = ',', default_value = "64")]
    flows: Vec<usize>,
    /// How often flows report: `10ms`, `rtt` or `ack`.
    #[arg(long, value_delimiter = ',', default_value = "10ms")]
    reports: Vec<String>,
    /// Milliseconds between the chunks that each flow's application writes. A flow reports at an
    /// ACK: for a report each 10 ms there has to be one.
    #[arg(long, default_value_t = 20)]
    chunk_ms: u64,
    /// KiB of each chunk; with `--shared`, of the chunks of all flows together.
    #[arg(long, default_value_t = 64)]
    chunk_kib: usize,
    /// Divide the chunk among the flows, so that the load is the same for each number of them.
    #[arg(long)]
    shared: bool,
    /// Rounds; each measures every variant, and the kernel at each number of flows.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Seconds each runs in a round.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Print all values as JSON.
    #[arg(long)]
    json: bool,
}

/// Who controls the flows of the kernel's own algorithm, as results name it.
const KERNEL: &str = "kernel";

/// What a load took.
struct Load {
    bps: f64,
    seconds: f64,
    ticks: MachineTicks,
    work: Work,
}

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut record = Record::new("agent-cpu");
    for round in 1..=arguments.rounds {
        record.begin_round()?;
        for flows in &arguments.flows {
            let mut controllers = vec![KERNEL];
            controllers.extend(arguments.reports.iter().map(String::as_str));
            // Who goes first alternates: a machine that speeds up or slows down favours none.
            if round % 2 == 0 {
                controllers.reverse();
            }
            let loads = controllers
                .iter()
                .map(|controller| Ok((*controller, load(arguments, *flows, controller)?)))
                .collect::<anyhow::Result<Vec<_>>>()?;
            let kernel = loads.iter().find(|(name, _)| *name == KERNEL);
            let kernel_busy = kernel.map_or(f64::NAN, |(_, load)| load.busy_percent());
            for (controller, load) in &loads {
                let flows = flows.to_string();
                push(&mut record, &flows, controller, load, kernel_busy);
            }
        }
        record.end_round()?;
        eprintln!("round {round} of {}", arguments.rounds);
    }
    match arguments.json {
        true => println!("{}", record.json()?),
        false => print(arguments, &record),
    }
    Ok(())
}

impl Load {
    /// Of the machine, %.
    fn percent(&self, ticks: u64) -> f64 {
        100.0 * tick_seconds(ticks) / (self.seconds * cores())
    }

    fn busy_percent(&self) -> f64 {
        self.percent(self.ticks.busy())
    }
}

fn cores() -> f64 {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64
}

fn push(record: &mut Record, flows: &str, controller: &str, load: &Load, kernel_busy: f64) {
    let variables = [("flows", flows), ("controller", controller)];
    let mut push = |measure: &str, value: f64| record.push(measure, &variables, value);
    push("cpu_busy", load.busy_percent());
    push("cpu_added", load.busy_percent() - kernel_busy);
    push("cpu_user", load.percent(load.ticks.user));
    push("cpu_kernel", load.percent(load.ticks.system));
    push("cpu_softirq", load.percent(load.ticks.interrupts));
    let plane = load.work.cpu.as_secs_f64() / (load.seconds * cores());
    push("cpu_plane", 100.0 * plane);
    // Per bit carried: loads differ by what the applications slept too long.
    let gbit = load.bps * load.seconds / 1e9;
    let busy = tick_seconds(load.ticks.busy());
    push("cpu_per_gbit", 1e3 * busy / gbit);
    push("carried", load.bps / 1e9);
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    push(
        "reports_per_second",
        load.work.reports as f64 / load.seconds,
    );
}

fn load(arguments: &Arguments, flows: usize, controller: &str) -> anyhow::Result<Load> {
    let name = &arguments.algorithm;
    let hosted = match controller {
        KERNEL => None,
        report => {
            let choice = fairwater_algorithms::by_spec(&format!("{name}:report={report}"))?;
            let fill =
                move |plane: &mut fairwater_plane::Plane| plane.add(|p| choice.build(p)).map(drop);
            Some(Hosted::start(fill, Options::default())?)
        }
    };
    let congestion_control = match hosted {
        Some(_) => format!("fw_{name}"),
        None => arguments.against.as_ref().unwrap_or(name).clone(),
    };
    let bytes = (arguments.chunk_kib << 10) / if arguments.shared { flows } else { 1 };
    let pace = Pace::Chunk(bytes, Duration::from_millis(arguments.chunk_ms));
    let time = Duration::from_secs(arguments.seconds);
    let (before, start) = (MachineTicks::now()?, Instant::now());
    let bps = throughput(&congestion_control, flows, pace, Duration::ZERO, time)?;
    let (ticks, seconds) = (
        MachineTicks::now()?.since(before),
        start.elapsed().as_secs_f64(),
    );
    Ok(Load {
        bps,
        seconds,
        ticks,
        work: hosted.map(Hosted::stop).unwrap_or_default(),
    })
}

fn print(arguments: &Arguments, record: &Record) {
    let name = &arguments.algorithm;
    for flows in &arguments.flows {
        let flows = flows.to_string();
        let of = |measure: &str, controller: &str| {
            record.rounds(measure, &[("flows", &flows), ("controller", controller)])
        };
        let kernel = of("cpu_per_gbit", KERNEL).median();
        println!(
            "{flows} flows of {name} in the kernel, {:.2} Gbit/s: the machine {:.1} % busy",
            of("carried", KERNEL),
            of("cpu_busy", KERNEL)
        );
        for report in &arguments.reports {
            println!(
                "report={report}, {:.2} Gbit/s, {:.0} reports/s: the machine {:.1} % busy (user {:.1}, kernel \
                 {:.1}, interrupts {:.1}), the plane {:.1} %; CPU for each bit {:.3} times the kernel's",
                of("carried", report),
                of("reports_per_second", report),
                of("cpu_busy", report),
                of("cpu_user", report),
                of("cpu_kernel", report),
                of("cpu_softirq", report),
                of("cpu_plane", report),
                of("cpu_per_gbit", report).median() / kernel
            );
        }
    }
}
