//! This machine's TCP as a direct datapath of a service.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Release;
use std::time::Duration;

use fairwater_exec::frame::Fault;
use fairwater_plane::{
    Abilities, Capabilities, Command, CommandSink, Ecn, Event, Fallback, FlowId, FlowInfo,
    HostedAlgorithm, Plane, RawReport, SignalQualities,
};
use fairwater_service::{
    Config, DatapathId, DirectDatapath, Endpoints, FlowCounts, FlowMeasures, PolicyKey, Port,
    Server,
};

use crate::cgroups::Cgroups;
use crate::clock::now_us;
use crate::flow::{FlowState, Frame};
use crate::inbox::{Batch, Inbox, Kind, Message};
use crate::kernel_side::{KernelSide, Registered};
use crate::kernel_types::KernelTypes;
use crate::migration::{MigrationCounts, Mode, migrate};
use crate::moved::{MovedConnections, inherit};
use crate::observe::{self, FoundPlane};
use crate::staging;
use crate::{LinuxError, Options, SIGNALS, probe, wakeup};

/// Longest time between two turns.
const LONGEST_TURN: Duration = Duration::from_millis(50);

/// `SMALL_WINDOW` of `bpf/fallback.h`, segments.
const SMALL_WINDOW: u64 = 100;

/// What Linux TCP has and can do where eBPF may call the kernel's Cubic. Elsewhere its fallback is Reno
/// ([`Probe::fallback`](crate::probe::Probe::fallback)).
pub const CAPABILITIES: Capabilities = Capabilities {
    signals: SignalQualities::exact(SIGNALS),
    abilities: Abilities::ALL,
    fallback: Fallback::Cubic,
    // `struct plane` of `bpf/flow.h` has room for no more.
    max_programs: crate::layout::MAX_PROGRAMS as u32,
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
    inbox: Inbox,
    batch: Batch,
    options: Options,
    /// The flow that the plane has in each slot.
    flows: Vec<Option<SlotFlow>>,
    live: usize,
    /// Flows that are handed over at the next turn, and their next algorithm.
    hand_overs: Vec<(FlowId, usize)>,
    lost_reports: u64,
    lost_events: u32,
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

/// The plane's flow in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SlotFlow {
    generation: u32,
    fallbacks: u32,
    /// Number of the last report.
    reports: u64,
    /// Maximum segment size that the plane knows, bytes.
    mss: u32,
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
            inbox: Inbox::new(side.events())?,
            side,
            capabilities,
            batch: Batch::default(),
            options,
            flows: Vec::new(),
            live: 0,
            hand_overs: Vec::new(),
            lost_reports: 0,
            lost_events: 0,
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
        self.live
    }

    /// Flows that found no slot and stay under the fallback: `Options::max_flows` is too low.
    #[must_use]
    pub fn without_slot(&self) -> u64 {
        self.side.page().without_slot().into()
    }

    /// Reports that the ring had no room for: turns are too rare, or `Options::ring_bytes` is too
    /// low.
    #[must_use]
    pub fn lost_reports(&self) -> u64 {
        self.lost_reports
    }

    /// Times that a flow went under the fallback because the plane was silent.
    #[must_use]
    pub fn fallbacks(&self) -> u64 {
        self.side.page().fallbacks().into()
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

    fn handle(&mut self, message: &Message<'_>, port: &mut Port<'_>) {
        let flow = FlowId {
            slot: message.slot,
            generation: message.generation,
        };
        match message.kind {
            Kind::Created => self.open(message.slot, port),
            Kind::Closed => self.close(flow, port),
            Kind::Report => {
                self.count_report(message);
                let Some(program) = self.side.programs().at(message.program) else {
                    return;
                };
                let report = RawReport {
                    program,
                    time_us: message.time_us,
                    cwnd: message.cwnd,
                    rate: message.rate,
                    fields: message.fields,
                };
                self.follow_mss(flow, port);
                self.deliver(Event::Reported { flow, report }, port);
            }
            Kind::Fault => {
                let reason = Fault::reason(message.count);
                self.deliver(Event::Faulted { flow, reason }, port);
                self.publish_aggregate(flow, port);
            }
        }
    }

    /// Hands an event over; commands go into the frames at once.
    fn deliver(&mut self, event: Event<'_>, port: &mut Port<'_>) {
        let mut stager = Stager {
            side: &self.side,
            hand_overs: &mut self.hand_overs,
        };
        port.event(event, &mut stager);
    }

    /// Counts reports that the ring had no room for: reports of a flow are numbered.
    fn count_report(&mut self, message: &Message<'_>) {
        let flow = entry(&mut self.flows, message.slot).as_mut();
        if let Some(flow) = flow.filter(|flow| flow.generation == message.generation) {
            self.lost_reports += message.count.saturating_sub(flow.reports + 1);
            flow.reports = message.count;
        }
    }

    /// Tells the plane when the kernel has found that the path's MTU is another (RFC 4821). A flow that
    /// reports nothing has nothing that counts in segments there.
    fn follow_mss(&mut self, flow: FlowId, port: &mut Port<'_>) {
        let Some(frame) = self.side.frame(flow.slot) else {
            return;
        };
        let mss = frame.mss();
        // What the slot's next flow has is not this one's.
        let is_its_own = frame.generation() == flow.generation;
        let known = entry(&mut self.flows, flow.slot).as_mut();
        let known = known.filter(|known| known.generation == flow.generation && is_its_own);
        if let Some(known) = known
            && mss != 0
            && mss != std::mem::replace(&mut known.mss, mss)
        {
            self.deliver(Event::MssChanged { flow, mss }, port);
        }
    }

    /// Opens the flow in a slot in the plane, unless the plane has it.
    fn open(&mut self, slot: u32, port: &mut Port<'_>) {
        let Some(frame) = self.side.frame(slot) else {
            return;
        };
        let opened = SlotFlow {
            generation: frame.generation(),
            fallbacks: frame.fallbacks(),
            reports: 0,
            mss: 0,
        };
        if frame.state().is_none() {
            return; // closed already: its closing event follows
        }
        let info = frame.info(now_us());
        let opened = SlotFlow {
            mss: info.mss,
            ..opened
        };
        let Some(registered) = self.side.registered().get(frame.algorithm()) else {
            return;
        };
        let algorithm = self.follow_policy(frame, registered, port);
        match entry(&mut self.flows, slot).replace(opened) {
            Some(former) if former.generation == opened.generation => return,
            Some(_) => {}
            None => self.live += 1,
        }
        let flow = FlowId {
            slot,
            generation: opened.generation,
        };
        let event = Event::Created {
            flow,
            algorithm,
            info: &info,
        };
        self.deliver(event, port);
        self.publish_aggregate(flow, port);
    }

    /// Index in the plane of the algorithm that a new flow gets.
    fn follow_policy(&self, frame: Frame<'_>, asked: &Registered, port: &Port<'_>) -> usize {
        let policy = port.policy();
        if policy.rules.is_empty() {
            return asked.algorithm;
        }
        let cgroup = policy
            .needs_cgroup()
            .then(|| self.cgroups.path(frame.cgroup()));
        let (local, remote) = frame.addresses();
        let key = PolicyKey {
            datapath: self.name(),
            local,
            remote,
            tag: frame.mark(),
            cgroup: cgroup.as_ref().and_then(Option::as_deref),
        };
        let assigned = port.assign(asked.algorithm, &key);
        match self.side.registered_as(assigned) {
            // ECN is negotiated with the SYN.
            Some((_, to)) if to.ecn == Ecn::Required && asked.ecn != Ecn::Required => {
                asked.algorithm
            }
            Some((index, to)) => {
                frame.set_algorithm(index);
                to.algorithm
            }
            None => asked.algorithm,
        }
    }

    fn close(&mut self, flow: FlowId, port: &mut Port<'_>) {
        let entry = entry(&mut self.flows, flow.slot);
        if entry.is_some_and(|open| open.generation == flow.generation) {
            *entry = None;
            self.live -= 1;
            self.deliver(Event::Closed { flow }, port);
        }
    }

    /// The flow goes on under an algorithm, from its present state.
    fn resume(&mut self, flow: FlowId, algorithm: usize, info: &FlowInfo, port: &mut Port<'_>) {
        let event = Event::Resumed {
            flow,
            algorithm,
            info,
        };
        self.deliver(event, port);
        self.publish_aggregate(flow, port);
    }

    /// Hands flows over whose algorithm is to change.
    fn hand_over(&mut self, port: &mut Port<'_>) {
        for (flow, algorithm) in std::mem::take(&mut self.hand_overs) {
            let Some(frame) = self.frame_of(flow) else {
                continue;
            };
            let Some((index, to)) = self.side.registered_as(algorithm) else {
                port.refuse_hand_over(flow, algorithm, "Linux TCP does not run it");
                continue;
            };
            let from = self.side.registered().get(frame.algorithm());
            // ECN is negotiated with the SYN.
            if to.ecn == Ecn::Required && from.is_some_and(|from| from.ecn != Ecn::Required) {
                port.refuse_hand_over(flow, algorithm, "the flow did not negotiate ECN for it");
                continue;
            }
            frame.set_algorithm(index);
            let info = frame.info(now_us());
            let info = FlowInfo {
                ssthresh: next_ssthresh(&info),
                ..info
            };
            self.resume(flow, algorithm, &info, port);
        }
    }

    /// The frame of a flow that is there.
    fn frame_of(&self, flow: FlowId) -> Option<Frame<'_>> {
        let frame = self.side.frame(flow.slot)?;
        (frame.generation() == flow.generation && frame.state().is_some()).then_some(frame)
    }

    /// Publishes the flow's aggregate to observers.
    fn publish_aggregate(&self, flow: FlowId, port: &Port<'_>) {
        let Some(frame) = self.side.frame(flow.slot) else {
            return;
        };
        if frame.generation() != flow.generation {
            return;
        }
        let aggregate = port.flow(flow).and_then(|flow| flow.aggregate);
        let published = aggregate.map(|aggregate| (aggregate.index, aggregate.key.to_string()));
        frame.set_aggregate(
            published
                .as_ref()
                .map(|(index, key)| (*index, key.as_str())),
        );
    }

    /// Renews the heartbeat; after a silence or lost events, checks every flow.
    fn renew_heartbeat(&mut self, port: &mut Port<'_>) {
        let limit = u64::try_from(self.options.silent_after.as_micros()).unwrap_or(u64::MAX);
        let now = now_us();
        let page = self.side.page();
        let silence = now.saturating_sub(page.heartbeat_us().swap(now, Release));
        let lost = page.lost_events();
        // Half the limit: the time of an ACK may be ahead of `now` by a turn.
        if silence > limit / 2 || lost != self.lost_events {
            self.lost_events = lost;
            self.resync(port);
        }
    }

    /// Opens and closes the plane's flows so that they are those of the kernel side.
    fn resync(&mut self, port: &mut Port<'_>) {
        for slot in 0..self.side.page().slots_used() {
            let Some(frame) = self.side.frame(slot) else {
                break;
            };
            let (state, generation, fallbacks) =
                (frame.state(), frame.generation(), frame.fallbacks());
            let flow = FlowId { slot, generation };
            let open = *entry(&mut self.flows, slot);
            match (open, state) {
                (Some(open), Some(_)) if open.generation == generation => {
                    if open.fallbacks != fallbacks {
                        let info = frame.info(now_us());
                        let registered = self.side.registered().get(frame.algorithm());
                        let algorithm = registered.map(|registered| registered.algorithm);
                        let mss = info.mss;
                        *entry(&mut self.flows, slot) = Some(SlotFlow {
                            fallbacks,
                            mss,
                            ..open
                        });
                        if let Some(algorithm) = algorithm {
                            self.resume(flow, algorithm, &info, port);
                        }
                    }
                }
                (Some(open), _) => {
                    let former = FlowId {
                        slot,
                        generation: open.generation,
                    };
                    self.close(former, port);
                    self.open(slot, port);
                }
                (None, Some(_)) => self.open(slot, port),
                (None, None) => {}
            }
        }
    }
}

impl DirectDatapath for LinuxTcp {
    fn name(&self) -> &str {
        "Linux TCP"
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        Some(self.inbox.readable())
    }

    fn heartbeat(&self) -> Duration {
        (self.options.silent_after / 4).min(LONGEST_TURN)
    }

    fn next_turn(&self) -> Option<Duration> {
        wakeup::longest_sleep(self.side.page().wakeups_until_us(), now_us())
    }

    fn measure(&self, flow: FlowId) -> Option<FlowMeasures> {
        let frame = self.frame_of(flow)?;
        let state = frame.state()?;
        let (local, remote) = frame.addresses();
        Some(FlowMeasures {
            local,
            remote,
            tag: frame.mark(),
            cgroup: self.cgroups.path(frame.cgroup()),
            cwnd_bytes: frame.cwnd(),
            rate_bytes_per_s: frame.rate(),
            srtt_us: frame.srtt_us(),
            fallback: matches!(state, FlowState::Fallback | FlowState::Faulted),
            counts: Some(FlowCounts {
                bytes_acked: frame.bytes_acked(),
                retransmitted: frame.retransmitted(),
                rtt_us: frame.rtt_us(),
            }),
        })
    }

    fn turn(&mut self, port: &mut Port<'_>) {
        self.inbox.consume();
        let mut batch = std::mem::take(&mut self.batch);
        self.inbox.swap(&mut batch);
        for message in batch.messages() {
            self.handle(&message, port);
        }
        batch.clear();
        self.batch = batch;
        if !self.hand_overs.is_empty() {
            self.hand_over(port);
        }
        self.renew_heartbeat(port);
    }

    fn command(&mut self, flow: FlowId, command: &Command) {
        let mut stager = Stager {
            side: &self.side,
            hand_overs: &mut self.hand_overs,
        };
        stager.command(flow, command);
    }
}

impl Drop for LinuxTcp {
    fn drop(&mut self) {
        let used = self.side.page().slots_used();
        let mut frames = (0..used).filter_map(|slot| self.side.frame(slot));
        if frames.any(|frame| frame.state().is_some()) {
            for name in self.names() {
                self.moved.give_back(name);
            }
        }
        self.moved.give_back_moved();
    }
}

/// Writes the plane's commands into the frames.
struct Stager<'a> {
    side: &'a KernelSide,
    hand_overs: &'a mut Vec<(FlowId, usize)>,
}

impl CommandSink for Stager<'_> {
    fn command(&mut self, flow: FlowId, command: &Command) {
        if let Some(algorithm) = command.hand_over {
            self.hand_overs.push((flow, algorithm as usize));
        }
        if let Some(frame) = self.side.frame(flow.slot) {
            staging::stage(frame, self.side, flow.generation, command);
        }
    }
}

/// The slow-start threshold with which a flow is handed over, bytes: none for one that has lost nothing
/// and whose window is small, which goes on with its first slow start as under the fallback. Any other
/// does not begin a second; but a window that its algorithm held below half the threshold of the last
/// loss grows back to that by slow start (RFC 5681 §3.1), as after an idle period.
fn next_ssthresh(info: &FlowInfo) -> Option<u64> {
    let small = u64::from(info.mss).saturating_mul(SMALL_WINDOW);
    match info.ssthresh {
        None if info.cwnd <= small => None,
        None => Some(info.cwnd),
        Some(known) if info.cwnd < known / 2 => Some(known),
        Some(known) => Some(known.min(info.cwnd)),
    }
}

fn entry(flows: &mut Vec<Option<SlotFlow>>, slot: u32) -> &mut Option<SlotFlow> {
    let at = slot as usize;
    if at >= flows.len() {
        flows.resize(at + 1, None);
    }
    &mut flows[at]
}
