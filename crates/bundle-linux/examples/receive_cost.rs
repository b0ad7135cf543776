//! What the receivebox's program costs per packet, by the kernel's own measurement of `BPF_PROG_TEST_RUN`: the least
//! and the median of the means of 200 batches of 2,000 packets. The floor is a packet that is no IP; calling the program
//! is in all of them.
//!
//! `cargo run -p fairwater-bundle-linux --example receive_cost`

#![expect(clippy::unwrap_used, reason = "a measurement that fails is none")]
#![expect(clippy::print_stdout, reason = "its output")]

use std::net::IpAddr;

use fairwater_bundle::{BundleSecret, ChannelConfig, EpochSize, Prefix, ReceiveBundleConfig};
use fairwater_bundle_linux::{KernelReceivebox, ReceiveOptions};
use fairwater_kernel::run;
use fairwater_wire::{Checksum, Seq, TcpFlags, VlanTags, compose};

const BATCHES: usize = 200;
const REPEAT: u32 = 2_000;

fn main() {
    println!("ns per packet: least, median");
    for bundles in [1, 1_000] {
        for has_destinations in [false, true] {
            measure(bundles, has_destinations);
        }
    }
}

fn measure(bundles: u32, has_destinations: bool) {
    let configs: Vec<ReceiveBundleConfig> = (0..bundles)
        .map(|number| config(number, has_destinations))
        .collect();
    let mut kernel = KernelReceivebox::load(&configs, &ReceiveOptions::default()).unwrap();
    let rare = EpochSize::from_exponent(EpochSize::MAX_EXPONENT).unwrap();
    (0..bundles as usize).for_each(|bundle| kernel.set_epoch(bundle, rare));
    println!("{bundles} bundles, destinations: {has_destinations}");
    let packets = [
        ("no IP", vec![0; 60]),
        ("no bundle's", tcp("203.0.113.1", "198.51.100.1", 12)),
        ("IPv4 TCP", tcp("10.0.0.9", "198.51.100.1", 12)),
        ("IPv6 TCP", tcp("fd00::9", "fd99::1", 12)),
        ("IPv4 UDP", udp("10.0.0.9", "198.51.100.1")),
        ("IPv4 TCP, SACK", tcp("10.0.0.9", "198.51.100.1", 24)),
    ];
    for (name, packet) in packets {
        let mean = |_| run(kernel.program(), &packet, &mut [0; 2048], REPEAT);
        let mut found: Vec<u32> = (0..BATCHES).map(|n| mean(n).unwrap().nanos).collect();
        found.sort_unstable();
        println!("{name:>16} {:>5} {:>5}", found[0], found[BATCHES / 2]);
    }
    println!("{:?}", kernel.counters(0));
}

fn config(number: u32, has_destinations: bool) -> ReceiveBundleConfig {
    let prefix = |text: &str, length| Prefix::new(text.parse().unwrap(), length).unwrap();
    let [_, _, high, low] = number.to_be_bytes();
    let destinations = [prefix("198.51.100.0", 24), prefix("fd99::", 16)];
    ReceiveBundleConfig {
        channel: ChannelConfig {
            bundle: number,
            secret: BundleSecret([1; 32]),
            instance: 1,
        },
        sources: vec![
            prefix(&format!("10.{high}.{low}.0"), 24),
            prefix(&format!("fd00:{number:x}::"), 32),
        ],
        destinations: if has_destinations {
            destinations.to_vec()
        } else {
            Vec::new()
        },
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A segment with so many bytes of options, of which the timestamps are the first.
fn tcp(from: &str, to: &str, options: usize) -> Vec<u8> {
    let ip = compose::Ip::new(address(from), address(to));
    let header = compose::Tcp {
        source_port: 443,
        destination_port: 50_000,
        seq: Seq(1),
        ack: Seq(1),
        flags: TcpFlags::ACK,
        window: 1_000,
        urgent: 0,
    };
    let mut bytes = vec![0; 1_600];
    let start = compose::ethernet(
        [2; 6],
        [4; 6],
        VlanTags::NONE,
        ip.source.is_ipv6(),
        &mut bytes,
    );
    let start = start.unwrap();
    let payload = vec![0; 1_400 + options];
    let rest = &mut bytes[start..];
    let length = compose::tcp(&ip, &header, &[], &payload, Checksum::Partial, rest).unwrap();
    bytes.truncate(start + length);
    // The options are made of the payload's first bytes.
    let at = start + length - payload.len();
    let words = [1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 7, 1, 1, 5, 10];
    bytes[at..at + 12].copy_from_slice(&words[..12]);
    if options > 12 {
        bytes[at + 12..at + 16].copy_from_slice(&words[12..]);
    }
    bytes[at - 8] = (((20 + options) / 4) << 4) as u8;
    bytes
}

fn udp(from: &str, to: &str) -> Vec<u8> {
    let ip = compose::Ip::new(address(from), address(to));
    let mut bytes = vec![0; 1_600];
    let start = compose::ethernet([2; 6], [4; 6], VlanTags::NONE, false, &mut bytes).unwrap();
    let rest = &mut bytes[start..];
    let length = compose::udp(&ip, (443, 50_000), &[7; 1_400], Checksum::Partial, rest).unwrap();
    bytes.truncate(start + length);
    bytes
}
