//! What a report costs a plane in user space, and how soon it is answered: ours against portus.

mod cpu;
mod ours;
mod peer;
mod sender;

use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use fairwater_proto::Dialect;
use fairwater_proto::link::Link;
use fairwater_proto::link::{DEFAULT_SPIN, datagram, ring};
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::statistics::{Rounds, percentiles};
pub(crate) use cpu::cpu;
use sender::Sender;

/// Reads six fields, as an algorithm would.
pub(crate) const PROGRAM: &str = "
(def (Report (a 0) (b 0) (c 0) (d 0) (e 0) (f 0)))
(when true (report))";

pub(crate) const FIELDS: [&str; 6] = [
    "Report.a", "Report.b", "Report.c", "Report.d", "Report.e", "Report.f",
];

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Rounds; each measures all variants once.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Reports of a round.
    #[arg(long, default_value_t = 50_000)]
    reports: u64,
}

/// How to measure reports per second.
#[derive(Debug, clap::Args)]
pub(crate) struct RateArguments {
    #[command(flatten)]
    common: Arguments,
    /// Leave it to the scheduler where the two ends run: mostly on two cores, so that the plane
    /// reads what another core wrote
    #[arg(long)]
    spread: bool,
}

/// Reports in a packet, as the datapath library packs those that one batch of ACKs caused: at
/// most some 14 reports of 96 bytes fit the 1,400 bytes that it is usually given.
const PACKED: usize = 8;

/// How many reports a plane has at a time: what the queue of a Unix datagram socket holds by
/// default (`net.unix.max_dgram_qlen`).
const QUEUE: u64 = 10;

/// Holds a plane that has no turns of its own until its queue is full, and tells what CPU time it
/// took for those reports.
#[derive(Debug)]
pub(crate) struct Gate {
    seen: u64,
    start: Duration,
    tell: std::sync::mpsc::Sender<Duration>,
    go: Receiver<u64>,
}

impl Gate {
    pub(crate) const fn new(tell: std::sync::mpsc::Sender<Duration>, go: Receiver<u64>) -> Self {
        Self {
            seen: 0,
            start: Duration::ZERO,
            tell,
            go,
        }
    }

    /// One report more.
    pub(crate) fn count(&mut self) {
        self.seen += 1;
        if self.seen == QUEUE {
            self.seen = 0;
            // Nobody listens any more when the round has ended.
            let _ = self.tell.send(thread_time().saturating_sub(self.start));
            let _ = self.go.recv();
            self.start = thread_time();
        }
    }
}

/// What one reading of [`thread_time`] costs, which is in each difference of two once: it is a
/// system call.
fn clock_cost() -> Duration {
    const READINGS: u32 = 10_000;
    let start = thread_time();
    for _ in 1..READINGS {
        std::hint::black_box(thread_time());
    }
    (thread_time().saturating_sub(start)) / READINGS
}

/// Keeps this thread, and those that it starts, on the first processor that it may use.
fn stay_on_one_core() -> anyhow::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let first = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu));
    let mut one = CpuSet::new();
    one.set(first.unwrap_or(0));
    Ok(sched_setaffinity(None, &one)?)
}

pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// A plane at work in a thread, which ends when it is dropped.
pub(crate) struct Running {
    pub(crate) datagram: PathBuf,
    pub(crate) ring: Option<PathBuf>,
    /// Of our plane.
    pub(crate) thread: Option<Pid>,
    pub(crate) saturated: Saturated,
    pub(crate) stop: Option<Box<dyn FnOnce()>>,
    pub(crate) directory: tempfile::TempDir,
}

/// A plane that runs when it is told how many reports wait for it, and tells what CPU time they
/// took: it never waits for the sender.
pub(crate) struct Saturated {
    /// `None` when the round has ended.
    pub(crate) turns: Option<std::sync::mpsc::Sender<u64>>,
    pub(crate) drained: Receiver<Duration>,
}

impl Saturated {
    fn turn(&self, reports: u64) -> anyhow::Result<Duration> {
        if let Some(turns) = &self.turns {
            turns.send(reports)?;
        }
        Ok(self.drained.recv()?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.saturated.turns = None;
        if let Some(stop) = self.stop.take() {
            stop();
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Variant {
    PeerDatagram,
    OursDatagram,
    OursRing,
    /// Sleeps at once when nothing is there.
    OursRingAsleep,
}

impl Variant {
    fn start(self, answers: bool) -> anyhow::Result<(Running, Sender)> {
        let running = match self {
            Self::PeerDatagram => peer::start(answers)?,
            Self::OursRingAsleep => ours::start(answers, Duration::ZERO)?,
            Self::OursDatagram | Self::OursRing => ours::start(answers, DEFAULT_SPIN)?,
        };
        let dialect = match self {
            Self::PeerDatagram => Dialect::Ccp,
            _ => Dialect::Own,
        };
        let link: Box<dyn Link> = match (self, &running.ring) {
            (Self::OursRing | Self::OursRingAsleep, Some(path)) => {
                Box::new(ring::Ring::connect(path, Duration::from_secs(10))?)
            }
            _ => {
                let own = running.directory.path().join("datapath");
                Box::new(datagram::Datapath::bind(own, &running.datagram)?)
            }
        };
        let sender = Sender::start(link, dialect)?;
        Ok((running, sender))
    }

    /// Millions of reports in a second of the plane's CPU time.
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    fn rate(self, reports: u64, packed: usize, clock: Duration) -> anyhow::Result<f64> {
        let (running, mut sender) = self.start(false)?;
        sender.pack(packed);
        let (mut heard, mut used) = (0, Duration::ZERO);
        if let Self::PeerDatagram = self {
            // The first reports are heard as they come.
            for _ in 0..QUEUE {
                sender.say_report()?;
            }
            running.saturated.drained.recv()?;
        } else {
            running.saturated.turn(0)?;
        }
        while heard < reports {
            let sent = sender.fill()? as u64 * packed as u64;
            used += running.saturated.turn(sent)?.saturating_sub(clock);
            heard += match self {
                Self::PeerDatagram => QUEUE,
                _ => sent,
            };
        }
        Ok(heard as f64 / used.as_secs_f64() / 1e6)
    }

    /// The median, 95th and 99th percentile of report → update, µs.
    fn round_trip(self, reports: u64) -> anyhow::Result<[f64; 3]> {
        let (_running, mut sender) = self.start(true)?;
        for _ in 0..reports / 10 {
            sender.round_trip()?;
        }
        let times: Result<Vec<_>, _> = (0..reports).map(|_| sender.round_trip()).collect();
        let percentiles = percentiles(times?);
        Ok(percentiles.map_or([f64::NAN; 3], |all| {
            all.map(|time| time.as_secs_f64() * 1e6)
        }))
    }
}

/// Measures and prints reports per second of one core.
pub(crate) fn rate(arguments: &RateArguments) -> anyhow::Result<()> {
    if !arguments.spread {
        stay_on_one_core()?;
    }
    let arguments = &arguments.common;
    let clock = clock_cost();
    let ours = [
        ("Unix datagram", Variant::OursDatagram, 1),
        ("Unix datagram, 8 a packet", Variant::OursDatagram, PACKED),
        ("shared memory", Variant::OursRing, 1),
        ("shared memory, 8 a packet", Variant::OursRing, PACKED),
    ];
    let mut peer = Rounds::default();
    let mut rates = ours.map(|_| Rounds::default());
    let mut ratios = ours.map(|_| Rounds::default());
    for _ in 0..arguments.rounds {
        let their = Variant::PeerDatagram.rate(arguments.reports, 1, clock)?;
        peer.push(their);
        for (((_, variant, packed), rates), ratios) in ours.iter().zip(&mut rates).zip(&mut ratios)
        {
            let reports = match variant {
                Variant::OursRing => 10 * arguments.reports,
                _ => arguments.reports,
            };
            let rate = variant.rate(reports, *packed, clock)?;
            rates.push(rate);
            ratios.push(rate / their);
        }
    }
    for (((name, ..), rates), ratios) in ours.iter().zip(&rates).zip(&ratios) {
        println!(
            "reports/s, {name}: ours {rates:.2} M; portus over datagrams {peer:.2} M; \
             ratio {ratios:.2}"
        );
    }
    Ok(())
}

/// Measures and prints report → update.
pub(crate) fn round_trip(arguments: &Arguments) -> anyhow::Result<()> {
    let variants = [
        Variant::PeerDatagram,
        Variant::OursDatagram,
        Variant::OursRing,
        Variant::OursRingAsleep,
    ];
    let mut times = [(); 4].map(|()| [(); 3].map(|()| Rounds::default()));
    for _ in 0..arguments.rounds {
        for (variant, rounds) in variants.into_iter().zip(&mut times) {
            let percentiles = variant.round_trip(arguments.reports / 10)?;
            for (rounds, value) in rounds.iter_mut().zip(percentiles) {
                rounds.push(value);
            }
        }
    }
    let [peer, rest @ ..] = &times;
    let names = [
        "Unix datagram",
        "shared memory",
        "shared memory, --spin 0us",
    ];
    for (name, ours) in names.into_iter().zip(rest) {
        for ((percentile, ours), peer) in ["p50", "p95", "p99"].into_iter().zip(ours).zip(peer) {
            println!(
                "report → update, {name}, {percentile}: ours {ours:.1} µs; portus over datagrams \
                 {peer:.1} µs; ratio {:.1}",
                peer.median() / ours.median()
            );
        }
    }
    Ok(())
}
