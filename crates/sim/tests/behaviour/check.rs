//! What is wrong with a configuration is told, all of it at once.

use std::time::Duration;

use fairwater_net::{Aggregation, Capacity, Limit, QueueConfig, RedConfig, Time};
use fairwater_sim::{
    Balancing, ConfigError, Controller, EdgeId, Experiment, MAX_RECEIVE_WINDOW, Native, NodeId,
    Path, SAMPLE_BUDGET, SimulationError, SizeCdf, Traffic, check, run,
};

use crate::support::{Dumbbell, edge, link, outcome, plane, rate};

#[test]
fn every_problem_is_told_with_where_it_is() {
    let mut config = Dumbbell::new(10, 20, 1.0)
        .native(Native::Reno)
        .plane("vegas")
        .native(Native::Constant(0))
        .flow(Controller::Native(Native::Cubic), Traffic::Bytes(0))
        .config(1);
    let free = || link(Capacity::Unlimited, Duration::ZERO);
    config.nodes += 1;
    let lonely = NodeId(config.nodes - 1);
    config.edges.push(edge("astray", 0, 99, free()));
    config.edges.push(edge("round", 5, 5, free()));
    config.flows[0].to = lonely;
    config.flows[0].tcp.mss = 70_000;
    config.flows[3].to = config.flows[3].from;
    config.flows[3].start = Time::from_millis(20);
    config.flows[3].stop = Some(Time::from_millis(10));
    config.plane.outages = vec![
        (Time::from_millis(2), Time::from_millis(5)),
        (Time::from_millis(4), Time::from_millis(6)),
    ];
    config.measure.interval = Some(Duration::ZERO);
    config.measure.from = Time::from_millis(1_000);
    config.measure.capture = vec![NodeId(77)];
    config.measure.watch = Some(EdgeId(78));
    let Err(SimulationError::Config(error)) = run(&config, plane(&["reno"]), &mut ()) else {
        panic!("it ran");
    };
    let expected = "\
measuring begins at 1s, when the simulation has ended
the interval of samples is 0
the capture is at node 77, which does not exist
edge 78 is watched, which does not exist
outage 1 of the plane is empty, or begins before the one before it ends
edge `astray`: there is no node 99
edge `round`: the edge leads from node 5 to itself
flow `flow 0`: no path leads from node 2 to node 10
flow `flow 0`: no path leads from node 10 to node 2
flow `flow 0`: the maximum segment size is 70000: expected 1 to 65483 bytes, so that the packet is one of IPv4
flow `flow 2`: the constant window is 0: expected at least 1 byte
flow `flow 3`: the flow sends from node 8 to itself
flow `flow 3`: the flow stops at 10ms and starts at 20ms
flow `flow 3`: the size of a request is 0: expected at least 1 byte
flow `flow 1`: the plane has no algorithm `vegas`";
    assert_eq!(error.to_string(), expected);
    assert!(
        matches!(
            error.errors[5],
            ConfigError::Edge {
                edge: EdgeId(18),
                ..
            }
        ),
        "{:?}",
        error.errors[5]
    );
}

#[test]
fn a_way_has_to_lead_where_it_should() {
    let mut config = Dumbbell::new(10, 20, 1.0).native(Native::Reno).config(1);
    config.flows[0].path = Path::Along {
        forward: vec![path(&[2, 0, 4]), path(&[2, 4]), path(&[0, 99])],
        reverse: vec![],
        balancing: Balancing::PerPacket,
    };
    let text = check(&config).unwrap_err().to_string();
    let expected = "\
flow `flow 0`: forward path 1: edge 1 begins at node 1, not at node 0
flow `flow 0`: forward path 2: edge 0 begins at node 0, not at node 2
flow `flow 0`: forward path 2: there is no edge 99
flow `flow 0`: no path leads from node 3 to node 2";
    assert_eq!(text, expected);
}

#[test]
fn packets_that_take_no_time_are_refused() {
    let mut config = Dumbbell::new(10, 20, 1.0).native(Native::Reno).config(1);
    for edge in &mut config.edges {
        edge.link = link(Capacity::Unlimited, Duration::ZERO);
    }
    let text = check(&config).unwrap_err().to_string();
    assert!(text.contains("take no time"), "{text}");
    config.edges[1].link.delay = Duration::from_nanos(1);
    assert_eq!(check(&config), Ok(()));
}

#[test]
fn a_bucket_that_no_window_empties_takes_no_time() {
    let mut config = Dumbbell::new(10, 20, 0.01).native(Native::Reno).config(1);
    let bucket = |burst_bytes| Capacity::token_bucket(rate(10), burst_bytes);
    for edge in &mut config.edges {
        edge.link = link(bucket(u64::MAX / 2), Duration::ZERO);
    }
    let text = check(&config).unwrap_err().to_string();
    assert!(text.contains("take no time"), "{text}");
    for edge in &mut config.edges {
        edge.link = link(bucket(1_000_000), Duration::ZERO);
    }
    // The bucket, and what 10 ms of the rate carry; acknowledgements have edges of their own.
    let delivered = outcome(&config).flows[0].delivered_bytes;
    assert!((900_000..1_013_000).contains(&delivered), "{delivered}");
}

#[test]
fn what_would_take_all_memory_is_refused() {
    let refused = |change: &dyn Fn(&mut Experiment)| {
        let mut config = Dumbbell::new(10, 20, 1.0).native(Native::Reno).config(1);
        change(&mut config);
        check(&config).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&|config| config.nodes = u32::MAX),
        "there are 4294967295 nodes: 1048576 is the most"
    );
    assert_eq!(
        refused(&|config| config.measure.interval = Some(Duration::from_nanos(1))),
        "there would be 7000000000 samples of flows and edges: 100000000 is the most"
    );
    assert_eq!(
        refused(&|config| config.flows[0].tcp.receive_window = MAX_RECEIVE_WINDOW + 1),
        "flow `flow 0`: the receive window is 1073725441: expected one segment's bytes at least, \
         and at most 1073725440 (RFC 7323 §2.3)"
    );
}

#[test]
fn requests_that_come_all_at_once_are_refused() {
    let check = |bytes, load| {
        let sizes = SizeCdf {
            points: vec![(bytes, 1.0)],
        };
        let sizes = sizes.into();
        let requests = Traffic::Requests { sizes, load };
        let network = Dumbbell::new(10, 20, 1.0);
        let config = network
            .flow(Controller::Native(Native::Reno), requests)
            .config(1);
        fairwater_sim::check(&config)
    };
    for (bytes, load) in [(0.0, 1e6), (1_000.0, f64::MAX), (1_000.0, 5e-324)] {
        let text = check(bytes, load).unwrap_err().to_string();
        assert!(text.contains("the mean time between requests"), "{text}");
    }
    assert_eq!(check(1_000.0, 1e6), Ok(()));
}

#[test]
fn what_takes_longer_than_time_itself_does_no_harm() {
    for balancing in [Balancing::PerFlow, Balancing::PerPacket] {
        let mut config = Dumbbell::new(10, 20, 0.5)
            .flow(Controller::Native(Native::Reno), Traffic::Bytes(u64::MAX))
            .config(1);
        config.flows[0].path = Path::Along {
            forward: vec![path(&[2, 0, 4])],
            reverse: vec![path(&[5, 1, 3])],
            balancing,
        };
        let near = outcome(&config);
        assert!(near.flows[0].delivered_bytes > 100_000);
        assert_eq!(near.flows[0].unfinished, 1);
        for edge in &mut config.edges {
            edge.link.delay = Duration::MAX;
        }
        config.flows[0].tcp.handshake = false;
        assert_eq!(outcome(&config).flows[0].delivered_bytes, 0);
    }
}

#[test]
fn a_distribution_that_does_not_rise_is_named() {
    let errors = |points: &[(f64, f64)]| {
        let sizes = SizeCdf {
            points: points.to_vec(),
        };
        let mut config = Dumbbell::new(10, 20, 1.0)
            .flow(
                Controller::Native(Native::Reno),
                Traffic::Requests {
                    sizes: sizes.into(),
                    load: f64::NAN,
                },
            )
            .config(1);
        config.flows[0].name = "web".to_owned();
        check(&config).unwrap_err().errors.len() - 1
    };
    assert_eq!(errors(&[]), 1);
    assert_eq!(errors(&[(0.0, 0.0), (10.0, 0.5), (20.0, 1.0)]), 0);
    assert_eq!(errors(&[(0.0, 0.0), (10.0, 0.5), (20.0, 0.9)]), 1);
    assert_eq!(errors(&[(10.0, 0.5), (5.0, 1.0)]), 1);
    assert_eq!(errors(&[(10.0, 0.5), (15.0, 0.4), (20.0, 1.0)]), 1);
    assert_eq!(errors(&[(-1.0, 0.5), (f64::NAN, 1.0)]), 3);
    assert_eq!(errors(&[(10.0, 1.0), (10.0, 1.0)]), 1);
    assert_eq!(errors(&[(10.0, -0.1), (10.0, 1.5)]), 3);
}

/// The edges of a path given edge by edge.
fn path(edges: &[u32]) -> Vec<EdgeId> {
    edges.iter().copied().map(EdgeId).collect()
}

/// Refusals that name what the run would take.
#[test]
fn what_would_run_for_hours_is_refused_with_the_estimate() {
    let refused = |config: &Experiment| check(config).unwrap_err().to_string();
    let on_off = Traffic::OnOff {
        on: Duration::from_nanos(1),
        off: Duration::from_nanos(1),
    };
    let requests = |load: f64, bytes: f64| Traffic::Requests {
        sizes: std::sync::Arc::new(SizeCdf {
            points: vec![(bytes, 1.0)],
        }),
        load,
    };
    let of = |traffic: &Traffic, seconds: f64| {
        Dumbbell::new(10, 20, seconds)
            .flow(Controller::Native(Native::Cubic), traffic.clone())
            .config(1)
    };
    let text = refused(&of(&on_off, 10.0));
    assert!(text.contains("about 1e10 turns"), "{text}");
    // A billion requests of one byte in a second.
    let text = refused(&of(&requests(1e9, 1.0), 1.1));
    assert!(text.contains("about 1e9 turns"), "{text}");
    // Twice what the link carries: half of the requests wait, each with its connection.
    let text = refused(&of(&requests(2.5e6, 100.0), 100.0));
    assert!(text.contains("GB of memory"), "{text}");
    assert_eq!(check(&of(&requests(1.0e6, 100.0), 100.0)), Ok(()));
    assert_eq!(check(&of(&requests(2.5e6, 10_000.0), 100.0)), Ok(()));
}

#[test]
fn as_many_hosts_as_memory_holds() {
    let mut network = Dumbbell::new(1_000, 20, 1.0);
    for _ in 0..100_000 {
        network = network.plane("reno");
    }
    let text = check(&network.config(1)).unwrap_err().to_string();
    assert!(
        text.contains("about 7.0 GB of memory: 4 GB is the most"),
        "{text}"
    );
}

#[test]
fn links_that_carry_nothing_are_refused() {
    let refused = |change: &dyn Fn(&mut fairwater_net::LinkConfig)| {
        let mut config = Dumbbell::new(10, 20, 1.0).native(Native::Reno).config(1);
        change(&mut config.edges[0].link);
        check(&config).unwrap_err().to_string()
    };
    let red = RedConfig::with_limit(100_000, rate(10));
    for (change, expected) in [
        (
            (&|link: &mut fairwater_net::LinkConfig| {
                link.capacity = Capacity::token_bucket(rate(10), 0);
            }) as &dyn Fn(&mut fairwater_net::LinkConfig),
            "edge `bottleneck`: the token bucket holds 0 bytes",
        ),
        (
            &|link| {
                link.queue = QueueConfig::Red(RedConfig {
                    min_bytes: 0,
                    ..red
                });
            },
            "edge `bottleneck`: `min` of a `red` queue must be more than zero",
        ),
        (
            &|link| link.queue = QueueConfig::DropTail(Limit::Packets(0)),
            "edge `bottleneck`: `buffer` of a `droptail` queue must be more than zero",
        ),
        (
            &|link| {
                link.capacity = Capacity::Aggregates(Aggregation {
                    rate: rate(10),
                    frames: 0,
                    airtime: Duration::from_millis(4),
                    gap: Duration::ZERO,
                });
            },
            "edge `bottleneck`: an aggregate holds no frame: `frames` and `airtime` must be more \
             than zero",
        ),
    ] {
        assert_eq!(refused(change), expected);
    }
}

/// Without an interval of their own, many flows share the samples of a few.
#[test]
fn many_flows_have_fewer_samples_each() {
    let interval = |flows: usize| {
        let mut config = Dumbbell::new(10, 20, 10.0).native(Native::Reno).config(1);
        let flow = config.flows[0].clone();
        config.flows = vec![flow; flows];
        let interval = config.sample_interval(500);
        let each = config.duration.as_nanos() / interval.as_nanos();
        (
            each,
            each * (config.flows.len() + config.edges.len()) as u128,
        )
    };
    assert_eq!(interval(1).0, 500);
    for flows in [1_000, 10_000, 400_000] {
        let (each, all) = interval(flows);
        assert!(
            each >= 1 && all <= u128::from(SAMPLE_BUDGET),
            "{each} {all}"
        );
    }
}
