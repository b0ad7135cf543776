//! What to run.

use std::fs;
use std::io::{self, ErrorKind};
use std::time::Duration;

use fairwater_net::{Capacity, DeliveryTrace, LinkSpec};
use socket2::{Domain, Protocol, Socket, Type};

use crate::emulator::MAX_FLOWS;
use crate::error::LabError;
use crate::preflight;
use crate::traffic::Traffic;

/// Who sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contender<C = String> {
    /// What to call it: `cubic`, `kernel:cubic`.
    pub label: String,
    /// On real TCP, the kernel's name of its congestion control, which must be there when the run
    /// starts: `cubic`, `fw_cubic`. In the simulator, a [`fairwater_sim::Governor`].
    pub congestion_control: C,
}

/// When a contender sends, and what it is told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sending {
    /// So long after the run has begun; not at all where that is its end or later.
    pub start: Duration,
    /// Until then; `None` is the run's end.
    pub stop: Option<Duration>,
    /// `SO_MARK` of its socket.
    pub tag: u32,
}

/// Contenders on a link: on real TCP for [`crate::run`], or simulated for [`crate::simulate`].
#[derive(Debug, Clone)]
pub struct Experiment<C = String> {
    /// The link.
    pub link: LinkSpec,
    /// How long each run lasts.
    pub duration: Duration,
    /// Who sends, one flow each.
    pub contenders: Vec<Contender<C>>,
    /// The kernel's names of those congestion controls that receivers have too: one that needs
    /// ECN is asked for it at both ends, before they connect (RFC 8257 §3.2). What sends them is
    /// always [`Traffic::Bulk`], as iperf3 asks afterwards.
    pub at_both_ends: Vec<String>,
    /// When each sends on real TCP; those that this says nothing of send all the time. The lab's
    /// own sender alone goes by it.
    pub sending: Vec<Sending>,
    /// Whether they share the link, or have it alone in turn.
    pub together: bool,
    /// Whether they send over IPv6, which the simulator does not.
    pub ipv6: bool,
    /// What sends on real TCP.
    pub traffic: Traffic,
    /// How often a run on real TCP is tried that the machine disturbs; at least 1.
    pub tries: u32,
}

impl<C> Experiment<C> {
    /// Runs of 30 s, alone, over IPv4 by iperf3, tried 3 times.
    pub fn new(link: LinkSpec, contenders: Vec<Contender<C>>) -> Self {
        Experiment {
            link,
            duration: Duration::from_secs(30),
            contenders,
            at_both_ends: Vec::new(),
            sending: Vec::new(),
            together: false,
            ipv6: false,
            traffic: Traffic::default(),
            tries: 3,
        }
    }

    /// Checks what does not depend on the machine, and reads the trace if the link has one.
    pub(crate) fn check_description(&self) -> Result<Capacity, LabError> {
        if !(Duration::from_secs(1)..=Duration::from_secs(86_400)).contains(&self.duration) {
            return Err(LabError::Duration {
                asked: self.duration,
            });
        }
        if self.contenders.is_empty() {
            return Err(LabError::NoContender);
        }
        if self.together && self.contenders.len() > MAX_FLOWS {
            return Err(LabError::TooManyContenders {
                asked: self.contenders.len(),
                most: MAX_FLOWS,
            });
        }
        self.link.capacity.load(read_trace)
    }

    /// The contenders of each run: all of them, or one after another.
    pub(crate) fn groups(&self) -> Vec<&[Contender<C>]> {
        if self.together {
            vec![&self.contenders]
        } else {
            self.contenders.chunks(1).collect()
        }
    }
}

impl Experiment {
    /// Checks everything that can be checked before anything is started, and reads the trace if
    /// the link has one.
    ///
    /// # Errors
    /// What would keep it from running: a trace that is not there or malformed, an unknown
    /// congestion control, a machine that lacks something.
    pub fn check(&self) -> Result<Capacity, LabError> {
        let capacity = self.check_description()?;
        if self.traffic == Traffic::Iperf3 && self.sending.iter().any(|s| *s != Sending::default())
        {
            return Err(LabError::Timing);
        }
        preflight::require(self.traffic).map_err(LabError::Missing)?;
        for contender in &self.contenders {
            has_congestion_control(&contender.congestion_control)?;
        }
        Ok(capacity)
    }
}

fn read_trace(name: &str) -> Result<DeliveryTrace, LabError> {
    let text = fs::read_to_string(name).map_err(|source| LabError::TraceFile {
        name: name.to_owned(),
        source,
    })?;
    DeliveryTrace::parse(&text).map_err(|source| LabError::Trace {
        name: name.to_owned(),
        source,
    })
}

/// Asks the kernel, which loads a module if that is what it takes.
fn has_congestion_control(name: &str) -> Result<(), LabError> {
    let asked = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))
        .and_then(|socket| socket.set_tcp_congestion(name.as_bytes()));
    match asked {
        Ok(()) => Ok(()),
        Err(error) if is_unknown(&error) => Err(LabError::UnknownCongestionControl {
            name: name.to_owned(),
            available: fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
                .map_err(LabError::system("list the kernel's congestion controls"))?
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
        }),
        Err(source) => Err(LabError::System {
            doing: "set a socket's congestion control",
            source,
        }),
    }
}

fn is_unknown(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput)
}
