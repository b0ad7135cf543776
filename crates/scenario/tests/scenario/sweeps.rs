//! Variables, the grid of their values, and settings from the command line.

use fairwater_experiment::Backend;
use fairwater_net::{Limit, QueueConfig, Rate};
use fairwater_scenario::{self as scenario, Scenario};

use crate::support::Files;

#[test]
fn values_that_change_together_are_a_table_and_may_name_other_variables() {
    let text = r#"
        duration = "1s"
        dumbbell = { rate = "${link.rate}", rtt = "20ms", buffer = "${link.buffer}" }
        flow = [{ algorithm = "$algorithm" }]
        [sweep]
        link = [{ rate = "12mbit", buffer = "9pkt" }, { rate = "24mbit", buffer = "3kB" }]
        algorithm = ["native:reno", "reno:report=$period"]
        period = ["10ms", "20ms"]
    "#;
    let scenario = Scenario::parse("pairs.toml", text, Backend::Sim, &Files).expect("right");
    assert_eq!(scenario.len(), 8);
    let point = scenario.point(7);
    let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        point.variables,
        [
            named("link", "24mbit, 3kB"),
            named("algorithm", "reno:report=$period"),
            named("period", "20ms"),
        ]
    );
    let link = &point.experiment.edges[0].link;
    assert_eq!(link.capacity.nominal_rate(), Rate::from_bps(24_000_000));
    assert_eq!(link.queue, QueueConfig::DropTail(Limit::Bytes(3_000)));
    assert_eq!(
        scenario.algorithms(),
        ["reno:report=10ms", "reno:report=20ms"]
    );
}

#[test]
fn texts_do_not_grow_without_bound() {
    let text = format!(
        "duration = \"{}\"\ndumbbell = {{ rate = \"1mbit\", rtt = \"20ms\" }}\n\
         flow = [{{ algorithm = \"cubic\" }}]\nsweep = {{ long = \"{}\" }}",
        "$long".repeat(1_000),
        "1".repeat(1_000)
    );
    let refused = Scenario::parse("long.toml", &text, Backend::Sim, &Files).expect_err("too long");
    assert!(
        refused.to_string().contains("more than 65536 bytes"),
        "{refused}"
    );
}

#[test]
fn the_grid_has_each_combination_and_seeds_change_fastest() {
    let text = r#"
        duration = "1s"
        seeds = [7, 9]
        dumbbell = { rate = "$rate", rtt = "20ms" }
        flow = [{ algorithm = "cubic:report=${period}" }]
        [sweep]
        rate = ["12mbit", "48mbit"]
        period = ["1ms", "2ms"]
    "#;
    let scenario = Scenario::parse("grid.toml", text, Backend::Sim, &Files).expect("right");
    let points: Vec<_> = (0..scenario.len())
        .map(|index| {
            let point = scenario.point(index);
            let rate = point.experiment.edges[0].link.capacity.nominal_rate();
            let rate = rate.expect("a rate").bps() / 1_000_000;
            (rate, point.groups[0].name.clone(), point.experiment.seed)
        })
        .collect();
    let expected: Vec<_> = [12, 48]
        .into_iter()
        .flat_map(|rate| ["1ms", "2ms"].map(|period| (rate, period)))
        .flat_map(|(rate, period)| {
            [7, 9].map(|seed| (rate, format!("cubic:report={period}"), seed))
        })
        .collect();
    assert_eq!(points, expected);
    let algorithms = scenario.algorithms();
    assert_eq!(algorithms, ["cubic:report=1ms", "cubic:report=2ms"]);
}

#[test]
fn settings_change_variables_and_values_by_their_paths() {
    let text = "duration = \"1s\" # short\n[[flow]]\ncount = 1\n[sweep]\nalg = [\"a\", \"b\"]\n";
    let set = |setting| scenario::set(text, setting);
    let changed = set("duration=5s").expect("a key");
    assert!(changed.starts_with("duration = \"5s\""), "{changed}");
    assert!(
        set("flow.0.count=10")
            .expect("a path")
            .contains("count = 10\n")
    );
    assert!(
        set("alg=cubic")
            .expect("a variable")
            .contains("alg = \"cubic\"")
    );
    assert!(
        set("alg=[\"c\"]")
            .expect("a list")
            .contains("alg = [\"c\"]")
    );
    assert!(
        set("plane.delay=1ms")
            .expect("a new table")
            .contains("[plane]\ndelay = \"1ms\"")
    );
    for wrong in [
        "duration",
        "=5",
        "duration=",
        "flow.1.count=2",
        "duration.x=1",
        "flow.x=1",
    ] {
        assert!(set(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_grid_that_is_too_large_is_all_that_is_wrong_with_it() {
    let values: Vec<String> = (1..=1000).map(|n| format!("\"{n}mbit\"")).collect();
    let delays = values.join(", ").replace("mbit", "ms");
    let text = format!(
        "duration = \"1s\"\ndumbbell = {{ rate = \"$a\", rtt = \"$b\" }}\n\
         flow = [{{ algorithm = \"cubic\", start = \"$c\" }}]\n\
         [sweep]\na = [{}]\nb = [{delays}]\nc = [\"0ms\", {delays}]\n",
        values.join(", ")
    );
    let refused = Scenario::parse("large.toml", &text, Backend::Sim, &Files).expect_err("large");
    let messages: Vec<_> = refused.iter().map(|d| d.message.as_str()).collect();
    assert_eq!(
        messages,
        ["the grid has 1001000000 points; the limit is 1000000"]
    );
}
