//! The report: one HTML file that needs nothing else, with a table and plots in time.

use std::fmt::Write;

use fairwater_net::Time;
use serde::Serialize;

use crate::results::{LinkInterval, Results, RunResult};
use crate::sampler::TcpSample;

/// The report of an experiment, as the text of an HTML file. It refers to no other file and no
/// other machine.
pub fn html(results: &Results) -> String {
    // Values come in last, in one pass, so that nothing within them is taken for a place.
    let values = [
        ("title", escaped(&title(results))),
        ("parameters", escaped(&parameters(results))),
        ("rows", rows(results)),
        ("disturbances", disturbances(results)),
        ("data", data(results)),
        ("css", include_str!("../assets/report.css").to_owned()),
        ("js", include_str!("../assets/report.js").to_owned()),
        (
            "uplot_css",
            include_str!("../assets/uplot/uPlot.min.css").to_owned(),
        ),
        (
            "uplot_licence",
            include_str!("../assets/uplot/LICENSE").to_owned(),
        ),
        ("uplot_js", uplot().to_owned()),
    ];
    let mut page = String::new();
    let mut rest = include_str!("../assets/report.html");
    while let Some((before, after)) = rest.split_once("{{") {
        page.push_str(before);
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        let value = values.iter().find(|(known, _)| *known == name);
        page.push_str(value.map_or("", |(_, value)| value.as_str()));
        rest = after;
    }
    page.push_str(rest);
    page
}

fn title(results: &Results) -> String {
    let names: Vec<&str> = results.runs.iter().map(|run| run.name.as_str()).collect();
    let between = if results.together { " with " } else { " and " };
    format!("{} on {}", names.join(between), results.link)
}

fn parameters(results: &Results) -> String {
    format!(
        "{} s {}, {} over {}, Linux {}",
        results.duration_s,
        if results.together {
            "together on one link"
        } else {
            "each, alone in turn"
        },
        results.traffic,
        if results.ipv6 { "IPv6" } else { "IPv4" },
        results.kernel,
    )
}

fn rows(results: &Results) -> String {
    let mut rows = String::new();
    for (index, run) in results.runs.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = writeln!(
            rows,
            "<tr><td><span class=\"key\" style=\"background: var(--s{})\"></span>{}{}</td>\
             <td>{:.2}</td><td>{:.1}</td><td>{:.2}</td><td>{:.2}</td><td>{:.3}</td><td>{}</td>\
             <td>{:.2}</td></tr>",
            1 + index % COLOURS,
            escaped(&run.name),
            if run.disturbed {
                " <span class=\"disturbed\">disturbed</span>"
            } else {
                ""
            },
            run.throughput_bps / 1e6,
            run.utilisation * 100.0,
            run.queueing_delay_ms.p50,
            run.queueing_delay_ms.p95,
            run.loss * 100.0,
            run.retransmissions,
            run.cpu_seconds,
        );
    }
    rows
}

/// uPlot without its banner, a link; its licence is in the page instead.
fn uplot() -> &'static str {
    let script = include_str!("../assets/uplot/uPlot.iife.min.js");
    script
        .split_once("*/")
        .map_or(script, |(_, code)| code.trim_start())
}

/// Colours of runs, in the style sheet and the script.
const COLOURS: usize = 8;

fn disturbances(results: &Results) -> String {
    let mut text = String::new();
    for run in &results.runs {
        if let Some(disturbance) = &run.disturbance {
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "<p class=\"disturbed\">The machine disturbed {} in each of {} tries; in the \
                 best of them, {}. Do not trust its numbers.</p>",
                escaped(&run.name),
                run.tries,
                escaped(disturbance),
            );
        }
    }
    text
}

/// What the script draws.
#[derive(Serialize)]
struct Data {
    duration_s: f64,
    time_s: Vec<f64>,
    plots: Vec<Plot>,
}

#[derive(Serialize)]
struct Plot {
    title: &'static str,
    note: &'static str,
    unit: &'static str,
    lines: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    label: String,
    run: usize,
    dashed: bool,
    values: Vec<Option<f64>>,
}

/// Points of a line.
const POINTS: usize = 600;

fn data(results: &Results) -> String {
    let step_s = results.duration_s / POINTS as f64;
    let tcp =
        |value: fn(&TcpSample) -> Option<f64>| lines(results, |run| tcp_line(run, step_s, value));
    let link = |value: fn(&LinkInterval) -> Option<f64>| {
        lines(results, |run| link_line(run, step_s, value))
    };

    let mut rates = tcp(|sample| Some(sample.delivery_bps as f64 / 1e6));
    let paced = tcp(|sample| sample.pacing_bps.map(|bps| bps as f64 / 1e6));
    for line in &mut rates {
        line.label.push_str(", delivery");
    }
    rates.extend(paced.into_iter().map(|mut line| {
        line.label.push_str(", pacing");
        line.dashed = true;
        line
    }));

    let data = Data {
        duration_s: results.duration_s,
        time_s: (0..POINTS)
            .map(|n| rounded((n as f64 + 0.5) * step_s))
            .collect(),
        plots: vec![
            Plot {
                title: "Congestion window",
                note: "of the sender’s socket",
                unit: "kB",
                lines: tcp(|sample| Some(sample.cwnd_bytes() as f64 / 1e3)),
            },
            Plot {
                title: "Throughput",
                note: "of IP packets that left the bottleneck",
                unit: "Mbit/s",
                lines: link(|interval| Some(interval.throughput_bps / 1e6)),
            },
            Plot {
                title: "Rates",
                note: "the kernel’s delivery rate sample and the pacing rate",
                unit: "Mbit/s",
                lines: rates,
            },
            Plot {
                title: "RTT",
                note: "smoothed, of the sender’s socket",
                unit: "ms",
                lines: tcp(|sample| Some(f64::from(sample.srtt_us) / 1e3)),
            },
            Plot {
                title: "Queueing delay",
                note: "mean over packets that left the bottleneck’s queue",
                unit: "ms",
                lines: link(|interval| interval.queueing_delay_ms),
            },
        ],
    };
    // In a script element, no text may look like the end of it.
    serde_json::to_string(&data)
        .unwrap_or_default()
        .replace('<', "\\u003c")
}

fn lines(results: &Results, values: impl Fn(&RunResult) -> Vec<Option<f64>>) -> Vec<Line> {
    results
        .runs
        .iter()
        .enumerate()
        .map(|(run, result)| Line {
            label: if result.disturbed {
                format!("{} (disturbed)", result.name)
            } else {
                result.name.clone()
            },
            run,
            dashed: false,
            values: values(result),
        })
        .collect()
}

/// The last sample of each step.
fn tcp_line(
    run: &RunResult,
    step_s: f64,
    value: impl Fn(&TcpSample) -> Option<f64>,
) -> Vec<Option<f64>> {
    let mut values = vec![None; POINTS];
    for sample in &run.series.tcp {
        let point = (sample.at.since(Time::ZERO).as_secs_f64() / step_s) as usize;
        if let Some(slot) = values.get_mut(point) {
            *slot = value(sample).map(rounded);
        }
    }
    values
}

/// Each interval at the step its middle is in.
fn link_line(
    run: &RunResult,
    step_s: f64,
    value: impl Fn(&LinkInterval) -> Option<f64>,
) -> Vec<Option<f64>> {
    let mut values = vec![None; POINTS];
    for interval in &run.series.link {
        if let Some(slot) = values.get_mut((interval.at_s / step_s) as usize) {
            *slot = value(interval).map(rounded);
        }
    }
    values
}

/// To a thousandth: more would only make the file longer.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}
