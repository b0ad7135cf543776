//! What a report costs a plane in user space, and how soon it is answered: ours against portus.

mod ours;
mod peer;
mod sender;

use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use fairwater_proto::Dialect;
use fairwater_proto::link::Link;
use fairwater_proto::link::{datagram, ring};
use rustix::time::{ClockId, clock_gettime};

use crate::statistics::Rounds;
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
    #[arg(long, default_value_t = 200_000)]
    reports: u64,
}

/// The CPU time that the plane's thread takes for so many reports.
#[derive(Debug)]
pub(crate) struct Meter {
    seen: u64,
    of: u64,
    start: Duration,
    pub(crate) sum: u64,
    tell: std::sync::mpsc::Sender<Duration>,
}

impl Meter {
    pub(crate) fn new(of: u64, tell: std::sync::mpsc::Sender<Duration>) -> Self {
        Self {
            seen: 0,
            of,
            start: Duration::ZERO,
            sum: 0,
            tell,
        }
    }

    /// One report more; the first tenth warms up.
    pub(crate) fn count(&mut self) {
        self.seen += 1;
        if self.seen == self.of / 10 {
            self.start = thread_time();
        } else if self.seen == self.of {
            // Nobody listens any more when the round was given up.
            let _ = self.tell.send(thread_time().saturating_sub(self.start));
        }
    }
}

fn thread_time() -> Duration {
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
    pub(crate) measured: Receiver<Duration>,
    pub(crate) stop: Option<Box<dyn FnOnce()>>,
    pub(crate) _directory: tempfile::TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
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
}

impl Variant {
    fn start(self, reports: u64, answers: bool) -> anyhow::Result<(Running, Sender)> {
        let running = match self {
            Self::PeerDatagram => peer::start(reports, answers)?,
            _ => ours::start(reports, answers)?,
        };
        let dialect = match self {
            Self::PeerDatagram => Dialect::Ccp,
            _ => Dialect::Own,
        };
        let link: Box<dyn Link> = match (self, &running.ring) {
            (Self::OursRing, Some(path)) => {
                Box::new(ring::Ring::connect(path, Duration::from_secs(10))?)
            }
            _ => {
                let own = running._directory.path().join("datapath");
                Box::new(datagram::Datapath::bind(own, &running.datagram)?)
            }
        };
        let sender = Sender::start(link, dialect)?;
        Ok((running, sender))
    }

    /// Millions of reports in a second of the plane's CPU time.
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    fn rate(self, reports: u64) -> anyhow::Result<f64> {
        let (running, mut sender) = self.start(reports, false)?;
        let used = loop {
            if let Ok(used) = running.measured.try_recv() {
                break used;
            }
            sender.flood(64)?;
        };
        Ok((reports - reports / 10) as f64 / used.as_secs_f64() / 1e6)
    }

    /// The median, 95th and 99th percentile of report → update, µs.
    fn round_trip(self, reports: u64) -> anyhow::Result<[f64; 3]> {
        let (_running, mut sender) = self.start(reports, true)?;
        for _ in 0..reports / 10 {
            sender.round_trip()?;
        }
        let times: Result<Vec<_>, _> = (0..reports).map(|_| sender.round_trip()).collect();
        let mut times = times?;
        times.sort_unstable();
        Ok([50, 95, 99].map(|percent| {
            let at = times.len() * percent / 100;
            times.get(at).map_or(f64::NAN, |t| t.as_secs_f64() * 1e6)
        }))
    }
}

/// Measures and prints reports per second of one core.
pub(crate) fn rate(arguments: &Arguments) -> anyhow::Result<()> {
    let [mut peer, mut datagram, mut ring] = [(); 3].map(|()| Rounds::default());
    let [mut datagram_ratio, mut ring_ratio] = [(); 2].map(|()| Rounds::default());
    for _ in 0..arguments.rounds {
        let their = Variant::PeerDatagram.rate(arguments.reports)?;
        let ours = Variant::OursDatagram.rate(arguments.reports)?;
        let shared = Variant::OursRing.rate(10 * arguments.reports)?;
        peer.push(their);
        datagram.push(ours);
        ring.push(shared);
        datagram_ratio.push(ours / their);
        ring_ratio.push(shared / their);
    }
    println!(
        "reports/s, Unix datagram: ours {datagram:.2} M; portus {peer:.2} M; ratio {:.1}",
        datagram_ratio.median()
    );
    println!(
        "reports/s, shared memory: ours {ring:.2} M; portus over datagrams {peer:.2} M; ratio {:.1}",
        ring_ratio.median()
    );
    Ok(())
}

/// Measures and prints report → update.
pub(crate) fn round_trip(arguments: &Arguments) -> anyhow::Result<()> {
    let variants = [
        Variant::PeerDatagram,
        Variant::OursDatagram,
        Variant::OursRing,
    ];
    let mut times = [(); 3].map(|()| [(); 3].map(|()| Rounds::default()));
    for _ in 0..arguments.rounds {
        for (variant, rounds) in variants.into_iter().zip(&mut times) {
            let percentiles = variant.round_trip(arguments.reports / 10)?;
            for (rounds, value) in rounds.iter_mut().zip(percentiles) {
                rounds.push(value);
            }
        }
    }
    let [peer, rest @ ..] = &times;
    for (name, ours) in ["Unix datagram", "shared memory"].into_iter().zip(rest) {
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
