//! UDP packets: constant bit rate and ping-pong.

use std::time::Duration;

use fairwater_net::{DrrConfig, Limit, QueueConfig, Time};
use fairwater_sim::{Controller, Experiment, Native, Traffic, check};

use crate::support::{BOTTLENECK, Dumbbell, outcome, rate};

const ECHO: Traffic = Traffic::Echo {
    packet_bytes: 40,
    think: Duration::ZERO,
    count: None,
};

fn unused() -> Controller {
    Controller::Native(Native::Reno)
}

fn constant(rate: u64) -> Traffic {
    Traffic::ConstantRate {
        rate,
        packet_bytes: 1500,
    }
}

#[test]
fn a_constant_rate_arrives_at_that_rate() {
    let mut network = Dumbbell::new(96, 20, 10.0).flow(unused(), constant(4_000_000));
    network.flows[0].start = Time::from_millis(1_000);
    network.flows[0].stop = Some(Time::from_millis(6_000));
    let outcome = outcome(&network.config(1));
    // 5 s at 4 MB/s, a packet each 375 µs, the first at once.
    let packets = 5_000_000_u64.div_ceil(375);
    let edge = &outcome.edges[BOTTLENECK];
    assert_eq!((edge.packets, edge.bytes), (packets, packets * 1500));
    assert_eq!(edge.queueing_us.unwrap().mean, 0.0);
    let flow = &outcome.flows[0];
    assert_eq!((flow.segments, flow.retransmissions), (packets, 0));
    assert_eq!(flow.delivered_bytes, packets * (1500 - 28));
}

#[test]
fn what_a_link_cannot_carry_is_lost_and_not_repeated() {
    let network = Dumbbell::new(8, 20, 10.0).flow(unused(), constant(2_000_000));
    let outcome = outcome(&network.config(1));
    let (flow, edge) = (&outcome.flows[0], &outcome.edges[BOTTLENECK]);
    assert!(edge.utilisation > 0.999, "{}", edge.utilisation);
    let lost = flow.segments - flow.delivered_bytes / (1500 - 28);
    // Half is lost but for what is queued or under way.
    assert!(edge.dropped > 6_600 && lost >= edge.dropped && lost < edge.dropped + 40);
}

#[test]
fn a_ping_meets_the_queue_there_and_its_answer_none() {
    let network = |echo_priority: bool| {
        let mut network = Dumbbell::new(10, 40, 20.0)
            .native(Native::Constant(100_000))
            .flow(unused(), ECHO);
        network.flows[1].start = Time::from_millis(5_000);
        let mut config = network.config(1);
        if echo_priority {
            config.edges[BOTTLENECK].link.queue = QueueConfig::Drr(DrrConfig {
                limit: Limit::Packets(100),
                ..DrrConfig::default()
            });
        }
        outcome(&config).flows.swap_remove(1)
    };
    // 100 kB in flight over a BDP of 50 kB (and the headers): 80 ms there and back, and a bit.
    let fifo = network(false);
    let rtt = fifo.rtt_us.unwrap();
    assert!(rtt.p50 > 78_000.0 && rtt.p50 < 88_000.0, "{rtt:?}");
    assert_eq!(fifo.timeouts, 0);
    // Closed loop: a packet each round trip.
    assert!(fifo.segments.abs_diff((15e6 / rtt.mean) as u64) <= 2);
    // In a queue of its own it waits for one packet at most.
    let fair = network(true).rtt_us.unwrap();
    assert!(fair.p99 < 40_000.0 + 1_200.0 + 500.0, "{fair:?}");
    // All requests are written down with their ideal.
    for request in &fifo.requests {
        assert_eq!(request.bytes, 40);
        assert_eq!(
            request.ideal,
            Duration::from_millis(40) + rate(10).time_for(40)
        );
        assert!(request.took >= request.ideal);
    }
}

#[test]
fn a_lost_ping_is_given_up_and_the_next_is_sent() {
    let mut network = Dumbbell::new(10, 40, 60.0).flow(unused(), ECHO);
    network.loss_per_mille = 100;
    let outcome = outcome(&network.config(4));
    let flow = &outcome.flows[0];
    let lost = outcome.edges[BOTTLENECK].lost;
    assert!(flow.timeouts > 10 && flow.timeouts.abs_diff(lost) <= 1);
    assert!(flow.segments > 2 * flow.timeouts);
    assert!(flow.rtt_us.unwrap().p99 < 42_000.0);
    // The one that waits at the end, if any, is unfinished; so are those given up.
    let asked = flow.requests.len() as u64 + flow.unfinished;
    assert_eq!(asked, flow.segments);
}

#[test]
fn a_count_ends_it() {
    let traffic = Traffic::Echo {
        packet_bytes: 100,
        think: Duration::from_millis(60),
        count: Some(7),
    };
    let outcome = outcome(
        &Dumbbell::new(10, 40, 10.0)
            .flow(unused(), traffic)
            .config(1),
    );
    let requests = &outcome.flows[0].requests;
    assert_eq!((requests.len(), outcome.flows[0].unfinished), (7, 0));
    for pair in requests.windows(2) {
        let apart = pair[1].start.since(pair[0].start + pair[0].took);
        assert_eq!(apart, Duration::from_millis(60));
    }
}

#[test]
fn what_no_udp_packet_can_be_is_refused() {
    let errors = |controller, traffic| {
        let config: Experiment = Dumbbell::new(10, 40, 10.0)
            .flow(controller, traffic)
            .config(1);
        check(&config).err().map(|errors| errors.to_string())
    };
    for (controller, traffic, expected) in [
        (unused(), constant(0), "expected at least 1 byte/s"),
        (
            unused(),
            Traffic::Echo {
                packet_bytes: 27,
                think: Duration::ZERO,
                count: None,
            },
            "expected 28 to 65535 bytes",
        ),
        (
            Controller::Plane("reno".to_owned()),
            ECHO,
            "expected a native controller",
        ),
    ] {
        let found = errors(controller, traffic).unwrap_or_default();
        assert!(found.contains(expected), "{found}");
    }
}
