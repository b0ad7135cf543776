//! What is wrong with a configuration is told, all of it at once.

use std::time::Duration;

use fairwater_net::{Capacity, Time};
use fairwater_sim::{
    Balancing, Config, ConfigProblem, EdgeId, Governor, MAX_RECEIVE_WINDOW, Native, NodeId, Path,
    SimulationError, SizeCdf, Traffic, run,
};

use crate::support::{Dumbbell, edge, link, outcome, plane, rate};

#[test]
fn every_problem_is_told_with_where_it_is() {
    let mut config = Dumbbell::new(10, 20, 1.0)
        .native(Native::Reno)
        .plane("vegas")
        .native(Native::Constant(0))
        .flow(Governor::Native(Native::Cubic), Traffic::Bytes(0))
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
    config.measure.capture = Some(NodeId(77));
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
edge `round`: it leads from node 5 to itself
flow `flow 0`: no way leads from node 2 to node 10
flow `flow 0`: no way leads from node 10 to node 2
flow `flow 0`: the maximum segment size is 70000: expected 1 to 65483 bytes, so that the packet is one of IPv4
flow `flow 2`: the constant window is 0: expected at least 1 byte
flow `flow 3`: it sends from node 8 to itself
flow `flow 3`: it stops at 10ms and starts at 20ms
flow `flow 3`: the size of a request is 0: expected at least 1 byte
flow `flow 1`: the plane has no algorithm `vegas`";
    assert_eq!(error.to_string(), expected);
    assert!(
        matches!(
            error.problems[5],
            ConfigProblem::Edge {
                edge: EdgeId(18),
                ..
            }
        ),
        "{:?}",
        error.problems[5]
    );
}

#[test]
fn a_way_has_to_lead_where_it_should() {
    let mut config = Dumbbell::new(10, 20, 1.0).native(Native::Reno).config(1);
    config.flows[0].path = Path::Along {
        forward: vec![way(&[2, 0, 4]), way(&[2, 4]), way(&[0, 99])],
        reverse: vec![],
        balancing: Balancing::PerPacket,
    };
    let text = config.check().unwrap_err().to_string();
    let expected = "\
flow `flow 0`: way 1 to the receiver: edge 1 begins at node 1, not at node 0
flow `flow 0`: way 2 to the receiver: edge 0 begins at node 0, not at node 2
flow `flow 0`: way 2 to the receiver: there is no edge 99
flow `flow 0`: no way leads from node 3 to node 2";
    assert_eq!(text, expected);
}

#[test]
fn packets_that_take_no_time_are_refused() {
    let mut config = Dumbbell::new(10, 20, 1.0).native(Native::Reno).config(1);
    for edge in &mut config.edges {
        edge.link = link(Capacity::Unlimited, Duration::ZERO);
    }
    let text = config.check().unwrap_err().to_string();
    assert!(text.contains("take no time"), "{text}");
    config.edges[1].link.delay = Duration::from_nanos(1);
    assert_eq!(config.check(), Ok(()));
}

#[test]
fn a_bucket_that_no_window_empties_takes_no_time() {
    let mut config = Dumbbell::new(10, 20, 0.01).native(Native::Reno).config(1);
    let bucket = |burst_bytes| Capacity::TokenBucket {
        rate: rate(10),
        burst_bytes,
    };
    for edge in &mut config.edges {
        edge.link = link(bucket(u64::MAX / 2), Duration::ZERO);
    }
    let text = config.check().unwrap_err().to_string();
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
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut config = Dumbbell::new(10, 20, 1.0).native(Native::Reno).config(1);
        change(&mut config);
        config.check().unwrap_err().to_string()
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
        Dumbbell::new(10, 20, 1.0)
            .flow(Governor::Native(Native::Reno), requests)
            .config(1)
            .check()
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
            .flow(Governor::Native(Native::Reno), Traffic::Bytes(u64::MAX))
            .config(1);
        config.flows[0].path = Path::Along {
            forward: vec![way(&[2, 0, 4])],
            reverse: vec![way(&[5, 1, 3])],
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
    let problems = |points: &[(f64, f64)]| {
        let sizes = SizeCdf {
            points: points.to_vec(),
        };
        let mut config = Dumbbell::new(10, 20, 1.0)
            .flow(
                Governor::Native(Native::Reno),
                Traffic::Requests {
                    sizes: sizes.into(),
                    load: f64::NAN,
                },
            )
            .config(1);
        config.flows[0].name = "web".to_owned();
        config.check().unwrap_err().problems.len() - 1
    };
    assert_eq!(problems(&[]), 1);
    assert_eq!(problems(&[(0.0, 0.0), (10.0, 0.5), (20.0, 1.0)]), 0);
    assert_eq!(problems(&[(0.0, 0.0), (10.0, 0.5), (20.0, 0.9)]), 1);
    assert_eq!(problems(&[(10.0, 0.5), (5.0, 1.0)]), 1);
    assert_eq!(problems(&[(10.0, 0.5), (15.0, 0.4), (20.0, 1.0)]), 1);
    assert_eq!(problems(&[(-1.0, 0.5), (f64::NAN, 1.0)]), 3);
    assert_eq!(problems(&[(10.0, 1.0), (10.0, 1.0)]), 1);
    assert_eq!(problems(&[(10.0, -0.1), (10.0, 1.5)]), 3);
}

/// The edges of a way given edge by edge.
fn way(edges: &[u32]) -> Vec<EdgeId> {
    edges.iter().copied().map(EdgeId).collect()
}
