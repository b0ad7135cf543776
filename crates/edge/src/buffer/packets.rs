//! Packets of connections that a box holds.

use fairwater_net::Time;
use fairwater_tcp::Controls;
use fairwater_wire::{Checksum, EcnCodepoint, Layout, Packet, Rewriter, SackBlock, TcpFlags};

use super::flow::Start;
use super::stream::Insertion;
use super::{BufferedFlow, Buffering, Outgoing, ReturnReason};
use crate::controlled::{ControlledFlow, ControlledFlows, Fate};
use crate::edge::{self, Edge, Verdict};
use crate::enforce::{Limit, WindowUpdate};
use crate::policy::Mode;
use crate::track::{Event, Flow, Sent};
use crate::{Direction, FlowKey, Segment};

/// Windows of the algorithm that the guest is told of beyond what is out: so much may wait in the box while ACKs are
/// hidden from the guest, for about as many round trips.
const BACKLOG_WINDOWS: u64 = 2;

/// Duplicate ACKs that make a guest send again at once (RFC 5681 §3.2).
const DUP_ACKS: usize = 3;

/// A packet of a controlled connection.
pub(crate) struct Passing<'a> {
    pub(crate) direction: Direction,
    pub(crate) bytes: &'a mut [u8],
    pub(crate) layout: Layout,
    pub(crate) checksum: Checksum,
    pub(crate) segment: Segment,
    /// The ECN field with which it came.
    pub(crate) field: EcnCodepoint,
}

impl Passing<'_> {
    pub(super) fn packet(&self) -> Packet<'_> {
        self.layout.packet(self.bytes)
    }

    /// The bytes before IP's header.
    pub(super) fn link(&self) -> &[u8] {
        let end = self.layout.network_offset();
        self.bytes.get(..end).unwrap_or(&[])
    }

    pub(crate) fn rewriter(&mut self) -> Rewriter<'_> {
        Rewriter::new(self.bytes, self.layout, self.checksum)
    }
}

impl Edge {
    /// What becomes of a packet before the table sees it, if the connection is held: data with a wrong checksum must
    /// not leave with a right one, and nobody may acknowledge what the box has not sent.
    pub(crate) fn precheck(
        &mut self,
        key: &FlowKey,
        direction: Direction,
        segment: &Segment,
        (packet, checksum): (&Packet<'_>, Checksum),
    ) -> Option<Verdict> {
        let id = self.table.find(key)?;
        let (_, flow, Fate::Controlled(controlled)) = self.table.get(id)? else {
            return None;
        };
        let Buffering::Held(buffered) = &controlled.buffering else {
            return None;
        };
        let statistics = &mut self.flows.buffers.statistics;
        if checksum == Checksum::Complete && !packet.has_valid_checksums() {
            statistics.corrupt += 1;
            return Some(Verdict::Pass);
        }
        let acks_unsent = direction == Direction::ToGuest
            && !segment.has(TcpFlags::SYN)
            && !segment.has(TcpFlags::RST)
            && segment.has(TcpFlags::ACK)
            && segment.ack.is_after(buffered.nxt())
            && !segment.ack.is_after(flow.sender().nxt());
        if acks_unsent {
            // RFC 9293 §3.10.7.4: such a segment is dropped.
            statistics.acks_of_unsent += 1;
            return Some(Verdict::Taken);
        }
        None
    }

    /// Whether the connection is to be held.
    pub(crate) fn is_to_buffer(&self, id: usize) -> bool {
        matches!(
            self.table.get(id),
            Some((_, _, Fate::Controlled(controlled))) if controlled.treatment.mode == Mode::Buffer
        )
    }

    /// A packet of a connection that is to be held has passed the table.
    pub(crate) fn on_buffered(
        &mut self,
        now: Time,
        id: usize,
        event: Event,
        mut passing: Passing<'_>,
    ) -> Verdict {
        let Some((key, flow, Fate::Controlled(controlled))) = self.table.get_mut(id) else {
            return Verdict::Pass;
        };
        let mut context = Context {
            now,
            flow,
            controlled,
            flows: &mut self.flows,
        };
        if let Event::Sent(sent) = event {
            context.begin((id, key.interface), sent, &passing);
        }
        let verdict = match std::mem::take(&mut context.controlled.buffering) {
            Buffering::Held(mut buffered) => {
                let (verdict, end) = match event {
                    Event::Sent(sent) => context.on_sent(&mut buffered, sent, &mut passing),
                    Event::Acked(_) => context.on_acked(&mut buffered, &mut passing),
                    Event::Other => context.on_other(&mut buffered, &passing),
                };
                match end {
                    None => context.keep(buffered),
                    Some(end) => context.end(buffered, end),
                }
                verdict
            }
            other => {
                context.controlled.buffering = other;
                let seen = (&passing.segment, passing.field, event);
                let mut rewriter = Rewriter::new(passing.bytes, passing.layout, passing.checksum);
                let with = (context.flows, &mut rewriter);
                edge::on_controlled(now, seen, context.flow, context.controlled, with);
                Verdict::Pass
            }
        };
        self.evict(now);
        verdict
    }

    /// An ACK of a connection that is held is older than another: of what it says, the guest is told only what the
    /// data that it carries needs.
    pub(crate) fn on_old_ack(&mut self, key: &FlowKey, passing: &mut Passing<'_>) -> Verdict {
        let held = self.table.find(key).and_then(|id| self.table.get(id));
        let Some((_, _, Fate::Controlled(controlled))) = held else {
            return Verdict::Pass;
        };
        if !matches!(controlled.buffering, Buffering::Held(_)) {
            return Verdict::Pass;
        }
        if passing.segment.length() == 0 {
            self.flows.buffers.statistics.hidden += 1;
            return Verdict::Taken;
        }
        passing.rewriter().blank_sack();
        Verdict::Pass
    }

    /// Gives back the connections that are held longest, as long as all take too much memory.
    fn evict(&mut self, now: Time) {
        while let Some(id) = self.flows.buffers.to_evict() {
            let end = (ReturnReason::Memory, Rest::Leaves);
            if !self.with_held(now, id, |_, _| Some(end)) {
                break;
            }
        }
    }

    /// Gives a connection back, if it is held; what was not sent leaves at once.
    pub(super) fn return_held(&mut self, now: Time, id: usize, reason: ReturnReason) {
        self.with_held(now, id, |_, _| Some((reason, Rest::Leaves)));
    }

    /// Does something with a connection that is held; `false` if it is not.
    fn with_held(
        &mut self,
        now: Time,
        id: usize,
        act: impl FnOnce(&mut Context<'_>, &mut BufferedFlow) -> Option<End>,
    ) -> bool {
        let Some((_, flow, Fate::Controlled(controlled))) = self.table.get_mut(id) else {
            return false;
        };
        let mut context = Context {
            now,
            flow,
            controlled,
            flows: &mut self.flows,
        };
        match std::mem::take(&mut context.controlled.buffering) {
            Buffering::Held(mut buffered) => {
                match act(&mut context, &mut buffered) {
                    None => context.keep(buffered),
                    Some(end) => context.end(buffered, end),
                }
                true
            }
            other => {
                context.controlled.buffering = other;
                false
            }
        }
    }

    /// The next packet that leaves the box, other than those that pass; call it until there is none after
    /// [`Edge::on_packet`] and [`Edge::on_timer`].
    pub fn poll_transmit(&mut self, now: Time) -> Option<Outgoing> {
        if let Some(outgoing) = self.flows.buffers.pop() {
            return Some(outgoing);
        }
        while let Some(serial) = self.flows.buffers.next_ready() {
            let Some(id) = self.flows.buffers.id(serial) else {
                continue;
            };
            let Some((_, _, Fate::Controlled(controlled))) = self.table.get_mut(id) else {
                continue;
            };
            let echoes = controlled.echoes_marks();
            let Buffering::Held(buffered) = &mut controlled.buffering else {
                continue;
            };
            if let Some(bytes) = buffered.poll_transmit(now, echoes) {
                self.flows.buffers.requeue(serial);
                return Some(Outgoing {
                    interface: buffered.interface,
                    direction: Direction::FromGuest,
                    is_ethernet: buffered.is_ethernet(),
                    bytes,
                });
            }
            self.flows.buffers.rest(buffered);
        }
        None
    }

    /// When [`Edge::on_timer`] is to be called next; good until the next packet or timer, once
    /// [`Edge::poll_transmit`] has said that there is no packet.
    #[must_use]
    pub fn next_timer(&self) -> Option<Time> {
        self.flows.buffers.next_timer()
    }

    /// Does all that is due by `now`.
    pub fn on_timer(&mut self, now: Time) {
        while let Some(serial) = self.flows.buffers.next_due(now) {
            let Some(id) = self.flows.buffers.id(serial) else {
                continue;
            };
            self.with_held(now, id, |context, buffered| {
                buffered.timer = None;
                buffered.sender.on_timer(now);
                if buffered.is_stalled() {
                    return Some((ReturnReason::Stalled, Rest::Vanishes));
                }
                context.control(buffered)
            });
        }
    }
}

/// How a connection ends to be held.
type End = (ReturnReason, Rest);

/// What becomes of what was not sent yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// It leaves at once, as it would have left the guest.
    Leaves,
    /// The guest sends it again, or nobody wants it.
    Vanishes,
}

/// One connection, and the box.
struct Context<'a> {
    now: Time,
    flow: &'a mut Flow,
    controlled: &'a mut ControlledFlow,
    flows: &'a mut ControlledFlows,
}

impl Context<'_> {
    /// The guest's new data is held from here on, if an algorithm controls the connection.
    fn begin(&mut self, (id, interface): (usize, u32), sent: Sent, passing: &Passing<'_>) {
        let limit = self.controlled.window.limit();
        let (Buffering::Idle, Limit::Target(_)) = (&self.controlled.buffering, limit) else {
            return;
        };
        let packet = passing.packet();
        let is_intact = passing.checksum != Checksum::Complete || packet.has_valid_checksums();
        if sent != Sent::New || passing.segment.payload == 0 || !is_intact {
            return;
        }
        let start = Start {
            mss: self.flow.sender().mss(),
            sack: self.flow.sender().has_sack(),
            ecn: self.controlled.translates_ecn(),
            window: self.flow.peer_edge().bytes_since(passing.segment.seq),
            min_rto: self.flows.buffers.config.min_rto,
        };
        let serial = self.flows.buffers.begin(id);
        let from = (&packet, passing.link(), &passing.segment);
        let buffered = BufferedFlow::new(self.now, (serial, interface), &start, from);
        let Some(mut buffered) = buffered else {
            self.flows.buffers.abandon(serial);
            return;
        };
        self.set_controls(&mut buffered);
        self.keep(Box::new(buffered));
    }

    /// A packet from the guest that is no reset.
    fn on_sent(
        &mut self,
        buffered: &mut BufferedFlow,
        sent: Sent,
        passing: &mut Passing<'_>,
    ) -> (Verdict, Option<End>) {
        let segment = passing.segment;
        let packet = passing.packet();
        let Some(tcp) = packet.tcp() else {
            return (Verdict::Pass, None);
        };
        buffered.on_guest_packet(&packet, &segment, tcp.urgent());
        let statistics = &mut self.flows.buffers.statistics;
        let una = self.flow.sender().una();
        let is_old = sent == Sent::Nothing;
        if is_old || buffered.lacks(segment.seq, una) {
            if segment.length() > 0 && is_old {
                buffered.on_old_data();
            }
            self.pass_from_guest(buffered, passing);
            return (Verdict::Pass, None);
        }
        if segment.seq.is_before(una) {
            buffered.on_old_data();
        }
        let held = buffered.stream.len();
        let room = self
            .flows
            .buffers
            .config
            .max_flow_bytes
            .saturating_sub(held);
        statistics.taken += 1;
        match buffered.take(&segment, tcp.payload(), room) {
            Insertion::New(_) => {}
            Insertion::Known => statistics.repeated += u64::from(segment.payload > 0),
            Insertion::Full => statistics.full += 1,
            Insertion::Gap => {
                statistics.gaps += 1;
                // One for each packet, as a receiver does (RFC 5681 §4.2).
                if let Some(blocks) = buffered.gap() {
                    self.send_duplicates(buffered, &blocks, 1);
                }
            }
        }
        (Verdict::Taken, None)
    }

    /// A segment that the box does not hold passes: it has no data, or data that is not the box's to carry.
    fn pass_from_guest(&mut self, buffered: &mut BufferedFlow, passing: &mut Passing<'_>) {
        let segment = passing.segment;
        let nxt = buffered.nxt();
        let mut rewriter = passing.rewriter();
        if segment.length() == 0 {
            // What is held has not been sent: a peer may refuse what begins at the end of its window.
            if segment.seq.is_after(nxt) {
                rewriter.set_seq(nxt);
            }
            buffered.on_passed(&segment);
        }
        if let Some(ecn) = &mut self.controlled.ecn {
            edge::apply(ecn.on_sent(&segment, Sent::Nothing, false), &mut rewriter);
        }
    }

    /// A packet from the peer with an ACK.
    fn on_acked(
        &mut self,
        buffered: &mut BufferedFlow,
        passing: &mut Passing<'_>,
    ) -> (Verdict, Option<End>) {
        let segment = passing.segment;
        buffered.on_peer_packet(&passing.packet(), passing.link(), &segment);
        let is_held = buffered.has_held(segment.ack);
        let window = u32::from(segment.window) << self.flow.peer_scale();
        let advanced = is_held && buffered.on_ack(self.now, &segment, window);
        let end = self.control(buffered);
        let (una, nxt) = (self.flow.sender().una(), self.flow.sender().nxt());
        let shown = self.controlled.window.field(&WindowUpdate {
            ack: segment.ack,
            field: segment.window,
            has_data: segment.length() > 0,
            una,
            nxt,
        });
        let field = passing.field;
        let mut rewriter = passing.rewriter();
        if let Some(ecn) = &mut self.controlled.ecn {
            edge::apply(ecn.on_received(&segment, field, una, nxt), &mut rewriter);
        }
        if is_held && end.is_none() {
            if buffered.hides(&segment, advanced, shown) {
                buffered.hide(&segment);
                self.flows.buffers.statistics.hidden += 1;
                return (Verdict::Taken, None);
            }
            rewriter.blank_sack();
        }
        if shown != segment.window {
            rewriter.set_window(shown);
        }
        buffered.on_shown(shown);
        if advanced
            && end.is_none()
            && let Some(blocks) = buffered.gap()
        {
            self.send_duplicates(buffered, &blocks, DUP_ACKS);
        }
        (Verdict::Pass, end)
    }

    /// A reset, or what means nothing.
    fn on_other(
        &mut self,
        buffered: &mut BufferedFlow,
        passing: &Passing<'_>,
    ) -> (Verdict, Option<End>) {
        if !passing.segment.has(TcpFlags::RST) {
            return (Verdict::Pass, None);
        }
        let end = Some((ReturnReason::Reset, Rest::Vanishes));
        if passing.direction == Direction::ToGuest {
            return (Verdict::Pass, end);
        }
        let Some(reset) = buffered.write_reset(&passing.segment) else {
            return (Verdict::Pass, end);
        };
        self.drain(buffered);
        self.push(buffered, Direction::FromGuest, reset);
        (Verdict::Taken, end)
    }

    /// All that was not sent yet leaves at once.
    fn drain(&mut self, buffered: &mut BufferedFlow) {
        for bytes in buffered.drain(self.controlled.echoes_marks()) {
            self.push(buffered, Direction::FromGuest, bytes);
        }
    }

    /// Runs the flow's program on what the sender has measured. How the connection ends to be held, if nobody controls
    /// it any more.
    fn control(&mut self, buffered: &mut BufferedFlow) -> Option<End> {
        while let Some(invocation) = buffered.sender.poll_invocation() {
            if !invocation.runs_program() {
                continue;
            }
            let in_force = datapath_controls(buffered.controls());
            if in_force != self.controlled.controls {
                // The sender changes its window itself after a timeout, and when a reduction was spurious.
                let _ = self
                    .flows
                    .datapath
                    .set_controls(self.controlled.flow, in_force);
                self.controlled.controls = in_force;
            }
            self.controlled.count(&invocation.signals);
            let flow = self.controlled.flow;
            if let Ok(Some(changed)) = self.flows.datapath.invoke(flow, &invocation.signals) {
                self.controlled.controls = changed;
                let restarts = self.flows.datapath.restarts_after_idle(flow);
                buffered.sender.set_idle_restart(restarts);
            }
            if !self.set_controls(buffered) {
                return Some((ReturnReason::Released, Rest::Leaves));
            }
        }
        None
    }

    /// Gives the sender its window and rate, and the guest a window beyond that. `false` if nobody controls the flow.
    fn set_controls(&mut self, buffered: &mut BufferedFlow) -> bool {
        let una = self.flow.sender().una();
        let limit = self.flows.limit(self.now, self.controlled, una);
        let Limit::Target(cwnd) = limit else {
            self.controlled.window.set_limit(limit);
            return false;
        };
        buffered.set_controls(Controls {
            cwnd,
            rate: self.controlled.controls.rate,
        });
        let backlog = cwnd.saturating_mul(BACKLOG_WINDOWS);
        let most = self.flows.buffers.config.max_flow_bytes as u64;
        let target = buffered.outstanding().saturating_add(backlog).min(most);
        self.controlled.window.set_limit(Limit::Target(target));
        true
    }

    fn keep(&mut self, mut buffered: Box<BufferedFlow>) {
        self.flows.buffers.update(&mut buffered);
        self.controlled.buffering = Buffering::Held(buffered);
    }

    /// Lets go of a connection.
    fn end(&mut self, mut buffered: Box<BufferedFlow>, (reason, rest): End) {
        self.flows.buffers.statistics.returned[reason.index()] += 1;
        self.flows.buffers.forget(&mut buffered);
        self.controlled.buffering = match reason {
            ReturnReason::Released => Buffering::Idle,
            _ => Buffering::Ended,
        };
        if rest == Rest::Leaves {
            self.drain(&mut buffered);
        }
        if reason != ReturnReason::Reset
            && let Some(blocks) = buffered.take_hidden()
        {
            self.send_duplicates(&mut buffered, &blocks, DUP_ACKS);
        }
        // What was measured meanwhile is old.
        let told = self.controlled.window.told();
        self.flow.take_signals(self.now, told, false);
        let limit = self
            .flows
            .limit(self.now, self.controlled, self.flow.sender().una());
        self.controlled.window.set_limit(limit);
    }

    /// Makes the guest send again what the box lacks (vCC §2, "Duplicate ACKs").
    fn send_duplicates(&mut self, buffered: &mut BufferedFlow, sack: &[SackBlock], count: usize) {
        for _ in 0..count {
            let Some(bytes) = buffered.write_duplicate(sack) else {
                return;
            };
            self.flows.buffers.statistics.duplicates += 1;
            self.push(buffered, Direction::ToGuest, bytes);
        }
    }

    fn push(&mut self, buffered: &BufferedFlow, direction: Direction, bytes: Vec<u8>) {
        self.flows.buffers.push(Outgoing {
            interface: buffered.interface,
            direction,
            is_ethernet: buffered.is_ethernet(),
            bytes,
        });
    }
}

fn datapath_controls(controls: Controls) -> fairwater_datapath::Controls {
    fairwater_datapath::Controls {
        cwnd: controls.cwnd,
        rate: controls.rate,
    }
}
