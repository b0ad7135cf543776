//! A plane at work on this machine's TCP: the loop between kernel and algorithms.

use std::fs;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use fairwater_exec::frame::Fault;
use fairwater_plane::{Command, CommandSink, Event, FlowId, Plane, RawReport};

use crate::clock::now_us;
use crate::inbox::{Batch, Inbox, Kind, Message};
use crate::kernel_types::KernelTypes;
use crate::moving::{Mode, Moved, Mover};
use crate::registration::{Registration, Request};
use crate::{LinuxError, Options, Wakeup, probe};

/// The longest that a turn of the loop sleeps, whatever the options.
const LONGEST_TURN: Duration = Duration::from_millis(50);

/// The shortest time-out of a plane whose wake-ups are rationed.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(10);

/// A plane whose algorithms are registered as Linux congestion controls.
///
/// It lives on the thread that made it, which must call [`Session::turn`] (or
/// [`Session::run_until`]) more often than `Options::silent_after`, or flows go under in-kernel
/// Reno until it does. Dropping it moves its connections to where they came from, or to the
/// machine's default, and unregisters the names.
#[derive(Debug)]
pub struct Session {
    plane: Plane,
    registrations: Vec<Registration>,
    inbox: Inbox,
    batch: Batch,
    options: Options,
    /// What the plane was told of each slot, by algorithm.
    known: Vec<Vec<Option<Known>>>,
    live: usize,
    /// Whether the last turn had anything to do.
    busy: bool,
    lost_reports: u64,
    lost_events: Vec<u32>,
    mover: Option<Mover>,
    /// The congestion control that connections get when they are given back.
    otherwise: String,
}

/// A flow as the plane was last told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    generation: u32,
    fallbacks: u32,
    /// The number of its last report.
    reports: u64,
}

impl Session {
    /// Loads the kernel side of each of the plane's algorithms and registers it as `fw_` and its
    /// name; takes over connections that an earlier plane of that name left behind.
    ///
    /// # Errors
    /// What the machine lacks, a name that is taken, or a call that failed. Nothing is left
    /// registered then.
    pub fn attach(plane: Plane, options: Options) -> Result<Self, LinuxError> {
        probe::probe().require()?;
        let types = KernelTypes::read()?;
        let otherwise = machine_default();
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
            known: vec![Vec::new(); registrations.len()],
            lost_events: vec![0; registrations.len()],
            plane,
            registrations,
            inbox,
            batch: Batch::default(),
            options,
            live: 0,
            busy: false,
            lost_reports: 0,
            mover: None,
            otherwise,
        };
        session.adopt()?;
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

    /// Flows that the kernel side has now.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live
    }

    /// Flows that found no slot and stay under in-kernel Reno: `Options::max_flows` is too low.
    #[must_use]
    pub fn without_slot(&self) -> u64 {
        self.registrations
            .iter()
            .map(|r| u64::from(r.page().without_slot()))
            .sum()
    }

    /// Reports that the ring had no room for: the plane comes by too seldom, or
    /// `Options::ring_bytes` is too low.
    #[must_use]
    pub fn lost_reports(&self) -> u64 {
        self.lost_reports
    }

    /// Times that a flow went under in-kernel Reno because the plane was silent.
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
        let beat = (self.options.silent_after / 4).min(LONGEST_TURN);
        let wait = match self.options.wakeup {
            // What came after the last wake-up may have nothing behind it that wakes. A shorter
            // time-out than the scheduler's tick would set a timer at each turn, which on a
            // virtual machine costs more than the reports.
            Wakeup::Every(period) if self.busy => wait.min((period * 2).max(SHORTEST_TIMEOUT)),
            _ => wait,
        };
        // epoll counts in milliseconds, and a turn of none would spin.
        self.inbox
            .wait(wait.min(beat).max(Duration::from_millis(1)));
        let mut batch = std::mem::take(&mut self.batch);
        self.inbox.swap(&mut batch);
        for message in batch.messages() {
            self.handle(&message);
        }
        let handled = batch.len();
        self.busy = handled > 0;
        batch.clear();
        self.batch = batch;
        self.beat();
        handled
    }

    /// Moves every existing TCP connection of this machine onto the first algorithm; they are
    /// given back when the session ends.
    ///
    /// # Errors
    /// The kernel has no iterator over TCP connections, or the walk failed.
    pub fn move_existing(&mut self) -> Result<Moved, LinuxError> {
        let Some(name) = self.registrations.first().map(|r| r.name().to_owned()) else {
            return Ok(Moved::default());
        };
        let otherwise = self.otherwise.clone();
        self.mover()?.walk(Mode::Onto, &name, &otherwise)
    }

    /// Takes over the connections of planes that had the same names and are gone.
    fn adopt(&mut self) -> Result<(), LinuxError> {
        let orphaned = crate::observe::planes().into_iter().filter(|p| !p.alive);
        let orphaned: Vec<String> = orphaned
            .filter(|p| !p.flows.is_empty())
            .map(|p| p.name)
            .collect();
        let names: Vec<String> = self.names().map(str::to_owned).collect();
        for name in names.iter().filter(|n| orphaned.contains(n)) {
            let otherwise = self.otherwise.clone();
            self.mover()?.walk(Mode::Adopt, name, &otherwise)?;
        }
        Ok(())
    }

    fn mover(&mut self) -> Result<&mut Mover, LinuxError> {
        match &mut self.mover {
            Some(mover) => Ok(mover),
            none => Ok(none.insert(Mover::load()?)),
        }
    }

    fn handle(&mut self, message: &Message<'_>) {
        let flow = self.flow_id(message.algorithm, message.slot, message.generation);
        match message.kind {
            Kind::Created => self.meet(message.algorithm, message.slot),
            Kind::Closed => self.part(message.algorithm, message.slot, message.generation),
            Kind::Report => {
                self.count(message);
                let report = RawReport {
                    program: message.program,
                    time_us: message.time_us,
                    cwnd: message.cwnd,
                    rate: message.rate,
                    fields: message.fields,
                };
                self.tell(Event::Reported { flow, report });
            }
            Kind::Fault => {
                let reason = fault_reason(message.count);
                self.tell(Event::Faulted { flow, reason });
                self.show_aggregate(message.algorithm, message.slot, flow);
            }
        }
    }

    /// Reports of a flow are numbered, so that those the ring had no room for are noticed.
    fn count(&mut self, message: &Message<'_>) {
        let place = place(&mut self.known[message.algorithm], message.slot);
        if let Some(known) = place
            .as_mut()
            .filter(|k| k.generation == message.generation)
        {
            self.lost_reports += message.count.saturating_sub(known.reports + 1);
            known.reports = message.count;
        }
    }

    /// Tells the plane of the flow in a slot, unless it knows it.
    fn meet(&mut self, algorithm: usize, slot: u32) {
        let Some(frame) = self
            .registrations
            .get(algorithm)
            .and_then(|r| r.frame(slot))
        else {
            return;
        };
        let known = Known {
            generation: frame.generation(),
            fallbacks: frame.fallbacks(),
            reports: 0,
        };
        if frame.state().is_none() {
            return; // closed already: its closing event follows
        }
        let info = frame.info(now_us());
        let place = place(&mut self.known[algorithm], slot);
        match place.replace(known) {
            Some(former) if former.generation == known.generation => return,
            Some(_) => {}
            None => self.live += 1,
        }
        let flow = self.flow_id(algorithm, slot, known.generation);
        self.tell(Event::Created {
            flow,
            algorithm,
            info: &info,
        });
        self.show_aggregate(algorithm, slot, flow);
    }

    fn part(&mut self, algorithm: usize, slot: u32, generation: u32) {
        let place = place(&mut self.known[algorithm], slot);
        if place.is_some_and(|known| known.generation == generation) {
            *place = None;
            self.live -= 1;
            let flow = self.flow_id(algorithm, slot, generation);
            self.tell(Event::Closed { flow });
        }
    }

    fn tell(&mut self, event: Event<'_>) {
        let mut stager = Stager {
            registrations: &self.registrations,
            max_flows: self.options.max_flows,
        };
        self.plane.on_event(event, &mut stager);
    }

    /// Lets observers know of which aggregate the flow is now.
    fn show_aggregate(&self, algorithm: usize, slot: u32, flow: FlowId) {
        let Some(frame) = self.registrations[algorithm].frame(slot) else {
            return;
        };
        if frame.generation() != flow.generation {
            return;
        }
        let aggregate = self.plane.flow(flow).and_then(|known| known.aggregate);
        let shown = aggregate.map(|aggregate| (aggregate.index, aggregate.key.to_string()));
        frame.set_aggregate(shown.as_ref().map(|(index, key)| (*index, key.as_str())));
    }

    /// Says that the plane lives; after a silence, or lost events, looks at every flow.
    fn beat(&mut self) {
        let now = now_us();
        let limit = u64::try_from(self.options.silent_after.as_micros()).unwrap_or(u64::MAX);
        for algorithm in 0..self.registrations.len() {
            let page = self.registrations[algorithm].page();
            let silence = now.saturating_sub(page.heartbeat_us().swap(now, Release));
            let lost = page.lost_events();
            // Half the limit, as the kernel's clock of an ACK may be ahead of ours by a turn.
            if silence > limit / 2 || lost != self.lost_events[algorithm] {
                self.lost_events[algorithm] = lost;
                self.resync(algorithm);
            }
        }
    }

    /// Compares what the plane knows with what the kernel side has.
    fn resync(&mut self, algorithm: usize) {
        for slot in 0..self.registrations[algorithm].page().slots_used() {
            let Some(frame) = self.registrations[algorithm].frame(slot) else {
                break;
            };
            let (state, generation, fallbacks) =
                (frame.state(), frame.generation(), frame.fallbacks());
            let known = *place(&mut self.known[algorithm], slot);
            match (known, state) {
                (Some(known), Some(_)) if known.generation == generation => {
                    if known.fallbacks != fallbacks {
                        let info = frame.info(now_us());
                        *place(&mut self.known[algorithm], slot) =
                            Some(Known { fallbacks, ..known });
                        let flow = self.flow_id(algorithm, slot, generation);
                        self.tell(Event::Resumed { flow, info: &info });
                        self.show_aggregate(algorithm, slot, flow);
                    }
                }
                (Some(known), _) => {
                    self.part(algorithm, slot, known.generation);
                    self.meet(algorithm, slot);
                }
                (None, Some(_)) => self.meet(algorithm, slot),
                (None, None) => {}
            }
        }
    }

    /// Slots of all algorithms in one dense numbering.
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
        let names: Vec<String> = self.names().map(str::to_owned).collect();
        for (name, registration) in names.iter().zip(0..self.registrations.len()) {
            let used = self.registrations[registration].page().slots_used();
            let mut frames = (0..used).filter_map(|s| self.registrations[registration].frame(s));
            if frames.any(|f| f.state().is_some()) {
                let otherwise = self.otherwise.clone();
                // Nobody is left to tell: connections that cannot be moved go on under the
                // in-kernel Reno of their own congestion control.
                let _ = self
                    .mover()
                    .and_then(|m| m.walk(Mode::Back, name, &otherwise));
            }
        }
    }
}

/// Carries the plane's commands to the frames.
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

fn place(known: &mut Vec<Option<Known>>, slot: u32) -> &mut Option<Known> {
    let at = slot as usize;
    if at >= known.len() {
        known.resize(at + 1, None);
    }
    &mut known[at]
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

/// The congestion control that new connections get without us.
fn machine_default() -> String {
    let read = |name: &str| -> io::Result<String> {
        Ok(fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"))?
            .trim()
            .to_owned())
    };
    match read("tcp_congestion_control") {
        Ok(name) if !name.starts_with("fw_") => name,
        _ => "cubic".to_owned(),
    }
}
