//! A plane on this machine's TCP: the event loop between kernel and algorithms.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use fairwater_exec::frame::Fault;
use fairwater_plane::{Command, CommandSink, Event, FlowId, Plane, RawReport};

use crate::clock::now_us;
use crate::congestion_controls::default_without_fairwater;
use crate::inbox::{Batch, Inbox, Kind, Message};
use crate::kernel_types::KernelTypes;
use crate::migration::{MigrationCounts, Mode, migrate};
use crate::observe::{self, FoundPlane};
use crate::registration::{Registration, Request};
use crate::{LinuxError, Options, probe, wakeup};

/// Longest sleep of a turn of the loop.
const LONGEST_TURN: Duration = Duration::from_millis(50);

/// A plane whose algorithms are registered as Linux congestion controls.
///
/// It lives on the thread that made it, which must call [`Session::turn`] (or
/// [`Session::run_until`]) more often than `Options::silent_after`, or flows go under the
/// fallback until it does. Dropping it moves its connections to where they came from, or to the
/// machine's default, and unregisters the names.
#[derive(Debug)]
pub struct Session {
    plane: Plane,
    registrations: Vec<Registration>,
    inbox: Inbox,
    batch: Batch,
    options: Options,
    /// The flow that the plane has in each slot, by algorithm.
    flows: Vec<Vec<Option<SlotFlow>>>,
    live: usize,
    lost_reports: u64,
    lost_events: Vec<u32>,
    adopted: MigrationCounts,
    /// The algorithm that existing connections were moved onto.
    moved_onto: Option<String>,
    /// Congestion control for connections that are given back and have no origin.
    otherwise: String,
}

/// The plane's flow in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SlotFlow {
    generation: u32,
    fallbacks: u32,
    /// Number of the last report.
    reports: u64,
}

impl Session {
    /// Loads the kernel side of each of the plane's algorithms and registers it as `fw_` and its
    /// name; takes over the sockets of earlier planes of these names that are gone.
    ///
    /// # Errors
    /// What the machine lacks, a name that is taken, or a call that failed. Nothing is left
    /// registered then.
    pub fn attach(plane: Plane, options: Options) -> Result<Self, LinuxError> {
        probe::probe().require()?;
        let types = KernelTypes::read()?;
        let mut registrations = Vec::new();
        for hosted in plane.algorithms() {
            let programs: Vec<_> = hosted
                .programs()
                .iter()
                .map(|p| (p.name(), p.program()))
                .collect();
            let request = Request {
                algorithm: hosted.name(),
                programs: &programs,
                idle_restart: hosted.idle_restart(),
                ecn: hosted.ecn(),
            };
            registrations.push(Registration::new(&request, &options, &types)?);
        }
        let inbox = Inbox::new(registrations.iter().map(Registration::events))?;
        let mut session = Self {
            flows: vec![Vec::new(); registrations.len()],
            lost_events: vec![0; registrations.len()],
            plane,
            registrations,
            inbox,
            batch: Batch::default(),
            options,
            live: 0,
            lost_reports: 0,
            adopted: MigrationCounts::default(),
            moved_onto: None,
            otherwise: default_without_fairwater(),
        };
        if !options.unique_names {
            session.adopt()?;
        }
        Ok(session)
    }

    /// The kernel's names of the algorithms, in the plane's order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.registrations.iter().map(Registration::name)
    }

    /// The plane, for its statistics.
    #[must_use]
    pub fn plane(&self) -> &Plane {
        &self.plane
    }

    /// The plane, to drain its notices.
    pub fn plane_mut(&mut self) -> &mut Plane {
        &mut self.plane
    }

    /// Flows that the plane has now.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live
    }

    /// Flows that found no slot and stay under the fallback: `Options::max_flows` is too low.
    #[must_use]
    pub fn without_slot(&self) -> u64 {
        self.registrations
            .iter()
            .map(|r| u64::from(r.page().without_slot()))
            .sum()
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
        self.registrations
            .iter()
            .map(|r| u64::from(r.page().fallbacks()))
            .sum()
    }

    /// Runs until `stop` is set.
    pub fn run_until(&mut self, stop: &AtomicBool) {
        while !stop.load(Acquire) {
            self.turn(LONGEST_TURN);
        }
    }

    /// One turn: waits for events for at most `wait` (never longer than a heartbeat allows),
    /// handles them, and tells the kernel that the plane lives. Returns how many there were.
    pub fn turn(&mut self, wait: Duration) -> usize {
        let heartbeat = (self.options.silent_after / 4).min(LONGEST_TURN);
        let now = now_us();
        let wait = self
            .registrations
            .iter()
            .filter_map(|r| wakeup::longest_sleep(r.page().wakeups_until_us(), now))
            .fold(wait, Duration::min);
        // epoll counts in milliseconds; a turn of 0 ms would spin.
        self.inbox
            .wait(wait.min(heartbeat).max(Duration::from_millis(1)));
        let mut batch = std::mem::take(&mut self.batch);
        self.inbox.swap(&mut batch);
        for message in batch.messages() {
            self.handle(&message);
        }
        let handled = batch.len();
        batch.clear();
        self.batch = batch;
        self.heartbeat();
        handled
    }

    /// Sockets that were taken over from earlier planes of the same names when this one started.
    #[must_use]
    pub fn adopted(&self) -> MigrationCounts {
        self.adopted
    }

    /// Moves every existing TCP connection of this machine onto the first algorithm; they are
    /// given back when the session ends.
    ///
    /// # Errors
    /// The kernel has no iterator over TCP sockets, or the walk failed.
    pub fn move_existing(&mut self) -> Result<MigrationCounts, LinuxError> {
        match self.registrations.first().map(|r| r.name().to_owned()) {
            Some(name) => self.move_existing_onto(&name),
            None => Ok(MigrationCounts::default()),
        }
    }

    /// The same onto an algorithm that another process may host.
    ///
    /// # Errors
    /// The kernel has no iterator over TCP sockets, or the walk failed.
    pub fn move_existing_onto(&mut self, name: &str) -> Result<MigrationCounts, LinuxError> {
        let planes = observe::found();
        let Some(onto) = observe::registered(&planes, name) else {
            return Ok(MigrationCounts::default());
        };
        for former in planes.iter().filter(|plane| !plane.is_alive()) {
            inherit(former, onto)?;
        }
        self.moved_onto = Some(name.to_owned());
        migrate(Mode::Onto, name, onto.origins())
    }

    /// Gives the connections that were moved back to where they came from.
    pub fn give_back_moved(&mut self) {
        if let Some(name) = self.moved_onto.take() {
            self.give_back(&name);
        }
    }

    /// Gives the connections that have this congestion control back to where they came from, or to
    /// the machine's default. Connections that cannot be moved go on under the fallback of
    /// their own congestion control.
    pub fn give_back(&self, name: &str) {
        let planes = observe::found();
        if let Some(plane) = observe::registered(&planes, name) {
            let otherwise = &self.otherwise;
            let _ = migrate(Mode::Back { otherwise }, name, plane.origins());
        }
    }

    /// Takes over the sockets of planes that had the same names and are gone. A living plane
    /// would have kept its name registered.
    fn adopt(&mut self) -> Result<(), LinuxError> {
        let planes = observe::found();
        for name in self.registrations.iter().map(Registration::name) {
            let Some(own) = observe::registered(&planes, name) else {
                continue;
            };
            let is_former = |plane: &&FoundPlane| plane.name() == name && !plane.is(own);
            let former: Vec<_> = planes.iter().filter(is_former).collect();
            for plane in &former {
                inherit(plane, own)?;
            }
            if !former.is_empty() {
                self.adopted += migrate(Mode::Adopt, name, own.origins())?;
            }
        }
        Ok(())
    }

    fn handle(&mut self, message: &Message<'_>) {
        let flow = self.flow_id(message.algorithm, message.slot, message.generation);
        match message.kind {
            Kind::Created => self.open(message.algorithm, message.slot),
            Kind::Closed => self.close(message.algorithm, message.slot, message.generation),
            Kind::Report => {
                self.count_report(message);
                let report = RawReport {
                    program: message.program,
                    time_us: message.time_us,
                    cwnd: message.cwnd,
                    rate: message.rate,
                    fields: message.fields,
                };
                self.dispatch(Event::Reported { flow, report });
            }
            Kind::Fault => {
                let reason = fault_reason(message.count);
                self.dispatch(Event::Faulted { flow, reason });
                self.publish_aggregate(message.algorithm, message.slot, flow);
            }
        }
    }

    /// Counts reports that the ring had no room for: reports of a flow are numbered.
    fn count_report(&mut self, message: &Message<'_>) {
        let flow = entry(&mut self.flows[message.algorithm], message.slot).as_mut();
        if let Some(flow) = flow.filter(|flow| flow.generation == message.generation) {
            self.lost_reports += message.count.saturating_sub(flow.reports + 1);
            flow.reports = message.count;
        }
    }

    /// Opens the flow in a slot in the plane, unless the plane has it.
    fn open(&mut self, algorithm: usize, slot: u32) {
        let Some(frame) = self
            .registrations
            .get(algorithm)
            .and_then(|r| r.frame(slot))
        else {
            return;
        };
        let opened = SlotFlow {
            generation: frame.generation(),
            fallbacks: frame.fallbacks(),
            reports: 0,
        };
        if frame.state().is_none() {
            return; // closed already: its closing event follows
        }
        let info = frame.info(now_us());
        match entry(&mut self.flows[algorithm], slot).replace(opened) {
            Some(former) if former.generation == opened.generation => return,
            Some(_) => {}
            None => self.live += 1,
        }
        let flow = self.flow_id(algorithm, slot, opened.generation);
        self.dispatch(Event::Created {
            flow,
            algorithm,
            info: &info,
        });
        self.publish_aggregate(algorithm, slot, flow);
    }

    fn close(&mut self, algorithm: usize, slot: u32, generation: u32) {
        let entry = entry(&mut self.flows[algorithm], slot);
        if entry.is_some_and(|flow| flow.generation == generation) {
            *entry = None;
            self.live -= 1;
            let flow = self.flow_id(algorithm, slot, generation);
            self.dispatch(Event::Closed { flow });
        }
    }

    fn dispatch(&mut self, event: Event<'_>) {
        let mut stager = Stager {
            registrations: &self.registrations,
            max_flows: self.options.max_flows,
        };
        self.plane.on_event(event, &mut stager);
    }

    /// Publishes the flow's aggregate to observers.
    fn publish_aggregate(&self, algorithm: usize, slot: u32, flow: FlowId) {
        let Some(frame) = self.registrations[algorithm].frame(slot) else {
            return;
        };
        if frame.generation() != flow.generation {
            return;
        }
        let aggregate = self.plane.flow(flow).and_then(|flow| flow.aggregate);
        let published = aggregate.map(|aggregate| (aggregate.index, aggregate.key.to_string()));
        frame.set_aggregate(
            published
                .as_ref()
                .map(|(index, key)| (*index, key.as_str())),
        );
    }

    /// Renews the heartbeat; after a silence or lost events, checks every flow.
    fn heartbeat(&mut self) {
        let now = now_us();
        let limit = u64::try_from(self.options.silent_after.as_micros()).unwrap_or(u64::MAX);
        for algorithm in 0..self.registrations.len() {
            let page = self.registrations[algorithm].page();
            let silence = now.saturating_sub(page.heartbeat_us().swap(now, Release));
            let lost = page.lost_events();
            // Half the limit: the time of an ACK may be ahead of `now` by a turn.
            if silence > limit / 2 || lost != self.lost_events[algorithm] {
                self.lost_events[algorithm] = lost;
                self.resync(algorithm);
            }
        }
    }

    /// Opens and closes the plane's flows so that they are those of the kernel side.
    fn resync(&mut self, algorithm: usize) {
        for slot in 0..self.registrations[algorithm].page().slots_used() {
            let Some(frame) = self.registrations[algorithm].frame(slot) else {
                break;
            };
            let (state, generation, fallbacks) =
                (frame.state(), frame.generation(), frame.fallbacks());
            let open = *entry(&mut self.flows[algorithm], slot);
            match (open, state) {
                (Some(flow), Some(_)) if flow.generation == generation => {
                    if flow.fallbacks != fallbacks {
                        let info = frame.info(now_us());
                        *entry(&mut self.flows[algorithm], slot) =
                            Some(SlotFlow { fallbacks, ..flow });
                        let flow = self.flow_id(algorithm, slot, generation);
                        self.dispatch(Event::Resumed { flow, info: &info });
                        self.publish_aggregate(algorithm, slot, flow);
                    }
                }
                (Some(flow), _) => {
                    self.close(algorithm, slot, flow.generation);
                    self.open(algorithm, slot);
                }
                (None, Some(_)) => self.open(algorithm, slot),
                (None, None) => {}
            }
        }
    }

    /// Numbers the slots of all algorithms densely.
    fn flow_id(&self, algorithm: usize, slot: u32, generation: u32) -> FlowId {
        let base = u32::try_from(algorithm).unwrap_or(0) * self.options.max_flows;
        FlowId {
            slot: base + slot,
            generation,
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for registration in &self.registrations {
            let used = registration.page().slots_used();
            let mut frames = (0..used).filter_map(|slot| registration.frame(slot));
            if frames.any(|frame| frame.state().is_some()) {
                self.give_back(registration.name());
            }
        }
        self.give_back_moved();
    }
}

/// Notes the origins of connections of a plane that is gone for the plane that will have them.
fn inherit(former: &FoundPlane, heir: &FoundPlane) -> Result<(), LinuxError> {
    let name = former.name();
    let mode = Mode::Inherit {
        former: &name,
        origins: former.origins(),
    };
    migrate(mode, &heir.name(), heir.origins())?;
    Ok(())
}

/// Writes the plane's commands into the frames.
struct Stager<'a> {
    registrations: &'a [Registration],
    max_flows: u32,
}

impl CommandSink for Stager<'_> {
    fn command(&mut self, flow: FlowId, command: &Command) {
        let algorithm = usize::try_from(flow.slot / self.max_flows).unwrap_or(usize::MAX);
        if let Some(registration) = self.registrations.get(algorithm) {
            registration.command(flow.slot % self.max_flows, flow.generation, command);
        }
    }
}

fn entry(flows: &mut Vec<Option<SlotFlow>>, slot: u32) -> &mut Option<SlotFlow> {
    let at = slot as usize;
    if at >= flows.len() {
        flows.resize(at + 1, None);
    }
    &mut flows[at]
}

fn fault_reason(bits: u64) -> &'static str {
    let has = |fault: Fault| bits & u64::from(fault as u32) != 0;
    if has(Fault::CwndZero) {
        "its program set Cwnd to 0"
    } else if has(Fault::RateAbsurd) {
        "a rate above 2^40 bytes/s was set"
    } else {
        "it was withdrawn"
    }
}
