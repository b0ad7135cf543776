//! Real flows over an emulated path. These need root; see [`gate`].

#![expect(
    clippy::expect_used,
    clippy::print_stderr,
    reason = "helpers of tests fail the test by panicking, and say why one is skipped"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fairwater_experiment::Backend;
use fairwater_lab::points::run_real;
use fairwater_lab::{Candidate, Comparison, LabError, NoqEnds, run};
use fairwater_results::{PointResult, Results, TrafficProgram};
use fairwater_scenario::{Resolver, Scenario, Sender};
use fairwater_testbed::{KernelSender, TestbedError, UserPlane, require};

/// One run at a time: each needs the whole machine.
static MACHINE: Mutex<()> = Mutex::new(());

/// Whether this machine can run these tests. When it cannot, says why; that is a failure when
/// `FAIRWATER_REQUIRE_PRIVILEGED=1`.
fn gate(program: TrafficProgram) -> bool {
    let Err(missing) = require(program) else {
        return true;
    };
    let reasons: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let reasons = reasons.join("; ");
    let required = std::env::var("FAIRWATER_REQUIRE_PRIVILEGED").is_ok_and(|value| value == "1");
    assert!(
        !required,
        "this machine must run privileged tests: {reasons}"
    );
    eprintln!("skipped: {reasons}");
    false
}

fn kernel(name: &str) -> Candidate {
    Candidate {
        label: format!("kernel:{name}"),
        congestion_control: name.to_owned(),
    }
}

fn experiment(link: &str, seconds: u64, names: &[&str], program: TrafficProgram) -> Comparison {
    let candidates = names.iter().map(|name| kernel(name)).collect();
    let mut experiment = Comparison::new(link.parse().expect("a link"), candidates);
    experiment.duration = Duration::from_secs(seconds);
    experiment.program = program;
    experiment.tries = 1;
    experiment
}

fn undisturbed(experiment: &Comparison) -> Results {
    run(experiment, &AtomicBool::new(false), &mut |_| ()).unwrap_or_else(|e| panic!("{e}"))
}

/// What a run could leave: this process's children, and the namespaces and devices one can see.
#[derive(Debug, PartialEq)]
struct MachineState {
    children: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    devices: BTreeSet<String>,
}

impl MachineState {
    fn now() -> Self {
        let listed = |directory: &str| -> BTreeSet<String> {
            fs::read_dir(directory)
                .map(|entries| {
                    entries
                        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                        .collect()
                })
                .unwrap_or_default()
        };
        let own = std::process::id();
        let children = listed(&format!("/proc/{own}/task"))
            .iter()
            .filter_map(|task| fs::read_to_string(format!("/proc/{own}/task/{task}/children")).ok())
            .flat_map(|children| {
                children
                    .split_whitespace()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            })
            .collect();
        MachineState {
            children,
            namespaces: listed("/run/netns"),
            devices: listed("/sys/class/net"),
        }
    }
}

#[test]
fn reno_fills_a_link_and_leaves_nothing() {
    let _alone = MACHINE.lock();
    if !gate(TrafficProgram::Iperf3) {
        return;
    }
    let before = MachineState::now();
    let experiment = experiment("20mbit 10ms 1bdp", 3, &["reno"], TrafficProgram::Iperf3);
    let mut seen = Vec::new();
    let results = run(&experiment, &AtomicBool::new(false), &mut |progress| {
        seen.push(progress.clone());
    })
    .unwrap_or_else(|error| panic!("{error}"));

    let reno = &results.runs[0];
    assert_eq!(reno.name, "kernel:reno");
    assert!((0.5..=1.001).contains(&reno.utilisation), "{reno:?}");
    assert!((reno.throughput_bps / 20e6 - reno.utilisation).abs() < 1e-6);
    // A full buffer of one BDP delays by one RTT; a packet more may be in service.
    assert!(
        (0.0..=10.7).contains(&reno.queueing_delay_ms.p95),
        "{reno:?}"
    );
    assert!(reno.queueing_delay_ms.p50 <= reno.queueing_delay_ms.p95);
    // Slow start overflows the buffer.
    assert!(reno.loss > 0.0 && reno.loss < 0.2, "{reno:?}");
    assert!(reno.retransmissions > 0);
    assert!(reno.cpu_seconds.is_some_and(|seconds| seconds > 0.0));

    let tcp = &reno.series.tcp;
    assert!(tcp.len() > 30, "{} samples", tcp.len());
    assert!(tcp.iter().all(|sample| sample.congestion_control == "reno"));
    assert!(tcp.iter().any(|sample| sample.srtt_us >= 10_000));
    assert!(tcp.iter().all(|sample| sample.cwnd_bytes() >= 1000));
    let last = seen.last().expect("progress was told");
    assert_eq!(last.elapsed, Duration::from_secs(3));
    assert!(
        seen.iter()
            .any(|update| update.flows[0].throughput_bps > 10e6)
    );
    assert_eq!(MachineState::now(), before);
}

#[test]
fn candidates_share_a_link_over_ipv6() {
    let _alone = MACHINE.lock();
    for traffic in [TrafficProgram::Iperf3, TrafficProgram::Bulk] {
        if !gate(traffic) {
            continue;
        }
        let mut experiment = experiment("30mbit 10ms 40pkt", 3, &["reno", "cubic"], traffic);
        experiment.together = true;
        experiment.ipv6 = true;
        let results = undisturbed(&experiment);
        let names: Vec<&str> = results.runs.iter().map(|run| run.name.as_str()).collect();
        assert_eq!(names, ["kernel:reno", "kernel:cubic"]);
        let total: f64 = results.runs.iter().map(|run| run.utilisation).sum();
        assert!((0.5..=1.001).contains(&total), "{results:?}");
        for run in &results.runs {
            assert!(run.utilisation > 0.02, "{run:?}");
            let last = run.series.tcp.last().expect("samples");
            assert_eq!(last.congestion_control, run.congestion_control);
        }
    }
}

#[test]
fn a_trace_bounds_what_passes() {
    let _alone = MACHINE.lock();
    if !gate(TrafficProgram::Bulk) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("steps.trace");
    // 12 Mbit/s for half a second, then 3.
    let fast = (0..500).map(|ms| ms.to_string());
    let slow = (500..=1000).step_by(4).map(|ms| ms.to_string());
    let lines: Vec<String> = fast.chain(slow).collect();
    fs::write(&file, lines.join("\n")).expect("written");
    let link = format!("trace:{} 20ms 60pkt", file.display());
    let results = undisturbed(&experiment(&link, 3, &["cubic"], TrafficProgram::Bulk));
    let cubic = &results.runs[0];
    assert!((0.4..=1.001).contains(&cubic.utilisation), "{cubic:?}");
    assert!(cubic.throughput_bps < 7.6e6, "{cubic:?}");
}

/// Any algorithm and no file.
struct Anything;

impl Resolver for Anything {
    fn read(&self, name: &str) -> Result<String, String> {
        Err(format!("there is no {name}"))
    }

    fn check_algorithm(&self, _: &str) -> Result<(), Vec<String>> {
        Ok(())
    }
}

/// The result of a scenario's only point on real TCP.
fn real_point(text: &str) -> PointResult {
    let scenario = Scenario::parse("real.toml", text, Backend::Linux, &Anything);
    let scenario = scenario.unwrap_or_else(|refused| panic!("{refused}"));
    let sender = |sender: &Sender| KernelSender {
        congestion_control: sender.text().trim_start_matches("kernel:").to_owned(),
        at_both_ends: false,
    };
    let never = AtomicBool::new(false);
    run_real(&scenario.point(0), sender, None, None, &never, &mut |_| ())
        .unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_flow_that_starts_after_the_end_does_not_run() {
    let _alone = MACHINE.lock();
    if !gate(TrafficProgram::Bulk) {
        return;
    }
    let result = real_point(
        r#"
        duration = "2s"
        dumbbell = { rate = "20mbit", rtt = "10ms" }
        flow = [{ algorithm = "kernel:cubic", count = 2, stagger = "60s" }]
    "#,
    );
    let [first, second] = &result.flows[..] else {
        panic!("{result:?}");
    };
    assert!((10e6..=20.1e6).contains(&first.throughput_bps), "{first:?}");
    assert_eq!((second.throughput_bps, second.rtt_us), (0.0, None));
    assert_eq!(second.queueing_us, None);
}

/// Queueing of all flows together and each flow's RTT are measured, from when `[measure]` says.
#[test]
fn five_flows_are_measured_from_the_time_that_the_scenario_says() {
    let _alone = MACHINE.lock();
    if !gate(TrafficProgram::Bulk) {
        return;
    }
    let result = real_point(
        r#"
        duration = "3s"
        measure = { from = "1s" }
        dumbbell = { rate = "20mbit", rtt = "20ms" }
        flow = [{ algorithm = "kernel:cubic", count = 5 }]
    "#,
    );
    assert_eq!((result.measured_s, result.flows.len()), (2.0, 5));
    let link = &result.edges[0];
    let queueing = link.queueing_us.expect("of all flows");
    assert!(
        queueing.p50 > 0.0 && queueing.p99 >= Some(queueing.p50),
        "{queueing:?}"
    );
    assert!((0.5..=1.001).contains(&link.utilisation), "{link:?}");
    // All that left in 2 s, and no more.
    let bits = link.packets as f64 * 1500.0 * 8.0;
    assert!(
        (0.8..=1.05).contains(&(bits / 2.0 / link.throughput_bps)),
        "{link:?}"
    );
    for flow in &result.flows {
        let rtt = flow.rtt_us.expect("of its socket");
        assert!((20_000.0..200_000.0).contains(&rtt.p50), "{rtt:?}");
    }
}

/// The real link is the one that the simulator has, whatever its discipline.
#[test]
fn real_tcp_runs_through_fq_codel() {
    let _alone = MACHINE.lock();
    if !gate(TrafficProgram::Bulk) {
        return;
    }
    let result = real_point(
        r#"
        duration = "3s"
        dumbbell = { rate = "20mbit", rtt = "20ms", buffer = "10bdp", queue = "fq_codel" }
        flow = [{ algorithm = "kernel:cubic" }]
    "#,
    );
    // CoDel holds the queue at 5 ms, where a drop-tail buffer of 10 BDP would grow to 200 ms.
    let queueing = result.edges[0].queueing_us.expect("it was measured");
    assert!(queueing.p50 < 30_000.0, "{queueing:?}");
    assert!(result.edges[0].dropped > 0);
}

/// Each of the transports in user space, on the path of the others; the TCP's flow is under its fallback, for want of
/// a plane.
#[test]
fn transports_in_user_space_fill_the_link_and_leave_nothing() {
    let _alone = MACHINE.lock();
    if !gate(TrafficProgram::Bulk) {
        return;
    }
    let before = MachineState::now();
    let cubic = fairwater_algorithms::by_spec("cubic").expect("it is there");
    let ends = NoqEnds::new(&[("cubic".to_owned(), cubic)]).expect("it runs on noq");
    let names = ["quic:cubic", "utcp:cubic"];
    let mut both = experiment("20mbit 10ms 1bdp", 3, &names, TrafficProgram::Bulk);
    both.quic = Some(Arc::new(ends));
    both.user_plane = Some(UserPlane::new(|| Err(ErrorKind::ConnectionRefused.into())));
    for run in undisturbed(&both).runs {
        assert!(run.utilisation > 0.7, "{}: {}", run.name, run.utilisation);
        assert!(run.series.tcp.len() > 100, "{}", run.name);
    }
    both.candidates[0].congestion_control = "quic:reno".to_owned();
    let unknown = run(&both, &AtomicBool::new(false), &mut |_| ()).expect_err("no such algorithm");
    assert!(unknown.to_string().contains("`reno`"), "{unknown}");
    both.quic = None;
    assert!(both.check().is_err(), "QUIC without its ends");
    assert_eq!(MachineState::now(), before);
}

#[test]
fn cancelling_ends_a_run_soon_and_leaves_nothing() {
    let _alone = MACHINE.lock();
    if !gate(TrafficProgram::Iperf3) {
        return;
    }
    let before = MachineState::now();
    let cancel = AtomicBool::new(false);
    let experiment = experiment("20mbit 10ms", 600, &["reno"], TrafficProgram::Iperf3);
    let started = Instant::now();
    let result = run(&experiment, &cancel, &mut |progress| {
        if progress.elapsed > Duration::from_millis(300) {
            cancel.store(true, Ordering::Relaxed);
        }
    });
    assert!(matches!(result, Err(LabError::Cancelled)), "{result:?}");
    assert!(started.elapsed() < Duration::from_secs(60));
    assert_eq!(MachineState::now(), before);
}

#[test]
fn a_panicking_watcher_leaves_nothing() {
    let _alone = MACHINE.lock();
    if !gate(TrafficProgram::Iperf3) {
        return;
    }
    let before = MachineState::now();
    let experiment = experiment("20mbit 10ms", 600, &["reno"], TrafficProgram::Iperf3);
    let panicked = thread::spawn(move || {
        run(&experiment, &AtomicBool::new(false), &mut |progress| {
            assert!(progress.elapsed.is_zero(), "the watcher gives up");
        })
        .map(|_| ())
    })
    .join();
    assert!(panicked.is_err());
    assert_eq!(MachineState::now(), before);
}

/// Set for the process that [`nothing_outlives_a_kill`] kills.
const VICTIM: &str = "FAIRWATER_LAB_TEST_VICTIM";

#[test]
fn nothing_outlives_a_kill() {
    let _alone = MACHINE.lock();
    if !gate(TrafficProgram::Iperf3) {
        return;
    }
    if std::env::var_os(VICTIM).is_some() {
        undisturbed(&experiment(
            "20mbit 10ms",
            600,
            &["reno"],
            TrafficProgram::Iperf3,
        ));
        return;
    }
    let before = MachineState::now();
    let mut victim = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "nothing_outlives_a_kill"])
        .env(VICTIM, "1")
        .stdout(Stdio::null())
        .spawn()
        .expect("a child");
    let of_victim = wait_for(|| {
        let seen = descendants(victim.id());
        (seen.len() == 2).then_some(seen)
    })
    .expect("the victim runs a client and a server");
    let namespaces: BTreeSet<String> = of_victim.iter().filter_map(|pid| netns(*pid)).collect();
    assert_eq!(namespaces.len(), 2, "each has a namespace of its own");
    assert!(!namespaces.contains(&netns(std::process::id()).expect("ours")));

    victim.kill().expect("killed");
    victim.wait().expect("reaped");
    wait_for(|| of_victim.iter().all(|pid| is_gone(*pid)).then_some(()))
        .expect("its client and server died with it");
    let left: Vec<u32> = processes()
        .filter(|pid| netns(*pid).is_some_and(|netns| namespaces.contains(&netns)))
        .collect();
    assert_eq!(left, [0; 0], "processes left in its namespaces");
    assert_eq!(MachineState::now(), before);

    let again = undisturbed(&experiment(
        "20mbit 10ms",
        1,
        &["reno"],
        TrafficProgram::Iperf3,
    ));
    assert!(again.runs[0].throughput_bps > 0.0);
}

#[test]
fn an_unknown_congestion_control_is_named_before_anything_starts() {
    let _alone = MACHINE.lock();
    if !gate(TrafficProgram::Bulk) {
        return;
    }
    let experiment = experiment("20mbit 10ms", 1, &["reno", "nosuch"], TrafficProgram::Bulk);
    let mut updates = 0;
    let error =
        run(&experiment, &AtomicBool::new(false), &mut |_| updates += 1).expect_err("unknown");
    let LabError::Testbed(TestbedError::UnknownCongestionControl { name, available }) = error
    else {
        panic!("{error}");
    };
    assert_eq!(name, "nosuch");
    assert!(available.iter().any(|name| name == "reno"), "{available:?}");
    assert_eq!(updates, 0);
}

fn processes() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc")
        .expect("/proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The children of a process, by the parent that `/proc/PID/stat` names.
fn descendants(parent: u32) -> Vec<u32> {
    processes()
        .filter(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let fields = stat.rsplit_once(')').map(|(_, fields)| fields.to_owned());
            let found = fields
                .as_deref()
                .and_then(|fields| fields.split_whitespace().nth(1));
            found == Some(&parent.to_string())
        })
        .collect()
}

fn netns(pid: u32) -> Option<String> {
    let link = fs::read_link(format!("/proc/{pid}/ns/net")).ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// Whether a process is dead: whoever inherits it may not have reaped it yet.
fn is_gone(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat
            .rsplit_once(')')
            .is_some_and(|(_, rest)| rest.starts_with(" Z")),
        Err(_) => true,
    }
}

fn wait_for<T>(mut found: impl FnMut() -> Option<T>) -> Option<T> {
    (0..300).find_map(|_| {
        thread::sleep(Duration::from_millis(50));
        found()
    })
}

#[test]
fn a_token_bucket_follows_the_steps_of_its_rate() {
    let _alone = MACHINE.lock();
    if !gate(TrafficProgram::Bulk) {
        return;
    }
    let result = real_point(
        r#"
        duration = "3s"
        flow = [{ algorithm = "kernel:cubic" }]
        [dumbbell]
        rate = [["0s", "40mbit"], ["1.5s", "8mbit"]]
        burst = "60kB"
        rtt = "10ms"
        [measure]
        from = "2s"
    "#,
    );
    // The queue holds what arrived at 40 Mbit/s, so the flow takes all of the 8 Mbit/s.
    let flow = &result.flows[0];
    assert!((6e6..=8.1e6).contains(&flow.throughput_bps), "{flow:?}");
}
