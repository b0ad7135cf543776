//! The receivebox's program and the sans-IO receivebox count the same of any frame, and find the same boundaries.

use fairwater_bundle::{
    BundleSecret, ChannelConfig, EpochSize, IdentityFields, Prefix, ReceiveBundleConfig,
    ReceiveCounters, Receivebox, Segmentation, expand,
};
use fairwater_bundle_linux::{Framing, KernelReceivebox, MESSAGE_PORT, ReceiveOptions};
use fairwater_kernel::{TestContext, run_in};
use fairwater_net::Time;
use fairwater_wire::{Packet, ParseError};
use proptest::prelude::*;

use crate::frames::{Gso, gso, raw};

/// Bits of the kernel's kinds of segmentation.
const FIXED_ID: u32 = 1 << 3;
const UDP_TUNNEL: u32 = 1 << 10;

pub(crate) fn prefix(text: &str, length: u8) -> Prefix {
    Prefix::new(text.parse().unwrap(), length).unwrap()
}

pub(crate) fn config(
    number: u32,
    sources: &[(&str, u8)],
    to: &[(&str, u8)],
) -> ReceiveBundleConfig {
    let prefixes = |all: &[(&str, u8)]| all.iter().map(|(at, bits)| prefix(at, *bits)).collect();
    ReceiveBundleConfig {
        channel: ChannelConfig {
            bundle: number,
            secret: BundleSecret([number as u8; 32]),
            instance: 1,
        },
        sources: prefixes(sources),
        destinations: prefixes(to),
    }
}

/// Three bundles: the second's prefixes are within the first's, the third has no packets of 10/8.
fn configs() -> Vec<ReceiveBundleConfig> {
    vec![
        config(1, &[("10.0.0.0", 8), ("2020::", 16)], &[]),
        config(
            2,
            &[
                ("10.0.1.2", 31),
                ("2020:2020:2020:2020:2020:2020:2020:102", 127),
            ],
            &[
                ("10.0.0.0", 24),
                ("2020:2020:2020:2020:2020:2020:2020:100", 120),
            ],
        ),
        config(3, &[("192.0.2.0", 24)], &[]),
    ]
}

/// The programs, or a reason printed.
pub(crate) fn load(
    configs: &[ReceiveBundleConfig],
    options: &ReceiveOptions,
) -> Option<KernelReceivebox> {
    match KernelReceivebox::load(configs, options) {
        Ok(kernel) => Some(kernel),
        Err(why) => {
            let required =
                std::env::var_os("FAIRWATER_REQUIRE_PRIVILEGED").is_some_and(|v| v == "1");
            assert!(!required, "the programs cannot be loaded: {why}");
            eprintln!("skipped: the programs cannot be loaded: {why}");
            None
        }
    }
}

/// Whether the kernel runs a program on this frame, of which it reads Ethernet's type whatever the framing.
fn takes(frame: &[u8]) -> bool {
    match frame.get(12..14) {
        Some([8, 0]) => frame.len() >= 34,
        Some([0x86, 0xdd]) => frame.len() >= 54,
        Some(_) => frame.len() > 14,
        None => false,
    }
}

fn counters(of: &Receivebox, configs: &[ReceiveBundleConfig]) -> Vec<ReceiveCounters> {
    let of_one = |config: &ReceiveBundleConfig| of.status(config.channel.bundle).unwrap().counters;
    configs.iter().map(of_one).collect()
}

/// Whether a packet is a message between boxes, which no box counts: a datagram of a port, and short.
fn is_message(packet: &Packet<'_>) -> bool {
    let is_of_port = |udp: fairwater_wire::Udp<'_>| {
        [udp.source_port(), udp.destination_port()].contains(&MESSAGE_PORT)
    };
    packet.ip_length() <= 160 && packet.udp().is_some_and(is_of_port)
}

/// Passes a packet by both; what is told, or the difference.
fn pass(
    kernel: &KernelReceivebox,
    sans_io: &mut Receivebox,
    epoch: EpochSize,
    (frame, packet): (&[u8], Result<Packet<'_>, ParseError>),
    gso: Option<Gso>,
) -> Result<(), String> {
    let configs = configs();
    let context = gso.map_or_else(TestContext::default, |gso| TestContext {
        mark: u32::from(gso.fixed_id) * FIXED_ID + u32::from(gso.is_tunnel) * UDP_TUNNEL,
        gso_segs: 2,
        gso_size: gso.size.into(),
    });
    run_in(kernel.program(), frame, context, &mut [0; 2048], 1).map_err(|e| e.to_string())?;
    let told = kernel.drain().unwrap();
    let before = counters(sans_io, &configs);
    let mut expected = Vec::new();
    if let Ok(packet) = packet
        && !is_message(&packet)
    {
        let segmentation = gso.filter(|gso| !gso.is_tunnel).map(|gso| Segmentation {
            payload_bytes: gso.size,
            fixed_id: gso.fixed_id,
        });
        sans_io.on_packet(Time::ZERO, &packet, segmentation);
        let after = counters(sans_io, &configs);
        if let Some(bundle) = (0..before.len()).find(|&index| before[index] != after[index]) {
            let key = configs[bundle].channel.secret.boundary_key();
            expand(&packet, segmentation, &mut |segment| {
                let Some(identity) = segment.identity else {
                    return;
                };
                let hash = key.hash(&identity);
                if epoch.begins_at(hash) {
                    expected.push((bundle as u32, hash.0, identity.fields()));
                }
            });
        }
    }
    let found: Vec<_> = told
        .iter()
        .map(|it| (it.bundle, it.hash, IdentityFields::ALL[it.fields as usize]))
        .collect();
    if found != expected {
        return Err(format!("boundaries {found:x?} instead of {expected:x?}"));
    }
    let after = counters(sans_io, &configs);
    for (bundle, expected) in after.iter().enumerate() {
        let found = kernel.counters(bundle);
        if found != *expected {
            return Err(format!("{found:?} instead of {expected:?} of {bundle}"));
        }
    }
    // The last boundary of a packet tells no more than the counters, and no less than before the packet.
    match told.last() {
        Some(last) if last.counters.packets > after[last.bundle as usize].packets => {
            Err(format!("{last:?} counts too much"))
        }
        Some(last) if last.counters.packets <= before[last.bundle as usize].packets => {
            Err(format!("{last:?} counts too little"))
        }
        _ => Ok(()),
    }
}

fn check(framing: Framing) {
    let options = ReceiveOptions {
        framing,
        test_run: true,
        ..ReceiveOptions::default()
    };
    let Some(kernel) = load(&configs(), &options) else {
        return;
    };
    let kernel = std::cell::RefCell::new(kernel);
    let sans_io = std::cell::RefCell::new(Receivebox::new(&configs()).unwrap());
    let seen = std::cell::Cell::new([0u32; 4]);
    let config = ProptestConfig {
        cases: 1_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let packets = prop::collection::vec((raw(), gso()), 1..20);
    proptest!(config, |(packets in packets, exponent in prop::sample::select(vec![0u8, 0, 2]))| {
        let epoch = EpochSize::from_exponent(exponent).unwrap();
        for bundle in 0..3 {
            kernel.borrow_mut().set_epoch(bundle, epoch);
        }
        for (raw, gso) in packets {
            let mut frame = raw.frame();
            if framing == Framing::Ip {
                frame.drain(..14);
            }
            if !takes(&frame) {
                continue;
            }
            let packet = match framing {
                Framing::Ethernet => Packet::parse_ethernet(&frame),
                Framing::Ip => Packet::parse_ip(&frame),
            };
            let [all, read, segmented, messages] = seen.get();
            let is_read = packet.is_ok();
            seen.set([
                all + 1,
                read + u32::from(is_read),
                segmented + u32::from(is_read && gso.is_some()),
                messages + u32::from(packet.as_ref().is_ok_and(is_message)),
            ]);
            let passed = pass(&kernel.borrow(), &mut sans_io.borrow_mut(), epoch, (&frame, packet), gso);
            prop_assert!(passed.is_ok(), "{:?} of {:02x?}, {:?}", passed, frame, gso);
        }
    });
    let [all, read, segmented, messages] = seen.get();
    println!(
        "{all} packets, {read} readable, {segmented} of them segmented, {messages} messages of boxes"
    );
    assert!(
        read > all / 4 && read < all && segmented > all / 20 && messages > all / 200,
        "poor packets"
    );
}

#[test]
fn the_same_is_counted_of_any_frame() {
    check(Framing::Ethernet);
}

#[test]
fn the_same_is_counted_of_any_packet_without_a_link_header() {
    check(Framing::Ip);
}

/// A flow of equal packets is told of once in a while.
#[test]
fn equal_boundaries_are_told_once() {
    let configs = configs();
    let Some(mut kernel) = load(&configs, &ReceiveOptions::default()) else {
        return;
    };
    kernel.set_epoch(0, EpochSize::from_exponent(0).unwrap());
    let mut frame = vec![2; 12];
    frame.extend([
        8, 0, 0x45, 0, 0, 60, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    frame.extend([0, 9, 0, 9, 0, 40, 0, 0]);
    frame.resize(14 + 60, 7);
    run_in(
        kernel.program(),
        &frame,
        TestContext::default(),
        &mut [0; 2048],
        1_000,
    )
    .unwrap();
    let told = kernel.drain().unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(kernel.counters(0).packets, 1_000);
}
