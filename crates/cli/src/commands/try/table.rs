//! The results as a table.

use comfy_table::{CellAlignment, Table, presets};
use fairwater_lab::{Results, RunResult};

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

/// The table, what it is a table of, and below it what disturbed the runs.
pub(super) fn table(results: &Results) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(COLUMNS);
    table.add_rows(results.runs.iter().map(cells));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("{}\n{}\n", heading(results), table.trim_fmt());
    for run in &results.runs {
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
