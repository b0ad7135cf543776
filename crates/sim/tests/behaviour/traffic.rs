//! What applications do.

use std::time::Duration;

use fairwater_net::{Capacity, Time};
use fairwater_sim::{Controller, Native, SizeCdf, Traffic};
use proptest::prelude::*;

use crate::support::{BOTTLENECK, Dumbbell, outcome, rate};

fn reno() -> Controller {
    Controller::Native(Native::Reno)
}

#[test]
fn a_request_alone_takes_its_ideal_time_when_the_window_allows() {
    for handshake in [true, false] {
        let bytes = 10 * 1448;
        let mut network = Dumbbell::new(10, 30, 2.0).flow(reno(), Traffic::Bytes(bytes));
        network.flows[0].tcp.handshake = handshake;
        let outcome = outcome(&network.config(1));
        let flow = &outcome.flows[0];
        assert_eq!((flow.requests.len(), flow.unfinished), (1, 0));
        let request = flow.requests[0];
        // 15 ms there, and 10 packets of 1500 bytes at 10 Mbit/s; the handshake takes 30 ms and
        // its packet's transmission.
        let least = Duration::from_millis(27 + if handshake { 30 } else { 0 });
        assert!(request.ideal >= least && request.ideal < least + Duration::from_micros(100));
        assert!(request.took >= request.ideal);
        assert!(
            request.took < request.ideal + Duration::from_micros(100),
            "{request:?}"
        );
        assert_eq!(flow.delivered_bytes, bytes);
    }
}

#[test]
fn what_a_bucket_lets_pass_at_once_takes_the_time_of_the_link_before_it() {
    let bytes = 10 * 1448;
    let network = Dumbbell::new(10, 30, 2.0).flow(reno(), Traffic::Bytes(bytes));
    let mut config = network.config(1);
    // From the router to the receiver: far slower, but all of it passes as a burst.
    let after = config.edges.iter_mut().find(|edge| edge.name == "1-3");
    after.unwrap().link.capacity = Capacity::token_bucket(rate(1), 100_000);
    let request = outcome(&config).flows[0].requests[0];
    let least = Duration::from_millis(57);
    assert!(request.ideal >= least && request.ideal < least + Duration::from_micros(100));
    assert!(request.took >= request.ideal);
    assert!(request.took < request.ideal + Duration::from_micros(100));
}

#[test]
fn an_application_limits_its_flow() {
    let rate = 250_000;
    let network = Dumbbell::new(20, 20, 10.0).flow(reno(), Traffic::Limited { rate });
    let outcome = outcome(&network.warm_config(1, 0.5));
    let delivered = outcome.flows[0].delivered_bytes as f64 / 5.0;
    assert!((delivered / rate as f64 - 1.0).abs() < 0.01, "{delivered}");
    assert_eq!(outcome.edges[BOTTLENECK].dropped, 0);
}

#[test]
fn on_and_off_take_turns() {
    let (on, off) = (Duration::from_millis(400), Duration::from_millis(600));
    let network = Dumbbell::new(8, 20, 10.0).flow(reno(), Traffic::OnOff { on, off });
    let mut config = network.config(1);
    config.measure.interval = Some(Duration::from_millis(100));
    let outcome = outcome(&config);
    let samples = &outcome.edges[BOTTLENECK].samples;
    assert_eq!(samples.len(), 100);
    for second in samples.chunks(10) {
        // Busy while on; what waited in the queue when it stopped leaves within two round trips.
        assert!(second[1..4].iter().all(|s| s.bytes > 50_000), "{second:?}");
        assert!(second[5..].iter().all(|s| s.bytes == 0), "{second:?}");
    }
}

#[test]
fn ping_pong_asks_again_after_the_answer_and_a_pause() {
    let think = Duration::from_millis(50);
    let traffic = Traffic::PingPong {
        bytes: 1000,
        think,
        count: Some(5),
    };
    let outcome = outcome(&Dumbbell::new(100, 20, 5.0).flow(reno(), traffic).config(1));
    let requests = &outcome.flows[0].requests;
    assert_eq!(requests.len(), 5);
    for pair in requests.windows(2) {
        let back = pair[1].start.since(pair[0].start + pair[0].took);
        assert_eq!(back, Duration::from_millis(10) + think);
        assert!(pair[1].took >= pair[1].ideal);
    }
}

#[test]
fn a_flow_that_stops_sends_nothing_more() {
    let mut network = Dumbbell::new(10, 20, 4.0).native(Native::Cubic);
    network.flows[0].start = Time::from_millis(500);
    network.flows[0].stop = Some(Time::from_millis(2_000));
    let mut config = network.config(1);
    config.measure.interval = Some(Duration::from_millis(500));
    let outcome = outcome(&config);
    let bytes: Vec<_> = outcome.edges[BOTTLENECK]
        .samples
        .iter()
        .map(|s| s.bytes)
        .collect();
    assert_eq!(bytes[0], 0);
    assert!(bytes[1] > 0 && bytes[3] > 500_000, "{bytes:?}");
    assert_eq!(bytes[5..], [0, 0, 0], "{bytes:?}");
}

#[test]
fn requests_ask_for_the_load_and_the_sizes_they_are_told() {
    let sizes = SizeCdf {
        points: vec![(500.0, 0.2), (2_000.0, 0.8), (40_000.0, 1.0)],
    };
    // 20 % of 500 bytes, 60 % of 1250 on average, 20 % of 21 000.
    assert!((sizes.mean() - 5_050.0).abs() < 1e-9);
    let load = 505_000.0;
    let traffic = Traffic::Requests {
        sizes: sizes.into(),
        load,
    };
    let outcome = outcome(&Dumbbell::new(50, 4, 60.0).flow(reno(), traffic).config(5));
    let flow = &outcome.flows[0];
    // 100 a second: 6000, with a standard deviation of 77.
    let count = flow.requests.len() as f64;
    assert!((5_600.0..6_400.0).contains(&count), "{count}");
    let small = flow.requests.iter().filter(|r| r.bytes == 500).count() as f64;
    assert!((0.17..0.23).contains(&(small / count)), "{small}");
    let most = flow.requests.iter().map(|r| r.bytes).max();
    assert!((35_000..=40_000).contains(&most.unwrap()));
    assert!(flow.requests.iter().all(|r| r.took >= r.ideal));
}

proptest! {
    #[test]
    fn quantiles_of_sizes_rise_and_stay_within_the_points(
        steps in prop::collection::vec((0.0..1e6f64, 1e-3..1.0f64), 1..8),
        shares in prop::collection::vec(0.0..=1.0f64, 2..20),
    ) {
        let whole: f64 = steps.iter().map(|step| step.1).sum();
        let (mut bytes, mut share) = (0.0, 0.0);
        let mut points: Vec<_> = steps.iter().map(|step| {
            bytes += step.0;
            share += step.1 / whole;
            (bytes, share)
        }).collect();
        points.last_mut().unwrap().1 = 1.0;
        let sizes = SizeCdf { points };
        prop_assert!(sizes.errors().is_empty(), "{:?}", sizes.errors());
        let mut shares = shares;
        shares.sort_by(f64::total_cmp);
        let drawn: Vec<_> = shares.iter().map(|share| sizes.quantile(*share)).collect();
        prop_assert!(drawn.is_sorted());
        prop_assert!(drawn.iter().all(|d| (sizes.points[0].0..=bytes).contains(d)));
        prop_assert!((sizes.points[0].0..=bytes).contains(&sizes.mean()));
    }
}

#[test]
fn a_flow_that_starts_after_the_end_does_not_run() {
    let network = Dumbbell::new(10, 30, 2.0).native(Native::Reno);
    let alone = outcome(&network.config(1));
    for start_ms in [2_000, 60_000] {
        let mut config = network.clone().native(Native::Reno).config(1);
        config.flows[1].start = Time::from_millis(start_ms);
        let both = outcome(&config);
        assert_eq!(both.flows[0], alone.flows[0]);
        assert_eq!(both.flows[1].segments, 0, "{:?}", both.flows[1]);
    }
}
