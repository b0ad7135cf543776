//! From an algorithm's name to controllers.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwater_algorithms::Choice;
use fairwater_datapath::Config;
use fairwater_plane::{CarefulResumeConfig, Plane};
use fairwater_proto::{Fallback, own};
use thiserror::Error;

use crate::Stack;
use crate::datapath::{PlaneChoice, Shards, default_sockets};
use crate::path_flow::FlowConfig;

/// Why there is no factory.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum QuicError {
    /// The stack cannot run the algorithm.
    #[error("{algorithm} cannot run on {stack}: {reasons}")]
    Unsupported {
        /// Its name.
        algorithm: String,
        /// The stack.
        stack: Stack,
        /// What the stack lacks.
        reasons: String,
    },
    /// What is wrong with the algorithm's parameters.
    #[error("{0}")]
    Algorithm(String),
    /// No algorithm of Fairwater's own has the name, and a plane in this process has no others.
    #[error("`{0}` is no built-in algorithm: `fairwater algorithms` lists them")]
    Unknown(String),
    /// Parameters belong to whoever hosts the algorithm.
    #[error(
        "`{0}`: a plane in another process has its own parameters; name the algorithm alone, or \
         embed the plane"
    )]
    Parameters(String),
    /// The name is empty, has a NUL, or is too long to be sent.
    #[error("an algorithm's name has 1 to {} bytes, and no NUL", own::MAX_NAME)]
    Name,
    /// A plane does not take the algorithm.
    #[error("{0}")]
    Plane(String),
    /// A thread or an event file could not be made.
    #[error("the datapath's threads: {0}")]
    Io(#[from] std::io::Error),
}

/// Where the plane is and how flows behave without it.
///
/// ```
/// use std::time::Duration;
/// use fairwater_quic::Options;
///
/// // The algorithm runs in this process: no `fairwater up` is needed.
/// let factory = Options::default().embedded().noq("copa:delta=0.25")?;
/// # let _ = factory;
/// # Ok::<(), fairwater_quic::QuicError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    name: String,
    place: Place,
    fallback: Fallback,
    silence: Duration,
    max_flows: u32,
    degraded_ecn: bool,
    resume: Option<CarefulResumeConfig>,
    /// Algorithms that are not of Fairwater's crate, by name.
    own: Vec<(String, OwnAlgorithm)>,
}

#[derive(Clone)]
struct OwnAlgorithm(Choice);

impl fmt::Debug for OwnAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

#[derive(Debug, Clone)]
enum Place {
    Default,
    Socket(PathBuf),
    Embedded,
    Lockstep(Instant),
}

impl Default for Options {
    /// The plane of `fairwater up` or `fairwater serve` on this host.
    fn default() -> Self {
        Self {
            name: "quic".to_owned(),
            place: Place::Default,
            fallback: Fallback::Cubic,
            silence: Duration::from_millis(400),
            max_flows: Config::default().max_flows,
            degraded_ecn: false,
            resume: None,
            own: Vec::new(),
        }
    }
}

impl Options {
    /// The name under which `fairwater status` shows the flows.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The plane at this socket, by rings in shared memory: the path of `--listen` with `.ring`.
    #[must_use]
    pub fn plane(mut self, socket: impl Into<PathBuf>) -> Self {
        self.place = Place::Socket(socket.into());
        self
    }

    /// A plane in a thread of this process, with the one algorithm that is asked for.
    #[must_use]
    pub fn embedded(mut self) -> Self {
        self.place = Place::Embedded;
        self
    }

    /// An algorithm of the caller's, for a plane in this process.
    #[must_use]
    pub fn algorithm(mut self, algorithm: Choice) -> Self {
        let name = algorithm.name().to_owned();
        self.own.push((name, OwnAlgorithm(algorithm)));
        self
    }

    /// A plane within the controllers' calls, for virtual time that begins at `start`: it has no
    /// thread, and the same calls give the same controls.
    #[must_use]
    pub fn lockstep(mut self, start: Instant) -> Self {
        self.place = Place::Lockstep(start);
        self
    }

    /// Lets connections begin with what earlier ones observed on the path (Careful Resume, RFC 9959), if the
    /// plane is in this process; another is configured itself. Only connections whose addresses are known
    /// do: see [`Factory::between`].
    #[must_use]
    pub fn resume_carefully(mut self, config: CarefulResumeConfig) -> Self {
        self.resume = Some(config);
        self
    }

    /// What controls flows while there is no plane: Cubic, by default, or Reno.
    #[must_use]
    pub fn fallback_reno(mut self) -> Self {
        self.fallback = Fallback::Reno;
        self
    }

    /// How long a plane may be silent before flows go under the fallback: 400 ms by default.
    #[must_use]
    pub fn silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// The most flows at a time in each shard; more connections run under the fallback alone.
    #[must_use]
    pub fn max_flows(mut self, flows: u32) -> Self {
        self.max_flows = flows;
        self
    }

    /// Lets algorithms run that need marks packet by packet (DCTCP), though the stack tells at most
    /// one event an ACK: they under-react by as much.
    #[must_use]
    pub fn accept_degraded_ecn(mut self) -> Self {
        self.degraded_ecn = true;
        self
    }

    /// Controllers for noq that run this algorithm.
    ///
    /// # Errors
    /// The algorithm cannot run there, or a thread could not be started. That there is no plane yet
    /// is no error.
    #[cfg(feature = "noq")]
    pub fn noq(&self, algorithm: &str) -> Result<Arc<Factory>, QuicError> {
        self.factory(Stack::Noq, algorithm).map(Arc::new)
    }

    /// Controllers for quinn that run this algorithm.
    ///
    /// # Errors
    /// As [`Options::noq`]; quinn enforces no rate, so algorithms that need one are refused.
    #[cfg(feature = "quinn")]
    pub fn quinn(&self, algorithm: &str) -> Result<Arc<crate::QuinnFactory>, QuicError> {
        let factory = self.factory(Stack::Quinn, algorithm)?;
        Ok(Arc::new(crate::QuinnFactory(factory)))
    }

    /// Controllers for s2n-quic that run this algorithm.
    ///
    /// # Errors
    /// As [`Options::noq`].
    #[cfg(feature = "s2n")]
    pub fn s2n(&self, algorithm: &str) -> Result<crate::S2nEndpoint, QuicError> {
        self.factory(Stack::S2n, algorithm)
            .map(crate::S2nEndpoint::new)
    }

    fn config(&self, stack: Stack) -> Config {
        Config {
            name: self.name.clone(),
            signals: stack.signals(),
            abilities: stack.abilities(self.degraded_ecn),
            fallback: self.fallback,
            silence_us: u64::try_from(self.silence.as_micros()).unwrap_or(u64::MAX),
            max_flows: self.max_flows,
            ..Config::default()
        }
    }

    fn factory(&self, stack: Stack, algorithm: &str) -> Result<Factory, QuicError> {
        if algorithm.is_empty() || algorithm.len() > own::MAX_NAME || algorithm.contains('\0') {
            return Err(QuicError::Name);
        }
        let config = self.config(stack);
        let own = self.own.iter().find(|(name, _)| name == algorithm);
        let own = own.map(|(_, own)| &own.0);
        let choice = stack.check(algorithm, own, &config)?;
        let hosted = || {
            let choice = choice.ok_or_else(|| QuicError::Unknown(algorithm.to_owned()))?;
            let mut plane = Plane::new();
            if let Some(resume) = self.resume {
                let resumes = plane.resume_carefully(resume);
                resumes.map_err(|error| QuicError::Plane(error.to_string()))?;
            }
            let added = plane.add(|programs| choice.build(programs));
            added.map_err(|error| QuicError::Plane(error.to_string()))?;
            Ok::<_, QuicError>(plane)
        };
        let is_linked = matches!(self.place, Place::Default | Place::Socket(_));
        if is_linked && algorithm.contains(':') {
            return Err(QuicError::Parameters(algorithm.to_owned()));
        }
        let plane = match &self.place {
            Place::Default => PlaneChoice::Link(default_sockets()),
            Place::Socket(path) => PlaneChoice::Link(vec![path.clone()]),
            Place::Embedded => PlaneChoice::Embedded(hosted()?),
            Place::Lockstep(start) => PlaneChoice::Lockstep(hosted()?, *start),
        };
        let name = algorithm.split(':').next().unwrap_or_default();
        Ok(Factory {
            stack,
            flow: FlowConfig {
                shards: Arc::new(Shards::new(config, plane)?),
                algorithm: name.into(),
                addresses: None,
                fallback: self.fallback,
            },
        })
    }
}

/// Makes controllers for the connections of one stack. Flows of the controllers are flows of the
/// plane; all end, and the threads with them, when the factory and its controllers are dropped.
#[derive(Debug, Clone)]
pub struct Factory {
    stack: Stack,
    flow: FlowConfig,
}

/// What a factory's flows have come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FactoryStatus {
    /// There is a plane.
    pub is_connected: bool,
    /// Flows now: one for each validated path.
    pub flows: u32,
    /// Flows that a program controls now; the others are under the fallback.
    pub running: u32,
    /// How often a flow went under the fallback.
    pub fallbacks: u64,
    /// Reports sent to the plane.
    pub reports: u64,
}

impl Factory {
    /// The stack.
    #[must_use]
    pub const fn stack(&self) -> Stack {
        self.stack
    }

    /// The same plane and flows, for a connection between these addresses: stacks tell their
    /// controllers none, and a plane groups flows of one host by them ([aggregates]). For
    /// `accept_with` and `connect_with`.
    ///
    /// [aggregates]: https://github.com/fairwater/fairwater/blob/main/docs/aggregates.md
    #[must_use]
    pub fn between(&self, local: SocketAddr, remote: SocketAddr) -> Arc<Self> {
        Arc::new(Self {
            stack: self.stack,
            flow: FlowConfig {
                addresses: Some((local, remote)),
                ..self.flow.clone()
            },
        })
    }

    /// What the flows have come to. Takes time in the number of flows.
    #[must_use]
    pub fn status(&self) -> FactoryStatus {
        let shards = &self.flow.shards;
        let mut status = FactoryStatus {
            is_connected: shards.is_connected(),
            running: u32::try_from(shards.running()).unwrap_or(u32::MAX),
            ..FactoryStatus::default()
        };
        for shard in shards.statistics() {
            status.flows += shard.flows;
            status.fallbacks += shard.fallbacks;
            status.reports += shard.reports;
        }
        status
    }

    pub(crate) const fn flow_config(&self) -> &FlowConfig {
        &self.flow
    }
}
