//! The report of an experiment of the lab.

use std::fmt::Write;

use fairwater_net::Time;

use super::page::{COLOURS, Data, Head, Line, Page, Plot, X, escaped, rounded, warning};
use super::sender::{state_plot, window_plot};
use crate::{LinkInterval, Results, RoundResults, RunResult, RunSummary, SocketSample, Summary};
use fairwater_experiment::Backend;

/// The report of an experiment, as the text of an HTML file. It refers to no other file and no
/// other machine.
pub fn comparison(results: &Results) -> String {
    let column = |title, unit: &str| Head {
        title,
        unit: unit.to_owned(),
    };
    Page {
        title: title(results),
        parameters: parameters(results),
        head: vec![
            column("Run", ""),
            column("Throughput", "Mbit/s"),
            column("Utilisation", "%"),
            column("Queueing delay", "ms, median"),
            column("Queueing delay", "ms, 95th percentile"),
            column("Loss", "%"),
            column("Drops", "packets"),
            column("Retransmissions", "segments"),
            column("CPU", "s"),
        ],
        rows: rows(results),
        below: fallbacks(results) + &disturbances(results),
        notes: notes(results.on),
        data: data(results),
    }
    .html()
}

/// The report of rounds: medians with the least and the most, and plots of the first round.
pub fn rounds(results: &RoundResults) -> String {
    let Some(first) = results.rounds.first() else {
        return String::new();
    };
    let column = |title, unit: &str| Head {
        title,
        unit: format!("{unit}; median (least – most)"),
    };
    let baseline = results.baseline.as_deref();
    let compared = results.runs.iter().enumerate();
    let mut rows: String = compared
        .map(|(index, run)| summary_row(&key(index), run))
        .collect();
    let runs = || baseline.iter().flat_map(|baseline| &baseline.runs);
    rows.extend(runs().map(|run| summary_row("", run)));
    let both = results.runs.iter().chain(runs());
    let mut below: String = both
        .filter_map(|run| Some(warning(&run.fallback.as_ref()?.sentence(&run.name))))
        .collect();
    let fairness = [
        ("Fairness (Jain’s index)", results.jain),
        ("Fairness of the baseline", baseline.and_then(|b| b.jain)),
    ];
    for (title, jain) in fairness {
        if let Some(jain) = jain {
            below += &format!("<p>{title}: {}</p>\n", spread(jain, 3, 1.0));
        }
    }
    let disturbed: usize = results.runs.iter().map(|run| run.disturbed_rounds).sum();
    if disturbed > 0 {
        below += &warning(&format!("The machine disturbed {disturbed} of the runs."));
    }
    Page {
        title: title(first),
        parameters: format!(
            "{}, {} rounds in alternating order; the plots show the first",
            parameters(first),
            results.rounds.len()
        ),
        head: vec![
            Head {
                title: "Algorithm",
                unit: String::new(),
            },
            column("Throughput", "Mbit/s"),
            column("Utilisation", "%"),
            column("Queueing delay, median", "ms"),
            column("Queueing delay, 95th percentile", "ms"),
            column("Loss", "%"),
            column("Retransmissions", "segments"),
            column("CPU", "s"),
        ],
        rows,
        below,
        notes: notes(first.on),
        data: data(first),
    }
    .html()
}

fn spread(summary: Summary, decimals: usize, factor: f64) -> String {
    let [median, min, max] = [summary.median, summary.min, summary.max].map(|n| n * factor);
    format!("{median:.decimals$} ({min:.decimals$} – {max:.decimals$})")
}

fn key(index: usize) -> String {
    let colour = 1 + index % COLOURS;
    format!("<span class=\"key\" style=\"background: var(--s{colour})\"></span>")
}

fn summary_row(key: &str, run: &RunSummary) -> String {
    let cells = [
        spread(run.throughput_bps, 2, 1e-6),
        spread(run.utilisation, 1, 100.0),
        spread(run.queueing_delay_p50_ms, 2, 1.0),
        spread(run.queueing_delay_p95_ms, 2, 1.0),
        spread(run.loss, 3, 100.0),
        spread(run.retransmissions, 0, 1.0),
        run.cpu_seconds
            .map_or_else(|| "–".to_owned(), |cpu| spread(cpu, 2, 1.0)),
    ];
    let cells: String = cells.map(|cell| format!("<td>{cell}</td>")).concat();
    format!("<tr><td>{key}{}</td>{cells}</tr>\n", escaped(&run.name))
}

fn title(results: &Results) -> String {
    let names: Vec<&str> = results.runs.iter().map(|run| run.name.as_str()).collect();
    let between = if results.together { " with " } else { " and " };
    format!("{} on {}", names.join(between), results.link)
}

fn parameters(results: &Results) -> String {
    let how = if results.together {
        "together on one link"
    } else {
        "each, alone in turn"
    };
    let family = if results.ipv6 { "IPv6" } else { "IPv4" };
    let sent = match (&results.traffic, &results.kernel) {
        (Some(traffic), Some(kernel)) => format!("{traffic} over {family}, Linux {kernel}"),
        _ => "simulated".to_owned(),
    };
    format!("{} s {how}, {sent}", results.duration_s)
}

/// What was measured, and of what.
fn notes(on: Backend) -> &'static str {
    match on {
        Backend::Linux => {
            "Throughput, utilisation, queueing delay and loss are measured packet by packet at \
             the bottleneck, over the run’s duration from its first data. Window, RTT and rates \
             are what the kernel says of the sender’s socket. CPU is that of the programs that \
             sent and received and of the process that hosts the algorithms, without the link \
             emulator."
        }
        Backend::Sim => {
            "Nothing here was measured on real TCP: senders, receivers and the link are \
             simulated, and the same command gives the same numbers on every machine. \
             Throughput, utilisation, queueing delay and loss are measured packet by packet at \
             the bottleneck, over the run’s duration from its first data. Window, RTT and rates \
             are the simulated sender’s."
        }
    }
}

fn rows(results: &Results) -> String {
    let mut rows = String::new();
    for (index, run) in results.runs.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = writeln!(
            rows,
            "<tr><td><span class=\"key\" style=\"background: var(--s{})\"></span>{}{}</td>\
             <td>{:.2}</td><td>{:.1}</td><td>{:.2}</td><td>{:.2}</td><td>{:.3}</td><td>{}</td>\
             <td>{}</td><td>{}</td></tr>",
            1 + index % COLOURS,
            escaped(&run.name),
            match (&run.fallback, run.disturbed) {
                (Some(_), _) => " <span class=\"disturbed\">fell back</span>",
                (None, true) => " <span class=\"disturbed\">disturbed</span>",
                (None, false) => "",
            },
            run.throughput_bps / 1e6,
            run.utilisation * 100.0,
            run.queueing_delay_ms.p50,
            run.queueing_delay_ms.p95,
            run.loss * 100.0,
            run.dropped,
            run.retransmissions,
            run.cpu_seconds
                .map_or_else(|| "–".to_owned(), |seconds| format!("{seconds:.2}")),
        );
    }
    rows
}

fn fallbacks(results: &Results) -> String {
    let of_run = |run: &RunResult| {
        let fallback = run.fallback.as_ref()?;
        Some(warning(&fallback.sentence(&run.name)))
    };
    results.runs.iter().filter_map(of_run).collect()
}

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

/// Points of a line.
const POINTS: usize = 600;

fn data(results: &Results) -> Data {
    let step_s = results.duration_s / POINTS as f64;
    let tcp = |value: fn(&SocketSample) -> Option<f64>| {
        lines(results, |run| tcp_line(run, step_s, value))
    };
    let link = |value: fn(&LinkInterval) -> Option<f64>| {
        lines(results, |run| link_line(run, step_s, value))
    };

    let windows = tcp(|sample| Some(sample.cwnd_bytes() as f64 / 1e3));
    let thresholds = tcp(|sample| Some(sample.ssthresh_bytes()? as f64 / 1e3));
    let states = tcp(|sample| Some(f64::from(sample.state? as u8)));
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

    let mut data = Data {
        x: X::time(results.duration_s, POINTS),
        columns: 1,
        plots: vec![
            window_plot(windows, thresholds),
            Plot {
                title: "Throughput".into(),
                note: "of IP packets that left the bottleneck".into(),
                unit: "Mbit/s".into(),
                lines: link(|interval| Some(interval.throughput_bps / 1e6)),
                x: None,
            },
            Plot {
                title: "Rates".into(),
                note: match results.on {
                    Backend::Linux => "the kernel’s delivery rate sample and the pacing rate",
                    Backend::Sim => "of payload delivered in order, and the pacing rate",
                }
                .into(),
                unit: "Mbit/s".into(),
                lines: rates,
                x: None,
            },
            Plot {
                title: "RTT".into(),
                note: "smoothed, of the sender".into(),
                unit: "ms".into(),
                lines: tcp(|sample| Some(f64::from(sample.srtt_us) / 1e3)),
                x: None,
            },
            Plot {
                title: "Queueing delay".into(),
                note: "mean over packets that left the bottleneck’s queue".into(),
                unit: "ms".into(),
                lines: link(|interval| interval.queueing_delay_ms),
                x: None,
            },
            Plot {
                title: "Drops".into(),
                note: "at the bottleneck, in an interval".into(),
                unit: "packets".into(),
                lines: link(|interval| Some(interval.dropped as f64)),
                x: None,
            },
        ],
    };
    data.plots.extend(state_plot(states));
    data
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
    value: impl Fn(&SocketSample) -> Option<f64>,
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
