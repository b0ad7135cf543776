//! Packets of the tests, as bytes.

use std::net::IpAddr;

use fairwater_bundle::{BundlePacket, Segment, Segmentation, expand};
use fairwater_net::{Ecn, Packet};
use fairwater_wire::{Checksum, EcnCodepoint, Seq, TcpFlags, TcpOption, compose};

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) const SENDER: &str = "192.0.2.1";
pub(crate) const RECEIVER: &str = "198.51.100.1";

#[derive(Debug, Clone)]
pub(crate) struct Bytes {
    pub(crate) bytes: Vec<u8>,
    pub(crate) segmentation: Option<Segmentation>,
    pub(crate) flow: u64,
}

impl Packet for Bytes {
    fn size_bytes(&self) -> u32 {
        self.bytes.len() as u32
    }

    fn flow(&self) -> u64 {
        self.flow
    }

    fn ecn(&self) -> Ecn {
        Ecn::Ect0
    }

    fn mark_ce(&mut self) {
        self.bytes[1] |= EcnCodepoint::Ce as u8;
    }
}

impl BundlePacket for Bytes {
    fn for_each_segment(&self, each: &mut dyn FnMut(&Segment)) {
        let packet = fairwater_wire::Packet::parse_ip(&self.bytes).unwrap();
        expand(&packet, self.segmentation, each);
    }
}

/// A TCP segment of `flow` (its port), the `index`-th of it, of `length` bytes in all.
pub(crate) fn tcp(flow: u16, index: u32, length: usize) -> Bytes {
    let ip = compose::Ip {
        id: index as u16,
        ..compose::Ip::new(address(SENDER), address(RECEIVER))
    };
    let options = [TcpOption::Timestamps {
        value: index / 10,
        echo: 7,
    }];
    let payload = vec![0; length - 52];
    let tcp = compose::Tcp {
        source_port: 443,
        destination_port: flow,
        seq: Seq(index.wrapping_mul(length as u32 - 52)),
        ack: Seq(1),
        flags: TcpFlags::ACK,
        window: 1_000,
        ..compose::Tcp::default()
    };
    let mut bytes = vec![0; length];
    let written = compose::tcp(&ip, &tcp, &options, &payload, Checksum::Partial, &mut bytes);
    assert_eq!(written.unwrap(), length);
    Bytes {
        bytes,
        segmentation: None,
        flow: u64::from(flow),
    }
}
