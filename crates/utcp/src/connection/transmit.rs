//! Packets that leave.

use fairwater_net::Time;
use fairwater_tcp::{Ecn, Segment};
use fairwater_wire::{
    Checksum, EcnCodepoint, SackBlock, SackBlocks, Seq, TcpFlags, TcpOption, compose,
};
use smallvec::SmallVec;

use super::handshake::{Handshake, window_scale};
use super::{Connection, Phase, TCP_HEADER};
use crate::State;

/// Options of one segment.
type Options<'a> = SmallVec<[TcpOption<'a>; 4]>;

/// The fields of a header that a segment has of its own.
#[derive(Debug, Clone, Copy)]
struct Fields {
    seq: Seq,
    ack: Seq,
    flags: TcpFlags,
    window: u16,
    ecn: EcnCodepoint,
}

impl Connection {
    /// Writes the next IP packet to send at the beginning of `out`, which has room for the MTU, and returns its length,
    /// bytes; call it until there is none. A packet for which there is no room is lost.
    pub fn poll_transmit(&mut self, now: Time, out: &mut [u8]) -> Option<usize> {
        if let Some((seq, ack)) = self.last_reset.take() {
            return self.write_reset(seq, Some(ack), out);
        }
        if let Some(seq) = self.stray_reset.take() {
            return self.write_reset(seq, None, out);
        }
        match &mut self.phase {
            Phase::Opening(handshake) if handshake.is_due => {
                handshake.on_sent(now);
                let handshake = *handshake;
                self.write_syn(now, &handshake, out)
            }
            Phase::Opening(_) | Phase::Closed(_) => None,
            Phase::Open(_) => self
                .transmit_data(now, out)
                .or_else(|| self.transmit_ack(now, out)),
        }
    }

    fn write_reset(&self, seq: Seq, ack: Option<Seq>, out: &mut [u8]) -> Option<usize> {
        let flags = match ack {
            Some(_) => TcpFlags::RST | TcpFlags::ACK,
            None => TcpFlags::RST,
        };
        let fields = Fields {
            seq,
            ack: ack.unwrap_or_default(),
            flags,
            window: 0,
            ecn: EcnCodepoint::NotEct,
        };
        write(self.ends(), &fields, &[], &[], out)
    }

    fn write_syn(&self, now: Time, handshake: &Handshake, out: &mut [u8]) -> Option<usize> {
        let tcp = &self.config.tcp;
        let offer = handshake.offer;
        let mss = self.path_mtu.saturating_sub(self.ip_header() + TCP_HEADER);
        let mut options = Options::new();
        options.push(TcpOption::Mss(u16::try_from(mss).unwrap_or(u16::MAX)));
        // An answer agrees to no more than was offered (RFC 7323 §2.2 and §3.2, RFC 2018 §2).
        if tcp.sack && offer.is_none_or(|offer| offer.sack) {
            options.push(TcpOption::SackPermitted);
        }
        let echo = offer.map_or(Some(0), |offer| offer.clock);
        if let Some(echo) = echo.filter(|_| tcp.timestamps) {
            let value = self.clock.value(now);
            options.push(TcpOption::Timestamps { value, echo });
        }
        if offer.is_none_or(|offer| offer.window_scale.is_some()) {
            options.push(TcpOption::WindowScale(window_scale(tcp.receive_window)));
        }
        let wants_ecn = tcp.ecn != Ecn::Off;
        let flags = match offer {
            None if wants_ecn => TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR,
            None => TcpFlags::SYN,
            Some(offer) if wants_ecn && offer.ecn => TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE,
            Some(_) => TcpFlags::SYN | TcpFlags::ACK,
        };
        let fields = Fields {
            seq: handshake.isn,
            ack: offer.map_or(Seq(0), |offer| offer.isn.plus(1)),
            flags,
            window: u16::try_from(tcp.receive_window).unwrap_or(u16::MAX),
            ecn: EcnCodepoint::NotEct,
        };
        write(self.ends(), &fields, &options, &[], out)
    }

    /// Data, a FIN, or a probe of the peer's window.
    fn transmit_data(&mut self, now: Time, out: &mut [u8]) -> Option<usize> {
        let Phase::Open(transfer) = &mut self.phase else {
            return None;
        };
        let mut segment = match transfer.rest.take() {
            Some(rest) => rest,
            None if transfer.state() == State::TimeWait => return None,
            None => transfer.sender.poll_transmit(now)?,
        };
        let is_probe = segment.len == 0 && !segment.fin;
        // The peer may have acknowledged a part of what is sent again.
        let known = self.send.start().saturating_sub(segment.seq);
        let known = u32::try_from(known).unwrap_or(u32::MAX).min(segment.len);
        segment.seq += u64::from(known);
        segment.len -= known;
        if segment.len > transfer.agreed.mss {
            // It was cut for a path that took more.
            let len = transfer.agreed.mss;
            transfer.rest = Some(Segment {
                seq: segment.seq + u64::from(len),
                len: segment.len - len,
                ..segment.clone()
            });
            segment.len = len;
            segment.fin = false;
        }
        let seq = if is_probe {
            transfer.on_probe();
            // RFC 9293 §3.8.6.1: a number that the peer has to answer.
            transfer.own.seq(transfer.acked).minus(1)
        } else {
            transfer.on_sent(segment.end(), segment.fin);
            transfer.own.seq(segment.seq)
        };
        let ack = transfer.receiver.piggyback();
        let mut flags = transfer.flags_of(&ack);
        let is_last = segment.seq + u64::from(segment.len) == self.send.end();
        if segment.len > 0 && is_last {
            flags = flags | TcpFlags::PSH;
        }
        if segment.fin {
            flags = flags | TcpFlags::FIN;
        }
        if segment.cwr {
            flags = flags | TcpFlags::CWR;
        }
        let fields = Fields {
            seq,
            ack: transfer.peer.seq(ack.ack),
            flags,
            window: transfer.advertise(&ack),
            ecn: codepoint(segment.ect),
        };
        let value = self.clock.value(now);
        let timestamps = transfer.peer_clock.map(|peer| TcpOption::Timestamps {
            value,
            echo: peer.echo(),
        });
        let ends = (self.local, self.remote);
        let payload = match is_probe {
            true => &[],
            false => self.send.range(segment.seq, segment.len),
        };
        write(ends, &fields, timestamps.as_slice(), payload, out)
    }

    /// An ACK without data.
    fn transmit_ack(&mut self, now: Time, out: &mut [u8]) -> Option<usize> {
        let Phase::Open(transfer) = &mut self.phase else {
            return None;
        };
        let ack = match transfer.receiver.poll_transmit(now) {
            Some(ack) => ack,
            None if transfer.is_ack_due => transfer.receiver.piggyback(),
            None => return None,
        };
        transfer.is_ack_due = false;
        let fields = Fields {
            seq: transfer.next_seq(),
            ack: transfer.peer.seq(ack.ack),
            flags: transfer.flags_of(&ack),
            window: transfer.advertise(&ack),
            ecn: codepoint(ack.ect),
        };
        let blocks: SmallVec<[[u8; 8]; 4]> = ack
            .sack
            .iter()
            .map(|block| {
                let (start, end) = (transfer.peer.seq(block.start), transfer.peer.seq(block.end));
                SackBlock { start, end }.to_bytes()
            })
            .collect();
        let mut options = Options::new();
        if let Some(peer) = transfer.peer_clock {
            options.push(TcpOption::Timestamps {
                value: self.clock.value(now),
                echo: peer.echo(),
            });
        }
        options.extend(SackBlocks::new(&blocks).map(TcpOption::Sack));
        write((self.local, self.remote), &fields, &options, &[], out)
    }

    const fn ends(&self) -> (std::net::SocketAddr, std::net::SocketAddr) {
        (self.local, self.remote)
    }
}

impl super::transfer::Transfer {
    fn flags_of(&self, ack: &Segment) -> TcpFlags {
        match ack.ece && self.agreed.ecn != Ecn::Off {
            true => TcpFlags::ACK | TcpFlags::ECE,
            false => TcpFlags::ACK,
        }
    }

    /// The window's field of a segment that carries this acknowledgement, which leaves now. What the shift cuts off is
    /// not advertised (RFC 7323 §2.3).
    fn advertise(&mut self, ack: &Segment) -> u16 {
        self.acknowledged = self.acknowledged.max(ack.ack);
        self.is_ack_due = false;
        let field = ack.window >> self.agreed.own_scale;
        let field = u16::try_from(field).unwrap_or(u16::MAX);
        self.edge = self.edge.max(ack.ack.saturating_add(ack.window));
        field
    }
}

const fn codepoint(ect: bool) -> EcnCodepoint {
    match ect {
        true => EcnCodepoint::Ect0,
        false => EcnCodepoint::NotEct,
    }
}

fn write(
    (local, remote): (std::net::SocketAddr, std::net::SocketAddr),
    fields: &Fields,
    options: &[TcpOption<'_>],
    payload: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    let ip = compose::Ip {
        ecn: fields.ecn,
        ..compose::Ip::new(local.ip(), remote.ip())
    };
    let tcp = compose::Tcp {
        source_port: local.port(),
        destination_port: remote.port(),
        seq: fields.seq,
        ack: fields.ack,
        flags: fields.flags,
        window: fields.window,
        urgent: 0,
    };
    compose::tcp(&ip, &tcp, options, payload, Checksum::Complete, out).ok()
}
