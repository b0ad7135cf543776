//! The datapath of this process: its shards, and the three ways to a plane.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fairwater_datapath::{
    Config, Connection, Controls, DatapathStatistics, Signal, Signals, StartError,
};
use fairwater_plane::Plane;
use fairwater_proto::link::{Link, ring};
use fairwater_proto::{Dialect, FlowId, FlowInfo, SignalQualities};

use crate::embedded::EmbeddedPlane;
use crate::keeper::LinkKeeper;
use crate::lockstep::Lockstep;

/// The most shards: each is a datapath to its plane, with rings of its own.
const MAX_SHARDS: usize = 4;

/// How long a plane may take to answer who asks for rings: the link's thread waits so long.
const RING_TIMEOUT: Duration = Duration::from_millis(50);

/// Where planes are.
#[derive(Debug)]
pub(crate) enum PlaneChoice {
    /// In another process, at one of these sockets for rings.
    Link(Vec<PathBuf>),
    /// In a thread of this process.
    Embedded(Plane),
    /// In the calls of the controllers themselves, from this moment on.
    Lockstep(Plane, Instant),
}

/// The flows of one factory: N datapaths, each locked only to invoke.
#[derive(Debug)]
pub(crate) struct Shards {
    kind: Kind,
    next: AtomicUsize,
    signals: SignalQualities,
    /// Time 0 of the datapath.
    epoch: Instant,
}

#[derive(Debug)]
enum Kind {
    Linked {
        shards: Arc<[Mutex<Connection>]>,
        // Ends before the plane does: fields are dropped in order.
        _keeper: LinkKeeper,
        _plane: Option<EmbeddedPlane>,
    },
    Lockstep(Box<Mutex<Lockstep>>),
}

impl Shards {
    pub(crate) fn new(config: Config, plane: PlaneChoice) -> io::Result<Self> {
        let signals = config.signals;
        let epoch = match &plane {
            PlaneChoice::Lockstep(_, start) => *start,
            PlaneChoice::Link(_) | PlaneChoice::Embedded(_) => Instant::now(),
        };
        let kind = match plane {
            PlaneChoice::Link(paths) => {
                linked(&config, epoch, None, move || connect_to_first(&paths))?
            }
            PlaneChoice::Embedded(plane) => {
                let embedded = EmbeddedPlane::start(plane, epoch)?;
                let port = embedded.port();
                linked(&config, epoch, Some(embedded), move || port.connect())?
            }
            PlaneChoice::Lockstep(plane, _) => {
                Kind::Lockstep(Box::new(Mutex::new(Lockstep::new(config, plane))))
            }
        };
        Ok(Self {
            kind,
            next: AtomicUsize::new(0),
            signals,
            epoch,
        })
    }

    /// The shard of the next connection.
    pub(crate) fn next(&self) -> usize {
        let shards = match &self.kind {
            Kind::Linked { shards, .. } => shards.len(),
            Kind::Lockstep(_) => 1,
        };
        self.next.fetch_add(1, Ordering::Relaxed) % shards
    }

    /// The datapath's time, ns.
    #[inline]
    pub(crate) fn time_ns(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.epoch);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) const fn signals(&self) -> SignalQualities {
        self.signals
    }

    pub(crate) fn start(
        &self,
        shard: usize,
        algorithm: &str,
        info: &FlowInfo,
    ) -> Result<FlowId, StartError> {
        match &self.kind {
            Kind::Linked { shards, .. } => {
                let mut connection = lock(&shards[shard]);
                let flow = connection.start(algorithm, info);
                connection.flush(info.now_us);
                flow
            }
            Kind::Lockstep(lockstep) => lock(lockstep).start(algorithm, info),
        }
    }

    #[inline]
    pub(crate) fn invoke(&self, shard: usize, flow: FlowId, signals: &Signals) -> Option<Controls> {
        // A flow of a controller's ends with the controller.
        match &self.kind {
            Kind::Linked { shards, .. } => {
                let mut connection = lock(&shards[shard]);
                let changed = connection.invoke(flow, signals).ok().flatten();
                connection.flush(signals[Signal::Now]);
                changed
            }
            Kind::Lockstep(lockstep) => lock(lockstep).invoke(flow, signals),
        }
    }

    pub(crate) fn set_mss(&self, shard: usize, flow: FlowId, mss: u32) {
        // At least 1, and the flow is there.
        match &self.kind {
            Kind::Linked { shards, .. } => {
                let _ = lock(&shards[shard]).datapath_mut().set_mss(flow, mss);
            }
            Kind::Lockstep(lockstep) => {
                let _ = lock(lockstep).datapath_mut().set_mss(flow, mss);
            }
        }
    }

    pub(crate) fn close(&self, shard: usize, flow: FlowId) {
        match &self.kind {
            Kind::Linked { shards, .. } => {
                let mut connection = lock(&shards[shard]);
                let _ = connection.close(flow);
                connection.flush(self.time_ns(Instant::now()) / 1_000);
            }
            Kind::Lockstep(lockstep) => lock(lockstep).close(flow),
        }
    }

    /// Whether every shard has a link to a plane.
    pub(crate) fn is_connected(&self) -> bool {
        match &self.kind {
            Kind::Linked { shards, .. } => shards.iter().all(|shard| lock(shard).is_connected()),
            Kind::Lockstep(_) => true,
        }
    }

    /// Counts of all shards.
    pub(crate) fn statistics(&self) -> Vec<DatapathStatistics> {
        match &self.kind {
            Kind::Linked { shards, .. } => shards
                .iter()
                .map(|shard| lock(shard).datapath().statistics())
                .collect(),
            Kind::Lockstep(lockstep) => vec![lock(lockstep).datapath().statistics()],
        }
    }

    /// Flows that a program of a plane's controls now.
    pub(crate) fn running(&self) -> usize {
        let running = |datapath: &fairwater_datapath::Datapath| {
            let states = datapath.flows().filter_map(|flow| datapath.flow(flow));
            states
                .filter(|flow| flow.state == fairwater_datapath::FlowState::Running)
                .count()
        };
        match &self.kind {
            Kind::Linked { shards, .. } => shards
                .iter()
                .map(|shard| running(lock(shard).datapath()))
                .sum(),
            Kind::Lockstep(lockstep) => running(lock(lockstep).datapath()),
        }
    }
}

/// Datapaths that join the plane by links that `connect` makes, and the thread that keeps them.
fn linked<F>(
    config: &Config,
    epoch: Instant,
    plane: Option<EmbeddedPlane>,
    connect: F,
) -> io::Result<Kind>
where
    F: Fn() -> io::Result<Box<dyn Link>> + Clone + Send + 'static,
{
    let parallelism = thread::available_parallelism().map_or(1, usize::from);
    let shards: Arc<[_]> = (0..parallelism.min(MAX_SHARDS))
        .map(|shard| {
            let config = Config {
                instance: instance(shard),
                ..config.clone()
            };
            let connection = Connection::new(config, Dialect::Own, 0, connect.clone());
            Mutex::new(connection)
        })
        .collect();
    Ok(Kind::Linked {
        _keeper: LinkKeeper::start(Arc::clone(&shards), epoch)?,
        shards,
        _plane: plane,
    })
}

fn connect_to_first(paths: &[PathBuf]) -> io::Result<Box<dyn Link>> {
    let mut failure = io::ErrorKind::NotFound.into();
    for path in paths {
        match ring::Ring::connect(path, RING_TIMEOUT) {
            Ok(ring) => return Ok(Box::new(ring)),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Where `fairwater up` and `fairwater serve` offer rings by default: a user's own plane, then the
/// host's.
pub(crate) fn default_sockets() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
    let own = own.filter(|_| !rustix::process::geteuid().is_root());
    let own = own.map(|directory| Path::new(&directory).join("fairwater"));
    let directories = own.into_iter().chain([PathBuf::from("/run/fairwater")]);
    directories
        .map(|directory| directory.join("plane.ring"))
        .collect()
}

/// A number that differs between the lives of a datapath.
fn instance(shard: usize) -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed();
    let nanoseconds = since.map_or(0, |d| d.as_nanos() as u64);
    let process = u64::from(std::process::id()).rotate_left(40);
    (nanoseconds ^ process).wrapping_add(shard as u64).max(1)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
