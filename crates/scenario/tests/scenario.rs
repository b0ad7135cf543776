//! A scenario means what it says; what is wrong with it is told all at once, each thing at its
//! line.

#[path = "scenario/support.rs"]
mod support;
#[path = "scenario/sweeps.rs"]
mod sweeps;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use fairwater_edge::select::{Condition, Measure};
use fairwater_experiment::{
    Backend, Ecn, EdgeId, EdgeMode, EdgeTreatment, Experiment, Path, Traffic,
};
use fairwater_net::{
    Capacity, Limit, LossConfig, Probability, QueueConfig, Rate, RateSchedule, Time,
};
use fairwater_scenario::Scenario;
use proptest::prelude::*;
use support::Files;

#[test]
fn bad_scenarios_are_refused_with_everything_that_is_wrong() {
    let mut seen = 0;
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenario/bad"))
        .expect("the folder of bad scenarios")
    {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy();
        let text = fs::read_to_string(&path).expect("text");
        let backend = match &*name {
            "linux" => Backend::Linux,
            _ => Backend::Sim,
        };
        let file_name = format!("{name}.toml");
        let refused = Scenario::parse(&file_name, &text, backend, &Files).expect_err(&file_name);
        insta::with_settings!({snapshot_path => "scenario/snapshots", prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!(&*name, refused.to_string());
        });
        seen += 1;
    }
    assert_eq!(seen, 21);
}

#[test]
fn a_small_file_has_all_that_it_does_not_say() {
    let text = r#"
        duration = "10s"
        dumbbell = { rate = "48mbit", rtt = "20ms" }
        flow = [{ algorithm = "cubic" }, { algorithm = "cubic", count = 2, stagger = "1s" }]
    "#;
    let scenario = Scenario::parse("small.toml", text, Backend::Sim, &Files).expect("right");
    assert_eq!(scenario.len(), 1);
    let point = scenario.point(0);
    let config = &point.experiment;
    assert_eq!(config.edge_names(), ["bottleneck", "bottleneck.back"]);
    assert_eq!(
        config.edges[0].link.queue,
        QueueConfig::DropTail(Limit::Bytes(120_000))
    );
    assert_eq!(config.edges[0].link.delay, Duration::from_millis(10));
    let names: Vec<_> = config.flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!(names, ["cubic", "cubic (2).1", "cubic (2).2"]);
    assert_eq!(config.flows[2].start, Time::from_millis(1000));
    assert_eq!(scenario.algorithms(), ["cubic"]);
}

#[test]
fn a_flow_may_be_behind_an_edge_that_runs_another_algorithm() {
    let text = r#"
        duration = "10s"
        dumbbell = { rate = "48mbit", rtt = "20ms" }

        [[flow]]
        algorithm = "native:cubic"
        edge = { algorithm = "reno", ecn = true, max_scale = 3, weight = 16 }

        [[flow]]
        algorithm = "cubic"
        edge = "$edge"

        [sweep]
        edge = [false]
    "#;
    let scenario = Scenario::parse("edge.toml", text, Backend::Sim, &Files).expect("right");
    let flows = scenario.point(0).experiment.flows;
    let expected = EdgeTreatment {
        algorithm: "reno".to_owned(),
        ecn: true,
        police: false,
        max_scale: Some(3),
        weight: Some(16),
        ..EdgeTreatment::default()
    };
    assert_eq!(flows[0].edge, Some(expected));
    assert_eq!(flows[1].edge, None);
    assert_eq!(scenario.algorithms(), ["reno", "cubic"]);
    let refused = Scenario::parse("edge.toml", text, Backend::Linux, &Files);
    let refused = refused
        .expect_err("the sender is the simulator's")
        .to_string();
    assert!(refused.contains("`native:cubic`"), "{refused}");
    assert!(!refused.contains("an `edge`"), "{refused}");
    let text = text.replace("native:cubic", "kernel:cubic");
    let scenario = Scenario::parse("edge.toml", &text, Backend::Linux, &Files).expect("right");
    assert_eq!(scenario.sender_algorithms(), ["cubic"]);
}

/// Mystique's algorithm 1, of a selector as in a policy of an edge.
#[test]
fn an_edge_may_hold_data_and_choose_among_algorithms() {
    let text = r#"
        duration = "10s"
        dumbbell = { rate = "48mbit", rtt = "20ms" }

        [[flow]]
        algorithm = "native:cubic"
        edge = { mode = "buffer", select = "mystique" }

        [[selector.mystique.when]]
        lost = false
        algorithm = "hybla"

        [[selector.mystique.when]]
        rtt_below = "50ms"
        algorithm = "illinois:beta=0.5"

        [[selector.mystique.when]]
        algorithm = "bbr"
    "#;
    let scenario = Scenario::parse("edge.toml", text, Backend::Sim, &Files).expect("right");
    let flows = scenario.point(0).experiment.flows;
    let held = flows[0].edge.as_ref().unwrap();
    assert_eq!((held.mode, &*held.algorithm), (EdgeMode::Buffer, "hybla"));
    let selector = held.selector.as_ref().unwrap();
    let conditions: Vec<_> = selector.clauses.iter().map(|it| &*it.conditions).collect();
    let expected = [
        &[Condition::Lost(false)][..],
        &[Condition::Below(Measure::Rtt, 50_000)],
        &[],
    ];
    assert_eq!(conditions, expected);
    let all = ["hybla", "illinois:beta=0.5", "bbr"];
    assert_eq!(scenario.algorithms(), all);
    let text = text.replace("native:cubic", "kernel:cubic");
    let refused = Scenario::parse("edge.toml", &text, Backend::Linux, &Files);
    let refused = refused.expect_err("the simulator's").to_string();
    assert!(refused.contains("an `edge` with `select`"), "{refused}");
}

#[test]
fn a_rate_that_changes_can_have_a_burst() {
    let text = r#"
        duration = "10s"
        [dumbbell]
        rate = [["0s", "48mbit"], ["5s", "12mbit"]]
        burst = "30kB"
        rtt = "20ms"
        [[flow]]
        algorithm = "cubic"
    "#;
    let scenario = Scenario::parse("steps.toml", text, Backend::Linux, &Files).expect("right");
    let mbit = |mbit: u64| Rate::from_bps(mbit * 1_000_000).expect("not zero");
    let steps = vec![(Time::ZERO, mbit(48)), (Time::from_millis(5_000), mbit(12))];
    assert_eq!(
        scenario.point(0).experiment.edges[0].link.capacity,
        Capacity::TokenBucket {
            fill: Arc::new(RateSchedule::new(steps).expect("rising from 0")),
            burst_bytes: 30_000,
        }
    );
}

/// Names of edges.
trait Names {
    fn edge_names(&self) -> Vec<&str>;
}

impl Names for Experiment {
    fn edge_names(&self) -> Vec<&str> {
        self.edges.iter().map(|edge| edge.name.as_str()).collect()
    }
}

#[test]
fn groups_of_hosts_become_stars_and_pairs() {
    let text = r#"
        duration = "1s"
        hosts = { sender = 3, switch = 1, receiver = 1 }
        [[link]]
        between = ["sender", "switch"]
        rate = "10gbit"
        delay = "5us"
        [[link]]
        name = "down"
        between = ["switch", "receiver"]
        rate = "$rate"
        delay = "5us"
        back = { rate = "1gbit" }
        [[flow]]
        name = "shuffle"
        from = "sender"
        to = "receiver"
        algorithm = "native:reno"
        traffic = { bytes = "10pkt" }
        [[flow]]
        from = "sender.2"
        to = "receiver"
        algorithm = "reno"
        via = ["sender", "down"]
        [sweep]
        rate = ["10gbit", "40gbit"]
    "#;
    let refused = Scenario::parse("star.toml", text, Backend::Sim, &Files).expect_err("via");
    assert_eq!(refused.iter().count(), 1, "{refused}");
    assert_eq!(
        refused
            .line_column(refused.iter().next().expect("one").span())
            .0,
        24
    );
    let text = text.replace("via = [\"sender\", \"down\"]", "");
    let scenario = Scenario::parse("star.toml", &text, Backend::Sim, &Files).expect("right");
    let config = scenario.point(1).experiment;
    assert_eq!(
        config.edge_names(),
        [
            "sender.1>switch",
            "switch>sender.1",
            "sender.2>switch",
            "switch>sender.2",
            "sender.3>switch",
            "switch>sender.3",
            "down",
            "down.back",
        ]
    );
    assert_eq!(
        config.edges[6].link.capacity.nominal_rate(),
        Rate::from_bps(40_000_000_000)
    );
    // 40 Gbit/s × 20 µs.
    assert_eq!(
        config.edges[6].link.queue,
        QueueConfig::DropTail(Limit::Bytes(100_000))
    );
    assert_eq!(
        config.edges[7].link.queue,
        QueueConfig::DropTail(Limit::Bytes(2_500))
    );
    assert_eq!(config.flows.len(), 4);
    assert!(matches!(config.flows[2].traffic, Traffic::Bytes(14_480)));
}

#[test]
fn queues_take_what_they_are_not_told_from_their_links() {
    let queue = |text: &str| {
        let text = format!(
            "duration = \"1s\"\ndumbbell = {{ rate = \"12mbit\", rtt = \"20ms\", {text} }}\n\
             flow = [{{ algorithm = \"cubic\" }}]"
        );
        let scenario = Scenario::parse("queue.toml", &text, Backend::Sim, &Files).expect(&text);
        scenario.point(0).experiment.edges[0].link.queue.clone()
    };
    let bdp = Limit::Bytes(30_000);
    assert_eq!(queue("queue = \"droptail\""), QueueConfig::DropTail(bdp));
    let QueueConfig::FqCoDel(fq) = queue("queue = { type = \"fq_codel\", target = \"2ms\" }")
    else {
        panic!("no fq_codel");
    };
    assert_eq!(fq.limit, Limit::Packets(10_240));
    assert_eq!(fq.codel.target, Duration::from_millis(2));
    let QueueConfig::Red(red) =
        queue("queue = { type = \"red\", preset = \"vcc-red2\", ecn = false }")
    else {
        panic!("no red");
    };
    assert_eq!(
        (red.min_bytes, red.max_bytes, red.ecn),
        (30_000, 90_000, false)
    );
    assert_eq!(red.bandwidth.bps(), 12_000_000);
    let QueueConfig::Step(step) = queue("queue = { type = \"step\", threshold = \"0.5bdp\" }")
    else {
        panic!("no step");
    };
    assert_eq!((step.limit, step.threshold), (bdp, Limit::Bytes(15_000)));
    let classes =
        "buffer = \"9pkt\", queue = { type = \"priority\", classes = [\"pie\", \"sfq\"] }";
    let QueueConfig::Priority(classes) = queue(classes) else {
        panic!("no priority");
    };
    assert_eq!(classes.limit, Limit::Packets(9));
    let [QueueConfig::Pie(pie), QueueConfig::Sfq(sfq)] = classes.classes.as_slice() else {
        panic!("{classes:?}");
    };
    assert_eq!(
        (pie.limit, sfq.limit),
        (Limit::Packets(9), Limit::Packets(9))
    );
    let weighted = "buffer = \"250ms\", queue = { type = \"wdrr\", classes = [\"droptail\", \"sfq\"], \
                    weights = [3, 1] }";
    let QueueConfig::Wdrr(weighted) = queue(weighted) else {
        panic!("no wdrr");
    };
    // 250 ms at 12 Mbit/s.
    assert_eq!(weighted.limit, Limit::Bytes(375_000));
    assert_eq!(weighted.weights, [3, 1]);
    let bounded = queue("buffer = \"100kB,250ms\"");
    assert_eq!(bounded, QueueConfig::DropTail(Limit::Bytes(100_000)));
}

#[test]
fn pools_udp_and_bundles_are_read() {
    let text = r#"
        duration = "1s"
        dumbbell = { rate = "96mbit", rtt = "50ms" }
        [[flow]]
        algorithm = "native:cubic"
        bundle = "site"
        traffic = { requests = { cdf = [["1B", 0.000001], ["10kB", 1]], rate = "84mbit", connections = 200 } }
        [[flow]]
        traffic = { udp = { rate = "32mbit" } }
        [[flow]]
        count = 10
        bundle = "site"
        traffic = { udp_ping_pong = {} }
    "#;
    let scenario = Scenario::parse("udp.toml", text, Backend::Sim, &Files).expect("right");
    let point = scenario.point(0);
    let flows = &point.experiment.flows;
    assert_eq!(flows.len(), 12);
    let Traffic::Pool {
        load, connections, ..
    } = flows[0].traffic
    else {
        panic!("{:?}", flows[0].traffic);
    };
    assert_eq!((load, connections), (10_500_000.0, 200));
    let Traffic::ConstantRate { rate, packet_bytes } = flows[1].traffic else {
        panic!("{:?}", flows[1].traffic);
    };
    assert_eq!((rate, packet_bytes), (4_000_000, 1500));
    assert!(matches!(
        flows[2].traffic,
        Traffic::Echo {
            packet_bytes: 40,
            count: None,
            ..
        }
    ));
    let bundles: Vec<_> = flows.iter().map(|flow| flow.bundle.as_deref()).collect();
    assert_eq!(bundles[..3], [Some("site"), None, Some("site")]);
    assert_eq!(flows[1].name, "udp");
}

#[test]
fn bundles_have_boxes_or_a_name_alone() {
    let text = r#"
        duration = "1s"
        [hosts]
        site = 1
        router = 1
        clients = 2
        [[link]]
        name = "up"
        between = ["site", "router"]
        rate = "96mbit"
        delay = "20ms"
        [[link]]
        between = ["router", "clients"]
        delay = "5ms"
        [[flow]]
        algorithm = "native:cubic"
        from = "site"
        to = "clients"
        bundle = "east"
        [[flow]]
        algorithm = "native:cubic"
        from = "clients"
        to = "site"
        bundle = "west"
        [[bundle]]
        name = "east"
        at = "up"
        algorithm = "$east"
        [[bundle]]
        name = "west"
        at = "up.back"
        algorithm = "cubic"
        queue = { type = "droptail" }
        buffer = "100kB"
        queue_time = "20ms"
        observe = true
        [sweep]
        east = [false, "reno"]
    "#;
    let scenario = Scenario::parse("bundle.toml", text, Backend::Sim, &Files).expect("right");
    assert_eq!(scenario.algorithms(), ["cubic", "reno"]);
    let without = scenario.point(0);
    assert_eq!(without.algorithms(), ["cubic"]);
    assert_eq!(without.experiment.bundles.len(), 1);
    let experiment = scenario.point(1).experiment;
    let [east, west] = &experiment.bundles[..] else {
        panic!("{:?}", experiment.bundles);
    };
    let at = |bundle: &fairwater_experiment::BundleConfig| {
        experiment.edges[bundle.at.0 as usize].name.as_str()
    };
    assert_eq!((at(east), at(west)), ("up", "up.back"));
    assert_eq!((east.algorithm.as_str(), east.observe), ("reno", false));
    assert_eq!(east.queue_time, Duration::from_millis(250));
    let QueueConfig::Sfq(sfq) = &east.queue else {
        panic!("{:?}", east.queue);
    };
    // Four times 96 Mbit/s in 50 ms.
    assert_eq!(sfq.limit, Limit::Bytes(2_400_000));
    assert_eq!(west.queue, QueueConfig::DropTail(Limit::Bytes(100_000)));
    assert_eq!(west.queue_time, Duration::from_millis(20));
    assert!(west.observe);
}

#[test]
fn a_load_is_shared_by_the_flows_of_its_table() {
    let text = r#"
        duration = "1s"
        dumbbell = { trace = "good.trace", rtt = "20ms", buffer = "10pkt" }
        [[flow]]
        algorithm = "cubic"
        count = 4
        traffic = { requests = { cdf = "good.cdf", load = 0.5 } }
    "#;
    let scenario = Scenario::parse("load.toml", text, Backend::Sim, &Files).expect("right");
    let config = scenario.point(0).experiment;
    assert_eq!(
        config.edges[0].link.queue,
        QueueConfig::DropTail(Limit::Packets(10))
    );
    // 3 opportunities of 1500 bytes each 10 ms.
    for flow in &config.flows {
        let Traffic::Requests { load, sizes } = &flow.traffic else {
            panic!("{flow:?}");
        };
        assert_eq!(*load, 0.5 * 450_000.0 / 4.0);
        assert_eq!(sizes.points, [(1000.0, 0.5), (100_000.0, 1.0)]);
    }
    assert_eq!(scenario.files().len(), 2);
}

#[test]
fn a_dumbbell_has_another_direction() {
    let text = r#"
        duration = "1s"
        flow = [{ algorithm = "cubic" }]
        [dumbbell]
        rate = "8mbit"
        rtt = "10ms"
        [dumbbell.back]
        rate = [["0s", "1mbit"], ["500ms", "2mbit"]]
        loss = "1%"
        queue = "codel"
    "#;
    let scenario = Scenario::parse("back.toml", text, Backend::Sim, &Files).expect("right");
    let edges = &scenario.point(0).experiment.edges;
    let back = &edges[1].link;
    assert_eq!(back.delay, Duration::from_millis(5));
    assert!(matches!(back.loss, LossConfig::Random(_)));
    assert!(matches!(back.queue, QueueConfig::CoDel(_)));
    assert!(back.capacity.nominal_rate().is_some());
    assert_eq!(edges[0].link.loss, LossConfig::None);
}

#[test]
fn a_distribution_may_begin_with_nothing_at_all() {
    let text = r#"
        duration = "1s"
        dumbbell = { rate = "8mbit", rtt = "10ms" }
        flow = [{ algorithm = "cubic", traffic = { requests = { cdf = "usual.cdf", load = 0.5 } } }]
    "#;
    let scenario = Scenario::parse("usual.toml", text, Backend::Sim, &Files).expect("right");
    let Traffic::Requests { sizes, .. } = &scenario.point(0).experiment.flows[0].traffic else {
        panic!("no requests");
    };
    assert!(sizes.errors().is_empty());
    assert_eq!(sizes.points[0], (0.0, 0.0));
}

#[test]
fn real_tcp_runs_any_link_between_two_hosts() {
    let text = r#"
        duration = "10s"
        measure = { from = "2s" }
        dumbbell = { rate = "48mbit", rtt = "20ms", queue = "fq_codel", jitter = "1ms", loss = "0.01%" }
        flow = [{ algorithm = "cubic" }, { algorithm = "kernel:bbr", tcp.ecn = "classic" }]
    "#;
    let real = Scenario::parse("two.toml", text, Backend::Linux, &Files).expect("right");
    let simulated = Scenario::parse(
        "two.toml",
        text.replace("bbr", "reno").as_str(),
        Backend::Sim,
        &Files,
    );
    let simulated = simulated.expect("right").point(0).experiment;
    let real = real.point(0).experiment;
    assert_eq!(real.edges[0].link, simulated.edges[0].link);
    assert_eq!(real.measure, simulated.measure);
}

#[test]
fn everything_at_once_is_right() {
    let text = include_str!("scenario/good/all.toml");
    let scenario = Scenario::parse("all.toml", text, Backend::Sim, &Files).expect("right");
    assert_eq!(scenario.len(), 4);
    let point = scenario.point(3);
    let variables = [("rate", "20mbit"), ("period", "10ms")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(point.variables, variables);
    let config = &point.experiment;
    assert_eq!(config.seed, 2);
    assert_eq!((config.edges.len(), config.flows.len()), (10, 8));
    let upper = &config.edges[4];
    assert_eq!(upper.name, "upper");
    // 20 Mbit/s × 12.2 ms, the round trip of the longest flow that crosses it, × 2.
    assert_eq!(
        upper.link.queue,
        QueueConfig::DropTail(Limit::Bytes(61_000))
    );
    let lost = Probability::from_ppb(100_000).expect("0.01 %");
    assert_eq!(upper.link.loss, LossConfig::Random(lost));
    assert_eq!(config.edges[5].link.loss, LossConfig::None);
    assert_eq!(
        config.edges[5].link.queue,
        QueueConfig::DropTail(Limit::Bytes(100_000))
    );
    let bulk = &config.flows[3];
    assert_eq!((bulk.tcp.mss, bulk.tcp.initial_window), (1000, 4));
    assert_eq!(bulk.tcp.min_rto, Duration::from_millis(10));
    assert_eq!(bulk.tcp.ecn, Ecn::Off);
    assert_eq!(config.flows[7].tcp.ecn, Ecn::Classic);
    let Path::Along {
        forward, reverse, ..
    } = &config.flows[4].path
    else {
        panic!("{:?}", config.flows[4].path);
    };
    let edges = |ids: &[u32]| ids.iter().map(|id| EdgeId(*id)).collect::<Vec<_>>();
    assert_eq!(*forward, [edges(&[4, 8]), edges(&[6, 8])]);
    assert_eq!(*reverse, [edges(&[9, 5]), edges(&[9, 7])]);
    assert_eq!(
        config.plane.outages,
        [(Time::from_millis(500), Time::from_millis(700))]
    );
    assert_eq!(config.measure.from, Time::from_millis(100));
    assert_eq!(config.measure.interval, Some(Duration::from_millis(10)));
}

proptest! {
    /// Whatever the text, it is refused or every point of it can be had.
    #[test]
    fn no_text_is_too_odd(edits in prop::collection::vec((any::<prop::sample::Index>(), ".{0,8}"), 0..4)) {
        let mut text = include_str!("scenario/good/all.toml").to_owned();
        for (at, with) in edits {
            let at = text.floor_char_boundary(at.index(text.len()));
            let end = text.floor_char_boundary((at + with.len()).min(text.len()));
            text.replace_range(at..end.max(at), &with);
        }
        match Scenario::parse("odd.toml", &text, Backend::Sim, &Files) {
            Ok(scenario) => for index in 0..scenario.len().min(4) {
                prop_assert_eq!(scenario.point(index).index, index);
            },
            Err(refused) => prop_assert!(!refused.to_string().is_empty()),
        }
    }
}
