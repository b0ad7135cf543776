//! libccp's instruction encoding: what portus sends to install a program, and what libccp runs.
//!
//! A portable program is the body of libccp's INSTALL message from its twelfth byte on:
//!
//! ```text
//! u32 E, u32 I, E × {u32 condition start, u32 length, u32 body start, u32 length}, I × instruction
//! instruction = u8 opcode, 3 × {u8 register type, u32 register or immediate}      16 bytes
//! ```
//!
//! all little-endian. [`decode`] lifts such a program to a verified [`Program`]; [`encode`] flattens
//! a program to what libccp takes.
//!
//! Where the two differ in meaning, a program that is decoded means what our language says: sums,
//! differences and products saturate and `x / 0` is 0, where libccp abandons the invocation;
//! `+infinity` is `u64::MAX`, where libccp has 2³² − 1 for it. What is encoded does on libccp what
//! our language says: see [`encode`] for the edges.

mod decode;
mod encode;
mod facts;
mod flatten;
mod lift;
mod sequence;
mod value;
mod wire;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use fairwater_lang::{Invalid, Program, Signal, VarId};

/// A program that arrived in libccp's encoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// The program, verified. Report variables are in the order of their registers and are called
    /// `r0`, `r1` …; control variables are called `c` and the index of their register.
    pub program: Program,
    /// The control variable of each control register, by its index: what libccp's UPDATE_FIELDS and
    /// CHANGE_PROG name.
    pub controls: BTreeMap<u32, VarId>,
}

/// Why bytes are not a program that can run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The two counts at the beginning are not complete.
    #[error("the counts of events and instructions are missing")]
    NoCounts,
    /// The number of bytes does not match the counts.
    #[error("{bytes} bytes do not match {events} events and {instructions} instructions")]
    Length {
        /// Events, as counted.
        events: u32,
        /// Instructions, as counted.
        instructions: u32,
        /// Number of bytes, the counts included.
        bytes: usize,
    },
    /// An event's instructions lie outside of the program.
    #[error("event {0} refers to instructions outside of the program")]
    OutOfRange(usize),
    /// An event shares instructions with another, or its condition with its body.
    #[error("event {0} shares instructions with another")]
    Overlap(usize),
    /// An event's condition does not end by writing the event flag.
    #[error("the condition of event {0} does not end by writing the event flag")]
    NoCondition(usize),
    /// The report registers that are defined are not the first ones, each once.
    #[error("report register {0} is not defined, but a later report register is")]
    ReportGap(u32),
    /// An instruction is not valid.
    #[error("in instruction {at}: {error}")]
    Instruction {
        /// Index of the instruction, from 0.
        at: usize,
        /// Why it is not valid.
        #[source]
        error: InstructionError,
    },
    /// The program breaks a bound of programs.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// Why an instruction is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InstructionError {
    /// The operation is unknown.
    #[error("unknown operation {0}")]
    Opcode(u8),
    /// The type of a register is unknown.
    #[error("unknown register type {0}")]
    RegisterType(u8),
    /// The register does not exist.
    #[error("register {0} of this type does not exist")]
    Register(u32),
    /// The result is an immediate or a signal.
    #[error("the result register cannot be written")]
    ReadOnly,
    /// An operand is a flag that only the datapath reads.
    #[error("an operand register cannot be read")]
    WriteOnly,
    /// A temporary register is read before anything is written to it.
    #[error("temporary register {0} is read before it is written")]
    Unwritten(u32),
    /// A report register has no definition, or a control register does not exist.
    #[error("register {0} is not defined")]
    Undefined(u32),
    /// A register is defined twice.
    #[error("register {0} is defined twice")]
    Redefined(u32),
    /// A definition does not give a report or control register an immediate.
    #[error("a definition must give a report or control register an immediate")]
    Definition,
    /// A definition is part of an event.
    #[error("a definition must not be part of an event")]
    Misplaced,
    /// A condition writes the flag of reports or of later events.
    #[error("a condition writes another flag than the event flag")]
    CommandInCondition,
    /// An instruction other than the last of a condition writes the event flag.
    #[error("only the last instruction of a condition may write the event flag")]
    EventFlag,
    /// The flag of reports or of later events is written with something else than a constant that sets it.
    #[error("the flag of reports or of later events is not set by a constant")]
    Command,
}

/// The program that `body`, an INSTALL message from its twelfth byte on, holds; verified. Takes
/// memory in proportion to `body`, whatever it says.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub fn decode(body: &[u8]) -> Result<Decoded, Error> {
    decode::program(body)
}

/// What [`encode`] adds to the report variables of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Append {
    /// Nothing.
    Nothing,
    /// The datapath's time in µs, the congestion window in bytes and the pacing rate in bytes/s, in
    /// this order after the program's own, if there is room: libccp's reports carry nothing of the
    /// kind.
    Flow,
}

/// A program in libccp's encoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// An INSTALL message from its twelfth byte on.
    pub body: Vec<u8>,
    /// The control register of each control variable that can be updated.
    pub controls: BTreeMap<VarId, u32>,
    /// Control registers that must be set to these values whenever a flow is switched to the program:
    /// those whose definitions would not fit. libccp leaves a register that is not defined as it is.
    pub presets: Vec<(u32, u64)>,
    /// Whether reports end with what [`Append::Flow`] adds.
    pub appended: bool,
    /// The most instructions that one invocation runs.
    longest_path: usize,
}

impl Encoded {
    /// The most instructions that one invocation runs: libccp runs those of each condition up to the
    /// first event that holds, and of each one's body that holds.
    #[must_use]
    pub const fn longest_path(&self) -> usize {
        self.longest_path
    }
}

/// Why libccp cannot run a program. The bounds are those of libccp 1.2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Inexpressible {
    /// A signal that is not of CCP Table 2.
    #[error("libccp does not have the signal `{}`", .0.name())]
    Signal(Signal),
    /// Too many report variables.
    #[error("libccp has {max} report registers, the program needs {0}", max = wire::REGISTERS)]
    Reports(usize),
    /// Too many control variables, hidden ones included.
    #[error("libccp has {max} control registers, the program needs {0}", max = wire::REGISTERS)]
    Controls(usize),
    /// Too many instructions.
    #[error("libccp runs {max} instructions, the program takes {0}", max = wire::INSTRUCTIONS)]
    Instructions(usize),
    /// An expression or the branches around it hold too many values at a time.
    #[error(
        "libccp has {} temporary and {} local registers, an expression needs more",
        wire::TMPS,
        wire::LOCALS
    )]
    Scratch,
    /// A constant is larger than libccp can compute, (2³² − 2)² and a little, and not `+infinity`.
    #[error("libccp cannot compute the constant {0}")]
    Constant(u64),
    /// A report variable's or a volatile variable's initial value is neither below 2³² − 1 nor `+infinity`, or is 0x3fffffff, which
    /// libccp takes for infinity there.
    #[error("libccp cannot give `{0}` the initial value {1}")]
    Initial(String, u64),
}

/// A verified program in libccp's encoding. Hidden variables become control registers after those
/// of the control variables.
///
/// libccp then does what our language says, division by zero and subtraction below zero included,
/// except that: `+infinity` is 2³² − 1 there; a sum or a product that passes 2⁶⁴ abandons the
/// invocation or wraps, and so does the sum of an average, ten times its value; `wrapped_max` takes 0 for no number at all, and yields 32 bits; a window or a
/// rate of 0 is not applied.
///
/// # Errors
/// The first [`Inexpressible`] thing, with the bound.
pub fn encode(program: &Program, append: Append) -> Result<Encoded, Inexpressible> {
    encode::program(program, append)
}
