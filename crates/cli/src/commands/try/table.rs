//! The results as a table.

use comfy_table::{CellAlignment, Table, presets};
use fairwater_results::{Results, RoundResults, RunResult, RunSummary, Summary};

use crate::units;

const COLUMNS: [&str; 8] = [
    "",
    "throughput",
    "utilisation",
    "queueing delay p50",
    "p95",
    "loss",
    "retransmissions",
    "CPU",
];

/// The table of one round under its heading, and below it fairness, and what disturbed the runs.
pub(super) fn table(results: &Results, jain: Option<f64>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(COLUMNS);
    table.add_rows(results.runs.iter().map(cells));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("{}\n{}\n", heading(results), table.trim_fmt());
    if let Some(jain) = jain {
        text += &format!("Fairness (Jain's index): {jain:.3}\n");
    }
    for run in &results.runs {
        if let Some(fallback) = &run.fallback {
            text += &format!("{}\n", fallback.sentence(&run.name));
        }
        if let Some(reason) = &run.disturbance {
            let tries = match run.tries {
                1 => "its only try".to_owned(),
                n => format!("each of {n} tries"),
            };
            text += &format!(
                "{}: disturbed by the machine in {tries}: {reason}\n",
                run.name
            );
        }
    }
    text
}

/// The same for rounds: medians, and the least and the most in brackets.
pub(super) fn rounds(results: &RoundResults) -> String {
    let Some(first) = results.rounds.first() else {
        return String::new();
    };
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(COLUMNS);
    let baseline = results.baseline.as_deref();
    table.add_rows(results.runs.iter().map(summary_cells));
    table.add_rows(
        baseline
            .iter()
            .flat_map(|b| b.runs.iter().map(summary_cells)),
    );
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!(
        "{}, {} rounds in alternating order: median (least – most)\n{}\n",
        heading(first),
        results.rounds.len(),
        table.trim_fmt()
    );
    let fairness = |summary: Summary| spread(summary, |jain| format!("{jain:.3}"));
    if let Some(jain) = results.jain {
        text += &format!("Fairness (Jain's index): {}\n", fairness(jain));
    }
    if let Some(jain) = baseline.and_then(|baseline| baseline.jain) {
        text += &format!("Fairness of the baseline: {}\n", fairness(jain));
    }
    let both = results
        .runs
        .iter()
        .chain(baseline.iter().flat_map(|b| &b.runs));
    for run in both {
        if let Some(fallback) = &run.fallback {
            text += &format!("{}\n", fallback.sentence(&run.name));
        }
        if run.disturbed_rounds > 0 {
            text += &format!(
                "{}: disturbed by the machine in {} of {} rounds\n",
                run.name,
                run.disturbed_rounds,
                results.rounds.len()
            );
        }
    }
    text
}

fn spread(summary: Summary, text: impl Fn(f64) -> String) -> String {
    let Summary { median, min, max } = summary;
    format!("{} ({} – {})", text(median), text(min), text(max))
}

/// Bit rates with their unit once, unless they differ in it.
fn rate_spread(summary: Summary) -> String {
    let Summary { median, min, max } = summary;
    let rates = [median, min, max].map(units::bit_rate);
    let parts = rates.each_ref().map(|rate| rate.split_once(' '));
    match parts {
        [Some((median, unit)), Some((min, low)), Some((max, high))]
            if unit == low && unit == high =>
        {
            format!("{median} ({min} – {max}) {unit}")
        }
        _ => spread(summary, units::bit_rate),
    }
}

fn summary_cells(run: &RunSummary) -> [String; COLUMNS.len()] {
    let ms = |summary| spread(summary, |ms| format!("{ms:.1}")) + " ms";
    [
        run.name.clone(),
        rate_spread(run.throughput_bps),
        spread(run.utilisation, |share| format!("{:.1}", share * 100.0)) + " %",
        ms(run.queueing_delay_p50_ms),
        ms(run.queueing_delay_p95_ms),
        spread(run.loss, |share| format!("{:.3}", share * 100.0)) + " %",
        spread(run.retransmissions, |count| format!("{count:.0}")),
        run.cpu_seconds.map_or_else(
            || "–".to_owned(),
            |cpu| spread(cpu, |seconds| format!("{seconds:.2}")) + " s",
        ),
    ]
}

fn heading(results: &Results) -> String {
    let Results {
        link,
        duration_s,
        together,
        ipv6,
        traffic,
        kernel,
        ..
    } = results;
    let how = if *together { "together" } else { "each alone" };
    let family = if *ipv6 { "IPv6" } else { "IPv4" };
    let sent = match (traffic, kernel) {
        (Some(traffic), Some(kernel)) => format!("{family}, {traffic}, Linux {kernel}"),
        _ => "simulated".to_owned(),
    };
    format!("{link}, {duration_s} s {how}, {sent}")
}

fn cells(run: &RunResult) -> [String; COLUMNS.len()] {
    let ms = |ms: f64| format!("{ms:.1} ms");
    [
        run.name.clone(),
        units::bit_rate(run.throughput_bps),
        percent(run.utilisation),
        ms(run.queueing_delay_ms.p50),
        ms(run.queueing_delay_ms.p95),
        format!("{:.3} %", run.loss * 100.0),
        run.retransmissions.to_string(),
        run.cpu_seconds
            .map_or_else(|| "–".to_owned(), |seconds| format!("{seconds:.2} s")),
    ]
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
