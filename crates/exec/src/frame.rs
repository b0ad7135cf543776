//! The memory of one flow, shared by compiled code, the datapath around it and the plane.
//!
//! A frame is a run of bytes, 8-byte aligned, all integers little-endian:
//!
//! | offset | what | who writes |
//! | --- | --- | --- |
//! | 0 | `cwnd: u64` bytes, as the program sees it | program |
//! | 8 | `rate: u64` bytes/s, 0 = none | program |
//! | 16 | `timer_zero: u64` µs: `Micros` reads `now - timer_zero`, wrapping | program |
//! | 24 | `pending: u32`: the stage (its `sequence`) to apply in this invocation | datapath |
//! | 28 | `applied: u32`: the stage last applied | program |
//! | 32 | `installed: u32`: the install generation last applied | program |
//! | 36 | `fault: u32`, a [`Fault`] bit set; non-zero stops the program: the datapath does not invoke it | program, datapath |
//! | 40 | `stage.sequence: u32` | plane |
//! | 44 | 20 bytes for the datapath's own use | datapath |
//! | 64 | what one invocation [asked](REPORT_ASKED) for: two `u32` | program |
//! | 72 | `signals: [u64; 21]`, by `Signal` index; those behind the last signal are spare | datapath |
//! | 240 | 16 bytes for the datapath's own use | datapath |
//! | 256 | the rest of the [stage](STAGE) | plane |
//! | 320 | 128 bytes for the datapath's own use (addresses, counters) | datapath |
//! | 448 | the [report header](REPORT) | program, datapath |
//! | 512 | `variables: [u64; n]`, report fields first, so that a report is one run of bytes | program |
//! | 512 + 8n | `staged mask: [u64; ceil(s / 64)]`: bit `i % s` = variable `i` has a staged value | plane |
//! | then | `staged values: [u64; s]`, that of variable `i` at `i % s` | plane |
//! | then | intermediate values of one invocation, `u64` each | program |
//!
//! What every invocation touches lies in the first line of 64 bytes, then the signals: those of CCP
//! Table 2 end the third line.
//!
//! `n` is the capacity of the frame: the most variables of any program that may run in it. `s` is the
//! most control variables of one, but at least 1. Only control variables are staged, and those of a
//! program follow each other, so no two of them have the same `i % s`.
//!
//! **Staging.** The plane makes `stage.sequence` odd, writes the stage, and makes it the next
//! even number. Before an invocation the datapath sets `pending` to `stage.sequence` if that is
//! even, else to `applied`. The program compares `pending` with `applied`: if they differ, it
//! first takes its initial values when `stage.install != installed` (a switch of program; the
//! timer restarts too), then the staged variables, cwnd and rate, and sets `applied = pending`,
//! `installed = stage.install`. Hidden variables and report variables are never staged; a staged
//! boolean becomes 1 unless it is 0.
//! The plane merges into a stage that is not applied yet, so applying one twice is harmless.

/// Offset of a `u32`: 1 once `(report)` ran in this invocation. Means nothing between two.
pub const REPORT_ASKED: i16 = 64;
/// Offset of a `u32`: 1 once `(fallthrough)` ran in this invocation. Means nothing between two.
pub const FALLTHROUGH_ASKED: i16 = 68;
/// Offset of `signals`.
pub const SIGNALS: i16 = 72;
/// How many signals a frame has room for.
pub const SIGNAL_ROOM: usize = 21;
const _: () = assert!(fairwater_lang::Signal::COUNT <= SIGNAL_ROOM);
/// Offset of `cwnd`, bytes.
pub const CWND: i16 = 0;
/// Offset of `rate`, bytes/s.
pub const RATE: i16 = 8;
/// Offset of `timer_zero`, µs.
pub const TIMER_ZERO: i16 = 16;
/// Offset of `pending: u32`.
pub const PENDING: i16 = 24;
/// Offset of `applied: u32`.
pub const APPLIED: i16 = 28;
/// Offset of `installed: u32`.
pub const INSTALLED: i16 = 32;
/// Offset of `fault: u32`.
pub const FAULT: i16 = 36;

/// Offset of the 128 bytes for the datapath's own use.
pub const DATAPATH: i16 = 320;
/// Offset of the stage, but for its sequence.
pub const STAGE: i16 = 256;
/// Offset of `stage.sequence: u32`, odd while the plane writes.
pub const STAGE_SEQUENCE: i16 = 40;
/// Offset of `stage.program: u32`, the program that the stage is for.
pub const STAGE_PROGRAM: i16 = STAGE + 4;
/// Offset of `stage.install: u32`, a generation that changes with each switch of program.
pub const STAGE_INSTALL: i16 = STAGE + 8;
/// Offset of `stage.set: u32`, [`SET_CWND`] and [`SET_RATE`].
pub const STAGE_SET: i16 = STAGE + 12;
/// Offset of `stage.cwnd: u64`, bytes.
pub const STAGE_CWND: i16 = STAGE + 16;
/// Offset of `stage.rate: u64`, bytes/s.
pub const STAGE_RATE: i16 = STAGE + 24;
/// Bit of `stage.set`: `stage.cwnd` is to be applied.
pub const SET_CWND: u32 = 1;
/// Bit of `stage.set`: `stage.rate` is to be applied.
pub const SET_RATE: u32 = 2;

/// Offset of the report header, [`REPORT_HEADER_LEN`] bytes:
/// `kind: u32, slot: u32, generation: u32, program: u32` (the datapath's),
/// then `time_us: u64, cwnd: u64, rate: u64, count: u64` (the program's: `count` numbers the
/// flow's reports from 1), then 16 bytes spare.
pub const REPORT: i16 = 448;
/// Bytes of the report header.
pub const REPORT_HEADER_LEN: usize = 64;
/// Offset of `report.time_us: u64`.
pub const REPORT_TIME: i16 = REPORT + 16;
/// Offset of `report.cwnd: u64`, bytes.
pub const REPORT_CWND: i16 = REPORT + 24;
/// Offset of `report.rate: u64`, bytes/s.
pub const REPORT_RATE: i16 = REPORT + 32;
/// Offset of `report.count: u64`.
pub const REPORT_COUNT: i16 = REPORT + 40;
/// Offset of the variables.
pub const VARIABLES: i16 = 512;

/// Why a flow's program was stopped, as bits of the frame's `fault`.
///
/// An invocation that faults leaves the frame's cwnd and rate as they were before it and reports
/// nothing; both are judged only when either has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Fault {
    /// The program set `Cwnd` to 0.
    CwndZero = 1,
    /// The program or the plane set a rate of more than [`MAX_RATE`].
    RateAbsurd = 2,
    /// The plane withdrew the flow (its algorithm failed).
    Withdrawn = 4,
}

impl Fault {
    /// Why the flow's program was stopped, as one clause, from the bits of the frame's `fault`.
    #[must_use]
    pub const fn reason(bits: u64) -> &'static str {
        if bits & Self::CwndZero as u64 != 0 {
            "its program set Cwnd to 0"
        } else if bits & Self::RateAbsurd as u64 != 0 {
            "a rate above 2^40 bytes/s was set"
        } else {
            "it was withdrawn"
        }
    }
}

pub use fairwater_lang::MAX_RATE;

/// The shape of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLayout {
    capacity: usize,
    staged: usize,
    scratch: usize,
}

impl FrameLayout {
    /// The most intermediate values of an expression that can wait in a frame at a time.
    pub const SCRATCH: usize = 32;

    /// A frame for any program of at most `capacity` variables, rounded up to a multiple of 8.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        let capacity = capacity.next_multiple_of(8);
        Self::sized(capacity, capacity, Self::SCRATCH)
    }

    /// A frame for programs of at most `capacity` variables, `controls` control variables and
    /// `scratch` intermediate values at a time.
    #[must_use]
    pub const fn sized(capacity: usize, controls: usize, scratch: usize) -> Self {
        Self {
            capacity,
            staged: if controls == 0 { 1 } else { controls },
            scratch,
        }
    }

    /// The most variables of a program that may run in this frame.
    #[must_use]
    pub const fn capacity(self) -> usize {
        self.capacity
    }

    /// The most control variables of a program that may run in this frame, at least 1.
    #[must_use]
    pub const fn staged(self) -> usize {
        self.staged
    }

    /// Offset of variable `i`, bytes.
    #[must_use]
    pub const fn variable(self, i: usize) -> usize {
        VARIABLES as usize + 8 * i
    }

    /// Offset of the staged mask, bytes.
    #[must_use]
    pub const fn staged_mask(self) -> usize {
        self.variable(self.capacity)
    }

    /// 64-bit words of the staged mask.
    #[must_use]
    pub const fn staged_words(self) -> usize {
        self.staged.div_ceil(64)
    }

    /// Word and bit of control variable `i` in the staged mask.
    #[must_use]
    pub const fn staged_bit(self, i: usize) -> (usize, usize) {
        let slot = i % self.staged;
        (slot / 64, slot % 64)
    }

    /// Offset of the staged value of control variable `i`, bytes.
    #[must_use]
    pub const fn staged_value(self, i: usize) -> usize {
        self.staged_values() + 8 * (i % self.staged)
    }

    const fn staged_values(self) -> usize {
        self.staged_mask() + 8 * self.staged_words()
    }

    /// Offset of intermediate value `slot`, bytes, if there are that many.
    #[must_use]
    pub const fn scratch(self, slot: usize) -> Option<usize> {
        if slot < self.scratch {
            Some(self.staged_values() + 8 * (self.staged + slot))
        } else {
            None
        }
    }

    /// Bytes of the whole frame, a multiple of 64.
    #[must_use]
    pub const fn size(self) -> usize {
        (self.staged_values() + 8 * (self.staged + self.scratch)).next_multiple_of(64)
    }
}
