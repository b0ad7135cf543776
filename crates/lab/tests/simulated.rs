//! Comparisons in the simulator: the same measures, and the same numbers each time.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fairwater_experiment::{Backend, Controller, Native};
use fairwater_lab::{Candidate, Comparison, LabError, simulate};
use fairwater_plane::Plane;
use fairwater_results::Results;

fn experiment(link: &str, seconds: u64, names: &[&str]) -> Comparison<Controller> {
    let candidate = |name: &&str| Candidate {
        label: format!("kernel:{name}"),
        congestion_control: Controller::Native(
            Native::in_place_of_kernel(name).expect("it has one"),
        ),
    };
    let link = link.parse().expect("a link");
    let mut experiment = Comparison::new(link, names.iter().map(candidate).collect());
    experiment.duration = Duration::from_secs(seconds);
    experiment
}

fn outcome(experiment: &Comparison<Controller>) -> Result<Results, LabError> {
    let plane = || Ok(Plane::new());
    let never = AtomicBool::new(false);
    simulate::<LabError>(experiment, plane, &never, &mut |_| ()).map(|simulated| simulated.results)
}

fn results(experiment: &Comparison<Controller>) -> Results {
    outcome(experiment).expect("it can be simulated")
}

#[test]
fn reno_fills_a_link_as_it_does_in_the_lab() {
    let results = results(&experiment("20mbit 10ms 1bdp", 3, &["reno"]));
    assert_eq!(
        (results.on, results.kernel, results.traffic),
        (Backend::Sim, None, None)
    );
    let reno = &results.runs[0];
    assert_eq!(reno.name, "kernel:reno");
    assert_eq!(reno.congestion_control, "native:reno");
    assert!((0.5..=1.001).contains(&reno.utilisation), "{reno:?}");
    assert!((reno.throughput_bps / 20e6 - reno.utilisation).abs() < 1e-6);
    // A full buffer of one BDP delays by one RTT; a packet more may be in service.
    assert!(
        (0.1..=10.7).contains(&reno.queueing_delay_ms.p95),
        "{reno:?}"
    );
    assert!(reno.queueing_delay_ms.p50 <= reno.queueing_delay_ms.p95);
    // Slow start overflows the buffer.
    assert!(reno.loss > 0.0 && reno.loss < 0.2, "{reno:?}");
    assert!(reno.retransmissions > 0);
    assert!(!reno.disturbed && reno.cpu_seconds.is_none());

    let tcp = &reno.series.tcp;
    assert!(tcp.len() > 500, "{} samples", tcp.len());
    assert!(tcp.iter().any(|sample| sample.srtt_us >= 10_000));
    assert!(tcp.iter().all(|sample| sample.cwnd_bytes() >= 1000));
    let last = tcp.last().expect("there are samples");
    assert_eq!(u64::from(last.retransmissions), reno.retransmissions);
}

#[test]
fn a_simulation_can_be_done_again_bit_for_bit_and_follows_the_seed() {
    let with_seed = |seed: u64| {
        let link = format!("30mbit 15ms 1bdp loss=0.1% seed={seed}");
        let mut experiment = experiment(&link, 4, &["cubic", "reno", "cubic"]);
        experiment.together = true;
        results(&experiment)
    };
    let (first, again, other) = (with_seed(3), with_seed(3), with_seed(4));
    assert_eq!(first, again);
    assert_ne!(first.runs, other.runs);
    let sum: f64 = first.runs.iter().map(|run| run.utilisation).sum();
    assert!((0.5..=1.001).contains(&sum), "{sum}");
    assert!(first.runs.iter().all(|run| run.throughput_bps > 1e6));
}

/// A handshake that is lost is tried again after 1 s, and then 2 (RFC 6298 §2).
#[test]
fn a_run_lasts_its_time_from_the_first_data_however_late_that_is() {
    for seed in 0..20 {
        let link = format!("10mbit 20ms 1bdp loss=30% seed={seed}");
        let results = results(&experiment(&link, 2, &["reno"]));
        let tcp = &results.runs[0].series.tcp;
        let last = tcp.last().expect("there are samples").at;
        assert!(last.as_nanos() > 1_990_000_000, "seed {seed}: {last:?}");
    }
}

#[test]
fn what_cannot_be_simulated_is_said() {
    let mut wrong = experiment("10mbit 20ms", 2, &["reno"]);
    wrong.ipv6 = true;
    assert!(matches!(outcome(&wrong), Err(LabError::SimulatedIpv6)));
    let short = experiment("10mbit 20ms", 0, &["reno"]);
    assert!(matches!(outcome(&short), Err(LabError::Duration { .. })));
    let nobody = experiment("10mbit 20ms", 2, &[]);
    assert!(matches!(outcome(&nobody), Err(LabError::NoCandidate)));
    let lost = experiment("trace:/nowhere/at.all 20ms", 2, &["reno"]);
    assert!(matches!(outcome(&lost), Err(LabError::TraceFile { .. })));
    assert_eq!(Native::in_place_of_kernel("bbr"), None);

    let mut unknown = experiment("10mbit 20ms", 2, &["reno"]);
    unknown.candidates[0].congestion_control = Controller::Plane("vegas".into());
    let error = outcome(&unknown).expect_err("the plane has none");
    assert!(error.to_string().contains("vegas"), "{error}");
}

#[test]
fn it_ends_when_it_is_cancelled() {
    let plane = || Ok(Plane::new());
    let long = experiment("1gbit 20ms 1bdp", 86_400, &["cubic"]);
    let ended = simulate::<LabError>(&long, plane, &AtomicBool::new(true), &mut |_| ());
    assert!(matches!(ended, Err(LabError::Cancelled)));
}
