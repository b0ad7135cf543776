//! The plane's flows of a kernel datapath: its events become the plane's, the plane's commands become
//! stages, and after a silence or lost events both are brought into line again.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Release;
use std::time::Duration;

use fairwater_exec::frame::{Fault, FrameLayout};
use fairwater_plane::{Command, CommandSink, Event, FlowId, FlowInfo, RawReport};
use fairwater_service::{FlowCounts, FlowMeasures, Port};
use libbpf_rs::MapHandle;

use crate::frame::{FlowState, Frame, Frames};
use crate::inbox::{Batch, Inbox, Kind, Message};
use crate::{KernelError, PlanePage, ProgramTable, now_us, staging, wakeup};

/// Longest time between two turns.
const LONGEST_TURN: Duration = Duration::from_millis(50);

/// Largest window that a flow may have grown to in its first slow start for the next algorithm to go on
/// with slow start, segments: `SMALL_WINDOW` of Linux TCP's `fallback.h`.
const SMALL_WINDOW: u64 = 100;

/// The memory that a kernel side shares with the plane.
#[derive(Debug)]
pub struct Memory {
    /// The layout of a frame.
    pub layout: FrameLayout,
    /// The frames, by slot.
    pub frames: Frames,
    /// The plane's page.
    pub page: PlanePage,
    /// The programs of all algorithms.
    pub programs: ProgramTable,
}

impl Memory {
    /// The frame of a flow that is there.
    #[must_use]
    pub fn frame_of(&self, flow: FlowId) -> Option<Frame<'_>> {
        let frame = self.frames.get(flow.slot)?;
        (frame.generation() == flow.generation && frame.state().is_some()).then_some(frame)
    }

    /// What a flow does, for status screens and policies; without its cgroup.
    #[must_use]
    pub fn measure(&self, flow: FlowId) -> Option<FlowMeasures> {
        let frame = self.frame_of(flow)?;
        let state = frame.state()?;
        let (local, remote) = frame.addresses();
        Some(FlowMeasures {
            local,
            remote,
            tag: frame.mark(),
            cgroup: None,
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
}

/// Which algorithm controls which frame: a kernel datapath's own choice.
pub trait FrameAlgorithms {
    /// Index in the plane of the algorithm of that index in frames.
    fn in_plane(&self, index: usize) -> Option<usize>;

    /// Index in the plane of the algorithm that a new flow gets; its frame may be given another index.
    fn choose(&self, frame: Frame<'_>, port: &Port<'_>) -> Option<usize>;

    /// Index in frames of the algorithm of index `algorithm` in the plane.
    ///
    /// # Errors
    /// The flow cannot have it; why, as a clause.
    fn to_hand_over(&self, frame: Frame<'_>, algorithm: usize) -> Result<usize, &'static str>;
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

/// The flows that the plane has of a kernel datapath.
#[derive(Debug)]
pub struct KernelFlows {
    inbox: Inbox,
    batch: Batch,
    silent_after: Duration,
    /// The flow that the plane has in each slot.
    flows: Vec<Option<SlotFlow>>,
    live: usize,
    /// Flows that are handed over at the next turn, and their next algorithm.
    hand_overs: Vec<(FlowId, usize)>,
    lost_reports: u64,
    lost_events: u32,
}

impl KernelFlows {
    /// No flows yet; events come by this ring. Flows are released or go under their fallback when the plane
    /// was silent for `silent_after`.
    ///
    /// # Errors
    /// The ring cannot be mapped.
    pub fn new(events: &MapHandle, silent_after: Duration) -> Result<Self, KernelError> {
        Ok(Self {
            inbox: Inbox::new(events)?,
            batch: Batch::default(),
            silent_after,
            flows: Vec::new(),
            live: 0,
            hand_overs: Vec::new(),
            lost_reports: 0,
            lost_events: 0,
        })
    }

    /// Flows that the plane has now.
    #[must_use]
    pub const fn live(&self) -> usize {
        self.live
    }

    /// Reports that the ring had no room for.
    #[must_use]
    pub const fn lost_reports(&self) -> u64 {
        self.lost_reports
    }

    /// A descriptor that is readable while events wait.
    #[must_use]
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.inbox.readable()
    }

    /// Longest time between two turns that keeps flows under the plane.
    #[must_use]
    pub fn heartbeat(&self) -> Duration {
        (self.silent_after / 4).min(LONGEST_TURN)
    }

    /// When the next turn is due at the latest; `None` for whenever events come.
    #[must_use]
    pub fn next_turn(&self, memory: &Memory) -> Option<Duration> {
        wakeup::longest_sleep(memory.page.wakeups_until_us(), now_us())
    }

    /// Writes a command of the plane into the flow's frame.
    pub fn command(&mut self, memory: &Memory, flow: FlowId, command: &Command) {
        let mut stager = Stager {
            memory,
            hand_overs: &mut self.hand_overs,
        };
        stager.command(flow, command);
    }
}

/// A turn of a datapath's flows.
#[derive(Debug)]
pub struct Turn<'a, 'p, A> {
    /// The flows.
    pub flows: &'a mut KernelFlows,
    /// The memory of the kernel side.
    pub memory: &'a Memory,
    /// The datapath's algorithms.
    pub algorithms: &'a A,
    /// The plane.
    pub port: &'a mut Port<'p>,
}

impl<A: FrameAlgorithms> Turn<'_, '_, A> {
    /// Hands events and commands over, and renews the heartbeat.
    pub fn run(mut self) {
        self.flows.inbox.consume();
        let mut batch = std::mem::take(&mut self.flows.batch);
        self.flows.inbox.swap(&mut batch);
        for message in batch.messages() {
            self.handle(&message);
        }
        batch.clear();
        self.flows.batch = batch;
        if !self.flows.hand_overs.is_empty() {
            self.hand_over();
        }
        self.renew_heartbeat();
    }

    fn handle(&mut self, message: &Message<'_>) {
        let flow = FlowId {
            slot: message.slot,
            generation: message.generation,
        };
        match message.kind {
            Kind::Created => self.open(message.slot),
            Kind::Closed => self.close(flow),
            Kind::Report => {
                self.count_report(message);
                let Some(program) = self.memory.programs.at(message.program) else {
                    return;
                };
                let report = RawReport {
                    program,
                    time_us: message.time_us,
                    cwnd: message.cwnd,
                    rate: message.rate,
                    fields: message.fields,
                };
                self.follow_mss(flow);
                self.deliver(Event::Reported { flow, report });
            }
            Kind::Fault => {
                let reason = Fault::reason(message.count);
                self.deliver(Event::Faulted { flow, reason });
                self.publish_aggregate(flow);
            }
        }
    }

    /// Hands an event over; commands go into the frames at once.
    fn deliver(&mut self, event: Event<'_>) {
        let mut stager = Stager {
            memory: self.memory,
            hand_overs: &mut self.flows.hand_overs,
        };
        self.port.event(event, &mut stager);
    }

    /// Counts reports that the ring had no room for: reports of a flow are numbered.
    fn count_report(&mut self, message: &Message<'_>) {
        let flow = entry(&mut self.flows.flows, message.slot).as_mut();
        if let Some(flow) = flow.filter(|flow| flow.generation == message.generation) {
            self.flows.lost_reports += message.count.saturating_sub(flow.reports + 1);
            flow.reports = message.count;
        }
    }

    /// Tells the plane when the kernel has found that the path's MTU is another (RFC 4821). A flow that
    /// reports nothing has nothing that counts in segments there.
    fn follow_mss(&mut self, flow: FlowId) {
        let Some(frame) = self.memory.frames.get(flow.slot) else {
            return;
        };
        let mss = frame.mss();
        // What the slot's next flow has is not this one's.
        let is_its_own = frame.generation() == flow.generation;
        let known = entry(&mut self.flows.flows, flow.slot).as_mut();
        let known = known.filter(|known| known.generation == flow.generation && is_its_own);
        if let Some(known) = known
            && mss != 0
            && mss != std::mem::replace(&mut known.mss, mss)
        {
            self.deliver(Event::MssChanged { flow, mss });
        }
    }

    /// Opens the flow in a slot in the plane, unless the plane has it.
    fn open(&mut self, slot: u32) {
        let Some(frame) = self.memory.frames.get(slot) else {
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
        let Some(algorithm) = self.algorithms.choose(frame, self.port) else {
            return;
        };
        match *entry(&mut self.flows.flows, slot) {
            Some(known) if known.generation == opened.generation => {
                *entry(&mut self.flows.flows, slot) = Some(opened);
                return;
            }
            // Its closing event was lost.
            Some(former) => self.close(FlowId {
                slot,
                generation: former.generation,
            }),
            None => {}
        }
        *entry(&mut self.flows.flows, slot) = Some(opened);
        self.flows.live += 1;
        let flow = FlowId {
            slot,
            generation: opened.generation,
        };
        let event = Event::Created {
            flow,
            algorithm,
            info: &info,
        };
        self.deliver(event);
        self.publish_aggregate(flow);
    }

    fn close(&mut self, flow: FlowId) {
        let entry = entry(&mut self.flows.flows, flow.slot);
        if entry.is_some_and(|open| open.generation == flow.generation) {
            *entry = None;
            self.flows.live -= 1;
            self.deliver(Event::Closed { flow });
        }
    }

    /// The flow goes on under an algorithm, from its present state.
    fn resume(&mut self, flow: FlowId, algorithm: usize, info: &FlowInfo) {
        let event = Event::Resumed {
            flow,
            algorithm,
            info,
        };
        self.deliver(event);
        self.publish_aggregate(flow);
    }

    /// Hands flows over whose algorithm is to change.
    fn hand_over(&mut self) {
        for (flow, algorithm) in std::mem::take(&mut self.flows.hand_overs) {
            let Some(frame) = self.memory.frame_of(flow) else {
                continue;
            };
            let index = match self.algorithms.to_hand_over(frame, algorithm) {
                Ok(index) => index,
                Err(why) => {
                    self.port.refuse_hand_over(flow, algorithm, why);
                    continue;
                }
            };
            frame.set_algorithm(index);
            let info = frame.info(now_us());
            let info = FlowInfo {
                ssthresh: next_ssthresh(&info),
                ..info
            };
            self.resume(flow, algorithm, &info);
        }
    }

    /// Publishes the flow's aggregate to observers.
    fn publish_aggregate(&self, flow: FlowId) {
        let Some(frame) = self.memory.frames.get(flow.slot) else {
            return;
        };
        if frame.generation() != flow.generation {
            return;
        }
        let aggregate = self.port.flow(flow).and_then(|flow| flow.aggregate);
        let published = aggregate.map(|aggregate| (aggregate.index, aggregate.key.to_string()));
        frame.set_aggregate(
            published
                .as_ref()
                .map(|(index, key)| (*index, key.as_str())),
        );
    }

    /// Renews the heartbeat; after a silence or lost events, checks every flow.
    fn renew_heartbeat(&mut self) {
        let limit = u64::try_from(self.flows.silent_after.as_micros()).unwrap_or(u64::MAX);
        let now = now_us();
        let page = &self.memory.page;
        let silence = now.saturating_sub(page.heartbeat_us().swap(now, Release));
        let lost = page.lost_events();
        // Half the limit: the time of an ACK may be ahead of `now` by a turn.
        if silence > limit / 2 || lost != self.flows.lost_events {
            self.flows.lost_events = lost;
            self.resync();
        }
    }

    /// Opens and closes the plane's flows so that they are those of the kernel side.
    fn resync(&mut self) {
        for slot in 0..self.memory.page.slots_used() {
            let Some(frame) = self.memory.frames.get(slot) else {
                break;
            };
            let (state, generation, fallbacks) =
                (frame.state(), frame.generation(), frame.fallbacks());
            let flow = FlowId { slot, generation };
            let open = *entry(&mut self.flows.flows, slot);
            match (open, state) {
                (Some(open), Some(_)) if open.generation == generation => {
                    if open.fallbacks != fallbacks {
                        let info = frame.info(now_us());
                        let algorithm = self.algorithms.in_plane(frame.algorithm());
                        let mss = info.mss;
                        *entry(&mut self.flows.flows, slot) = Some(SlotFlow {
                            fallbacks,
                            mss,
                            ..open
                        });
                        if let Some(algorithm) = algorithm {
                            self.resume(flow, algorithm, &info);
                        }
                    }
                }
                (Some(open), _) => {
                    let former = FlowId {
                        slot,
                        generation: open.generation,
                    };
                    self.close(former);
                    self.open(slot);
                }
                (None, Some(_)) => self.open(slot),
                (None, None) => {}
            }
        }
    }
}

/// Writes the plane's commands into the frames.
struct Stager<'a> {
    memory: &'a Memory,
    hand_overs: &'a mut Vec<(FlowId, usize)>,
}

impl CommandSink for Stager<'_> {
    fn command(&mut self, flow: FlowId, command: &Command) {
        if let Some(algorithm) = command.hand_over {
            self.hand_overs.push((flow, algorithm as usize));
        }
        if let Some(frame) = self.memory.frames.get(flow.slot) {
            staging::stage(frame, self.memory, flow.generation, command);
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
