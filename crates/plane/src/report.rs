//! A report as an algorithm reads it.

use std::cell::Cell;
use std::ops::Index;

use crate::{Field, ProgramId, RawReport};

/// The values that a program reported, with the datapath's own time.
///
/// `report[field]` reads a field. A [`Field`] of another program than the one that reported is a
/// mistake of the algorithm: `report[field]` then yields 0 and the flow is withdrawn when
/// `on_report` returns. [`Report::get`] is for an algorithm that asks.
#[derive(Debug)]
pub struct Report<'a> {
    raw: RawReport<'a>,
    program: ProgramId,
    foreign: Cell<Option<Field>>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(program: ProgramId, raw: RawReport<'a>) -> Self {
        Self {
            raw,
            program,
            foreign: Cell::new(None),
        }
    }

    /// The program that reported.
    #[must_use]
    pub fn program(&self) -> ProgramId {
        self.program
    }

    /// The datapath's time of the report, µs. It has no fixed zero: use differences.
    #[must_use]
    pub fn time_us(&self) -> u64 {
        self.raw.time_us
    }

    /// cwnd after the invocation that reported, bytes.
    #[must_use]
    pub fn cwnd(&self) -> u64 {
        self.raw.cwnd
    }

    /// Pacing rate after the invocation that reported, bytes/s; 0 is none.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.raw.rate
    }

    /// The field's value, in the unit that the program gives it; `None` when the field belongs
    /// to another program.
    #[must_use]
    pub fn get(&self, field: Field) -> Option<u64> {
        self.lookup(field).copied()
    }

    /// Whether a boolean field is true or a number is not 0. A foreign field is a mistake, as
    /// in `report[field]`.
    #[must_use]
    pub fn is_set(&self, field: Field) -> bool {
        self[field] != 0
    }

    /// The last two fields, whichever program reported.
    pub(crate) fn last_fields(&self) -> Option<[u64; 2]> {
        self.raw.fields.last_chunk().copied()
    }

    /// The first foreign field that was read by index.
    pub(crate) fn foreign(&self) -> Option<Field> {
        self.foreign.get()
    }

    fn lookup(&self, field: Field) -> Option<&u64> {
        if field.program != self.program {
            return None;
        }
        self.raw.fields.get(usize::from(field.index))
    }
}

impl Index<Field> for Report<'_> {
    type Output = u64;

    fn index(&self, field: Field) -> &u64 {
        self.lookup(field).unwrap_or_else(|| {
            if self.foreign.get().is_none() {
                self.foreign.set(Some(field));
            }
            &0
        })
    }
}
