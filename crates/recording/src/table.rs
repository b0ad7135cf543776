//! One file of a recording: a table with a row for each record.
//!
//! | column | what |
//! | --- | --- |
//! | `kind` | what happened: see `Kind` |
//! | `flow` | which of the recording's flows |
//! | `time_us` | the datapath's time; `Ack.now` of an invocation |
//! | `program` | the program, counted from 1; 0 is none |
//! | `flags` | of an invocation: bit 0 it reported, bits 8 to 10 its fault; of a report at the plane: bit 1 it is the report that an invocation of this flow and time made, and is not written again |
//! | `cwnd`, `rate` | window and rate, bytes and bytes/s: after an invocation |
//! | `cwnd_before`, `rate_before` | the same before an invocation, where they differ from what the flow's last one left |
//! | a signal's name | its value; nothing where it has its default, [`Signals::default`] |
//! | `values` | report variables; of a state, `timer_zero_us` and the variables |
//! | `detail` | what is rare, as JSON: commands, stages, what was known of a flow |
//!
//! Numbers are unsigned, of 64 bits. Columns of few values are written by a dictionary, the others by
//! differences; most take no room as long as they do not change.

use std::collections::HashMap;

use fairwater_lang::{Signal, Signals};
use parquet::errors::ParquetError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::columns::{self, Column, Shape};
use crate::record::{Controls, Invoked, PlaneEvent, Record, Report, State, What};
use crate::reports::Reports;

/// Why a table's records cannot be read, or records not be written as a table.
#[derive(Debug, Error)]
pub enum TableError {
    /// The bytes are no table of a recording's columns.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// A row makes no sense.
    #[error("row {0} makes no sense")]
    Row(usize),
}

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Began = 0,
    State = 1,
    Invoked = 2,
    Ended = 3,
    Command = 4,
    Created = 5,
    Resumed = 6,
    Reported = 7,
    MssChanged = 8,
    Faulted = 9,
    Closed = 10,
}

const KINDS: [Kind; 11] = [
    Kind::Began,
    Kind::State,
    Kind::Invoked,
    Kind::Ended,
    Kind::Command,
    Kind::Created,
    Kind::Resumed,
    Kind::Reported,
    Kind::MssChanged,
    Kind::Faulted,
    Kind::Closed,
];

/// Flag of an invocation: the program reported.
const REPORTED: u64 = 1;
/// Flag of a report at the plane: the invocation's row has its values.
const KNOWN: u64 = 2;
/// Where the flags have an invocation's fault.
const FAULT_SHIFT: u32 = 8;

/// A record as a row.
#[derive(Debug, Default)]
struct Row {
    kind: u64,
    flow: u64,
    time_us: u64,
    program: u64,
    flags: u64,
    controls: Controls,
    cwnd_before: Option<u64>,
    rate_before: Option<u64>,
    signals: Option<Signals>,
    values: Vec<u64>,
    detail: Option<String>,
}

/// Names of the columns before those of signals.
const FIRST: [(&str, Shape); 9] = [
    ("kind", Shape::Whole),
    ("flow", Shape::Whole),
    ("time_us", Shape::Whole),
    ("program", Shape::Whole),
    ("flags", Shape::Whole),
    ("cwnd", Shape::Whole),
    ("rate", Shape::Whole),
    ("cwnd_before", Shape::Optional),
    ("rate_before", Shape::Optional),
];

/// The signals that have a column.
fn signals() -> impl Iterator<Item = Signal> {
    let all = Signal::ALL.into_iter();
    all.filter(|signal| *signal != Signal::Now)
}

fn names() -> Vec<(String, Shape)> {
    let first = FIRST.iter().map(|(name, shape)| (*name, *shape));
    let signals = signals().map(|signal| (signal.name(), Shape::Optional));
    let last = [("values", Shape::Lists), ("detail", Shape::Text)];
    let all = first.chain(signals).chain(last);
    // A dot in a Parquet name separates the parts of a path.
    all.map(|(name, shape)| (name.replace('.', "_"), shape))
        .collect()
}

/// Writes records as one file; the same records give the same bytes. `reports` is what the files
/// before left.
///
/// # Errors
/// Those of the Parquet writer.
pub(crate) fn encode(records: &[Record], reports: &mut Reports) -> Result<Vec<u8>, TableError> {
    let mut left = HashMap::new();
    let mut rows = Vec::with_capacity(records.len());
    for record in records {
        rows.extend(Row::of(record, reports, &mut left));
        reports.note(record);
    }
    let whole = |value: fn(&Row) -> u64| Column::Whole(rows.iter().map(value).collect());
    let optional =
        |value: fn(&Row) -> Option<u64>| Column::Optional(rows.iter().map(value).collect());
    let mut values = vec![
        whole(|row| row.kind),
        whole(|row| row.flow),
        whole(|row| row.time_us),
        whole(|row| row.program),
        whole(|row| row.flags),
        whole(|row| row.controls.cwnd),
        whole(|row| row.controls.rate),
        optional(|row| row.cwnd_before),
        optional(|row| row.rate_before),
    ];
    let default = Signals::default();
    for signal in signals() {
        let value = |row: &Row| Some(row.signals?[signal]).filter(|v| *v != default[signal]);
        values.push(Column::Optional(rows.iter().map(value).collect()));
    }
    values.push(Column::Lists(
        rows.iter_mut()
            .map(|row| std::mem::take(&mut row.values))
            .collect(),
    ));
    values.push(Column::Text(
        rows.iter_mut().map(|row| row.detail.take()).collect(),
    ));
    let names = names().into_iter().map(|(name, _)| name);
    let columns: Vec<_> = names.zip(values).collect();
    Ok(columns::write(&columns)?)
}

/// Reads the records of a file; `reports` is what the files before left.
///
/// # Errors
/// The bytes are no such table, or a row makes no sense.
pub(crate) fn decode(bytes: Vec<u8>, reports: &mut Reports) -> Result<Vec<Record>, TableError> {
    let columns = columns::read(bytes, &names())?;
    let mut cells = Cells::of(columns).ok_or(TableError::Row(0))?;
    let mut left = HashMap::new();
    let mut records = Vec::with_capacity(cells.rows);
    for index in 0..cells.rows {
        let row = cells.row(index).ok_or(TableError::Row(index))?;
        let record = row
            .record(reports, &mut left)
            .ok_or(TableError::Row(index))?;
        reports.note(&record);
        records.push(record);
    }
    Ok(records)
}

fn json(value: &impl Serialize) -> Option<String> {
    serde_json::to_string(value).ok()
}

fn parsed<T: DeserializeOwned>(text: Option<&str>) -> Option<T> {
    serde_json::from_str(text?).ok()
}

impl Row {
    /// `left` is what each flow's last invocation left, as far as this file tells it.
    fn of(
        record: &Record,
        reports: &mut Reports,
        left: &mut HashMap<u32, Controls>,
    ) -> Option<Self> {
        let mut row = Self {
            flow: record.flow.into(),
            time_us: record.time_us,
            ..Self::default()
        };
        let kind = match &record.what {
            What::Began(began) => {
                row.detail = json(began);
                Kind::Began
            }
            What::State(state) => {
                row.program = state.program.map_or(0, |program| u64::from(program) + 1);
                row.controls = state.controls;
                row.values.push(state.timer_zero_us);
                row.values.extend(&state.variables);
                left.insert(record.flow, state.controls);
                Kind::State
            }
            What::Invoked(invoked) => {
                row.invoked(invoked, left.insert(record.flow, invoked.after));
                Kind::Invoked
            }
            What::Ended => Kind::Ended,
            What::Command(command) => {
                row.detail = json(command);
                Kind::Command
            }
            What::Event(event) => row.event(record, event, reports),
            // A gap is where no file is.
            What::Gap => return None,
        };
        row.kind = kind as u64;
        Some(row)
    }

    /// `left` is what the flow's last invocation left, if it is known.
    fn invoked(&mut self, invoked: &Invoked, left: Option<Controls>) {
        self.program = invoked.program.map_or(0, |program| u64::from(program) + 1);
        self.controls = invoked.after;
        self.flags = u64::from(invoked.fault) << FAULT_SHIFT;
        if let Some(report) = &invoked.report {
            self.flags |= REPORTED;
            self.values.clone_from(report);
        }
        self.detail = invoked.stage.as_ref().and_then(json);
        self.signals = Some(invoked.signals);
        let before = invoked.before;
        self.cwnd_before = Some(before.cwnd).filter(|b| left.map(|c| c.cwnd) != Some(*b));
        self.rate_before = Some(before.rate).filter(|b| left.map(|c| c.rate) != Some(*b));
    }

    fn event(&mut self, record: &Record, event: &PlaneEvent, reports: &mut Reports) -> Kind {
        match event {
            PlaneEvent::Created(arrival) => {
                self.detail = json(arrival);
                Kind::Created
            }
            PlaneEvent::Resumed(arrival) => {
                self.detail = json(arrival);
                Kind::Resumed
            }
            PlaneEvent::Reported(report) => {
                let known = reports.take(record.flow, record.time_us);
                if known.as_ref() == Some(report) {
                    self.flags |= KNOWN;
                } else {
                    self.program = u64::from(report.program) + 1;
                    self.controls = report.controls;
                    self.values.clone_from(&report.fields);
                }
                Kind::Reported
            }
            PlaneEvent::MssChanged(mss) => {
                self.values.push((*mss).into());
                Kind::MssChanged
            }
            PlaneEvent::Faulted(reason) => {
                self.detail = json(reason);
                Kind::Faulted
            }
            PlaneEvent::Closed => Kind::Closed,
        }
    }

    /// `None` if it makes no sense.
    fn record(self, reports: &mut Reports, left: &mut HashMap<u32, Controls>) -> Option<Record> {
        let flow = u32::try_from(self.flow).ok()?;
        let program = match self.program.checked_sub(1) {
            Some(program) => Some(u32::try_from(program).ok()?),
            None => None,
        };
        let detail = self.detail.as_deref();
        let kind = KINDS.into_iter().find(|kind| *kind as u64 == self.kind)?;
        let what = match kind {
            Kind::Began => What::Began(parsed(detail)?),
            Kind::State => {
                left.insert(flow, self.controls);
                let (timer_zero_us, variables) = self.values.split_first()?;
                What::State(State {
                    program,
                    controls: self.controls,
                    timer_zero_us: *timer_zero_us,
                    variables: variables.to_vec(),
                })
            }
            Kind::Invoked => {
                let known = left.insert(flow, self.controls);
                let stage = match detail {
                    Some(_) => Some(parsed(detail)?),
                    None => None,
                };
                let mut signals = self.signals?;
                signals[Signal::Now] = self.time_us;
                What::Invoked(Box::new(Invoked {
                    program,
                    signals,
                    before: Controls {
                        cwnd: self.cwnd_before.or(known.map(|c| c.cwnd))?,
                        rate: self.rate_before.or(known.map(|c| c.rate))?,
                    },
                    stage,
                    after: self.controls,
                    report: (self.flags & REPORTED != 0).then_some(self.values),
                    fault: u32::try_from(self.flags >> FAULT_SHIFT).ok()?,
                }))
            }
            Kind::Ended => What::Ended,
            Kind::Command => What::Command(parsed(detail)?),
            Kind::Created => What::Event(PlaneEvent::Created(parsed(detail)?)),
            Kind::Resumed => What::Event(PlaneEvent::Resumed(parsed(detail)?)),
            Kind::Reported => {
                let known = reports.take(flow, self.time_us);
                let report = if self.flags & KNOWN != 0 {
                    // Behind a gap, nobody knows the report.
                    match known {
                        Some(report) => report,
                        None => return Some(Record::gap()),
                    }
                } else {
                    Report {
                        program: program?,
                        controls: self.controls,
                        fields: self.values,
                    }
                };
                What::Event(PlaneEvent::Reported(report))
            }
            Kind::MssChanged => {
                let mss = u32::try_from(*self.values.first()?).ok()?;
                What::Event(PlaneEvent::MssChanged(mss))
            }
            Kind::Faulted => What::Event(PlaneEvent::Faulted(parsed(detail)?)),
            Kind::Closed => What::Event(PlaneEvent::Closed),
        };
        Some(Record {
            flow,
            time_us: self.time_us,
            what,
        })
    }
}

/// A file's columns, from which rows are taken.
#[derive(Debug)]
struct Cells {
    rows: usize,
    whole: Vec<Vec<u64>>,
    optional: Vec<Vec<Option<u64>>>,
    lists: Vec<Vec<u64>>,
    texts: Vec<Option<String>>,
}

impl Cells {
    /// `None` unless the columns are of equal length.
    fn of(columns: Vec<Column>) -> Option<Self> {
        let mut cells = Self {
            rows: 0,
            whole: Vec::new(),
            optional: Vec::new(),
            lists: Vec::new(),
            texts: Vec::new(),
        };
        let mut lengths = Vec::new();
        for column in columns {
            match column {
                Column::Whole(values) => {
                    lengths.push(values.len());
                    cells.whole.push(values);
                }
                Column::Optional(values) => {
                    lengths.push(values.len());
                    cells.optional.push(values);
                }
                Column::Lists(lists) => {
                    lengths.push(lists.len());
                    cells.lists = lists;
                }
                Column::Text(texts) => {
                    lengths.push(texts.len());
                    cells.texts = texts;
                }
            }
        }
        cells.rows = *lengths.first()?;
        let is_even = lengths.iter().all(|length| *length == cells.rows);
        is_even.then_some(cells)
    }

    fn row(&mut self, index: usize) -> Option<Row> {
        let whole: Vec<u64> = self.whole.iter().map(|column| column[index]).collect();
        let optional: Vec<Option<u64>> = self.optional.iter().map(|column| column[index]).collect();
        let [kind, flow, time_us, program, flags, cwnd, rate] = *whole else {
            return None;
        };
        let (&[cwnd_before, rate_before], measured) = optional.split_first_chunk::<2>()?;
        let mut values = Signals::default();
        for (signal, value) in signals().zip(measured) {
            values[signal] = value.unwrap_or(values[signal]);
        }
        Some(Row {
            kind,
            flow,
            time_us,
            program,
            flags,
            controls: Controls { cwnd, rate },
            cwnd_before,
            rate_before,
            signals: Some(values),
            values: std::mem::take(&mut self.lists[index]),
            detail: self.texts[index].take(),
        })
    }
}
