//! Whether an experiment can run on the test bed: found out before anything is started.

use std::fs;
use std::io::{self, ErrorKind};
use std::time::Duration;

use fairwater_experiment::{Ecn, Experiment, FlowConfig};
use fairwater_net::{LinkConfig, QueueConfig, Time};
use fairwater_results::TrafficProgram;
use socket2::{Domain, Protocol, Socket, Type};

use crate::emulator::MAX_FLOWS;
use crate::error::TestbedError;
use crate::preflight;
use crate::run::{KernelSender, Run};
use crate::traffic::{QUIC, USER_TCP};

/// How long a run may last.
const DURATIONS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(86_400);

impl Run<'_> {
    /// Checks everything that can be checked before anything is started.
    ///
    /// # Errors
    /// What would keep the run from starting: a network of another shape, an unknown congestion
    /// control, a machine that lacks something.
    pub fn check(&self) -> Result<(), TestbedError> {
        let experiment = self.experiment;
        if !DURATIONS.contains(&experiment.duration) {
            return Err(TestbedError::Duration {
                asked: experiment.duration,
            });
        }
        if experiment.flows.len() > MAX_FLOWS {
            return Err(TestbedError::TooManyFlows {
                asked: experiment.flows.len(),
                most: MAX_FLOWS,
            });
        }
        if self.senders.len() != experiment.flows.len() {
            return Err(TestbedError::Network("every flow needs one sender"));
        }
        links(experiment)?;
        if self.has_edge() && self.edge.is_none() {
            return Err(TestbedError::NoEdge);
        }
        if self.has_guests() && self.ipv6 {
            return Err(TestbedError::Network(
                "flows with and without ECN, or behind an edge, send over IPv4",
            ));
        }
        let is_timed =
            |flow: &FlowConfig| flow.start > Time::ZERO || flow.stop.is_some() || flow.tag != 0;
        if self.program == TrafficProgram::Iperf3 && experiment.flows.iter().any(is_timed) {
            return Err(TestbedError::Timing);
        }
        preflight::require(self.program).map_err(TestbedError::Missing)?;
        self.check_transports()
    }

    /// One transport sends all flows of a run.
    fn check_transports(&self) -> Result<(), TestbedError> {
        let count = |prefix: &str| {
            let senders = self.senders.iter();
            senders.filter(|sender| sender.is_of(prefix)).count()
        };
        let (tcp, quic) = (count(USER_TCP), count(QUIC));
        let in_user_space = tcp.max(quic);
        if in_user_space > 0 && (in_user_space < self.senders.len() || self.has_guests()) {
            return Err(TestbedError::Network(
                "flows of the kernel's TCP, of guests, of a TCP in user space and of QUIC share no sender",
            ));
        }
        if tcp > 0 && self.user_plane.is_none() {
            return Err(TestbedError::Network(
                "flows of a TCP in user space need a plane",
            ));
        }
        if quic > 0 && self.quic.is_none() {
            return Err(TestbedError::Network("flows of QUIC need its ends"));
        }
        if in_user_space > 0 {
            return Ok(());
        }
        for sender in &self.senders {
            has_congestion_control(&sender.congestion_control)?;
        }
        Ok(())
    }

    /// Whether each flow has a guest of its own: some are behind a box, or some have ECN and some do not, which
    /// the kernel decides for a whole namespace.
    pub(crate) fn has_guests(&self) -> bool {
        let have_ecn = |flow: &&FlowConfig| flow.tcp.ecn != Ecn::Off;
        let flows = &self.experiment.flows;
        let with_ecn = flows.iter().filter(have_ecn).count();
        self.has_edge() || (0 < with_ecn && with_ecn < flows.len())
    }

    /// Whether a TCP in user space sends.
    pub(crate) fn is_over_user_tcp(&self) -> bool {
        self.senders.iter().any(|sender| sender.is_of(USER_TCP))
    }

    /// Whether QUIC sends.
    pub(crate) fn is_over_quic(&self) -> bool {
        self.senders.iter().any(|sender| sender.is_of(QUIC))
    }

    /// Whether some flow is behind a box.
    pub(crate) fn has_edge(&self) -> bool {
        self.experiment.flows.iter().any(|flow| flow.edge.is_some())
    }
}

impl KernelSender {
    /// Whether its name begins so.
    fn is_of(&self, transport: &str) -> bool {
        self.congestion_control.starts_with(transport)
    }
}

/// The links in the flows' direction and in the acknowledgements'.
pub(crate) fn links(experiment: &Experiment) -> Result<[&LinkConfig; 2], TestbedError> {
    let [one, other] = experiment.edges.as_slice() else {
        return Err(TestbedError::Network(
            "the test bed has two hosts and one link between them",
        ));
    };
    let flows = &experiment.flows;
    let Some(first) = flows.first() else {
        return Err(TestbedError::Network("there are no flows"));
    };
    if flows.iter().any(|flow| flow.from != first.from) {
        return Err(TestbedError::Network("flows go in both directions"));
    }
    match one.from == first.from {
        true => Ok([&one.link, &other.link]),
        false => Ok([&other.link, &one.link]),
    }
}

/// Whether the hosts' TCP negotiates ECN (RFC 3168): some flow asks for ECN, or the bottleneck
/// marks above a threshold and drops nothing earlier.
pub(crate) fn uses_ecn(experiment: &Experiment) -> bool {
    let asks = |flow: &FlowConfig| flow.tcp.ecn != Ecn::Off;
    let marks = |link: &LinkConfig| matches!(link.queue, QueueConfig::Step(_));
    experiment.flows.iter().any(asks) || experiment.edges.iter().any(|edge| marks(&edge.link))
}

/// Asks the kernel whether it has a congestion control; the kernel loads a module if need be.
///
/// # Errors
/// [`TestbedError::UnknownCongestionControl`], or that the kernel could not be asked.
pub fn has_congestion_control(name: &str) -> Result<(), TestbedError> {
    let asked = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))
        .and_then(|socket| socket.set_tcp_congestion(name.as_bytes()));
    match asked {
        Ok(()) => Ok(()),
        Err(error) if is_unknown(&error) => Err(TestbedError::UnknownCongestionControl {
            name: name.to_owned(),
            available: fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
                .map_err(TestbedError::system(
                    "list the kernel's congestion controls",
                ))?
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
        }),
        Err(source) => Err(TestbedError::System {
            doing: "set a socket's congestion control",
            source,
        }),
    }
}

fn is_unknown(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput)
}
