//! Connections of guests: what passes the box at the edge of the sender's host is written as the bytes that it
//! is in reality, and what the box has changed in them goes back into the simulated packet.

use std::net::SocketAddr;

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
    payload: Vec<u8>,
}

impl Guest {
    /// Of a connection that begins between these two ends, with numbers from `rng`.
    pub(crate) fn new(
        (host, interface): (Host, u32),
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
        // Sizes were checked with the configuration: whatever is sent can be written.
        let Ok(packet) = self.write(now, direction, passing, wire) else {
            return true;
        };
        if plane.pass(self.host, packet, now) == Verdict::Police {
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
        if wire.payload.len() < length {
            wire.payload.resize(length, 0);
        }
        if wire.packet.len() < MAX_HEADERS + length {
            wire.packet.resize(MAX_HEADERS + length, 0);
        }
        let payload = wire.payload.get(..length).unwrap_or_default();
        let options = Options::new(self, now, direction, segment);
        let checksum = Checksum::Partial;
        let written = options.with(|options| {
            compose::tcp(&ip, &tcp, options, payload, checksum, &mut wire.packet)
        })?;
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
        *passing.ecn = match packet.ecn() {
            EcnCodepoint::NotEct => Ecn::NotEct,
            EcnCodepoint::Ect0 => Ecn::Ect0,
            EcnCodepoint::Ect1 => Ecn::Ect1,
            EcnCodepoint::Ce => Ecn::Ce,
        };
        let segment = &mut *passing.segment;
        segment.ect = *passing.ecn != Ecn::NotEct;
        segment.ece = tcp.flags().contains(TcpFlags::ECE);
        segment.cwr = tcp.flags().contains(TcpFlags::CWR);
        if direction == Direction::FromGuest {
            return;
        }
        if segment.syn {
            let told = tcp.option_summary().ok().and_then(|all| all.window_scale);
            self.told_scale = told.unwrap_or(self.scale);
            segment.window = u64::from(tcp.window());
        } else {
            segment.window = u64::from(tcp.window()) << self.told_scale;
        }
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

const fn codepoint(ecn: Ecn) -> EcnCodepoint {
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
