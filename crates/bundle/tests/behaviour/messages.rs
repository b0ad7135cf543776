//! What the boxes accept of each other.

use std::time::Duration;

use fairwater_bundle::message::ReplayWindow;
use fairwater_bundle::{
    BundleSecret, EpochSize, Identity, OutgoingMessage, ReceiveBundleConfig, ReceiveCounters,
    Receivebox, Refusal, SendboxControl,
};
use fairwater_net::Time;
use fairwater_wire::Packet;
use proptest::prelude::*;

use crate::network::{
    BUNDLE, Network, Source, channel, link, mbit, ms, prefix, receivebox, receivebox_address,
    send_config, sendbox_address,
};
use crate::plane::{Plane, constant_rate};

fn network() -> Network {
    let mut network = Network::new(
        &constant_rate(mbit(20)),
        &link(48, 20, 2),
        Source::Paced(mbit(20)),
    );
    network.run(Duration::from_secs(1));
    network
}

#[test]
fn the_boxes_find_each_other_and_agree_on_n() {
    let network = network();
    let received = network.receivebox.status(BUNDLE).unwrap();
    assert_eq!(received.sendbox, Some(sendbox_address()));
    assert_eq!(received.epoch, network.status().epoch);
    assert!(network.status().matches.0 > 50, "{:?}", network.status());
    // The receivebox did not know the sendbox, nor the sendbox the receivebox.
    assert_eq!(network.receivebox.refusals().of(Refusal::OtherInstance), 1);
    assert_eq!(network.sendbox.refusals().total(), 0);
}

#[test]
fn each_changed_bit_is_refused() {
    let mut network = network();
    let sound = network.feedback_log.last().unwrap().message.bytes.clone();
    let before = network.status();
    for bit in 0..sound.len() * 8 {
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let now = network.now;
        let refused = network
            .sendbox
            .on_message(now, receivebox_address(), &bytes)
            .unwrap_err();
        assert!(
            !matches!(refused, Refusal::Replayed | Refusal::TooOld),
            "{bit}: {refused}"
        );
    }
    for length in 0..sound.len() {
        let refused =
            network
                .sendbox
                .on_message(network.now, receivebox_address(), &sound[..length]);
        assert!(refused.is_err());
    }
    assert_eq!(network.status(), before);
    let total = (sound.len() * 9) as u64;
    assert_eq!(network.sendbox.refusals().total(), total);
}

#[test]
fn replays_and_reflections_are_refused() {
    let mut network = network();
    let now = network.now;
    let last = network.feedback_log.last().unwrap().message.bytes.clone();
    let mut send = |bytes: &[u8]| {
        network
            .sendbox
            .on_message(now, receivebox_address(), bytes)
            .unwrap_err()
    };
    assert_eq!(send(&last), Refusal::Replayed);
    // A message of the receivebox comes back to it.
    let reflected = network.receivebox.on_message(now, sendbox_address(), &last);
    assert_eq!(reflected, Err(Refusal::Authentication));
}

/// The address of the peer follows authenticated messages only, and not those that come late.
#[test]
fn an_address_that_changes_behind_nat_is_followed() {
    let mut network = network();
    let moved = "203.0.113.9:777".parse().unwrap();
    let forged = vec![0; 104];
    let _ = network.sendbox.on_message(network.now, moved, &forged);
    assert_eq!(network.status().receivebox, Some(receivebox_address()));
    network.receivebox_seen_as = moved;
    network.run(Duration::from_millis(500));
    assert_eq!(network.status().receivebox, Some(moved));
    assert!(
        network
            .changes
            .iter()
            .all(|change| { !matches!(change.to, fairwater_bundle::Mode::Released(_)) })
    );
}

/// What was recorded of a former life of either box is refused.
#[test]
fn former_instances_do_not_come_back() {
    let mut network = network();
    let recorded = network.feedback_log.last().unwrap().message.bytes.clone();
    network.restart_receivebox(22);
    network.run(Duration::from_millis(2_500));
    let now = network.now;
    let refused = network
        .sendbox
        .on_message(now, receivebox_address(), &recorded);
    assert_eq!(refused, Err(Refusal::FormerPeer));
    network.restart_sendbox(12, &constant_rate(mbit(20)));
    let refused = network
        .sendbox
        .on_message(now, receivebox_address(), &recorded);
    assert_eq!(refused, Err(Refusal::OtherInstance));
}

#[test]
fn another_secret_is_another_bundle() {
    let mut network = network();
    let mut stranger = channel(5);
    stranger.secret = BundleSecret([4; 32]);
    network.receivebox = Receivebox::new(&[ReceiveBundleConfig {
        channel: stranger,
        sources: vec![prefix("192.0.2.0", 24)],
        destinations: vec![prefix("198.51.100.0", 24)],
    }])
    .unwrap();
    network.run(Duration::from_secs(2));
    assert!(network.receivebox.refusals().of(Refusal::Authentication) >= 1);
    assert_eq!(network.receivebox.status(BUNDLE).unwrap().sendbox, None);
}

#[test]
fn feedback_that_was_reordered_and_lost_on_its_way_is_taken() {
    let forward = link(48, 20, 2);
    let mut network = Network::new(&constant_rate(mbit(20)), &forward, Source::Paced(mbit(20)));
    let mut reverse = fairwater_net::LinkConfig::new(
        fairwater_net::Capacity::Unlimited,
        fairwater_net::QueueConfig::DropTail(fairwater_net::Limit::Unlimited),
        ms(10),
    );
    reverse.reordering = Some(fairwater_net::Reordering {
        probability: fairwater_net::Probability::percent(20),
        extra: ms(12),
    });
    reverse.seed = 5;
    network.reverse = fairwater_net::Link::new(&reverse);
    network.run(Duration::from_secs(5));
    let status = network.status();
    assert_eq!(
        status.mode,
        fairwater_bundle::Mode::Control,
        "{:?}",
        network.changes
    );
    assert_eq!(status.estimates.out_of_order, Some(0.0));
    assert_eq!(network.sendbox.refusals().total(), 0);
}

proptest! {
    /// The window accepts exactly what a set with the same bound accepts.
    #[test]
    fn replay_window_is_a_bounded_set(steps in prop::collection::vec((0_u64..3_000, 0_u64..200), 1..400)) {
        let mut window = ReplayWindow::default();
        let mut seen = std::collections::BTreeSet::new();
        let mut base: u64 = 0;
        for (offset, advance) in steps {
            base += advance;
            let number = (base + 1_500).saturating_sub(offset);
            let greatest = seen.last().copied().unwrap_or(0);
            let expected = if number == 0 || seen.contains(&number) {
                if greatest.saturating_sub(number) >= ReplayWindow::SIZE {
                    Err(Refusal::TooOld)
                } else {
                    Err(Refusal::Replayed)
                }
            } else if greatest.saturating_sub(number) >= ReplayWindow::SIZE {
                Err(Refusal::TooOld)
            } else {
                Ok(())
            };
            prop_assert_eq!(window.check(number), expected);
            if expected.is_ok() {
                window.accept(number);
                seen.insert(number);
            }
        }
        prop_assert_eq!(ReplayWindow::SIZE, 1_024);
    }

    #[test]
    fn any_message_is_survived(bytes: Vec<u8>) {
        let mut receivebox = crate::network::receivebox(1);
        prop_assert!(receivebox.on_message(Time::ZERO, sendbox_address(), &bytes).is_err());
        prop_assert_eq!(receivebox.poll_message(), None);
    }
}

/// A box that counts packets elsewhere tells the same as a box that sees them.
#[test]
fn boundaries_that_another_counted_are_told_the_same() {
    let key = BundleSecret([3; 32]).boundary_key();
    let (mut seen, mut told) = (receivebox(22), receivebox(22));
    let mut messages: [Vec<OutgoingMessage>; 2] = [Vec::new(), Vec::new()];
    for other in [&mut seen, &mut told] {
        let (plane, datapath) = Plane::new(&constant_rate(1));
        let mut control = SendboxControl::new(&[send_config()], datapath, plane.peer).unwrap();
        // The sendbox becomes known.
        for at in [1, 300].map(Time::from_millis) {
            control.on_timer(at);
            while let Some(asked) = control.poll_message() {
                let _ = other.on_message(at, sendbox_address(), &asked.bytes);
            }
            if let Some(greeting) = other.poll_message() {
                let from = receivebox_address();
                control.on_message(at, from, &greeting.bytes).unwrap();
                while let Some(epoch) = control.poll_message() {
                    let known = other.on_message(at, sendbox_address(), &epoch.bytes);
                    known.unwrap();
                }
            }
        }
    }
    let mut counters = ReceiveCounters::default();
    for index in 0..500 {
        let at = Time::from_millis(1_000 + u64::from(index));
        let bytes = crate::packets::tcp(5, index, 1_000).bytes;
        let packet = Packet::parse_ip(&bytes).unwrap();
        seen.on_packet(at, &packet, None);
        counters.bytes += 1_000;
        counters.packets += 1;
        let hash = key.hash(&Identity::of(&packet).unwrap());
        // Some counts come late, as those of another processor may.
        let mut late = counters;
        late.packets -= u64::from(index % 7 == 0 && index > 0);
        if EpochSize::INITIAL.begins_at(hash) {
            told.on_boundary(at, 0, hash, counters);
            told.on_boundary(at, 0, hash, late);
        }
        told.on_boundary(at, 9, hash, counters);
    }
    for (other, into) in [&mut seen, &mut told].into_iter().zip(&mut messages) {
        while let Some(message) = other.poll_message() {
            into.push(message);
        }
    }
    assert!(messages[0].len() > 10, "{}", messages[0].len());
    assert_eq!(messages[0], messages[1]);
}
