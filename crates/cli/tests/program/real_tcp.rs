//! Each algorithm on real TCP over the emulated link, held to what a few seconds can show of it.
//! The papers' numbers, over seeds and paths, are held in the simulator's tests.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Running, alone, fairwater, privileged};

/// What the bottleneck saw of a run.
#[derive(Debug)]
struct Run {
    utilisation: f64,
    queueing_p50_ms: f64,
    queueing_p95_ms: f64,
    dropped: u64,
    marked: u64,
}

/// The runs of `fairwater try` with these words, one each algorithm; `None`, with the reason, when
/// the machine disturbed all tries of one, which then tells nothing of its algorithm.
fn try_on(link: &str, seconds: u32, words: &[&str]) -> Option<Vec<Run>> {
    let _alone = alone();
    let duration = format!("{seconds}s");
    let common = [
        "try",
        "--on",
        "linux",
        "--link",
        link,
        "--for",
        &duration,
        "--bulk",
        "--json",
        "--quiet",
        "--report",
        "/dev/null",
    ];
    let output = fairwater(&[&common, words].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = results["runs"].as_array().unwrap();
    if let Some(run) = runs.iter().find(|run| run["disturbed"] == true) {
        eprintln!("not judged: {}: {}", run["name"], run["disturbance"]);
        return None;
    }
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let runs = runs.iter().map(|run| Run {
        utilisation: number(&run["utilisation"]),
        queueing_p50_ms: number(&run["queueing_delay_ms"]["p50"]),
        queueing_p95_ms: number(&run["queueing_delay_ms"]["p95"]),
        dropped: run["dropped"].as_u64().unwrap(),
        marked: run["marked"].as_u64().unwrap(),
    });
    Some(runs.collect())
}

/// Two guests of the kernel's Reno on one link: the edge holds one of them to ten segments each round trip, and
/// leaves the other alone.
#[test]
fn a_scenario_puts_the_edge_at_guests() {
    if !privileged() {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("guests.toml");
    let text = r#"
        duration = "4s"
        dumbbell = { rate = "24mbit", rtt = "20ms" }

        [[flow]]
        name = "held"
        algorithm = "kernel:reno"
        edge = { algorithm = "constant:cwnd=10", ecn = true }

        [[flow]]
        name = "free"
        algorithm = "kernel:reno"
        tcp = { ecn = "classic" }

        [measure]
        from = "1s"
    "#;
    std::fs::write(&scenario, text).unwrap();
    let results = folder.path().join("results");
    let output = fairwater(&[
        "run",
        scenario.to_str().unwrap(),
        "--on",
        "linux",
        "--json",
        "--quiet",
        "--out",
        results.to_str().unwrap(),
    ]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let point: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let flows = point["flows"].as_array().unwrap();
    let mbit = |index: usize| flows[index]["throughput_bps"].as_f64().unwrap() / 1e6;
    // Ten segments of 1,500 bytes in 20 ms of propagation and at most 20 ms of queue: 3 to 6 Mbit/s.
    assert!((2.5..6.3).contains(&mbit(0)), "{flows:?}");
    assert!(mbit(1) > 15.0, "{flows:?}");
}

/// One algorithm alone.
fn alone_on(link: &str, seconds: u32, algorithm: &str) -> Option<Run> {
    try_on(link, seconds, &[algorithm]).map(|mut runs| runs.remove(0))
}

/// Over a buffer of one BDP, 20 ms: full, and no more delay than that.
#[test]
fn those_that_fill_buffers_fill_the_link() {
    if !privileged() {
        return;
    }
    let Some(runs) = try_on("24mbit 20ms 1bdp", 6, &["reno", "cubic", "illinois"]) else {
        return;
    };
    for run in runs {
        assert!(run.utilisation > 0.9, "{run:?}");
        assert!(run.queueing_p95_ms < 21.0, "{run:?}");
    }
}

/// RFC 3168 §6.1.2: a mark is answered as a loss is, so that nothing is lost: the queue does not
/// come near its limit.
#[test]
fn reno_and_cubic_answer_marks() {
    if !privileged() {
        return;
    }
    let Some(runs) = try_on("24mbit 20ms 200pkt mark=30pkt", 6, &["reno", "cubic"]) else {
        return;
    };
    for run in runs {
        assert!(run.utilisation > 0.9, "{run:?}");
        assert!(run.marked > 0 && run.dropped == 0, "{run:?}");
        // 100 ms would be the limit. One round trip of slow start is beyond the threshold.
        assert!(run.queueing_p95_ms < 30.0, "{run:?}");
    }
}

/// RFC 8257: the queue stays near K, 12 packets of 0.25 ms, and nothing is dropped.
#[test]
fn dctcp_holds_the_queue_at_the_threshold_of_marks() {
    if !privileged() {
        return;
    }
    let Some(run) = alone_on("48mbit 10ms 200pkt mark=12pkt", 6, "dctcp") else {
        return;
    };
    assert!(run.utilisation > 0.9, "{run:?}");
    assert!((1.0..4.0).contains(&run.queueing_p50_ms), "{run:?}");
    assert!(run.marked > 0 && run.dropped == 0, "{run:?}");
}

/// CCP §4.3: losses that are not the path's capacity do not slow it down. The model's pipe is full,
/// and most of the buffer empty.
#[test]
fn bbr_uses_the_link_at_one_percent_of_loss() {
    if !privileged() {
        return;
    }
    let Some(runs) = try_on("24mbit 20ms 2bdp loss=1%", 8, &["bbr", "bbr3"]) else {
        return;
    };
    for run in runs {
        assert!(run.utilisation > 0.95, "{run:?}");
        assert!(run.queueing_p50_ms < 10.0, "{run:?}");
    }
}

/// RFC 6817: at most the target of queueing delay, 60 ms, when alone; and it makes way.
#[test]
fn ledbatpp_stays_at_its_target_and_gives_way() {
    if !privileged() {
        return;
    }
    let Some(run) = alone_on("24mbit 20ms 4bdp", 8, "ledbatpp") else {
        return;
    };
    assert!(run.utilisation > 0.8, "{run:?}");
    assert!(run.queueing_p95_ms < 66.0, "{run:?}");
    let Some(runs) = try_on("24mbit 20ms 4bdp", 10, &["ledbatpp", "reno", "--together"]) else {
        return;
    };
    let [ledbatpp, reno] = runs.as_slice() else {
        panic!("{runs:?}");
    };
    assert!(ledbatpp.utilisation < 0.2 * reno.utilisation, "{runs:?}");
    assert!(reno.utilisation > 0.8, "{runs:?}");
}

/// CCP §6.2: 8.2 Mbit/s of 12 at 11 ms of queueing delay or less; and a share beside CUBIC, which
/// fills the buffer.
#[test]
fn copa_keeps_the_queue_short_and_competes_where_it_must() {
    if !privileged() {
        return;
    }
    let Some(run) = alone_on("12mbit 25ms 2bdp", 8, "copa") else {
        return;
    };
    assert!(run.utilisation > 8.2 / 12.0, "{run:?}");
    assert!(run.queueing_p95_ms < 11.0, "{run:?}");
    let Some(runs) = try_on(
        "24mbit 20ms 2bdp",
        12,
        &["copa", "kernel:cubic", "--together"],
    ) else {
        return;
    };
    let [copa, cubic] = runs.as_slice() else {
        panic!("{runs:?}");
    };
    assert!(copa.utilisation > 0.15, "{runs:?}");
    assert!(copa.utilisation + cubic.utilisation > 0.9, "{runs:?}");
}

/// Winstein et al., NSDI '13: what is sent leaves within the target of 100 ms, at a steady rate too.
#[test]
fn sprout_keeps_its_target_of_delay() {
    if !privileged() {
        return;
    }
    let Some(run) = alone_on("24mbit 20ms 8bdp", 6, "sprout") else {
        return;
    };
    assert!(run.utilisation > 0.8, "{run:?}");
    assert!(run.queueing_p95_ms < 100.0, "{run:?}");
}

/// Dong et al., NSDI '18: up the utility to the link's rate, and no queue that grows.
#[test]
fn vivace_climbs_to_the_link() {
    if !privileged() {
        return;
    }
    let Some(run) = alone_on("24mbit 20ms 2bdp", 10, "vivace") else {
        return;
    };
    // Its ten seconds include the climb, and a machine whose timers are late reads as latency: the
    // simulator holds it to more.
    assert!(run.utilisation > 0.6, "{run:?}");
    assert!(run.queueing_p50_ms < 20.0, "{run:?}");
}

/// CCP Figure 7, shortened: each new flow to the host has its part from a second after its start.
#[test]
fn flows_that_share_a_controller_have_equal_parts() {
    if !privileged() {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("aggregate.toml");
    let text = "duration = \"9s\"
        dumbbell = { rate = \"24mbit\", rtt = \"20ms\" }
        measure = { interval = \"100ms\" }
        [[flow]]
        algorithm = \"congestion_manager:algorithm=reno\"
        count = 3
        stagger = \"3s\"";
    std::fs::write(&scenario, text).unwrap();
    let results = folder.path().join("results");
    let [scenario, out] = [&scenario, &results].map(|path| path.to_str().unwrap());
    let output = fairwater(&["run", scenario, "--on", "linux", "--out", out, "--quiet"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let point = std::fs::read_dir(results.join("points")).unwrap().next();
    let point = std::fs::read(point.unwrap().unwrap().path()).unwrap();
    let point: serde_json::Value = serde_json::from_slice(&point).unwrap();
    let had = |flow: usize, from_s: f64| -> f64 {
        let samples = point["flows"][flow]["samples"].as_array().unwrap().iter();
        let number = |sample: &serde_json::Value, key: &str| sample[key].as_f64().unwrap();
        let of_time = samples.filter(|s| (from_s..from_s + 2.0).contains(&number(s, "at_s")));
        of_time.map(|s| number(s, "throughput_bps")).sum()
    };
    for last in 1..3 {
        let from_s = last as f64 * 3.0 + 1.0;
        let parts: Vec<f64> = (0..=last).map(|flow| had(flow, from_s)).collect();
        let equal = parts.iter().sum::<f64>() / parts.len() as f64;
        for part in &parts {
            assert!((0.85..1.15).contains(&(part / equal)), "{parts:?}");
        }
    }
}

/// `SO_MARK` is the tag: flows of one mark are in one aggregate, those of another in another, and
/// one without a mark is by itself; as `fairwater top` shows while they run.
#[test]
fn flows_are_aggregated_by_their_marks() {
    if !privileged() {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("tags.toml");
    let flow = |count: u32, tag: u32| {
        format!(
            "[[flow]]\nalgorithm = \"congestion_manager:by=tag,algorithm=reno\"
            name = \"of-{tag}\"\ncount = {count}\ntag = {tag}\n"
        )
    };
    let text = format!(
        "duration = \"6s\"\ndumbbell = {{ rate = \"24mbit\", rtt = \"20ms\" }}\n{}{}{}",
        flow(2, 7),
        flow(3, 9),
        flow(1, 0),
    );
    std::fs::write(&scenario, text).unwrap();
    let out = folder.path().join("results");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairwater"));
    command.args(["run", "--on", "linux", "--quiet", "--out"]);
    command.args([&out, &scenario]).stderr(Stdio::piped());
    let mut run = Running(command.spawn().unwrap());

    let pid = run.0.id();
    let start = Instant::now();
    let aggregates = loop {
        let look = fairwater(&["top", "--json", "--interval", "100ms"]);
        let look: serde_json::Value = serde_json::from_slice(&look.stdout).unwrap();
        let flows = look["flows"].as_array().unwrap().iter();
        let ours: Vec<_> = flows.filter(|flow| flow["pid"] == pid).collect();
        if ours.len() == 6 && ours.iter().all(|flow| flow["state"] == "running") {
            let of = |flow: &&serde_json::Value| {
                let aggregate = &flow["aggregate"];
                let key = aggregate["key"].as_str().unwrap_or("none").to_owned();
                (
                    key,
                    aggregate["flows"].as_u64(),
                    aggregate["number"].as_u64(),
                )
            };
            break ours.iter().map(of).collect::<Vec<_>>();
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{look:#}");
    };
    let number = |key: &str| aggregates.iter().find(|a| a.0 == key).unwrap().2;
    let (seven, nine) = (number("tag 7"), number("tag 9"));
    assert_ne!(seven, nine);
    let mut sorted = aggregates.clone();
    sorted.sort();
    let of = |key: &str, flows, number| (key.to_owned(), flows, number);
    let expected = [
        of("none", None, None),
        of("tag 7", Some(2), seven),
        of("tag 7", Some(2), seven),
        of("tag 9", Some(3), nine),
        of("tag 9", Some(3), nine),
        of("tag 9", Some(3), nine),
    ];
    assert_eq!(sorted, expected);
    let mut said = String::new();
    run.0
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(run.0.wait().unwrap().code(), Some(0), "{said}");
}

/// Brakmo & Peterson: between α = 2 and β = 4 packets of 0.5 ms wait, where Linux's bursts of a
/// few more allow it.
#[test]
fn vegas_keeps_a_few_packets_in_the_queue() {
    if !privileged() {
        return;
    }
    let Some(run) = alone_on("24mbit 20ms 2bdp", 8, "vegas") else {
        return;
    };
    assert!(run.utilisation > 0.85, "{run:?}");
    assert!(run.queueing_p50_ms < 5.0, "{run:?}");
}

/// Alone, its delay control keeps the queue near its target of 12.5 ms. Noise of the machine can look
/// like elastic cross traffic, and a run of ten seconds does not outlast a mode of competition that
/// began late: that must not happen in each of three runs.
#[test]
fn nimbus_fills_the_link_at_its_target_of_delay() {
    if !privileged() {
        return;
    }
    let mut runs = Vec::new();
    for _ in 0..3 {
        let Some(run) = alone_on("24mbit 20ms 4bdp", 10, "nimbus") else {
            return;
        };
        assert!(run.utilisation > 0.85, "{run:?}");
        assert!(run.queueing_p50_ms > 4.0, "{run:?}");
        if run.queueing_p50_ms < 30.0 {
            return;
        }
        runs.push(run);
    }
    panic!("{runs:#?}");
}
