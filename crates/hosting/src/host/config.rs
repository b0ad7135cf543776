//! What a plane for everything on a host runs.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fairwater_exec::cost::DEFAULT_BUDGET;
use fairwater_linux::Options;
use fairwater_plane::CarefulResumeConfig;
use fairwater_service::{Config as ServiceConfig, Endpoints, Policy};
use rustix::process::geteuid;

use super::edge::EdgeConfig;
use crate::bundle::{ReceiveboxConfig, SendboxConfig};
use crate::{NamedAlgorithm, ResolvedAlgorithm};

/// Where the configuration of a host is by default.
pub const DEFAULT_PATH: &str = "/etc/fairwater.toml";

/// Bytes for the last reports of all flows, for incidents.
const REPORT_LOG_BYTES: usize = 1 << 20;

/// The configuration of a [`Host`](super::Host).
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// The algorithms, each under its name. Datapaths that ask for none get the first.
    pub algorithms: Vec<NamedAlgorithm>,
    /// Whether algorithms in Python run in this process on Linux TCP too, as in a process that is
    /// theirs.
    pub python_in_process: bool,
    /// Most eBPF instructions that a program may take for an ACK.
    pub max_instructions: usize,
    /// This machine's TCP; `None` leaves it alone.
    pub linux: Option<LinuxConfig>,
    /// The guests of this host; `None` leaves them alone.
    pub edge: Option<EdgeConfig>,
    /// The bundles of this site; `None` leaves its packets alone.
    pub sendbox: Option<SendboxConfig>,
    /// The bundles of other sites to this one; `None` observes none.
    pub receivebox: Option<ReceiveboxConfig>,
    /// Datapaths in other processes; `None` admits none.
    pub links: Option<LinksConfig>,
    /// Where the plane is asked and told.
    pub control: Option<ControlConfig>,
    /// Where metrics are read.
    pub metrics: Option<MetricsAddress>,
    /// Which algorithm flows get that ask for another.
    pub policy: Policy,
    /// How flows begin with what earlier ones observed (RFC 9959); `None` lets none.
    pub careful_resume: Option<CarefulResumeConfig>,
}

/// This machine's TCP.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinuxConfig {
    /// The algorithm that new connections use by default, by name.
    pub default: Option<String>,
    /// Whether existing connections are moved onto the default, or else onto the first algorithm.
    pub move_existing: bool,
    /// How the datapath behaves.
    pub options: Options,
    /// Whether the plane goes on without Linux TCP where this machine or process lacks something.
    pub optional: bool,
}

/// Datapaths in other processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinksConfig {
    /// Where datapaths of Fairwater's library connect; rings in shared memory at the same path with
    /// `.ring` behind it.
    pub listen: PathBuf,
    /// Where datapaths written for CCP send.
    pub ccp: Option<PathBuf>,
    /// How many datapaths may be connected at once.
    pub max_peers: u32,
    /// How long at most to look for packets in rings before sleeping.
    pub spin: Duration,
}

/// The control socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlConfig {
    /// The socket.
    pub socket: PathBuf,
    /// Groups, by number, whose members may change things, besides root and the plane's own user.
    pub groups: Vec<u32>,
}

/// Where metrics are read, by HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricsAddress {
    /// An address and port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}/metrics"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Default for HostConfig {
    /// No algorithm, no datapath, no socket.
    fn default() -> Self {
        Self {
            algorithms: Vec::new(),
            python_in_process: false,
            max_instructions: DEFAULT_BUDGET,
            linux: None,
            edge: None,
            sendbox: None,
            receivebox: None,
            links: None,
            control: None,
            metrics: None,
            policy: Policy::default(),
            careful_resume: None,
        }
    }
}

impl LinksConfig {
    /// Links at a path, and nowhere for CCP.
    #[must_use]
    pub fn at(listen: PathBuf) -> Self {
        Self {
            listen,
            ccp: None,
            max_peers: ServiceConfig::default().max_peers,
            spin: fairwater_service::Endpoints::default().spin,
        }
    }

    /// Where rings in shared memory are given out.
    #[must_use]
    pub fn ring(&self) -> PathBuf {
        let mut path = self.listen.as_os_str().to_owned();
        path.push(".ring");
        path.into()
    }

    /// Every socket.
    #[must_use]
    pub fn sockets(&self) -> Vec<PathBuf> {
        let mut sockets = vec![self.listen.clone(), self.ring()];
        sockets.extend(self.ccp.clone());
        sockets
    }
}

impl HostConfig {
    /// Where the server of these links is to be found.
    pub(super) fn endpoints(&self) -> Endpoints {
        match &self.links {
            Some(links) => Endpoints {
                datagram: links.ccp.clone(),
                seqpacket: Some(links.listen.clone()),
                ring: Some(links.ring()),
                spin: links.spin,
            },
            None => Endpoints::default(),
        }
    }

    /// How the service of this host behaves; `instance` is another number for each start.
    pub(super) fn service(&self, instance: u64) -> ServiceConfig {
        let defaults = ServiceConfig::default();
        ServiceConfig {
            instance,
            max_peers: (self.links.as_ref()).map_or(defaults.max_peers, |links| links.max_peers),
            report_log_bytes: REPORT_LOG_BYTES,
            ..defaults
        }
    }

    /// Whether an algorithm has a process of its own on Linux TCP.
    pub(super) fn has_own_process(&self, algorithm: &ResolvedAlgorithm) -> bool {
        algorithm.is_python && !self.python_in_process
    }
}

/// A directory for sockets in which nobody else can replace them: `/run/fairwater` for root, one in
/// `$XDG_RUNTIME_DIR` for others; `None` where that is not set.
#[must_use]
pub fn runtime_directory() -> Option<PathBuf> {
    if geteuid().is_root() {
        return Some(PathBuf::from("/run/fairwater"));
    }
    let directory = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty())?;
    Some(Path::new(&directory).join("fairwater"))
}
