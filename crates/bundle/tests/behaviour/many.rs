//! Many bundles of one box.

use std::net::IpAddr;

use fairwater_bundle::{
    BundleError, ChannelConfig, Prefix, ReceiveBundleConfig, Receivebox, SendBundleConfig, Sendbox,
};
use fairwater_net::{Limit, Packet, QueueConfig, SfqConfig, Time};

use crate::network::{channel, prefix, receivebox_address, send_config, sender};
use crate::packets::{Bytes, address, tcp};
use crate::plane::{Plane, constant_rate};

fn config(number: u32, destinations: Vec<Prefix>) -> SendBundleConfig {
    let channel = ChannelConfig {
        bundle: number,
        ..channel(11)
    };
    SendBundleConfig::new(channel, receivebox_address(), destinations)
}

fn sendbox(configs: &[SendBundleConfig], max_queued: u64) -> Result<Sendbox<Bytes>, BundleError> {
    let (plane, datapath) = Plane::new(&constant_rate(1_000_000));
    Sendbox::new(configs, max_queued, datapath, plane.peer)
}

#[test]
fn a_thousand_bundles_are_told_apart_and_the_longest_prefix_wins() {
    let mut configs: Vec<_> = (0_u8..250)
        .flat_map(|high| (0_u8..4).map(move |low| (high, low)))
        .map(|(high, low)| {
            let number = u32::from(high) * 4 + u32::from(low) + 1;
            config(number, vec![prefix(&format!("10.{high}.{low}.0"), 24)])
        })
        .collect();
    configs.push(config(
        2_000,
        vec![prefix("10.0.0.0", 8), prefix("2001:db8::", 32)],
    ));
    configs.push(config(2_001, vec![prefix("10.3.2.1", 32)]));
    let mut sendbox = sendbox(&configs, 100_000_000).unwrap();
    let sent = |sendbox: &mut Sendbox<Bytes>, destination: &str, number: u32| {
        let before = sendbox.status(number).unwrap().sent.1;
        let taken = sendbox.enqueue(Time::ZERO, address(destination), tcp(1, 1, 100));
        assert!(taken.is_ok());
        assert!(sendbox.poll(Time::ZERO).is_some());
        assert_eq!(
            sendbox.status(number).unwrap().sent.1,
            before + 1,
            "{destination}"
        );
    };
    sent(&mut sendbox, "10.249.3.9", 1_000);
    sent(&mut sendbox, "10.3.2.2", 15);
    sent(&mut sendbox, "10.3.2.1", 2_001);
    sent(&mut sendbox, "10.3.9.1", 2_000);
    sent(&mut sendbox, "2001:db8::7", 2_000);
    let stranger: IpAddr = address("11.0.0.1");
    assert!(
        sendbox
            .enqueue(Time::ZERO, stranger, tcp(1, 1, 100))
            .is_err()
    );
    // A tick of all, and messages to all receiveboxes.
    sendbox.on_timer(Time::from_millis(10));
    let mut told = 0;
    while sendbox.poll_message().is_some() {
        told += 1;
    }
    assert_eq!(told, configs.len());
}

#[test]
fn all_queues_together_hold_what_they_may() {
    let configs: Vec<_> = (1_u8..=10)
        .map(|i| config(u32::from(i), vec![prefix(&format!("10.0.{i}.0"), 24)]))
        .collect();
    let mut sendbox = sendbox(&configs, 50_000).unwrap();
    for i in 0_u32..100 {
        let to = address(&format!("10.0.{}.1", i % 10 + 1));
        assert!(sendbox.enqueue(Time::ZERO, to, tcp(1, i, 1_000)).is_ok());
        assert!(sendbox.queued_bytes() <= 50_000);
    }
    assert_eq!(sendbox.queued_bytes(), 50_000);
    assert_eq!(sendbox.drain_dropped().count(), 50);
    let mut left = 0;
    while sendbox.poll(Time::ZERO).is_some() {
        left += 1;
    }
    assert_eq!((left, sendbox.queued_bytes()), (50, 0));
}

/// A box that is full drops of the longest flow of the bundle with the most bytes, whoever sends.
#[test]
fn who_holds_most_loses_first() {
    let sfq = |number: u32, net: u8| SendBundleConfig {
        queue: QueueConfig::Sfq(SfqConfig {
            limit: Limit::Unlimited,
            ..SfqConfig::default()
        }),
        ..config(number, vec![prefix(&format!("10.0.{net}.0"), 24)])
    };
    let configs = [sfq(1, 1), sfq(2, 2)];
    let mut sendbox = sendbox(&configs, 50_000).unwrap();
    let (long, short) = (address("10.0.1.1"), address("10.0.2.1"));
    for index in 0..50 {
        // Of the long bundle, one flow in ten packets is another.
        let flow = u16::from(index % 10 == 0);
        let taken = sendbox.enqueue(Time::ZERO, long, tcp(flow, index, 1_000));
        assert!(taken.is_ok());
    }
    assert_eq!(sendbox.drain_dropped().count(), 0);
    for index in 0..10 {
        let taken = sendbox.enqueue(Time::ZERO, short, tcp(7, index, 1_000));
        assert!(taken.is_ok());
        let dropped: Vec<u64> = sendbox
            .drain_dropped()
            .map(|one| one.packet.flow())
            .collect();
        assert_eq!(dropped, [0], "packet {index}");
    }
    assert_eq!(sendbox.status(2).unwrap().queued_bytes, 10_000);
    assert_eq!(sendbox.queued_bytes(), 50_000);
}

#[test]
fn mistakes_are_named() {
    let one = send_config();
    let refused = |configs: &[SendBundleConfig]| sendbox(configs, 1).unwrap_err();
    assert_eq!(refused(&[one.clone(), one.clone()]), BundleError::Number(7));
    let mut other = one.clone();
    other.channel.bundle = 8;
    let error = refused(&[one.clone(), other]);
    assert_eq!(error, BundleError::Prefix(prefix("198.51.100.9", 24)));
    assert_eq!(
        error.to_string(),
        "the prefix 198.51.100.0/24 belongs to two bundles"
    );
    let mut empty = one.clone();
    empty.queue_bytes = 0;
    assert_eq!(refused(&[empty]), BundleError::Queue(7));
    let mut zero = one;
    zero.channel.instance = 0;
    assert_eq!(refused(&[zero.clone()]), BundleError::Instance(7));
    let receiving = ReceiveBundleConfig {
        channel: zero.channel,
        sources: vec![],
        destinations: vec![],
    };
    assert!(Receivebox::new(&[receiving]).is_err());
    assert!(Prefix::new(sender(), 33).is_none());
}

/// A receivebox counts what the sendbox counts: packets from its site to the bundle's destinations.
#[test]
fn other_destinations_are_not_counted() {
    let mut receivebox = crate::network::receivebox(1);
    let mut packet = tcp(1, 1, 100);
    for (last, expected) in [(100, 1), (101, 1), (100, 2)] {
        packet.bytes[18] = last;
        let parsed = fairwater_wire::Packet::parse_ip(&packet.bytes).unwrap();
        receivebox.on_packet(Time::ZERO, &parsed, None);
        let status = receivebox.status(7).unwrap();
        assert_eq!(status.counters.packets, expected);
    }
}
