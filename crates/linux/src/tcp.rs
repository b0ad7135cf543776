//! This machine's TCP as a direct datapath of a service.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use fairwater_kernel::{Frame, FrameAlgorithms, KernelFlows, MAX_PROGRAMS, Turn};
use fairwater_plane::{
    Abilities, Capabilities, Command, Ecn, Fallback, FlowId, HostedAlgorithm, Plane,
    SignalQualities,
};
use fairwater_service::{
    Config, DatapathId, DirectDatapath, Endpoints, FlowMeasures, PolicyKey, Port, Server,
};

use crate::cgroups::Cgroups;
use crate::kernel_side::KernelSide;
use crate::kernel_types::KernelTypes;
use crate::migration::{MigrationCounts, Mode, migrate};
use crate::moved::{MovedConnections, inherit};
use crate::observe::{self, FoundPlane};
use crate::{LinuxError, Options, SIGNALS, probe};

/// What the plane calls the datapath.
pub const NAME: &str = "Linux TCP";

/// What Linux TCP has and can do where eBPF may call the kernel's Cubic. Elsewhere its fallback is Reno
/// ([`Probe::fallback`](crate::probe::Probe::fallback)).
pub const CAPABILITIES: Capabilities = Capabilities {
    signals: SignalQualities::exact(SIGNALS),
    abilities: Abilities::ALL,
    fallback: Fallback::Cubic,
    // `struct plane` of `bpf/flow.h` has room for no more.
    max_programs: MAX_PROGRAMS as u32,
};

/// This machine's TCP, on which algorithms are registered as congestion controls.
///
/// Given to a [`Server`](fairwater_service::Server), whose turns must come more often than
/// `Options::silent_after`, or flows go under the fallback until they do. Dropping it moves its
/// connections to where they came from, or to the machine's default, and unregisters the names.
#[derive(Debug)]
pub struct LinuxTcp {
    side: KernelSide,
    capabilities: Capabilities,
    flows: KernelFlows,
    adopted: MigrationCounts,
    cgroups: Cgroups,
    /// Dropped while the kernel side is still there.
    moved: MovedConnections,
}

/// A server without links, whose datapath is this machine's TCP under the plane's algorithms.
///
/// # Errors
/// What the machine lacks, a name that is taken, or a call that failed. Nothing is left registered
/// then.
pub fn server(plane: Plane, options: Options) -> Result<(Server, DatapathId), LinuxError> {
    let nowhere = Endpoints::default();
    let what = "set up the server";
    let mut server =
        Server::bind(plane, Config::default(), &nowhere).map_err(LinuxError::io(what))?;
    let tcp = LinuxTcp::attach(server.service().plane().algorithms(), options)?;
    let (id, _) = server.add(tcp).map_err(LinuxError::io(what))?;
    Ok((server, id))
}

impl LinuxTcp {
    /// Loads the programs of those of the plane's algorithms that Linux TCP can run, and registers
    /// each as `fw_` and its name; takes over the sockets of earlier planes of these names that are
    /// gone.
    ///
    /// # Errors
    /// What the machine lacks, a name that is taken, or a call that failed. Nothing is left
    /// registered then.
    pub fn attach(algorithms: &[HostedAlgorithm], options: Options) -> Result<Self, LinuxError> {
        let probe = probe::probe();
        probe.require()?;
        let capabilities = Capabilities {
            fallback: probe.fallback(),
            ..CAPABILITIES
        };
        let types = KernelTypes::read()?;
        let served: Vec<_> = algorithms
            .iter()
            .enumerate()
            .filter(|(_, hosted)| hosted.requirements().unmet(&capabilities).is_empty())
            .collect();
        let side = KernelSide::load(&served, &options, &types)?;
        let mut attached = Self {
            flows: KernelFlows::new(side.events(), options.silent_after)?,
            side,
            capabilities,
            adopted: MigrationCounts::default(),
            cgroups: Cgroups::default(),
            moved: MovedConnections::default(),
        };
        if !options.unique_names {
            attached.adopt()?;
        }
        Ok(attached)
    }

    /// The kernel's names of the registered algorithms, in the plane's order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.side.registered().iter().map(|r| r.name.as_str())
    }

    /// Flows that the plane has now.
    #[must_use]
    pub fn live(&self) -> usize {
        self.flows.live()
    }

    /// Flows that found no slot and stay under the fallback: `Options::max_flows` is too low.
    #[must_use]
    pub fn without_slot(&self) -> u64 {
        self.side.memory().page.without_slot().into()
    }

    /// Reports that the ring had no room for: turns are too rare, or `Options::ring_bytes` is too
    /// low.
    #[must_use]
    pub fn lost_reports(&self) -> u64 {
        self.flows.lost_reports()
    }

    /// Times that a flow went under the fallback because the plane was silent.
    #[must_use]
    pub fn fallbacks(&self) -> u64 {
        self.side.memory().page.fallbacks().into()
    }

    /// Sockets that were taken over from earlier planes of the same names when this one started.
    #[must_use]
    pub fn adopted(&self) -> MigrationCounts {
        self.adopted
    }

    /// Moves every existing TCP connection of this machine onto the first algorithm; they are
    /// given back when this datapath is dropped.
    ///
    /// # Errors
    /// The kernel has no iterator over TCP sockets, or the walk failed.
    pub fn move_existing(&mut self) -> Result<MigrationCounts, LinuxError> {
        let first = self.names().next().map(str::to_owned);
        match first {
            Some(name) => self.moved.move_onto(&name),
            None => Ok(MigrationCounts::default()),
        }
    }

    /// Takes over the sockets of planes that had the same names and are gone. A living plane
    /// would have kept its name registered.
    fn adopt(&mut self) -> Result<(), LinuxError> {
        let planes = observe::found();
        let mut adopted = MigrationCounts::default();
        for name in self.names() {
            let Some(own) = observe::registered(&planes, name) else {
                continue;
            };
            let is_former = |plane: &&FoundPlane| plane.has(name) && !plane.is(own);
            let former: Vec<_> = planes.iter().filter(is_former).collect();
            for plane in &former {
                inherit(plane, name, own)?;
            }
            if !former.is_empty() {
                adopted += migrate(Mode::Adopt, name, own.origins())?;
            }
        }
        self.adopted = adopted;
        Ok(())
    }
}

/// Which algorithm gets which flow.
#[derive(Debug)]
struct Choice<'a> {
    side: &'a KernelSide,
    cgroups: &'a Cgroups,
}

impl FrameAlgorithms for Choice<'_> {
    fn in_plane(&self, index: usize) -> Option<usize> {
        Some(self.side.registered().get(index)?.algorithm)
    }

    fn choose(&self, frame: Frame<'_>, port: &Port<'_>) -> Option<usize> {
        let (side, cgroups) = (self.side, self.cgroups);
        let asked = side.registered().get(frame.algorithm())?;
        let policy = port.policy();
        if policy.rules.is_empty() {
            return Some(asked.algorithm);
        }
        let cgroup = policy.needs_cgroup().then(|| cgroups.path(frame.cgroup()));
        let (local, remote) = frame.addresses();
        let key = PolicyKey {
            datapath: NAME,
            local,
            remote,
            tag: frame.mark(),
            cgroup: cgroup.as_ref().and_then(Option::as_deref),
        };
        let assigned = port.assign(asked.algorithm, &key);
        Some(match side.registered_as(assigned) {
            // ECN is negotiated with the SYN.
            Some((_, to)) if to.ecn == Ecn::Required && asked.ecn != Ecn::Required => {
                asked.algorithm
            }
            Some((index, to)) => {
                frame.set_algorithm(index);
                to.algorithm
            }
            None => asked.algorithm,
        })
    }

    fn to_hand_over(&self, frame: Frame<'_>, algorithm: usize) -> Result<usize, &'static str> {
        let side = self.side;
        let (index, to) = side
            .registered_as(algorithm)
            .ok_or("Linux TCP does not run it")?;
        let from = side.registered().get(frame.algorithm());
        // ECN is negotiated with the SYN.
        if to.ecn == Ecn::Required && from.is_some_and(|from| from.ecn != Ecn::Required) {
            return Err("the flow did not negotiate ECN for it");
        }
        Ok(index)
    }
}

impl DirectDatapath for LinuxTcp {
    fn name(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
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
        let frame = self.side.memory().frame_of(flow)?;
        let cgroup = self.cgroups.path(frame.cgroup());
        let measured = self.side.memory().measure(flow)?;
        Some(FlowMeasures { cgroup, ..measured })
    }

    fn turn(&mut self, port: &mut Port<'_>) {
        let choice = Choice {
            side: &self.side,
            cgroups: &self.cgroups,
        };
        let turn = Turn {
            memory: self.side.memory(),
            algorithms: &choice,
            flows: &mut self.flows,
            port,
        };
        turn.run();
    }

    fn command(&mut self, flow: FlowId, command: &Command) {
        self.flows.command(self.side.memory(), flow, command);
    }
}

impl Drop for LinuxTcp {
    fn drop(&mut self) {
        let memory = self.side.memory();
        let used = memory.page.slots_used();
        let mut frames = (0..used).filter_map(|slot| memory.frames.get(slot));
        if frames.any(|frame| frame.state().is_some()) {
            for name in self.names() {
                self.moved.give_back(name);
            }
        }
        self.moved.give_back_moved();
    }
}
