//! Links described in text.

#![expect(
    clippy::expect_used,
    reason = "helpers of tests fail the test by panicking"
)]

use std::time::Duration;

use fairwater_net::{
    Aggregation, Buffer, Capacity, CapacitySpec, CoDelConfig, Limit, LinkSpec, Packet, Probability,
    QueueConfig, QueueSpec, Rate, StepConfig,
};
use proptest::prelude::*;

fn parse(text: &str) -> LinkSpec {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn capacity(spec: &LinkSpec) -> Capacity {
    spec.capacity
        .load(|_| Err("no trace was named"))
        .expect("a rate")
}

#[test]
fn one_bdp_is_rate_times_rtt() {
    let spec = parse("48mbit 20ms 1bdp");
    // 48 Mbit/s × 20 ms = 960 kbit = 120 kB.
    assert_eq!(spec.limit(&capacity(&spec)), Limit::Bytes(120_000));
    let half = parse("48mbit 20ms 0.5bdp");
    assert_eq!(half.limit(&capacity(&half)), Limit::Bytes(60_000));
}

#[test]
fn order_is_free_and_what_is_left_out_has_a_value() {
    let spec = parse("  seed=7 20ms\tloss=0.01% 96mbit");
    assert_eq!(
        spec,
        LinkSpec {
            capacity: CapacitySpec::Rate(Rate::from_bps(96_000_000).expect("not zero")),
            rtt: Duration::from_millis(20),
            buffer: Buffer::MilliBdp(1000),
            loss: Probability::from_ppb(100_000).expect("1e-4"),
            queue: QueueSpec::default(),
            seed: 7,
        }
    );
}

/// An acknowledgement.
struct Small;

impl Packet for Small {
    fn size_bytes(&self) -> u32 {
        40
    }
}

#[test]
fn the_rtt_is_split_between_the_directions() {
    let spec = parse("1gbit 20.001ms 10pkt");
    let mut there = spec.forward(&Capacity::Unlimited);
    let mut back = spec.reverse();
    there.enqueue(fairwater_net::Time::ZERO, Small);
    back.enqueue(fairwater_net::Time::ZERO, Small);
    let due =
        |link: &fairwater_net::Link<Small>| link.next_departure().expect("one packet").as_nanos();
    assert_eq!(due(&there) + due(&back), 20_001_000);
    assert_eq!(due(&there).abs_diff(due(&back)), 0);
}

#[test]
fn every_fault_stands_under_its_word() {
    let error = "48mbps 0.0000001ms loss=2 1bdp 2bdp seed=x"
        .parse::<LinkSpec>()
        .expect_err("malformed")
        .to_string();
    let expected = "\
error: `48mbps` is not a rate
 --> link:1:1
  |
1 | 48mbps 0.0000001ms loss=2 1bdp 2bdp seed=x
  | ^^^^^^ ";
    assert!(error.starts_with(expected), "{error}");
    for message in [
        "RTT `0.0000001ms` is malformed or out of range",
        "`loss=2` is malformed or out of range",
        "the link's buffer is given twice",
        "`seed=x` is malformed or out of range",
    ] {
        assert!(error.contains(message), "{message} in\n{error}");
    }
    assert!(
        !error.contains("the link has no"),
        "what is malformed is not also missing:\n{error}"
    );
    let error = "1bdp"
        .parse::<LinkSpec>()
        .expect_err("incomplete")
        .to_string();
    for message in ["the link has no capacity", "the link has no RTT"] {
        assert!(error.contains(message), "{message} in\n{error}");
    }
}

#[test]
fn absurd_links_are_refused() {
    for text in [
        "",
        "0mbit 20ms",
        "101gbit 20ms",
        "48mbit 61s",
        "48mbit 20ms 0pkt",
        "48mbit 20ms 1499B",
        "48mbit 20ms 0bdp",
        "48mbit 0ms 1bdp",
        "1kbit 1ms 1bdp",
        "48mbit 20ms loss=100.1%",
        "48mbit 20ms loss=-1%",
        "48mbit 20ms seed=-1",
        "48mbit 20ms mark=0pkt",
        "48mbit 20ms queue=fifo",
        "48mbit 20ms queue=step",
        "48mbit 20ms queue=codel:target=0ms",
        "48mbit 20ms queue=red:min=9kB,max=9kB",
        "48mbit 20ms queue=codel mark=20pkt",
        "48mbit 20ms aggregate=32pkt",
        "48mbit 20ms aggregate=0pkt,4ms,100us",
        "48mbit 20ms aggregate=32pkt,6ms,100us",
        "trace:up 20ms aggregate=32pkt,4ms,100us",
        "trace: 20ms",
        "48mbit 20ms 1bdp more",
        "48mbit 12mbit 20ms",
        "99999999999999999999mbit 20ms",
        "48mbit 20ms ΔΔpkt",
        ".mbit 1.ms",
    ] {
        let error = text.parse::<LinkSpec>().expect_err(text);
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn a_discipline_holds_the_links_buffer() {
    let queue = |text: &str| {
        let spec = parse(text);
        spec.forward_config(&capacity(&spec)).queue
    };
    let codel = QueueConfig::CoDel(CoDelConfig {
        limit: Limit::Packets(40),
        ecn: true,
        ..CoDelConfig::default()
    });
    assert_eq!(queue("48mbit 20ms 40pkt queue=codel:ecn=true"), codel);
    let step = QueueConfig::Step(StepConfig {
        limit: Limit::Bytes(120_000),
        threshold: Limit::Packets(20),
    });
    assert_eq!(queue("48mbit 20ms mark=20pkt"), step);
    assert_eq!(queue("48mbit 20ms queue=step:threshold=20pkt"), step);
}

#[test]
fn a_buffer_in_time_follows_the_rate() {
    let limit = |text: &str| {
        let spec = parse(text);
        spec.limit(&spec.capacity.load(|_| Err(())).expect("a rate"))
    };
    // 250 ms at 96 Mbit/s are 3 MB.
    assert_eq!(limit("96mbit 50ms buffer=250ms"), Limit::Bytes(3_000_000));
    assert_eq!(
        limit("96mbit 50ms buffer=2MB,250ms"),
        Limit::Bytes(2_000_000)
    );
    assert_eq!(limit("24mbit 50ms buffer=2MB,250ms"), Limit::Bytes(750_000));
    for refused in [
        "buffer=250",
        "buffer=2MB",
        "buffer=250ms,2MB",
        "buffer=1bdp,1ms",
        "buffer=1us",
    ] {
        let text = format!("96mbit 50ms {refused}");
        assert!(text.parse::<LinkSpec>().is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn text_and_value_are_one(
        capacity in prop_oneof![
            (1_000..=100_000_000_000u64)
                .prop_map(|bps| CapacitySpec::Rate(Rate::from_bps(bps).expect("not zero"))),
            "[a-zA-Z0-9_./-]{1,20}".prop_map(CapacitySpec::Trace),
        ],
        rtt_ns in 1_000_000..=60_000_000_000u64,
        buffer in prop_oneof![
            (1..=10_000_000u64).prop_map(Buffer::Packets),
            (1500..=10_000_000_000u64).prop_map(Buffer::Bytes),
            (100_000..=10_000_000u64).prop_map(Buffer::MilliBdp),
            (1_000..=100_000_000_000u64, prop_oneof![1500..=100_000_000_000u64, Just(u64::MAX)])
                .prop_map(|(ns, bytes)| Buffer::Time { time: Duration::from_nanos(ns), bytes }),
        ],
        ppb in 0..=1_000_000_000u32,
        queue in prop::sample::select(&[
            "droptail",
            "step:threshold=20pkt",
            "codel:target=2ms,ecn=true",
            "fq_codel",
            "priority:classes=droptail+pie",
            "wdrr:classes=droptail+pie,weights=2+1",
        ][..]),
        aggregate in prop::option::of((1..=256u32, 1..=5_484u64, 0..=1_000_000u64)),
        seed in any::<u64>(),
    ) {
        let capacity = match (capacity, aggregate) {
            (CapacitySpec::Rate(rate), Some((frames, airtime_us, gap_us))) => {
                CapacitySpec::Aggregates(Aggregation {
                    rate,
                    frames,
                    airtime: Duration::from_micros(airtime_us),
                    gap: Duration::from_micros(gap_us),
                })
            }
            (capacity, _) => capacity,
        };
        let spec = LinkSpec {
            capacity,
            rtt: Duration::from_nanos(rtt_ns),
            buffer,
            loss: Probability::from_ppb(ppb).expect("at most a billion"),
            queue: queue.parse().expect("a discipline"),
            seed,
        };
        // A buffer of less than a packet is refused; it is not what is asked here.
        let packet = match (&spec.capacity, buffer) {
            (CapacitySpec::Rate(rate), Buffer::MilliBdp(milli)) => {
                u128::from(rate.bytes_in(spec.rtt)) * u128::from(milli) / 1000 >= 1500
            }
            (CapacitySpec::Rate(rate), buffer) => {
                buffer.less_than_a_packet(*rate, spec.rtt).is_none()
            }
            (CapacitySpec::Aggregates(aggregation), buffer) => {
                let rate = aggregation.mean_rate();
                buffer.less_than_a_packet(rate, spec.rtt).is_none()
            }
            _ => true,
        };
        prop_assume!(packet);
        prop_assert_eq!(parse(&spec.to_string()), spec);
    }

    #[test]
    fn any_text_parses_or_says_why(text in "\\PC{0,60}") {
        if let Err(error) = text.parse::<LinkSpec>() {
            prop_assert!(!error.diagnostics.is_empty());
            prop_assert!(error.to_string().contains("error: "));
        }
    }

    #[test]
    fn text_of_known_words_never_panics(
        words in prop::collection::vec("[0-9.]{0,6}(bit|mbit|ms|us|s|pkt|kB|bdp|%)|loss=[0-9.]{0,6}%|mark=[0-9]{0,3}(pkt)?|aggregate=[0-9]{0,3}(pkt)?,[0-9]{0,3}(us|ms)?,[0-9]{0,3}(us)?|queue=(codel|step|red|priority)(:(target|threshold|min|classes)=[0-9a-z]{0,4})?|buffer=[0-9]{0,3}(kB)?,?[0-9]{0,3}(ms|us)?|seed=[0-9]{0,3}", 0..6),
    ) {
        if let Err(error) = words.join(" ").parse::<LinkSpec>() {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
