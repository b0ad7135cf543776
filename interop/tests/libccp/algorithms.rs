//! Which of our algorithms fit libccp's bounds.

use fairwater_plane::serve::{Config, Notice, Service};
use fairwater_plane::{Plane, SignalSet};

use crate::support::*;

/// The bound that a flow of the algorithm is refused for on libccp; `None` when it runs there.
fn refused(spec: &str) -> Option<String> {
    let mut plane = Plane::new("served", SignalSet::ALL);
    let choice = fairwater_algorithms::by_spec(spec).unwrap();
    plane.add(|programs| choice.build(programs)).unwrap();
    let mut service = Service::new(plane, Config::default());
    let mut datapath = InMemory::new(&mut service);
    let line = datapath.line();
    let mut flow = line.start("");
    line.settle(&mut service);
    for _ in 0..10 {
        ack(&mut flow);
        line.settle(&mut service);
    }
    drop(flow);
    datapath.settle(&mut service);
    service.drain_notices().find_map(|notice| match notice {
        Notice::ProgramRefused { why, .. } => Some(why),
        _ => None,
    })
}

#[test]
fn those_that_docs_say_fit_do_and_the_others_name_the_bound() {
    let mut found = String::new();
    for spec in [
        "constant",
        "constant:rate=10mbit",
        "reno",
        "reno:report=10ms",
        "reno:slow_start=plane",
        "cubic",
        "cubic:report=10ms",
        "cubic:slow_start=plane",
    ] {
        let why = refused(spec).unwrap_or_else(|| "runs".to_owned());
        found += &format!("| `{spec}` | {why} |\n");
    }
    let documented = include_str!("../../../docs/ccp.md");
    assert!(documented.contains(&found), "docs/ccp.md lacks:\n{found}");
}
