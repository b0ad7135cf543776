//! Bytes arrive whole whatever links do to packets.

use std::time::Duration;

use fairwater_net::{LossConfig, Probability, QueueConfig, Reordering, StepConfig};
use fairwater_tcp::{Ecn, TcpConfig};
use fairwater_utcp::Config;
use fairwater_wire::TcpFlags;
use proptest::prelude::*;

use super::network::{Damage, Network, exchange, link, plain_link};

#[test]
fn a_sound_path_is_filled_without_a_retransmission() {
    let wide = link(50_000_000, Duration::from_millis(5), 2000);
    let mut network = Network::new(Config::default(), Config::default(), [&wide, &wide]);
    let took = exchange(&mut network, 5_000_000, 0);
    let ideal = 5e6 * 8.0 / 50e6;
    assert!(took.as_secs_f64() < ideal * 1.25, "{took:?}");
    let syns = network.seen.iter().filter(|seen| seen.has(TcpFlags::SYN));
    assert_eq!(syns.count(), 2);
    assert!(!network.seen.iter().any(|seen| seen.has(TcpFlags::RST)));
}

#[test]
fn sequence_numbers_wrap_in_both_directions() {
    for isn in [0, 1, u32::MAX, u32::MAX - 1448, 1 << 31, u32::MAX - 500_000] {
        let mut network = Network::plain();
        network.start_at_isn(isn);
        exchange(&mut network, 1_000_000, 400_000);
        assert_eq!(network.seen[0].tcp().seq().0, isn);
    }
}

#[test]
fn marks_are_echoed_until_the_sender_has_reduced() {
    let tcp = TcpConfig {
        ecn: Ecn::Classic,
        ..Config::default().tcp
    };
    let config = Config {
        tcp,
        ..Config::default()
    };
    let step = StepConfig {
        limit: fairwater_net::Limit::Packets(1000),
        threshold: fairwater_net::Limit::Packets(20),
    };
    let marking = fairwater_net::LinkConfig {
        queue: QueueConfig::Step(step),
        ..plain_link()
    };
    let mut network = Network::new(config.clone(), config, [&marking, &plain_link()]);
    exchange(&mut network, 3_000_000, 0);
    let of = |from_client: bool, flags: TcpFlags| {
        let all = network
            .seen
            .iter()
            .filter(|seen| seen.from_client == from_client);
        all.filter(|seen| !seen.has(TcpFlags::SYN) && seen.has(flags))
            .count()
    };
    let (echoes, reductions) = (of(false, TcpFlags::ECE), of(true, TcpFlags::CWR));
    assert!(
        reductions >= 2 && echoes > reductions,
        "{echoes} {reductions}"
    );
    assert!(network.links[0].counters().dropped_full == 0);
}

fn impairment() -> impl Strategy<Value = (u32, u32, u64, u64, u64)> {
    (0..8_u32, 0..10_u32, 0..30_u64, 0..30_u64, any::<u64>())
}

fn options() -> impl Strategy<Value = TcpConfig> {
    (
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        3_000..300_000_u64,
    )
        .prop_map(|(sack, timestamps, ecn, receive_window)| TcpConfig {
            sack,
            timestamps,
            ecn: if ecn { Ecn::Classic } else { Ecn::Off },
            receive_window,
            ..Config::default().tcp
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn bytes_arrive_whole(
        (loss, reordered, doubled, corrupted, seed) in impairment(),
        (near, far) in (options(), options()),
        (forward, reverse) in (0..400_000_u64, 0..200_000_u64),
        isn in prop_oneof![any::<u32>(), (0..300_000_u32).prop_map(|less| u32::MAX - less)],
    ) {
        let link = fairwater_net::LinkConfig {
            loss: LossConfig::Random(Probability::percent(loss)),
            reordering: Some(Reordering {
                probability: Probability::percent(reordered),
                extra: Duration::from_millis(7),
            }),
            seed,
            ..plain_link()
        };
        let back = fairwater_net::LinkConfig { seed: seed ^ 1, ..link.clone() };
        let config = |tcp| Config { tcp, retries: 100, syn_retries: 100, syn_ack_retries: 100, ..Config::default() };
        let mut network = Network::new(config(near), config(far), [&link, &back]);
        network.start_at_isn(isn);
        network.keeps = false;
        network.damage = Damage { doubled, corrupted: if corrupted > 3 { corrupted } else { 0 } };
        exchange(&mut network, forward, reverse);
    }
}
