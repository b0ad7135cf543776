//! A sample as text: the cells of the live table, and the table of `--once`.

use std::time::Duration;

use comfy_table::{Table, presets};
use fairwater_hosting::bundle::BundleRow;

use super::flows::{PlaneRow, Row, TopSample};
use crate::units;

/// The columns, in the order of [`cells`].
pub(super) const COLUMNS: [&str; 11] = [
    "algorithm",
    "aggregate",
    "local",
    "remote",
    "state",
    "program",
    "cwnd",
    "rate",
    "SRTT",
    "delivery",
    "age",
];

/// Columns in the order in which a narrow terminal drops them. The remote address stays.
const LEAST_FIRST: [&str; 10] = [
    "age",
    "local",
    "program",
    "rate",
    "algorithm",
    "SRTT",
    "state",
    "aggregate",
    "cwnd",
    "delivery",
];

/// The shown columns of a sample, and a row of cells for each flow.
#[derive(Debug)]
pub(super) struct TextTable {
    pub(super) header: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
}

impl TextTable {
    /// All columns; the column of aggregates only if there is an aggregate.
    pub(super) fn new(sample: &TopSample) -> Self {
        let mut table = Self {
            header: COLUMNS.to_vec(),
            rows: sample.flows.iter().map(|row| cells(row).to_vec()).collect(),
        };
        if sample.flows.iter().all(|row| row.aggregate.is_none()) {
            table.remove("aggregate");
        }
        table
    }

    /// Drops columns until a row fits `width` characters.
    pub(super) fn within(mut self, width: usize) -> Self {
        for column in LEAST_FIRST {
            if self.widths().iter().map(|w| w + 1).sum::<usize>() <= width + 1 {
                break;
            }
            self.remove(column);
        }
        self
    }

    fn remove(&mut self, column: &str) {
        if let Some(at) = self.header.iter().position(|name| *name == column) {
            self.header.remove(at);
            for row in &mut self.rows {
                row.remove(at);
            }
        }
    }

    /// Widths of the columns, characters; columns of numbers have a fixed least width.
    pub(super) fn widths(&self) -> Vec<usize> {
        let steady = |name: &str| match name {
            "state" | "cwnd" | "SRTT" => 8,
            "rate" | "delivery" => 11,
            other => other.len(),
        };
        let widest = |at: usize| {
            self.rows
                .iter()
                .map(move |row| row[at].chars().count())
                .max()
        };
        let columns = self.header.iter().enumerate();
        columns
            .map(|(at, name)| widest(at).unwrap_or(0).max(steady(name)))
            .collect()
    }
}

/// One flow's cells.
fn cells(row: &Row) -> [String; COLUMNS.len()] {
    let rate = |rate: Option<u64>| rate.map_or_else(dash, |rate| units::bit_rate(rate as f64));
    [
        row.algorithm.clone(),
        row.aggregate.as_ref().map_or_else(dash, |aggregate| {
            format!("{} ({})", aggregate.key, aggregate.flows)
        }),
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
        row.age_us
            .map_or_else(dash, |age_us| units::age(Duration::from_micros(age_us))),
    ]
}

/// Bundles that are shown above the flows.
const MOST_BUNDLES: usize = 8;

/// A line for each of the fastest bundles.
pub(super) fn bundles(rows: &[BundleRow]) -> Vec<String> {
    let mut lines: Vec<_> = rows.iter().take(MOST_BUNDLES).map(bundle).collect();
    if let Some(more @ 1..) = rows.len().checked_sub(MOST_BUNDLES) {
        let more = units::count(more, "bundle");
        lines.push(format!("and {more} more: `fairwater bundle status`"));
    }
    lines
}

fn bundle(row: &BundleRow) -> String {
    let rate = |rate: Option<u64>| rate.map_or_else(dash, |rate| units::bit_rate(rate as f64));
    let time = |time: Option<u64>| time.map_or_else(dash, units::micros);
    let share =
        |share: Option<f64>| share.map_or_else(dash, |share| format!("{:.0} %", share * 100.0));
    format!(
        "bundle {}: {}, rate {}, arrives {}, queued {} here and {} in the network, least RTT {}, matched {}",
        row.name,
        row.mode,
        rate(row.rate_bps),
        rate(row.receive_rate_bps),
        row.queue_us
            .map_or_else(|| units::bytes(row.queue_bytes), units::micros),
        time(row.network_queue_us),
        time(row.min_rtt_us),
        share(row.match_ratio),
    )
}

/// One plane in one line.
pub(super) fn plane(plane: &PlaneRow) -> String {
    let PlaneRow {
        algorithm,
        pid,
        alive,
        flows,
        aggregates,
        without_slot,
        fallbacks,
    } = plane;
    let life = if *alive { "alive" } else { "gone or silent" };
    let mut text = format!(
        "{algorithm}: process {pid} is {life}, {}",
        units::count(*flows, "flow")
    );
    if *aggregates > 0 {
        text += &format!(" in {}", units::count(*aggregates, "aggregate"));
    }
    if *without_slot > 0 {
        text += &format!(", {without_slot} without a slot");
    }
    if *fallbacks > 0 {
        text += &format!(", {fallbacks} falls to the fallback");
    }
    text
}

/// A sample as a table for people and pipes.
pub(super) fn table(sample: &TopSample) -> String {
    let mut text: String = sample.planes.iter().map(|p| plane(p) + "\n").collect();
    if sample.planes.is_empty() && sample.flows.is_empty() && sample.bundles.is_empty() {
        text += "No algorithm is attached on this machine.\n";
    }
    text.extend(bundles(&sample.bundles).into_iter().map(|it| it + "\n"));
    if !sample.flows.is_empty() {
        let mut table = Table::new();
        let text_table = TextTable::new(sample);
        table
            .load_style(presets::NOTHING)
            .set_header(text_table.header);
        table.add_rows(text_table.rows);
        text += &table.trim_fmt();
        text.push('\n');
    }
    text
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::flows::RateTracker;
    use super::super::flows::tests::{flow, member, plane};
    use super::*;

    #[test]
    fn a_sample_is_one_line_a_plane_and_one_a_flow() {
        let mut tracker = RateTracker::default();
        tracker.sample(&[plane(vec![flow(0, 0)])], vec![], Duration::ZERO);
        let sample = tracker.sample(
            &[plane(vec![flow(0, 6_000_000)])],
            vec![],
            Duration::from_secs(1),
        );
        let text = table(&sample);
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
    fn an_aggregate_is_shown_where_there_is_one() {
        let alone =
            RateTracker::default().sample(&[plane(vec![flow(0, 0)])], vec![], Duration::ZERO);
        assert!(!table(&alone).contains("aggregate"), "{}", table(&alone));
        let flows = vec![member(0, 0, "to 10.0.0.2"), flow(1, 0)];
        let sample = RateTracker::default().sample(&[plane(flows)], vec![], Duration::ZERO);
        let text = table(&sample);
        assert!(text.contains("2 flows in 1 aggregate\n"), "{text}");
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[1].contains("aggregate"), "{text}");
        assert!(lines[2].contains("to 10.0.0.2 (1)"), "{text}");
    }

    proptest! {
        /// However narrow, no line of what is left is wider, unless it is the remote address alone.
        #[test]
        fn a_table_fits_its_width(width in 0..200_usize, members in 0..3_u32) {
            let flows = (0..members).map(|slot| member(slot, 0, "to 2001:db8::17")).chain([flow(9, 0)]);
            let sample = RateTracker::default().sample(&[plane(flows.collect())], vec![], Duration::ZERO);
            let table = TextTable::new(&sample).within(width);
            let line = table.widths().iter().sum::<usize>() + table.header.len() - 1;
            prop_assert!(line <= width || table.header == ["remote"], "{table:?}");
            prop_assert!(table.header.contains(&"remote"));
        }
    }

    #[test]
    fn an_empty_machine_is_said_to_be() {
        assert_eq!(
            table(&TopSample::default()),
            "No algorithm is attached on this machine.\n"
        );
    }
}
