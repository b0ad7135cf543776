//! Packets written from their fields.

use core::net::IpAddr;

use thiserror::Error;

use crate::checksum::Sum;
use crate::ethernet::ether_type;
use crate::ip::{IPV4_HEADER, IPV6_HEADER, protocol};
use crate::tcp::{MAX_TCP_OPTIONS, TCP_HEADER, option_kind as kind};
use crate::udp::UDP_HEADER;
use crate::{Checksum, EcnCodepoint, Seq, TcpFlags, TcpOption, VlanTags};

/// Why a packet was not written; the buffer may have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum ComposeError {
    /// One address is of IPv4 and the other of IPv6.
    #[error("the addresses are of two families")]
    Families,
    /// More than 40 bytes of options.
    #[error("the TCP options take more than 40 bytes")]
    Options,
    /// More than the length fields hold.
    #[error("the packet is longer than its length field can say")]
    TooLong,
    /// The buffer is shorter than the packet.
    #[error("the buffer is too short: the packet has {0} bytes")]
    NoRoom(usize),
}

/// The fields of an IP header, of the version of the addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip {
    /// The sender.
    pub source: IpAddr,
    /// The receiver.
    pub destination: IpAddr,
    /// The DSCP, six bits.
    pub dscp: u8,
    /// The ECN field.
    pub ecn: EcnCodepoint,
    /// IPv4's identification; packets are not to be fragmented.
    pub id: u16,
    /// IPv6's flow label, 20 bits.
    pub flow_label: u32,
    /// TTL or hop limit.
    pub hop_limit: u8,
}

impl Ip {
    /// Between two addresses; 64 hops, all else 0.
    #[must_use]
    pub const fn new(source: IpAddr, destination: IpAddr) -> Self {
        Self {
            source,
            destination,
            dscp: 0,
            ecn: EcnCodepoint::NotEct,
            id: 0,
            flow_label: 0,
            hop_limit: 64,
        }
    }
}

/// The fields of a TCP header but its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tcp {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// Sequence number of the first payload byte, or of the SYN.
    pub seq: Seq,
    /// The acknowledgement number.
    pub ack: Seq,
    /// The flags.
    pub flags: TcpFlags,
    /// The receive window's field, not scaled.
    pub window: u16,
    /// The urgent pointer.
    pub urgent: u16,
}

/// Writes an IP packet with a TCP segment at the beginning of `out`; returns its length, bytes.
///
/// # Errors
/// See [`ComposeError`].
pub fn tcp(
    ip: &Ip,
    tcp: &Tcp,
    options: &[TcpOption<'_>],
    payload: &[u8],
    checksum: Checksum,
    out: &mut [u8],
) -> Result<usize, ComposeError> {
    let mut written = [kind::NOP; MAX_TCP_OPTIONS];
    let options = write_options(options, &mut written)?;
    let header = TCP_HEADER + options.len();
    let start = write_ip(ip, protocol::TCP, header + payload.len(), out)?;
    let segment = out.get_mut(start..).unwrap_or_default();
    let mut writer = Writer::new(segment);
    writer.put(&tcp.source_port.to_be_bytes());
    writer.put(&tcp.destination_port.to_be_bytes());
    writer.put(&tcp.seq.0.to_be_bytes());
    writer.put(&tcp.ack.0.to_be_bytes());
    let offset = ((header / 4) as u16) << 12;
    writer.put(&(offset | tcp.flags.bits()).to_be_bytes());
    writer.put(&tcp.window.to_be_bytes());
    writer.put(&[0; 2]);
    writer.put(&tcp.urgent.to_be_bytes());
    writer.put(options);
    writer.put(payload);
    let length = writer.at;
    put_checksum(ip, protocol::TCP, checksum, 16, out, start, length);
    Ok(start + length)
}

/// Writes an IP packet with a UDP datagram at the beginning of `out`; returns its length, bytes.
///
/// # Errors
/// See [`ComposeError`].
pub fn udp(
    ip: &Ip,
    (source_port, destination_port): (u16, u16),
    payload: &[u8],
    checksum: Checksum,
    out: &mut [u8],
) -> Result<usize, ComposeError> {
    let length = UDP_HEADER + payload.len();
    let start = write_ip(ip, protocol::UDP, length, out)?;
    let datagram = out.get_mut(start..).unwrap_or_default();
    let mut writer = Writer::new(datagram);
    writer.put(&source_port.to_be_bytes());
    writer.put(&destination_port.to_be_bytes());
    let field = u16::try_from(length).map_err(|_| ComposeError::TooLong)?;
    writer.put(&field.to_be_bytes());
    writer.put(&[0; 2]);
    writer.put(payload);
    put_checksum(ip, protocol::UDP, checksum, 6, out, start, length);
    Ok(start + length)
}

/// Writes an Ethernet header for a packet of IPv6, or of IPv4; returns its length, bytes.
///
/// # Errors
/// The buffer is too short.
pub fn ethernet(
    source: [u8; 6],
    destination: [u8; 6],
    vlan: VlanTags,
    is_v6: bool,
    out: &mut [u8],
) -> Result<usize, ComposeError> {
    let length = 14 + 4 * vlan.ids().len();
    if out.len() < length {
        return Err(ComposeError::NoRoom(length));
    }
    let mut writer = Writer::new(out);
    writer.put(&destination);
    writer.put(&source);
    for (index, id) in vlan.ids().iter().enumerate() {
        let is_last = index + 1 == vlan.ids().len();
        let tag = if is_last {
            ether_type::VLAN
        } else {
            ether_type::QINQ
        };
        writer.put(&tag.to_be_bytes());
        writer.put(&id.to_be_bytes());
    }
    let kind = if is_v6 {
        ether_type::IPV6
    } else {
        ether_type::IPV4
    };
    writer.put(&kind.to_be_bytes());
    Ok(length)
}

/// Writes the IP header of a payload of that length, if the buffer has room for both.
fn write_ip(ip: &Ip, protocol: u8, length: usize, out: &mut [u8]) -> Result<usize, ComposeError> {
    let class = ip.dscp << 2 | ip.ecn.bits();
    let header = match (ip.source, ip.destination) {
        (IpAddr::V4(_), IpAddr::V4(_)) => IPV4_HEADER,
        (IpAddr::V6(_), IpAddr::V6(_)) => IPV6_HEADER,
        _ => return Err(ComposeError::Families),
    };
    if out.len() < header + length {
        return Err(ComposeError::NoRoom(header + length));
    }
    let field = |length: usize| u16::try_from(length).map_err(|_| ComposeError::TooLong);
    let mut writer = Writer::new(out);
    match (ip.source, ip.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            writer.put(&[0x45, class]);
            writer.put(&field(header + length)?.to_be_bytes());
            writer.put(&ip.id.to_be_bytes());
            // RFC 791 §3.1: do not fragment.
            writer.put(&[0x40, 0, ip.hop_limit, protocol, 0, 0]);
            writer.put(&source.octets());
            writer.put(&destination.octets());
            let written = out.get_mut(..header).unwrap_or_default();
            let checksum = Sum::ZERO.bytes(written).checksum();
            Writer::at(written, 10).put(&checksum.to_be_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let first = 6 << 28 | u32::from(class) << 20 | (ip.flow_label & 0xf_ffff);
            writer.put(&first.to_be_bytes());
            writer.put(&field(length)?.to_be_bytes());
            writer.put(&[protocol, ip.hop_limit]);
            writer.put(&source.octets());
            writer.put(&destination.octets());
        }
        _ => {}
    }
    Ok(header)
}

/// Writes the checksum of the transport at `start`, whose field is at `field` from there.
fn put_checksum(
    ip: &Ip,
    protocol: u8,
    checksum: Checksum,
    field: usize,
    out: &mut [u8],
    start: usize,
    length: usize,
) {
    let transport = out.get_mut(start..start + length).unwrap_or_default();
    let pseudo = Sum::ZERO.pseudo_header(ip.source, ip.destination, protocol, length as u32);
    let value = match checksum {
        Checksum::Partial => pseudo.folded(),
        Checksum::Complete => match pseudo.bytes(transport).checksum() {
            // RFC 768: 0 would say that there is none.
            0 if protocol == protocol::UDP => u16::MAX,
            value => value,
        },
    };
    Writer::at(transport, field).put(&value.to_be_bytes());
}

/// The options in a row, filled up to a multiple of 4 bytes.
fn write_options<'a>(
    options: &[TcpOption<'_>],
    out: &'a mut [u8; MAX_TCP_OPTIONS],
) -> Result<&'a [u8], ComposeError> {
    let mut writer = Writer::new(out);
    for option in options {
        match option {
            TcpOption::Mss(mss) => writer.option(kind::MSS, &[&mss.to_be_bytes()]),
            TcpOption::WindowScale(shift) => writer.option(kind::WINDOW_SCALE, &[&[*shift]]),
            TcpOption::SackPermitted => writer.option(kind::SACK_PERMITTED, &[]),
            TcpOption::Sack(blocks) => {
                writer.option(kind::SACK, &[blocks.raw().as_flattened()]);
            }
            TcpOption::Timestamps { value, echo } => writer.option(
                kind::TIMESTAMPS,
                &[&value.to_be_bytes(), &echo.to_be_bytes()],
            ),
            TcpOption::FastOpen(cookie) => writer.option(kind::FAST_OPEN, &[cookie]),
            TcpOption::Md5(digest) => writer.option(kind::MD5, &[digest]),
            TcpOption::Authentication(data) => writer.option(kind::AO, &[data]),
            TcpOption::Mptcp(data) => writer.option(kind::MPTCP, &[data]),
            TcpOption::AccEcn(counters) => {
                // Order 0 (RFC 9768 §3.2.3); a field cannot be left out before another.
                let fields = [counters.ect0_bytes, counters.ce_bytes, counters.ect1_bytes];
                let count = fields.iter().take_while(|field| field.is_some()).count();
                let mut data = [0; 9];
                for (into, field) in data.chunks_exact_mut(3).zip(fields.iter().flatten()) {
                    into.copy_from_slice(&field.to_be_bytes()[1..]);
                }
                writer.option(kind::ACC_ECN_0, &[&data[..3 * count]]);
            }
            TcpOption::Unknown { kind, data } => writer.option(*kind, &[data]),
        }
    }
    let length = writer.at.next_multiple_of(4);
    if length > MAX_TCP_OPTIONS {
        return Err(ComposeError::Options);
    }
    Ok(out.get(..length).unwrap_or_default())
}

/// Writes bytes one after the other; counts on where there is no room.
struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    const fn new(out: &'a mut [u8]) -> Self {
        Self::at(out, 0)
    }

    const fn at(out: &'a mut [u8], at: usize) -> Self {
        Self { out, at }
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some(into) = self.out.get_mut(self.at..self.at + bytes.len()) {
            into.copy_from_slice(bytes);
        }
        self.at += bytes.len();
    }

    fn option(&mut self, kind: u8, parts: &[&[u8]]) {
        let length = 2 + parts.iter().map(|part| part.len()).sum::<usize>();
        // One that is longer than any option leads to an error: the options then are too long.
        self.put(&[kind, u8::try_from(length).unwrap_or(u8::MAX)]);
        for part in parts {
            self.put(part);
        }
    }
}
