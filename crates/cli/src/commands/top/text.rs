//! A look as words: the cells of the live table, and the table of `--once`.

use std::time::Duration;

use comfy_table::{Table, presets};

use super::flows::{Look, PlaneRow, Row};
use crate::units;

/// The columns, in the order of [`cells`].
pub(super) const COLUMNS: [&str; 9] = [
    "algorithm",
    "local",
    "remote",
    "state",
    "program",
    "cwnd",
    "rate",
    "SRTT",
    "delivery",
];

/// One flow's cells.
pub(super) fn cells(row: &Row) -> [String; COLUMNS.len()] {
    let rate = |rate: Option<u64>| rate.map_or_else(dash, |rate| units::bit_rate(rate as f64));
    [
        row.algorithm.clone(),
        row.local.to_string(),
        row.remote.to_string(),
        row.state.to_owned(),
        if row.program.is_empty() {
            dash()
        } else {
            row.program.clone()
        },
        units::bytes(row.cwnd_bytes),
        rate(row.rate_bits_per_s),
        if row.srtt_us == 0 {
            dash()
        } else {
            units::micros(row.srtt_us)
        },
        rate(row.delivery_bits_per_s),
    ]
}

/// One plane in one line.
pub(super) fn plane(plane: &PlaneRow) -> String {
    let PlaneRow {
        algorithm,
        pid,
        alive,
        flows,
        without_slot,
        fallbacks,
    } = plane;
    let life = if *alive { "alive" } else { "gone or silent" };
    let mut text = format!(
        "{algorithm}: process {pid} is {life}, {}",
        units::count(*flows, "flow")
    );
    if *without_slot > 0 {
        text += &format!(", {without_slot} without a slot");
    }
    if *fallbacks > 0 {
        text += &format!(", {fallbacks} falls to Reno");
    }
    text
}

/// A look as a table for people and pipes.
pub(super) fn table(look: &Look) -> String {
    let mut text: String = look.planes.iter().map(|p| plane(p) + "\n").collect();
    if look.planes.is_empty() {
        text += "No algorithm is attached on this machine.\n";
    }
    if !look.flows.is_empty() {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(COLUMNS);
        table.add_rows(look.flows.iter().map(cells));
        text += &table.trim_fmt();
        text.push('\n');
    }
    text
}

/// How long the flow has lived, for the live table.
pub(super) fn age(row: &Row) -> String {
    units::age(Duration::from_micros(row.age_us))
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::flows::Watcher;
    use super::super::flows::tests::{flow, plane};
    use super::*;

    #[test]
    fn a_look_is_one_line_a_plane_and_one_a_flow() {
        let mut watcher = Watcher::default();
        watcher.look(&[plane(vec![flow(0, 0)])], Duration::ZERO);
        let look = watcher.look(&[plane(vec![flow(0, 6_000_000)])], Duration::from_secs(1));
        let text = table(&look);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].contains("process 42 is alive, 1 flow"), "{text}");
        let expected = [
            "fw_cubic",
            "10.0.0.2:5000",
            "running",
            "145 kB",
            "20.1 ms",
            "48.0 Mbit/s",
        ];
        for cell in expected {
            assert!(lines[2].contains(cell), "{cell} in {text}");
        }
    }

    #[test]
    fn an_empty_machine_is_said_to_be() {
        assert_eq!(
            table(&Look::default()),
            "No algorithm is attached on this machine.\n"
        );
    }
}
