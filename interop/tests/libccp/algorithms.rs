//! Every algorithm runs on libccp, with its default parameters and those that change its program most.

use std::time::{Duration, Instant};

use fairwater_plane::Plane;
use fairwater_service::{Config, Service, ServiceNotice};
use libccp::Primitives;

use crate::support::*;

/// What docs/ccp.md says of a program that takes more instructions than libccp runs.
const TOO_LONG: &str = "refused: more than 255 instructions";

/// How long an algorithm may take to report and to change cwnd or the rate: libccp's time is real.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What `docs/ccp.md` says of an algorithm on libccp: whether its flow reported, or why its program
/// was refused.
fn outcome(spec: &str) -> String {
    let mut plane = Plane::new();
    let choice = fairwater_algorithms::by_spec(spec).unwrap();
    plane.add(|programs| choice.build(programs)).unwrap();
    let mut service = Service::new(plane, Config::default());
    let mut datapath = InMemory::new(&mut service);
    let line = datapath.line();
    let mut flow = line.start("");
    line.settle(&mut service);
    let quiet = spec.starts_with("constant");
    let begin = Instant::now();
    let (mut rounds, mut changes, mut refused) = (0_u32, 0, None);
    while rounds < 600 || changes == 0 || !(quiet || reports(&service) > 0) {
        refused = refused.or_else(|| refusal(&mut service));
        if refused.is_some() {
            break;
        }
        assert!(
            begin.elapsed() < TIMEOUT,
            "{spec}: {changes} changes of cwnd or rate, {} reports",
            reports(&service)
        );
        rounds += 1;
        // A loss now and then, so that programs that report congestion alone report.
        let lost = u32::from(rounds.is_multiple_of(50));
        let before = (flow.cwnd, flow.rate);
        let acked = Primitives::default()
            .with_bytes_acked(MSS)
            .with_packets_acked(1)
            .with_lost_pkts_sample(lost)
            .with_bytes_in_flight(flow.cwnd.saturating_sub(MSS))
            .with_packets_in_flight(flow.cwnd / MSS)
            .with_rate_incoming(1_000_000)
            .with_rate_outgoing(1_000_000)
            .with_rtt_sample_us(u64::from(200 + rounds % 7));
        invoke(&mut flow, acked);
        line.settle(&mut service);
        changes += u32::from(before != (flow.cwnd, flow.rate));
    }
    drop(flow);
    datapath.settle(&mut service);
    assert_eq!(datapath.errors, [""; 0], "{spec}");
    assert_eq!(service.statistics().refused_total(), 0, "{spec}");
    match refused {
        Some(why) if why.starts_with("libccp runs 255 instructions") => TOO_LONG.to_owned(),
        Some(why) => why,
        None => "runs".to_owned(),
    }
}

fn reports(service: &Service) -> u64 {
    service.peers().map(|peer| peer.reports).sum()
}

/// Why the peer could not have a program, if it could not.
fn refusal(service: &mut Service) -> Option<String> {
    service.drain_notices().find_map(|notice| match notice {
        ServiceNotice::ProgramRefused { why, .. } => Some(why),
        _ => None,
    })
}

/// What docs/ccp.md says of variants of algorithms, and of defaults that do not run.
fn documented() -> impl Iterator<Item = (&'static str, &'static str)> {
    let documentation = include_str!("../../../docs/ccp.md");
    documentation.lines().filter_map(|line| {
        let row = line.strip_prefix("| `")?.strip_suffix(" |")?;
        row.split_once("` | ")
    })
}

#[test]
fn every_algorithm_runs_on_libccp_by_default_unless_the_documentation_names_it() {
    for entry in fairwater_algorithms::all() {
        let row = documented().find(|(spec, _)| *spec == entry.name);
        let expected = row.map_or("runs", |(_, expected)| expected);
        assert_eq!(outcome(entry.name), expected, "{}", entry.name);
    }
}

#[test]
fn the_documented_variants_do_what_the_documentation_says() {
    let mut checked = 0;
    for (spec, expected) in documented() {
        assert_eq!(outcome(spec), expected, "{spec}");
        checked += 1;
    }
    assert!(checked > 5, "docs/ccp.md has no table of variants");
}
