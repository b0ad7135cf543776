//! Connections of guests: what passes the box at the edge of the sender's host is written as the bytes that it
//! is in reality, and what the box has changed in them goes back into the simulated packet.

use std::net::SocketAddr;

use fairwater_edge::buffer::Outgoing;
use fairwater_edge::{Direction, FlowKey, PortPacket, Verdict};
use fairwater_net::{Ecn, Time};
use fairwater_tcp::{Block, Segment, TcpConfig};
use fairwater_wire::{
    Checksum, EcnCodepoint, MAX_WINDOW_SCALE, Packet, SackBlock, SackBlocks, Seq, TcpFlags,
    TcpOption, VlanTags, compose,
};
use rand::Rng;

use crate::plane_link::{Host, PlaneLink};

/// Bytes of the timestamps option in each segment. The MSS option does not count them (RFC 6691 §2).
const TIMESTAMPS_BYTES: u32 = 12;

/// Most bytes of headers: IPv4's, and TCP's with all of its options.
const MAX_HEADERS: usize = 20 + 60;

/// Most blocks of selective acknowledgements beside timestamps (RFC 2018 §3).
const MAX_SACK_BLOCKS: usize = 3;

/// A connection whose sender is behind a box: what its segments are on the wire.
#[derive(Debug)]
pub(crate) struct Guest {
    /// The box, as the plane's link names it.
    pub(crate) host: Host,
    /// The sender's port at the box: each flow is a guest of its own.
    interface: u32,
    sender: SocketAddr,
    receiver: SocketAddr,
    mss: u16,
    sack: bool,
    /// Initial sequence numbers of sender and receiver.
    iss: Seq,
    irs: Seq,
    /// Offset of both ends' timestamp clocks, ms.
    clock: u32,
    /// Shift of the windows that both ends advertise, and of the receiver's as the sender was told.
    scale: u8,
    told_scale: u8,
    /// The window's field of the sender's segments: its receiver is idle.
    window: u16,
    /// Whether the box holds its data.
    pub(crate) is_held: bool,
    /// The end of what it has sent, as an offset: numbers of the wire are near it.
    sent: u64,
}

/// A simulated packet as it passes a box.
pub(crate) struct Passing<'a> {
    /// The segment.
    pub(crate) segment: &'a mut Segment,
    /// Its ECN field.
    pub(crate) ecn: &'a mut Ecn,
    /// The sender has no more to send after it.
    pub(crate) is_last: bool,
}

/// Buffers in which packets are written.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    packet: Vec<u8>,
    /// Data of streams, from [`Wire::data`].
    payload: Vec<u8>,
}

impl Wire {
    /// The bytes of a stream from an offset on: a pattern of which no shift by less than its period is itself.
    fn data(&mut self, offset: u64, length: usize) -> &[u8] {
        let start = (offset % PATTERN_PERIOD) as usize;
        if self.payload.len() < start + length {
            let whole = PATTERN_PERIOD as usize + MAX_PAYLOAD;
            let byte = |at: usize| (at as u64 % PATTERN_PERIOD).wrapping_mul(0x9e37_79b9) >> 13;
            self.payload = (0..whole).map(|at| byte(at) as u8).collect();
        }
        self.payload.get(start..start + length).unwrap_or_default()
    }
}

/// Bytes after which the data of a stream repeats: prime to all powers of two.
const PATTERN_PERIOD: u64 = 65_521;

/// Most bytes of data in a packet.
const MAX_PAYLOAD: usize = 1 << 16;

/// The port of the guest that a packet of a box is from, or for.
pub(crate) fn port_of(outgoing: &Outgoing) -> Option<u16> {
    let tcp = Packet::parse_ip(&outgoing.bytes).ok()?.tcp()?;
    Some(match outgoing.direction {
        Direction::FromGuest => tcp.source_port(),
        Direction::ToGuest => tcp.destination_port(),
    })
}

impl Guest {
    /// Of a connection that begins between these two ends, with numbers from `rng`.
    pub(crate) fn new(
        (host, interface, is_held): (Host, u32, bool),
        (sender, receiver): (SocketAddr, SocketAddr),
        tcp: &TcpConfig,
        rng: &mut impl Rng,
    ) -> Self {
        let scale = scale_of(tcp.receive_window);
        let mss = tcp.mss.saturating_add(TIMESTAMPS_BYTES);
        Self {
            host,
            interface,
            sender,
            receiver,
            mss: u16::try_from(mss).unwrap_or(u16::MAX),
            sack: tcp.sack,
            iss: Seq(rng.next_u32()),
            irs: Seq(rng.next_u32()),
            clock: rng.next_u32(),
            scale,
            told_scale: scale,
            window: field(tcp.receive_window, scale),
            is_held,
            sent: 0,
        }
    }

    /// The connection as the box knows it.
    pub(crate) fn key(&self) -> FlowKey {
        FlowKey {
            interface: self.interface,
            vlan: VlanTags::default(),
            guest: self.sender,
            peer: self.receiver,
        }
    }

    /// A packet passes the box, which may change it. Whether it goes on.
    pub(crate) fn pass(
        &mut self,
        now: Time,
        direction: Direction,
        passing: &mut Passing<'_>,
        (plane, wire): (&mut PlaneLink, &mut Wire),
    ) -> bool {
        if direction == Direction::FromGuest {
            self.sent = self.sent.max(passing.segment.end());
        }
        // Sizes were checked with the configuration: whatever is sent can be written.
        let Ok(packet) = self.write(now, direction, passing, wire) else {
            return true;
        };
        if plane.pass(self.host, packet, now) != Verdict::Pass {
            return false;
        }
        self.read(direction, passing, wire);
        true
    }

    /// Writes a packet in `wire`, for the box to read and to change.
    fn write<'w>(
        &self,
        now: Time,
        direction: Direction,
        passing: &Passing<'_>,
        wire: &'w mut Wire,
    ) -> Result<PortPacket<'w>, compose::ComposeError> {
        let segment = &*passing.segment;
        let (source, destination) = match direction {
            Direction::FromGuest => (self.sender, self.receiver),
            Direction::ToGuest => (self.receiver, self.sender),
        };
        let ip = compose::Ip {
            ecn: codepoint(*passing.ecn),
            ..compose::Ip::new(source.ip(), destination.ip())
        };
        let (seq, ack) = self.numbers(direction, segment);
        let tcp = compose::Tcp {
            source_port: source.port(),
            destination_port: destination.port(),
            seq,
            ack,
            flags: flags(direction, passing),
            window: match (direction, segment.syn) {
                (Direction::FromGuest, false) => self.window,
                (Direction::FromGuest, true) => u16::MAX,
                // RFC 7323 §2.2: the window of a SYN is not scaled.
                (Direction::ToGuest, true) => field(segment.window, 0),
                (Direction::ToGuest, false) => field(segment.window, self.scale),
            },
            urgent: 0,
        };
        let length = segment.len as usize;
        let mut bytes = std::mem::take(&mut wire.packet);
        if bytes.len() < MAX_HEADERS + length {
            bytes.resize(MAX_HEADERS + length, 0);
        }
        let payload = wire.data(segment.seq, length);
        let options = Options::new(self, now, direction, segment);
        let checksum = Checksum::Partial;
        let written =
            options.with(|options| compose::tcp(&ip, &tcp, options, payload, checksum, &mut bytes));
        wire.packet = bytes;
        let written = written?;
        Ok(PortPacket {
            interface: self.interface,
            direction,
            bytes: wire.packet.get_mut(..written).unwrap_or_default(),
            is_ethernet: false,
            checksum,
        })
    }

    /// Takes back into the simulated packet what the box left of it in `wire`.
    fn read(&mut self, direction: Direction, passing: &mut Passing<'_>, wire: &Wire) {
        let Ok(packet) = Packet::parse_ip(&wire.packet) else {
            return;
        };
        let Some(tcp) = packet.tcp() else {
            return;
        };
        *passing.ecn = ecn_of(packet.ecn());
        let segment = &mut *passing.segment;
        segment.ect = *passing.ecn != Ecn::NotEct;
        segment.ece = tcp.flags().contains(TcpFlags::ECE);
        segment.cwr = tcp.flags().contains(TcpFlags::CWR);
        if direction == Direction::FromGuest {
            return;
        }
        let summary = tcp.option_summary().ok();
        if summary.is_some_and(|all| all.sack().is_empty()) {
            segment.sack.clear();
        }
        if segment.syn {
            let told = summary.and_then(|all| all.window_scale);
            self.told_scale = told.unwrap_or(self.scale);
            segment.window = u64::from(tcp.window());
        } else {
            segment.window = u64::from(tcp.window()) << self.told_scale;
        }
    }

    /// A packet of the box in the place of one of the ends; `None` if it is none that they could have sent.
    pub(crate) fn read_outgoing(
        &self,
        now: Time,
        outgoing: &Outgoing,
        wire: &mut Wire,
    ) -> Option<(Segment, Ecn)> {
        let packet = Packet::parse_ip(&outgoing.bytes).ok()?;
        if !packet.has_valid_checksums() {
            return None;
        }
        let tcp = packet.tcp()?;
        let (flags, summary) = (tcp.flags(), tcp.option_summary().ok()?);
        let ecn = ecn_of(packet.ecn());
        let (value, echo) = summary.timestamps?;
        let mut segment = Segment {
            fin: flags.contains(TcpFlags::FIN),
            ect: ecn != Ecn::NotEct,
            ece: flags.contains(TcpFlags::ECE),
            cwr: flags.contains(TcpFlags::CWR),
            ..Segment::default()
        };
        if outgoing.direction == Direction::FromGuest {
            segment.seq = self.offset_of(tcp.seq())?;
            segment.len = u32::try_from(tcp.payload().len()).ok()?;
            segment.timestamp = self.time_of(now, value);
            let is_sent = segment.end() <= self.sent;
            let is_right = wire.data(segment.seq, tcp.payload().len()) == tcp.payload();
            return (is_sent && is_right).then_some((segment, ecn));
        }
        segment.ack = self.offset_of(tcp.ack())?;
        segment.window = u64::from(tcp.window()) << self.told_scale;
        segment.timestamp = self.time_of(now, echo);
        for block in summary.sack() {
            let (start, end) = (self.offset_of(block.start)?, self.offset_of(block.end)?);
            segment.sack.push(Block { start, end });
        }
        Some((segment, ecn))
    }

    /// Sequence and acknowledgement number. A SYN takes a number.
    fn numbers(&self, direction: Direction, segment: &Segment) -> (Seq, Seq) {
        let of_receiver = self.irs.plus(u32::from(!segment.syn));
        match direction {
            Direction::FromGuest if segment.syn => (self.iss, Seq(0)),
            Direction::FromGuest => (self.offset(segment.seq), of_receiver),
            Direction::ToGuest => (of_receiver, self.offset(segment.ack)),
        }
    }

    /// The sequence number of an offset of the sender's stream: 32 bits, which wrap.
    fn offset(&self, offset: u64) -> Seq {
        self.iss.plus(1).plus(offset as u32)
    }

    /// The offset of a sequence number, which is near what was sent last.
    fn offset_of(&self, seq: Seq) -> Option<u64> {
        let distance = seq.distance_from(self.offset(self.sent));
        self.sent.checked_add_signed(distance.into())
    }

    /// When the clock said that, ms before now.
    fn time_of(&self, now: Time, clock: u32) -> Time {
        let past_ms = self.clock(now).wrapping_sub(clock);
        let now_ms = now.as_nanos() / 1_000_000;
        Time::from_millis(now_ms.saturating_sub(past_ms.into()))
    }

    /// The timestamp clock, ms (RFC 7323 §5.4).
    fn clock(&self, at: Time) -> u32 {
        self.clock.wrapping_add((at.as_nanos() / 1_000_000) as u32)
    }
}

/// The options of one segment.
struct Options {
    syn: Option<(u16, u8, bool)>,
    timestamps: (u32, u32),
    blocks: [[u8; 8]; MAX_SACK_BLOCKS],
    block_count: usize,
}

impl Options {
    fn new(guest: &Guest, now: Time, direction: Direction, segment: &Segment) -> Self {
        let timestamps = match direction {
            Direction::FromGuest if segment.syn => (guest.clock(segment.timestamp), 0),
            Direction::FromGuest => (guest.clock(segment.timestamp), guest.clock(now)),
            Direction::ToGuest => (guest.clock(now), guest.clock(segment.timestamp)),
        };
        let mut blocks = [[0; 8]; MAX_SACK_BLOCKS];
        let mut block_count = 0;
        for (into, Block { start, end }) in blocks.iter_mut().zip(&segment.sack) {
            let (start, end) = (guest.offset(*start), guest.offset(*end));
            *into = SackBlock { start, end }.to_bytes();
            block_count += 1;
        }
        Self {
            syn: segment.syn.then_some((guest.mss, guest.scale, guest.sack)),
            timestamps,
            blocks,
            block_count,
        }
    }

    /// Calls `write` with the options as a list.
    fn with<R>(&self, write: impl FnOnce(&[TcpOption<'_>]) -> R) -> R {
        let (value, echo) = self.timestamps;
        let timestamps = TcpOption::Timestamps { value, echo };
        match self.syn {
            Some((mss, scale, true)) => write(&[
                TcpOption::Mss(mss),
                TcpOption::SackPermitted,
                timestamps,
                TcpOption::WindowScale(scale),
            ]),
            Some((mss, scale, false)) => write(&[
                TcpOption::Mss(mss),
                timestamps,
                TcpOption::WindowScale(scale),
            ]),
            None => {
                let blocks = self.blocks.get(..self.block_count).unwrap_or_default();
                match SackBlocks::new(blocks) {
                    Some(blocks) => write(&[timestamps, TcpOption::Sack(blocks)]),
                    None => write(&[timestamps]),
                }
            }
        }
    }
}

fn flags(direction: Direction, passing: &Passing<'_>) -> TcpFlags {
    let segment = &*passing.segment;
    let has_ack = !segment.syn || direction == Direction::ToGuest;
    let flags = [
        (segment.syn, TcpFlags::SYN),
        (segment.fin, TcpFlags::FIN),
        (has_ack, TcpFlags::ACK),
        (segment.len > 0 && passing.is_last, TcpFlags::PSH),
        (segment.ece, TcpFlags::ECE),
        (segment.cwr, TcpFlags::CWR),
    ];
    let set = flags.into_iter().filter(|(is_set, _)| *is_set);
    set.fold(TcpFlags::NONE, |all, (_, flag)| all | flag)
}

const fn ecn_of(field: EcnCodepoint) -> Ecn {
    match field {
        EcnCodepoint::NotEct => Ecn::NotEct,
        EcnCodepoint::Ect0 => Ecn::Ect0,
        EcnCodepoint::Ect1 => Ecn::Ect1,
        EcnCodepoint::Ce => Ecn::Ce,
    }
}

pub(crate) const fn codepoint(ecn: Ecn) -> EcnCodepoint {
    match ecn {
        Ecn::NotEct => EcnCodepoint::NotEct,
        Ecn::Ect0 => EcnCodepoint::Ect0,
        Ecn::Ect1 => EcnCodepoint::Ect1,
        Ecn::Ce => EcnCodepoint::Ce,
    }
}

/// The least shift with which a window fits its field (RFC 7323 §2.3).
fn scale_of(window: u64) -> u8 {
    let fits = |scale: &u8| window >> *scale <= u64::from(u16::MAX);
    (0..MAX_WINDOW_SCALE).find(fits).unwrap_or(MAX_WINDOW_SCALE)
}

fn field(window: u64, scale: u8) -> u16 {
    u16::try_from(window >> scale).unwrap_or(u16::MAX)
}
