//! Segments, made of packets.

use fairwater_edge::track::{Event, Seen, Table, TableConfig};
use fairwater_edge::{Direction, FlowKey, Segment};
use fairwater_net::Time;
use fairwater_wire::{Checksum, Packet, SackBlock, SackBlocks, Seq, TcpFlags, TcpOption, compose};

pub(crate) const GUEST: ([u8; 4], u16) = ([10, 0, 0, 1], 40_000);
pub(crate) const PEER: ([u8; 4], u16) = ([192, 0, 2, 1], 443);
pub(crate) const MSS: u32 = 1000;

pub(crate) fn ms(ms: u64) -> Time {
    Time::from_millis(1_000 + ms)
}

pub(crate) fn key() -> FlowKey {
    FlowKey {
        interface: 3,
        vlan: fairwater_wire::VlanTags::NONE,
        guest: GUEST.into(),
        peer: PEER.into(),
    }
}

/// The fields of a segment that tests set.
#[derive(Debug, Clone)]
pub(crate) struct Fields {
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: TcpFlags,
    pub(crate) window: u16,
    pub(crate) payload: usize,
    /// The payload, where it is not zeros.
    pub(crate) data: Vec<u8>,
    pub(crate) urgent: u16,
    pub(crate) guest_port: u16,
    pub(crate) options: Vec<TcpOption<'static>>,
    pub(crate) sack: Vec<(u32, u32)>,
}

impl Default for Fields {
    fn default() -> Self {
        Self {
            seq: 0,
            ack: 0,
            flags: TcpFlags::ACK,
            window: 1000,
            payload: 0,
            data: Vec::new(),
            urgent: 0,
            guest_port: GUEST.1,
            options: Vec::new(),
            sack: Vec::new(),
        }
    }
}

impl Fields {
    /// The IP packet.
    pub(crate) fn packet(&self, direction: Direction) -> Vec<u8> {
        let guest = (GUEST.0, self.guest_port);
        let (from, to) = match direction {
            Direction::FromGuest => (guest, PEER),
            Direction::ToGuest => (PEER, guest),
        };
        let ip = compose::Ip::new(from.0.into(), to.0.into());
        let tcp = compose::Tcp {
            source_port: from.1,
            destination_port: to.1,
            seq: Seq(self.seq),
            ack: Seq(self.ack),
            flags: self.flags,
            window: self.window,
            urgent: self.urgent,
        };
        let blocks = self.sack.iter().map(|&(start, end)| {
            let (start, end) = (Seq(start), Seq(end));
            SackBlock { start, end }.to_bytes()
        });
        let blocks: Vec<_> = blocks.collect();
        let mut options = self.options.clone();
        options.extend(SackBlocks::new(&blocks).map(TcpOption::Sack));
        let payload = if self.data.is_empty() {
            vec![0; self.payload]
        } else {
            self.data.clone()
        };
        let mut bytes = vec![0; 100 + payload.len()];
        let length = compose::tcp(
            &ip,
            &tcp,
            &options,
            &payload,
            Checksum::Complete,
            &mut bytes,
        )
        .unwrap();
        bytes.truncate(length);
        bytes
    }

    pub(crate) fn segment(&self) -> Segment {
        let bytes = self.packet(Direction::FromGuest);
        Segment::read(&Packet::parse_ip(&bytes).unwrap().tcp().unwrap()).unwrap()
    }
}

/// A SYN with the options that a host sends.
pub(crate) fn syn(seq: u32, ack: Option<u32>, sack: bool) -> Fields {
    let mut options = vec![TcpOption::Mss(MSS as u16), TcpOption::WindowScale(7)];
    if sack {
        options.push(TcpOption::SackPermitted);
    }
    Fields {
        seq,
        ack: ack.unwrap_or(0),
        flags: match ack {
            Some(_) => TcpFlags::SYN | TcpFlags::ACK,
            None => TcpFlags::SYN,
        },
        window: 64_000,
        options,
        ..Fields::default()
    }
}

/// A table that measures only, and the time.
pub(crate) struct Tracker {
    pub(crate) table: Table<()>,
    pub(crate) now: Time,
}

impl Tracker {
    pub(crate) fn new(config: TableConfig) -> Self {
        Self {
            table: Table::new(config),
            now: ms(0),
        }
    }

    /// A connection that the guest opened: its data begins at `guest` + 1, the peer's at `peer` + 1.
    pub(crate) fn open(guest: u32, peer: u32, sack: bool) -> (Self, usize) {
        let mut tracker = Self::new(TableConfig::default());
        let id = tracker.handshake(guest, peer, sack);
        (tracker, id)
    }

    pub(crate) fn handshake(&mut self, guest: u32, peer: u32, sack: bool) -> usize {
        assert_eq!(self.sent(&syn(guest, None, sack)), Seen::Opening);
        let answer = syn(peer, Some(guest.wrapping_add(1)), sack);
        assert_eq!(self.received(&answer), Seen::Opening);
        let third = Fields {
            seq: guest.wrapping_add(1),
            ack: peer.wrapping_add(1),
            ..Fields::default()
        };
        match self.sent(&third) {
            Seen::Opened(id, Event::Sent(_)) => id,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn sent(&mut self, fields: &Fields) -> Seen {
        self.packet(&key(), Direction::FromGuest, fields)
    }

    pub(crate) fn received(&mut self, fields: &Fields) -> Seen {
        self.packet(&key(), Direction::ToGuest, fields)
    }

    pub(crate) fn packet(&mut self, key: &FlowKey, direction: Direction, fields: &Fields) -> Seen {
        self.table
            .on_packet(self.now, key, direction, &fields.segment(), &mut ())
    }

    pub(crate) fn expire(&mut self) {
        self.table.expire(self.now, &mut ());
    }
}
