//! The report is one file that says what was measured, whatever algorithms are called.

use fairwater_experiment::Backend;
use fairwater_net::Time;
use fairwater_results::{
    CongestionState, Lateness, LinkInterval, Percentiles, Results, RunResult, Series, SocketSample,
    TrafficProgram, report,
};

/// The same of a simulation, which has no kernel, no emulator and no machine that disturbs.
fn simulated(name: &str) -> Results {
    let mut results = results(name);
    results.on = Backend::Sim;
    results.traffic = None;
    results.kernel = None;
    for run in &mut results.runs {
        run.cpu_seconds = None;
        run.emulator_cpu_seconds = None;
        run.disturbed = false;
        run.disturbance = None;
        run.steal = None;
        run.lateness_ms = None;
        run.real_time = None;
    }
    results
}

fn results(name: &str) -> Results {
    let tcp = (0..100)
        .map(|n| SocketSample {
            at: Time::from_millis(10 * n),
            congestion_control: "cubic".to_owned(),
            cwnd_packets: 10 + n as u32,
            mss_bytes: 1448,
            ssthresh_packets: Some(20),
            state: CongestionState::from_kernel(3),
            srtt_us: 20_000,
            pacing_bps: None,
            delivery_bps: 40_000_000,
            retransmissions: 0,
        })
        .collect();
    let link = vec![LinkInterval {
        at_s: 0.5,
        throughput_bps: 46_600_000.0,
        queueing_delay_ms: Some(7.125),
        dropped: 0,
    }];
    Results {
        link: "48mbit 20ms 1bdp".to_owned(),
        on: Backend::Linux,
        duration_s: 1.0,
        together: false,
        ipv6: false,
        traffic: Some(TrafficProgram::Iperf3),
        kernel: Some("6.18.0".to_owned()),
        runs: vec![RunResult {
            name: name.to_owned(),
            congestion_control: "cubic".to_owned(),
            throughput_bps: 46_610_000.0,
            utilisation: 0.971,
            queueing_delay_ms: Percentiles {
                p50: 8.25,
                p95: 19.5,
            },
            loss: 0.00125,
            packets: 800,
            dropped: 1,
            marked: 0,
            retransmissions: 77,
            cpu_seconds: Some(1.5),
            emulator_cpu_seconds: Some(2.0),
            fallback: None,
            disturbed: true,
            disturbance: Some("3.1 % of CPU time was stolen".to_owned()),
            tries: 3,
            steal: Some(0.031),
            lateness_ms: Some(Lateness {
                p50: 0.01,
                p99: 0.1,
                max: 3.0,
            }),
            real_time: Some(true),
            series: Series { tcp, link },
        }],
    }
}

#[test]
fn shows_the_table_the_series_and_what_was_disturbed() {
    let page = report::comparison(&results("kernel:cubic"));
    for shown in [
        "<td>46.61</td>",
        "<td>97.1</td>",
        "<td>8.25</td>",
        "<td>19.50</td>",
        "<td>0.125</td>",
        "<td>77</td>",
        "<td>1.50</td>",
        "3.1 % of CPU time was stolen",
        "kernel:cubic on 48mbit 20ms 1bdp",
        "\"title\":\"Congestion window\"",
        "7.125",
        "Permission is hereby granted",
    ] {
        assert!(page.contains(shown), "{shown} is not in the report");
    }
}

#[test]
fn shows_slow_start_thresholds_and_says_whose_are_unknown() {
    let with = report::comparison(&simulated("native:cubic"));
    assert!(with.contains("native:cubic, ssthresh") && with.contains("\"title\":\"State\""));
    let mut results = simulated("native:cubic");
    let mut other = results.runs[0].clone();
    other.name = "copa".to_owned();
    for sample in &mut other.series.tcp {
        sample.ssthresh_packets = None;
    }
    results.runs.push(other);
    let one_of_two = report::comparison(&results);
    assert!(one_of_two.contains("(unknown for copa)"));
    assert!(!one_of_two.contains("copa, ssthresh"));
    results.runs.remove(0);
    let none = report::comparison(&results);
    assert!(none.contains("slow-start thresholds are unknown") && !none.contains(", ssthresh"));
}

#[test]
fn a_simulation_says_so_and_claims_nothing_of_a_machine() {
    let page = report::comparison(&simulated("cubic"));
    for shown in [
        "1 s each, alone in turn, simulated</p>",
        "<td>–</td>",
        "Nothing here was measured on real TCP",
        "<td>46.61</td>",
    ] {
        assert!(page.contains(shown), "{shown} is not in the report");
    }
    for claimed in ["Linux", "iperf3", "kernel", "disturbed</span>"] {
        assert!(!page.contains(claimed), "{claimed} is in the report");
    }
    let json = serde_json::to_value(simulated("cubic")).expect("plain data");
    assert_eq!(json["on"], "sim");
    assert!(json["kernel"].is_null() && json["traffic"].is_null());
    assert!(json["runs"][0]["cpu_seconds"].is_null());
}

#[test]
fn refers_to_nothing_outside_itself() {
    let page = report::comparison(&results("kernel:cubic"));
    for reference in ["http://", "https://", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(reference), "{reference} is in the report");
    }
    assert!(!page.contains("{{"), "a place was left open");
}

#[test]
fn a_name_is_text_and_never_markup() {
    let page = report::comparison(&results("</script><b>{{data}} & \"co\""));
    assert!(!page.contains("<b>"));
    assert!(page.contains("&lt;/script&gt;&lt;b&gt;{{data}} &amp; &quot;co&quot;"));
    assert_eq!(page.matches("</script>").count(), 3);
}

#[test]
fn json_has_the_promised_keys_and_no_series() {
    let json = serde_json::to_value(results("kernel:cubic")).expect("plain data");
    let run = &json["runs"][0];
    for key in [
        "name",
        "throughput_bps",
        "utilisation",
        "queueing_delay_ms",
        "loss",
        "retransmissions",
        "cpu_seconds",
        "disturbed",
    ] {
        assert!(!run[key].is_null(), "{key}");
    }
    assert_eq!(run["queueing_delay_ms"]["p50"], 8.25);
    assert_eq!(run["queueing_delay_ms"]["p95"], 19.5);
    assert!(run["series"].is_null());
}
