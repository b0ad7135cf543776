//! The box: packets in, verdicts out.

use std::time::Duration;

use fairwater_datapath::{Config, Datapath, Fallback, PeerId};
use fairwater_net::Time;
use fairwater_proto::Abilities;
use fairwater_wire::{Checksum, EcnCodepoint, Layout, ParseError, Rewriter, Seq, TcpFlags};

use crate::buffer::{BufferConfig, BufferStatistics, Buffers, Passing};
use crate::controlled::{ControlledFlow, ControlledFlows, Fate, initial_window};
use crate::enforce::{EcnChanges, WindowUpdate};
use crate::policy::{Echo, Exemption, Policies, Policy, Treatment};
use crate::starved::Detector;
use crate::track::{self, Acked, Event, Flow, Ignored, Seen, Sent, Table, TableConfig};
use crate::{Direction, FlowKey, Segment, buffer};

/// How long a flow waits for its program, under slow start from the initial window, before it is released.
pub const DEFAULT_GRACE: Duration = Duration::from_millis(200);

/// A packet at a guest's port, in the buffer that it is rewritten in.
#[derive(Debug)]
pub struct PortPacket<'a> {
    /// The guest's port, by the number that the caller gave it.
    pub interface: u32,
    /// Which way the packet goes.
    pub direction: Direction,
    /// The packet.
    pub bytes: &'a mut [u8],
    /// Whether it begins with an Ethernet header, else with IP's.
    pub is_ethernet: bool,
    /// What its TCP checksum field holds.
    pub checksum: Checksum,
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It goes on, perhaps rewritten.
    Pass,
    /// It is dropped: its data begins beyond the window that the guest was told.
    Police,
    /// It goes no further: the box holds its data, or hides it ([`BufferStatistics`]). What is to leave instead comes
    /// from [`Edge::poll_transmit`].
    Taken,
}

/// What a box has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EdgeStatistics {
    /// Packets that could not be read, by [`ParseError::index`]; they passed untouched.
    pub unreadable: [u64; ParseError::COUNT],
    /// Packets of TCP that did not fit their connection; they passed untouched.
    pub ignored: u64,
    /// Resets among them.
    pub resets_ignored: u64,
    /// Connections that found no room.
    pub full: u64,
    /// Packets dropped.
    pub policed: u64,
    /// Connections that came under an algorithm.
    pub controlled: u64,
    /// Connections that the policy would have controlled, and that are measured only.
    pub exempt: u64,
}

/// A box at the ports of guests: a datapath whose flows are the guests' connections.
///
/// Each packet of either direction goes through [`Edge::on_packet`]. The caller carries the datapath's
/// messages ([`Edge::datapath_mut`]) as for any other, and calls [`Edge::expire`] now and then. Where the policy asks
/// for buffers ([`Mode::Buffer`](crate::Mode::Buffer)), it sends what [`Edge::poll_transmit`] gives, and calls
/// [`Edge::on_timer`] when [`Edge::next_timer`] says so.
#[derive(Debug)]
pub struct Edge {
    pub(crate) table: Table<Fate>,
    pub(crate) flows: ControlledFlows,
}

impl Edge {
    /// A box without connections. The datapath's configuration should be that of
    /// [`Edge::datapath_config`]; `peer` is its plane.
    #[must_use]
    pub fn new(config: TableConfig, datapath: Datapath, peer: PeerId, policy: Policy) -> Self {
        Self {
            table: Table::new(config),
            flows: ControlledFlows {
                datapath,
                peer,
                policies: Policies::new(policy),
                grace: DEFAULT_GRACE,
                buffers: Buffers::new(BufferConfig::default()),
                statistics: EdgeStatistics::default(),
                sharing: 0,
                starved: Detector::default(),
            },
        }
    }

    /// What planes are told of a box: it enforces windows, its signals are inferred for the most part, and
    /// without a plane it steps aside.
    #[must_use]
    pub fn datapath_config() -> Config {
        Config {
            name: "edge".to_owned(),
            signals: track::signal_qualities(),
            abilities: Abilities {
                window: true,
                rate: false,
                // The peer echoes as RFC 3168 says, not packet by packet.
                ecn: false,
                // A guest restarts as it likes.
                idle_restart: false,
            },
            fallback: Fallback::Release,
            ..Config::default()
        }
    }

    /// What planes are told of a box whose connections are all held ([`Mode::Buffer`](crate::Mode::Buffer)): it
    /// enforces rates too, and knows most signals exactly.
    #[must_use]
    pub fn buffering_datapath_config() -> Config {
        let config = Self::datapath_config();
        Config {
            signals: buffer::signal_qualities(),
            abilities: Abilities {
                rate: true,
                idle_restart: true,
                ..config.abilities
            },
            ..config
        }
    }

    /// With other bounds of what is held; before the first packet.
    #[must_use]
    pub fn with_buffers(mut self, config: BufferConfig) -> Self {
        self.flows.buffers = Buffers::new(config);
        self
    }

    /// What buffering has done.
    #[must_use]
    pub const fn buffer_statistics(&self) -> &BufferStatistics {
        &self.flows.buffers.statistics
    }

    /// Connections whose data is held, and the memory that this takes, bytes.
    #[must_use]
    pub fn held(&self) -> (usize, usize) {
        let buffers = &self.flows.buffers;
        (buffers.len(), buffers.memory())
    }

    /// The datapath.
    #[must_use]
    pub const fn datapath(&self) -> &Datapath {
        &self.flows.datapath
    }

    /// The datapath, to carry its messages.
    pub const fn datapath_mut(&mut self) -> &mut Datapath {
        &mut self.flows.datapath
    }

    /// Sets how long a flow waits for its program before it is released; [`DEFAULT_GRACE`] at first.
    pub const fn set_grace(&mut self, grace: Duration) {
        self.flows.grace = grace;
    }

    /// Replaces the policy. Connections that are open keep what they have, and those that are opening now are
    /// under the policy that their first SYN was under.
    pub fn set_policy(&mut self, now: Time, policy: Policy) {
        self.flows.policies.replace(now, policy);
    }

    /// The connections.
    #[must_use]
    pub const fn connections(&self) -> &Table<Fate> {
        &self.table
    }

    /// What the box has seen.
    #[must_use]
    pub const fn statistics(&self) -> &EdgeStatistics {
        &self.flows.statistics
    }

    /// Forgets connections that have been silent for too long. Takes time in their number.
    pub fn expire(&mut self, now: Time) {
        self.table.expire(now, &mut self.flows);
        self.flows
            .policies
            .expire(now, self.table.config().half_open);
    }

    /// A packet passes. What is not a whole segment of TCP passes untouched.
    pub fn on_packet(&mut self, now: Time, packet: PortPacket<'_>) -> Verdict {
        let parsed = if packet.is_ethernet {
            Layout::of_ethernet(packet.bytes)
        } else {
            Layout::of_ip(packet.bytes)
        };
        let layout = match parsed {
            Ok(layout) => layout,
            Err(error) => return self.unreadable(error),
        };
        let read = layout.packet(packet.bytes);
        let Some(key) = FlowKey::of(&read, packet.interface, packet.direction) else {
            return Verdict::Pass;
        };
        let (Some(tcp), field) = (read.tcp(), read.ecn()) else {
            return Verdict::Pass;
        };
        let interface = packet.interface;
        let segment = match Segment::read(&tcp) {
            Ok(segment) => segment,
            Err(error) => return self.unreadable(error),
        };
        if packet.direction == Direction::FromGuest && self.is_beyond(&key, &segment) {
            self.flows.statistics.policed += 1;
            return Verdict::Police;
        }
        if !self.flows.buffers.is_empty()
            && let Some(verdict) =
                self.precheck(&key, packet.direction, &segment, (&read, packet.checksum))
        {
            return verdict;
        }
        let seen = self
            .table
            .on_packet(now, &key, packet.direction, &segment, &mut self.flows);
        let mut passing = Passing {
            direction: packet.direction,
            bytes: packet.bytes,
            layout,
            checksum: packet.checksum,
            segment,
            field,
        };
        match seen {
            Seen::Ignored(reason) => {
                self.ignored(reason);
                if reason == Ignored::AckOld && !self.flows.buffers.is_empty() {
                    return self.on_old_ack(&key, &mut passing);
                }
            }
            Seen::Opening => {
                let of_packet = (&key, packet.direction, &segment);
                self.on_opening(now, of_packet, &mut passing.rewriter());
            }
            Seen::Opened(id, event) | Seen::Open(id, event) => {
                if self.is_to_buffer(id) {
                    return self.on_buffered(now, id, event, passing);
                }
                if let Some((_, flow, Fate::Controlled(controlled))) = self.table.get_mut(id) {
                    let mut rewriter = passing.rewriter();
                    let context = (&mut self.flows, &mut rewriter);
                    on_controlled(now, (&segment, field, event), flow, controlled, context);
                    let buffers = &mut self.flows.buffers;
                    buffer::echo_marks(buffers, controlled, (interface, flow), &mut passing);
                }
            }
        }
        Verdict::Pass
    }

    fn unreadable(&mut self, error: ParseError) -> Verdict {
        if let Some(count) = self.flows.statistics.unreadable.get_mut(error.index()) {
            *count += 1;
        }
        Verdict::Pass
    }

    fn ignored(&mut self, reason: Ignored) {
        let statistics = &mut self.flows.statistics;
        match reason {
            Ignored::Full => statistics.full += 1,
            Ignored::ResetOutOfWindow => {
                statistics.ignored += 1;
                statistics.resets_ignored += 1;
            }
            Ignored::Unknown => {}
            _ => statistics.ignored += 1,
        }
    }

    /// Whether a guest sends data beyond the window that it was told, and is policed.
    fn is_beyond(&self, key: &FlowKey, segment: &Segment) -> bool {
        if segment.payload == 0 || segment.has(TcpFlags::SYN) {
            return false;
        }
        let Some(Fate::Controlled(controlled)) = self
            .table
            .find(key)
            .and_then(|id| self.table.get(id))
            .map(|(_, _, fate)| fate)
        else {
            return false;
        };
        // While another connection opens on its ports, the numbers may be that one's.
        controlled.treatment.police
            && self.table.half_open(key).is_none()
            && controlled.window.is_beyond(segment.seq, segment.payload)
    }

    /// A SYN, or the answer to one (vCC figure 3 a).
    fn on_opening(
        &mut self,
        now: Time,
        (key, direction, segment): (&FlowKey, Direction, &Segment),
        rewriter: &mut Rewriter<'_>,
    ) {
        let Some(half_open) = self.table.half_open_mut(key) else {
            // The answer once more, of a connection that is open.
            if direction == Direction::ToGuest
                && let Some(id) = self.table.find(key)
                && let Some((_, _, Fate::Controlled(controlled))) = self.table.get(id)
            {
                hide(
                    controlled.ecn.is_some(),
                    controlled.window_scale(),
                    segment,
                    rewriter,
                );
            }
            return;
        };
        let treatment = self.flows.treatment(now, key, Some(&*half_open));
        let Some(treatment) = treatment.filter(|_| Exemption::of(half_open).is_none()) else {
            let translated = half_open.translated;
            if direction == Direction::ToGuest {
                hide(translated.ecn, translated.scale, segment, rewriter);
            }
            return;
        };
        match direction {
            Direction::FromGuest => {
                let is_first = half_open.from_guest().is_some_and(|syn| syn.repeats == 0);
                if segment.has(TcpFlags::ACK) && half_open.translated.answers {
                    rewriter.set_flags(TcpFlags::ECE, TcpFlags::NONE);
                }
                // RFC 3168 §6.1.1.1: a SYN that was lost may have been lost for its flags.
                if treatment.ecn && is_first && !segment.has(TcpFlags::ACK) {
                    half_open.translated.ecn = true;
                    rewriter.set_flags(TcpFlags::ECE | TcpFlags::CWR, TcpFlags::NONE);
                }
            }
            Direction::ToGuest => {
                let offer = half_open.from_peer().filter(|_| !half_open.is_from_guest());
                if let Some(offer) = offer
                    && treatment.ecn
                    && treatment.echo == Echo::EachMark
                {
                    // A SYN that comes again goes bare, and so does its answer.
                    half_open.translated.answers = offer.repeats == 0 && offer.offers_ecn();
                    let offered = TcpFlags::ECE | TcpFlags::CWR | TcpFlags::AE;
                    rewriter.set_flags(TcpFlags::NONE, offered);
                }
                half_open.translated.scale = shown_scale(&treatment, segment);
                let translated = half_open.translated;
                hide(translated.ecn, translated.scale, segment, rewriter);
                if segment.has(TcpFlags::ACK) {
                    // RFC 7323 §2.2: not scaled. The guest may send as much as its first ACK will allow.
                    let initial = initial_window(u64::from(half_open.mss()));
                    let initial = u16::try_from(initial).unwrap_or(u16::MAX);
                    rewriter.set_window(segment.window.min(initial));
                }
            }
        }
    }
}

/// The shift that a guest is told, where it is another than the peer's.
fn shown_scale(treatment: &Treatment, segment: &Segment) -> Option<u8> {
    let scale = segment.options.window_scale?;
    treatment.max_scale.filter(|max| *max < scale)
}

/// Hides from the guest what it must not know of the peer's SYN.
fn hide(ecn: bool, scale: Option<u8>, segment: &Segment, rewriter: &mut Rewriter<'_>) {
    if ecn && segment.has(TcpFlags::ACK) {
        rewriter.set_flags(TcpFlags::NONE, TcpFlags::ECE | TcpFlags::CWR | TcpFlags::AE);
    }
    if let Some(scale) = scale {
        rewriter.set_window_scale(scale);
    }
}

/// A packet of a controlled connection, as the window alone limits the guest.
pub(crate) fn on_controlled(
    now: Time,
    (segment, field, event): (&Segment, EcnCodepoint, Event),
    flow: &mut Flow,
    controlled: &mut ControlledFlow,
    mut context: Context<'_, '_>,
) {
    match event {
        Event::Sent(sent) => on_sent(now, segment, sent, flow, controlled, &mut context),
        Event::Acked(acked) => {
            let packet = (segment, field);
            on_acked(now, packet, acked, flow, controlled, &mut context);
        }
        Event::Other => {}
    }
}

pub(crate) type Context<'a, 'b> = (&'a mut ControlledFlows, &'a mut Rewriter<'b>);

/// A packet from a controlled guest (vCC figure 3 b).
fn on_sent(
    now: Time,
    segment: &Segment,
    sent: Sent,
    flow: &mut Flow,
    controlled: &mut ControlledFlow,
    (flows, rewriter): &mut Context<'_, '_>,
) {
    if segment.payload > 0 {
        controlled.sent_at = now;
    }
    if sent == Sent::AfterTimeout {
        flows.invoke(now, flow, controlled, true);
    }
    // Data is marked only while an algorithm answers to marks: a guest that is released answers to losses.
    let is_probe = controlled.window.is_beyond(segment.seq, 2);
    let may_mark = controlled.window.target().is_some() && !is_probe;
    if let Some(ecn) = &mut controlled.ecn {
        apply(ecn.on_sent(segment, sent, may_mark), rewriter);
    }
}

/// A packet to a controlled guest, with an ACK (vCC figure 3 c).
fn on_acked(
    now: Time,
    (segment, field): (&Segment, EcnCodepoint),
    acked: Acked,
    flow: &mut Flow,
    controlled: &mut ControlledFlow,
    (flows, rewriter): &mut Context<'_, '_>,
) {
    if matches!(acked, Acked::New | Acked::Duplicate) {
        flows.invoke(now, flow, controlled, false);
    }
    let (una, nxt): (Seq, Seq) = (flow.sender().una(), flow.sender().nxt());
    if let Some(ecn) = &mut controlled.ecn {
        apply(ecn.on_received(segment, field, una, nxt), rewriter);
    }
    let window = controlled.window.field(&WindowUpdate {
        ack: segment.ack,
        field: segment.window,
        has_data: segment.length() > 0,
        una,
        nxt,
    });
    if window != segment.window {
        rewriter.set_window(window);
    }
}

pub(crate) fn apply(changes: EcnChanges, rewriter: &mut Rewriter<'_>) {
    if changes.set != TcpFlags::NONE || changes.clear != TcpFlags::NONE {
        rewriter.set_flags(changes.set, changes.clear);
    }
    if let Some(field) = changes.field {
        rewriter.set_ecn(field);
    }
}
