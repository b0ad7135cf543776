//! What identifies a packet at both boxes (Bundler §4.5).
//!
//! Both boxes derive the same bytes from a packet: nothing that a router changes (TTL, TOS, ECN), no checksum (which
//! is partial while offloads are on), and nothing that segmentation or coalescing changes. The bytes are whole words
//! of eight, so that eBPF derives them without loops:
//!
//! | word | TCP | UDP | ESP (RFC 4303) |
//! | --- | --- | --- | --- |
//! | 0; 0–3 with IPv6 | source, destination | source, destination | source, destination |
//! | next | ports, IPv4 ID or 0, 6, 0 | ports, payload length, 17, 0 | 0, 0, 50, 0 |
//! | next | sequence, acknowledgement | payload bytes 0–7 | SPI, sequence |
//! | next | TSval or 0, 0 | payload bytes 8–15 | – |
//! | next | – | payload bytes 16–23 | – |
//!
//! Numbers are big-endian, a payload that is too short counts as zeros. UDP's payload holds the packet number of
//! QUIC behind a connection ID of 20 bytes, the sequence number of RTP and DTLS, and receiver and counter of
//! WireGuard. The ID of IPv4 is never used with UDP: `UDP_SEGMENT` repeats it, and forwarding with GRO may rewrite
//! it. Fragments and other protocols have no identity.

use std::fmt;
use std::net::IpAddr;

use fairwater_wire::{Packet, Transport};

/// Bytes of UDP's payload in the identity.
const UDP_PAYLOAD_BYTES: usize = 24;

/// Most words: IPv6 and UDP.
const MAX_WORDS: usize = 8;

const TCP: u8 = 6;
const UDP: u8 = 17;
const ESP: u8 = 50;

/// Which fields identify a packet; for operators, when a path changes one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IdentityFields {
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP.
    Udp,
    /// ESP.
    Esp,
}

impl IdentityFields {
    /// Every set of fields, by index.
    pub const ALL: [Self; 4] = [Self::TcpV4, Self::TcpV6, Self::Udp, Self::Esp];

    /// The set's place in [`IdentityFields::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for IdentityFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TcpV4 => {
                "addresses, ports, IP ID, sequence and acknowledgement numbers and TSval of TCP"
            }
            Self::TcpV6 => {
                "addresses, ports, sequence and acknowledgement numbers and TSval of TCP over IPv6"
            }
            Self::Udp => "addresses, ports, length and first 24 payload bytes of UDP",
            Self::Esp => "addresses, SPI and sequence number of ESP",
        })
    }
}

/// The fields that identify one packet on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    fields: IdentityFields,
    words: [[u8; 8]; MAX_WORDS],
    /// How many words there are.
    used: u8,
    /// Index of the first word after the addresses.
    transport_at: u8,
}

/// The fields of a TCP segment that identify it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpIdentity {
    /// Source and destination port.
    pub ports: [u16; 2],
    /// The identification of IPv4; 0 with IPv6.
    pub ip_id: u16,
    /// The sequence number.
    pub seq: u32,
    /// The acknowledgement number.
    pub ack: u32,
    /// TSval of RFC 7323; 0 without the option.
    pub tsval: u32,
}

impl Identity {
    /// The identity of a packet that is alone in its bytes; `None` for fragments, for protocols other than TCP, UDP
    /// and ESP, and for an ESP packet without its header.
    #[must_use]
    pub fn of(packet: &Packet<'_>) -> Option<Self> {
        let (source, destination) = (packet.source(), packet.destination());
        match packet.layout().transport() {
            Transport::Tcp => {
                let tcp = packet.tcp()?;
                let timestamps = tcp.option_summary().ok().and_then(|all| all.timestamps);
                let identity = TcpIdentity {
                    ports: [tcp.source_port(), tcp.destination_port()],
                    ip_id: packet.ipv4_id().unwrap_or(0),
                    seq: tcp.seq().0,
                    ack: tcp.ack().0,
                    tsval: timestamps.map_or(0, |(value, _)| value),
                };
                Some(Self::tcp(source, destination, &identity))
            }
            Transport::Udp => {
                let udp = packet.udp()?;
                let ports = [udp.source_port(), udp.destination_port()];
                Some(Self::udp(source, destination, ports, udp.payload()))
            }
            Transport::Other(ESP) => {
                let at = packet.layout().transport_offset() - packet.layout().network_offset();
                let header = packet.ip_bytes().get(at..)?.first_chunk()?;
                Some(Self::esp(source, destination, *header))
            }
            Transport::Fragment(..) | Transport::Other(_) => None,
        }
    }

    /// The identity of a TCP segment. The version of `source` tells the version of IP.
    #[must_use]
    pub fn tcp(source: IpAddr, destination: IpAddr, tcp: &TcpIdentity) -> Self {
        let fields = if source.is_ipv6() {
            IdentityFields::TcpV6
        } else {
            IdentityFields::TcpV4
        };
        let mut identity = Self::between(source, destination, fields);
        identity.push(transport_word(tcp.ports, tcp.ip_id, TCP));
        identity.push(word(tcp.seq, tcp.ack));
        identity.push(word(tcp.tsval, 0));
        identity
    }

    /// The identity of a UDP datagram.
    #[must_use]
    pub fn udp(source: IpAddr, destination: IpAddr, ports: [u16; 2], payload: &[u8]) -> Self {
        let mut identity = Self::between(source, destination, IdentityFields::Udp);
        // Modulo 2¹⁶, as the field of a jumbogram's segment would hold.
        identity.push(transport_word(ports, payload.len() as u16, UDP));
        let mut head = [0; UDP_PAYLOAD_BYTES];
        let length = payload.len().min(UDP_PAYLOAD_BYTES);
        head[..length].copy_from_slice(&payload[..length]);
        let (words, _) = head.as_chunks();
        words.iter().for_each(|word| identity.push(*word));
        identity
    }

    /// The identity of an ESP packet, whose header is SPI and sequence number (RFC 4303 §2).
    #[must_use]
    pub fn esp(source: IpAddr, destination: IpAddr, header: [u8; 8]) -> Self {
        let mut identity = Self::between(source, destination, IdentityFields::Esp);
        identity.push(transport_word([0, 0], 0, ESP));
        identity.push(header);
        identity
    }

    /// Which fields these are.
    #[must_use]
    pub const fn fields(&self) -> IdentityFields {
        self.fields
    }

    /// The bytes that are hashed.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.words[..usize::from(self.used)].as_flattened()
    }

    /// The identity of the `index`-th segment of a TCP super-packet: ID + i unless IDs are fixed, seq + i · mss.
    pub(crate) fn tcp_segment(mut self, index: u32, mss: u32, fixed_id: bool) -> Self {
        let at = usize::from(self.transport_at);
        let [p0, p1, p2, p3, id0, id1, protocol, zero] = self.words[at];
        if self.fields == IdentityFields::TcpV4 && !fixed_id {
            let id = u16::from_be_bytes([id0, id1]).wrapping_add(index as u16);
            let [id0, id1] = id.to_be_bytes();
            self.words[at] = [p0, p1, p2, p3, id0, id1, protocol, zero];
        }
        let [s0, s1, s2, s3, a0, a1, a2, a3] = self.words[at + 1];
        let seq = u32::from_be_bytes([s0, s1, s2, s3]).wrapping_add(index.wrapping_mul(mss));
        let ack = u32::from_be_bytes([a0, a1, a2, a3]);
        self.words[at + 1] = word(seq, ack);
        self
    }

    fn between(source: IpAddr, destination: IpAddr, fields: IdentityFields) -> Self {
        let mut identity = Self {
            fields,
            words: [[0; 8]; MAX_WORDS],
            used: 0,
            transport_at: 0,
        };
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                identity.push(word(source.to_bits(), destination.to_bits()));
            }
            (source, destination) => {
                for address in [source, destination] {
                    let octets = match address {
                        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                        IpAddr::V6(v6) => v6.octets(),
                    };
                    let (words, _) = octets.as_chunks();
                    words.iter().for_each(|word| identity.push(*word));
                }
            }
        }
        identity.transport_at = identity.used;
        identity
    }

    fn push(&mut self, word: [u8; 8]) {
        if let Some(free) = self.words.get_mut(usize::from(self.used)) {
            *free = word;
            self.used += 1;
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("fields", &self.fields)
            .field("bytes", &self.as_bytes())
            .finish()
    }
}

fn word(first: u32, second: u32) -> [u8; 8] {
    ((u64::from(first) << 32) | u64::from(second)).to_be_bytes()
}

fn transport_word([source, destination]: [u16; 2], middle: u16, protocol: u8) -> [u8; 8] {
    let ports = (u32::from(source) << 16) | u32::from(destination);
    word(
        ports,
        (u32::from(middle) << 16) | (u32::from(protocol) << 8),
    )
}
