//! The ports of guests as a direct datapath of a service.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwater_edge::policy::{Action, EdgePolicy, OnPlaneLoss, PortPattern};
use fairwater_edge::{Edge, EdgeStatistics, Mode, Treatment};
use fairwater_kernel::{Frame, FrameAlgorithms, KernelFlows, MAX_PROGRAMS, Turn};
use fairwater_plane::{Capabilities, Command, FlowId, HostedAlgorithm};
use fairwater_proto::link::in_process::InProcess;
use fairwater_service::{DirectDatapath, FlowMeasures, Port};

use crate::buffered::{BufferedEdge, BufferedStatistics};
use crate::connections::{DescribedConnection, Describer};
use crate::followed::{Followed, Selected};
use crate::kernel_side::KernelSide;
use crate::ports::{PortChange, Ports};
use crate::{EdgeError, EdgeOptions};

/// What the plane calls the datapath.
const NAME: &str = "edge";

/// Time between two searches for connections that have been silent for too long.
const EXPIRE_EVERY: Duration = Duration::from_secs(1);

/// What a box in the kernel has and can do: it enforces windows, its signals are inferred for the most part,
/// and without a plane it steps aside.
#[must_use]
pub fn capabilities() -> Capabilities {
    let config = fairwater_edge::Edge::datapath_config();
    Capabilities {
        signals: config.signals,
        abilities: config.abilities,
        fallback: config.fallback,
        max_programs: u32::try_from(MAX_PROGRAMS).unwrap_or(u32::MAX),
    }
}

/// A box at the ports of this host's guests.
///
/// Given to a [`Server`](fairwater_service::Server), whose turns must come more often than
/// `EdgeOptions::silent_after`, or guests are released until they do. Dropping it detaches the programs: guests
/// then keep to their own congestion control, and connections go on.
#[derive(Debug)]
pub struct EdgeTc {
    side: KernelSide,
    flows: KernelFlows,
    ports: Ports,
    on: Vec<PortPattern>,
    policy: Arc<EdgePolicy>,
    algorithms: Algorithms,
    followed: Followed,
    /// What buffers, since a policy has asked for it.
    buffered: Option<BufferedEdge>,
    silent_after: Duration,
    notices: Vec<PortChange>,
    /// When silent connections were forgotten last.
    expired: Instant,
}

/// The algorithms that the box runs, by their index in frames.
#[derive(Debug, Clone, Default)]
struct Algorithms {
    /// Index in the plane, and name.
    served: Vec<(usize, Arc<str>)>,
    /// Names of those that can control connections whose data is held.
    buffered: Vec<Arc<str>>,
}

impl Algorithms {
    /// Index in frames.
    fn index(&self, name: &str) -> Option<u16> {
        let mut served = self.served.iter();
        let at = match name {
            // The plane's first.
            "" => 0,
            name => served.position(|(_, known)| **known == *name)?,
        };
        u16::try_from(at).ok()
    }

    /// Whether the algorithm can control connections whose data is held.
    fn can_buffer(&self, name: &str) -> bool {
        self.buffered.iter().any(|known| **known == *name)
    }
}

/// The algorithms of flows that begin, and the flows that are followed from then on.
#[derive(Debug)]
struct Chosen<'a> {
    algorithms: &'a Algorithms,
    followed: &'a Followed,
}

impl FrameAlgorithms for Chosen<'_> {
    fn in_plane(&self, index: usize) -> Option<usize> {
        Some(self.algorithms.served.get(index)?.0)
    }

    /// The rule has chosen, when the connection began.
    fn choose(&self, frame: Frame<'_>, _: &Port<'_>) -> Option<usize> {
        self.followed.begin(frame.flow());
        self.in_plane(frame.algorithm())
    }

    fn to_hand_over(&self, _: Frame<'_>, algorithm: usize) -> Result<usize, &'static str> {
        let mut served = self.algorithms.served.iter();
        let found = served.position(|(index, _)| *index == algorithm);
        found.ok_or("the edge does not run it")
    }
}

impl EdgeTc {
    /// Loads the programs of those of the plane's algorithms that the box can run, and attaches it to the ports
    /// whose names match one of `on`.
    ///
    /// # Errors
    /// What the machine lacks, an algorithm of the policy that the plane has not or the box cannot run, or a
    /// call that failed. Nothing is attached then.
    pub fn attach(
        hosted: &[HostedAlgorithm],
        on: Vec<PortPattern>,
        policy: Arc<EdgePolicy>,
        options: EdgeOptions,
    ) -> Result<Self, EdgeError> {
        let capabilities = capabilities();
        let served: Vec<_> = hosted
            .iter()
            .enumerate()
            .filter(|(_, hosted)| hosted.requirements().unmet(&capabilities).is_empty())
            .collect();
        let names = served
            .iter()
            .map(|(index, hosted)| (*index, hosted.name().into()));
        let with_buffers = Edge::buffering_datapath_config().capabilities();
        let can_buffer = |hosted: &&HostedAlgorithm| {
            let requirements = hosted.requirements();
            requirements.unmet(&with_buffers).is_empty()
        };
        let buffered = hosted.iter().filter(can_buffer);
        let algorithms = Algorithms {
            served: names.collect(),
            buffered: buffered.map(|hosted| hosted.name().into()).collect(),
        };
        let side = KernelSide::load(&served, &policy, options)?;
        let mut edge = Self {
            flows: KernelFlows::new(&side.programs.events, options.silent_after)?,
            side,
            ports: Ports::new().map_err(EdgeError::io("listen for network interfaces"))?,
            on,
            policy: Arc::clone(&policy),
            algorithms,
            followed: Followed::default(),
            buffered: None,
            silent_after: options.silent_after,
            notices: Vec::new(),
            expired: Instant::now(),
        };
        edge.apply(&policy)?;
        edge.follow_ports()?;
        Ok(edge)
    }

    /// Takes another policy: connections that open from now on are under it, others stay as they are. `grace`,
    /// `idle` and `closing` change for all.
    ///
    /// # Errors
    /// An algorithm that the plane has not or the box cannot run, what the kernel's data plane has not, or
    /// another size of a table; the former policy stays in force then.
    pub fn set_policy(&mut self, policy: Arc<EdgePolicy>) -> Result<(), EdgeError> {
        let sizes = |policy: &EdgePolicy| {
            let table = &policy.defaults().table;
            (table.max_flows, table.max_half_open)
        };
        if sizes(&policy) != sizes(&self.policy) {
            return Err(EdgeError::FixedSize);
        }
        if let Err(error) = self.apply(&policy) {
            let former = Arc::clone(&self.policy);
            self.apply(&former)?;
            return Err(error);
        }
        self.policy = policy;
        Ok(())
    }

    fn apply(&mut self, policy: &Arc<EdgePolicy>) -> Result<(), EdgeError> {
        let lacking = not_in_kernel(policy);
        if !lacking.is_empty() {
            return Err(EdgeError::NotInKernel(lacking));
        }
        // Those of selectors too: a flow may come under them later.
        for name in policy.algorithms() {
            let is_known = match mode_of(policy, &name) {
                Mode::Window => self.algorithms.index(&name).is_some(),
                Mode::Buffer => self.algorithms.can_buffer(&name),
            };
            if !is_known {
                return Err(EdgeError::NotServed(name));
            }
        }
        self.apply_buffers(policy)?;
        self.side.programs.set_grace(policy.defaults().grace);
        for (index, port) in self.ports.names() {
            let sets = policy.port_sets_of(port);
            self.side.programs.set_port_sets(index, sets)?;
        }
        self.side
            .set_policy(policy, |name| self.algorithms.index(name))
    }

    /// Starts what buffers, if the policy asks for it for the first time, and tells it of the policy.
    fn apply_buffers(&mut self, policy: &Arc<EdgePolicy>) -> Result<(), EdgeError> {
        if self.buffered.is_none() {
            if !rules_with(policy, Mode::Buffer).any(|_| true) {
                return Ok(());
            }
            let buffered = BufferedEdge::start(&self.side.programs, policy, self.silent_after)?;
            self.buffered = Some(buffered);
        }
        if let Some(buffered) = &self.buffered {
            for (index, port) in self.ports.names() {
                buffered.set_port(index, Some(policy.port_sets_of(port)));
            }
            buffered.set_policy(policy);
        }
        Ok(())
    }

    /// The plane's end of the link to the datapath that buffers, once after a policy has asked for buffers for the first
    /// time: to be given to [`Server::add_link`](fairwater_service::Server::add_link).
    pub fn take_link(&mut self) -> Option<InProcess> {
        self.buffered.as_mut()?.take_link()
    }

    /// What buffering has done; `None` while no policy has asked for it.
    ///
    /// # Errors
    /// The kernel's counters cannot be read.
    pub fn buffered_statistics(&self) -> Result<Option<BufferedStatistics>, EdgeError> {
        let Some(buffered) = &self.buffered else {
            return Ok(None);
        };
        // Before what the thread has read, so that nothing seems lost.
        let (redirected, without_room) = self.side.programs.redirection_counts()?;
        Ok(Some(BufferedStatistics {
            redirected,
            without_room,
            ..buffered.statistics()
        }))
    }

    /// What an operator should know of buffering since the last call, as sentences.
    pub fn drain_buffer_notices(&mut self) -> Vec<String> {
        let buffered = self.buffered.as_mut();
        buffered
            .map(BufferedEdge::drain_notices)
            .unwrap_or_default()
    }

    /// The policy in force.
    #[must_use]
    pub const fn policy(&self) -> &Arc<EdgePolicy> {
        &self.policy
    }

    /// Names of the ports at which the box is, by the number of the interface.
    pub fn ports(&self) -> impl Iterator<Item = (u32, &str)> {
        self.ports.names()
    }

    /// What became of ports since the last call.
    pub fn drain_port_changes(&mut self) -> Vec<PortChange> {
        std::mem::take(&mut self.notices)
    }

    /// Every open connection. Takes time in their number.
    ///
    /// # Errors
    /// The kernel's tables cannot be read.
    pub fn connections(&self) -> Result<Vec<DescribedConnection>, EdgeError> {
        let names: HashMap<u32, &str> = self.ports.names().collect();
        let describer = Describer {
            side: &self.side,
            policy: &self.policy,
            port: &|index| names.get(&index).copied().unwrap_or_default(),
            algorithm: &|index| Some(Arc::clone(&self.algorithms.served.get(index)?.1)),
        };
        let connections = self.side.programs.connections();
        let mut described: Vec<_> = connections
            .map(|(key, connection)| describer.describe(key, &connection))
            .collect::<Result<_, _>>()?;
        if let Some(buffered) = &self.buffered {
            let buffered = buffered.connections();
            // The kernel may still have a former connection between the same ends.
            described.retain(|it| buffered.iter().all(|buffered| buffered.key != it.key));
            described.extend(
                buffered
                    .into_iter()
                    .map(|it| describer.describe_buffered(it)),
            );
        }
        Ok(described)
    }

    /// What the box has seen.
    ///
    /// # Errors
    /// The kernel's counters cannot be read.
    pub fn statistics(&self) -> Result<EdgeStatistics, EdgeError> {
        Ok(self.side.programs.statistics()?)
    }

    /// Times that a flow was released because the plane was silent.
    #[must_use]
    pub fn fallbacks(&self) -> u64 {
        self.side.memory().page.fallbacks().into()
    }

    /// Connections that found no slot, and are measured only: `EdgeOptions::max_flows` is too low.
    #[must_use]
    pub fn without_slot(&self) -> u64 {
        self.side.memory().page.without_slot().into()
    }

    /// Reports that the ring had no room for.
    #[must_use]
    pub fn lost_reports(&self) -> u64 {
        self.flows.lost_reports()
    }
}

impl EdgeTc {
    /// Divides the windows of groups, and hands flows over as their selectors say.
    fn follow_flows(&mut self) -> Result<(), EdgeError> {
        let names: HashMap<u32, &str> = self.ports.names().collect();
        let policy = &self.policy;
        let sets = |index| policy.port_sets_of(names.get(&index).copied().unwrap_or_default());
        let selected = self.followed.look(&self.side, policy, sets)?;
        for Selected { flow, algorithm } in selected {
            let index = self.algorithms.index(&algorithm);
            let served = index.and_then(|index| self.algorithms.served.get(usize::from(index)));
            let to = served.and_then(|(in_plane, _)| u32::try_from(*in_plane).ok());
            let command = Command {
                hand_over: to,
                ..Command::default()
            };
            self.flows.command(self.side.memory(), flow, &command);
        }
        Ok(())
    }

    /// Attaches the box to ports that have come, and forgets those that are gone.
    fn follow_ports(&mut self) -> Result<(), EdgeError> {
        let (on, policy, side) = (&self.on, &self.policy, &self.side);
        let buffered = self.buffered.as_ref();
        let wanted = |name: &str| on.iter().any(|pattern| pattern.matches(name));
        let prepare = |index, name: &str| {
            let sets = policy.port_sets_of(name);
            if let Some(buffered) = buffered {
                buffered.set_port(index, Some(sets));
            }
            side.programs
                .set_port_sets(index, sets)
                .map_err(io::Error::other)
        };
        let changes = self
            .ports
            .update(side.entries(), wanted, prepare)
            .map_err(EdgeError::io("list the network interfaces"))?;
        for change in &changes {
            if let PortChange::Detached { interface, .. } = change
                // A port that was only renamed is there under the same number.
                && !self.ports.names().any(|(index, _)| index == *interface)
            {
                // What cannot be forgotten now expires.
                let limits = &self.policy.defaults().table;
                let _ = self.side.programs.forget_interface(*interface, limits);
                let _ = self.side.forget_port(*interface);
                if let Some(buffered) = &self.buffered {
                    buffered.set_port(*interface, None);
                }
            }
        }
        self.notices.extend(changes);
        Ok(())
    }
}

impl Drop for EdgeTc {
    /// What is held leaves while the programs are still at the ports, which let it pass.
    fn drop(&mut self) {
        self.buffered = None;
    }
}

/// What a policy asks for that the data plane in the kernel does not have, each as an object of "has no".
#[must_use]
pub fn not_in_kernel(policy: &EdgePolicy) -> Vec<&'static str> {
    let defaults = policy.defaults();
    let rules = policy.rules();
    let mut held = rules_with(policy, Mode::Buffer);
    let wanted = [
        (
            defaults.on_plane_loss != OnPlaneLoss::Release,
            "fallback of its own: guests are released when the plane is gone; set `on_plane_loss` to \
             \"release\"",
        ),
        (
            defaults.propose || rules.iter().any(|rule| rule.when_starved.is_some()),
            "search for flows that starve; take `propose` and `when_starved` out",
        ),
        (
            held.any(|treatment| treatment.selector.is_some() || treatment.share.is_some()),
            "selectors and weights for connections with `mode = \"buffer\"`",
        ),
    ];
    let wanted = wanted.into_iter().filter(|(is_wanted, _)| *is_wanted);
    wanted.map(|(_, what)| what).collect()
}

/// What the rules of that mode do.
fn rules_with(policy: &EdgePolicy, mode: Mode) -> impl Iterator<Item = &Treatment> + Clone {
    let treatments = policy.rules().iter().filter_map(|rule| match &rule.action {
        Action::Control(treatment) => Some(treatment),
        Action::Pass => None,
    });
    treatments.filter(move |treatment| treatment.mode == mode)
}

/// The mode in which the kernel has to be able to run an algorithm of the policy: that of windows, if a rule asks for
/// it.
fn mode_of(policy: &EdgePolicy, algorithm: &str) -> Mode {
    let mut buffered = rules_with(policy, Mode::Buffer);
    let mut windows = rules_with(policy, Mode::Window);
    let is_of_window = windows.any(|treatment| match &treatment.selector {
        None => *treatment.algorithm == *algorithm,
        Some(selector) => selector
            .algorithms()
            .iter()
            .any(|name| **name == *algorithm),
    });
    if !is_of_window && buffered.any(|treatment| *treatment.algorithm == *algorithm) {
        Mode::Buffer
    } else {
        Mode::Window
    }
}

impl DirectDatapath for EdgeTc {
    fn name(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        capabilities()
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        Some(self.flows.readable())
    }

    fn heartbeat(&self) -> Duration {
        self.flows.heartbeat()
    }

    fn next_turn(&self) -> Option<Duration> {
        self.flows.next_turn(self.side.memory())
    }

    fn measure(&self, flow: FlowId) -> Option<FlowMeasures> {
        self.side.memory().measure(flow)
    }

    fn turn(&mut self, port: &mut Port<'_>) {
        if self.ports.have_changed() {
            // Tried again at the next change.
            let _ = self.follow_ports();
        }
        let chosen = Chosen {
            algorithms: &self.algorithms,
            followed: &self.followed,
        };
        let turn = Turn {
            memory: self.side.memory(),
            algorithms: &chosen,
            flows: &mut self.flows,
            port,
        };
        turn.run();
        // A table that cannot be read now can be at the next turn.
        let _ = self.follow_flows();
        if self.expired.elapsed() >= EXPIRE_EVERY {
            self.expired = Instant::now();
            // Tried again the next time.
            let _ = self.side.programs.expire(&self.policy.defaults().table);
        }
    }

    fn command(&mut self, flow: FlowId, command: &Command) {
        self.flows.command(self.side.memory(), flow, command);
    }
}
