//! Resets for segments of no connection.

use fairwater_wire::{Checksum, EcnCodepoint, Packet, Seq, Tcp, TcpFlags, compose};

/// Writes the reset that answers a segment of no connection (RFC 9293 §3.5.2, group 1); `None` for a reset, or if
/// there is no room.
pub(crate) fn answer(packet: &Packet<'_>, tcp: &Tcp<'_>, out: &mut [u8]) -> Option<usize> {
    let flags = tcp.flags();
    if flags.contains(TcpFlags::RST) {
        return None;
    }
    let (seq, ack, flags) = if flags.contains(TcpFlags::ACK) {
        (tcp.ack(), Seq(0), TcpFlags::RST)
    } else {
        let ack = tcp.seq().plus(tcp.seq_length());
        (Seq(0), ack, TcpFlags::RST | TcpFlags::ACK)
    };
    let ip = compose::Ip {
        ecn: EcnCodepoint::NotEct,
        ..compose::Ip::new(packet.destination(), packet.source())
    };
    let header = compose::Tcp {
        source_port: tcp.destination_port(),
        destination_port: tcp.source_port(),
        seq,
        ack,
        flags,
        window: 0,
        urgent: 0,
    };
    compose::tcp(&ip, &header, &[], &[], Checksum::Complete, out).ok()
}
