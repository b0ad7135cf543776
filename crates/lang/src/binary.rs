//! The compact binary form of a checked program: what a plane sends to a datapath.
//!
//! ```text
//! program   = version variables events              version = 1, one byte
//! variables = count (kind name init)*               kind: bits 0–1 scope, 2 volatile, 3 boolean
//! name      = length byte*
//! events    = count (statements expression statements)*          prelude, condition, body
//! statements= count statement*
//! statement = tag …                                 operands follow their tag, in order
//! expression= tag …
//! ```
//!
//! Counts, lengths, indices and constants are numbers in LEB128: little-endian groups of 7 bits,
//! the top bit set in all but the last, in the shortest form. So a program has one form only. The
//! set of signals is not sent but found again.

mod read;
mod write;

use alloc::vec::Vec;

use crate::Program;
use crate::bounds::{MAX_DEPTH, MAX_NODES};
use crate::verify::Invalid;

/// The version that is written, and the only one that is read.
pub const VERSION: u8 = 1;

/// Why bytes are no program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Its version is not [`VERSION`].
    #[error("this is version {0} of the form of programs, {VERSION} is known")]
    Version(u8),
    /// The bytes end before the program does.
    #[error("the program is cut off")]
    Truncated,
    /// Bytes follow the program.
    #[error("{0} bytes follow the program")]
    Trailing(usize),
    /// A byte that tells what follows has no meaning.
    #[error("byte {at} has no meaning here: {tag}")]
    Tag {
        /// Where, from 0.
        at: usize,
        /// The byte.
        tag: u8,
    },
    /// A number is too large for what it counts, or not in its shortest form.
    #[error("the number that ends before byte {0} is too large, or longer than need be")]
    Number(usize),
    /// A name is not UTF-8.
    #[error("the name that ends before byte {0} is no text")]
    Text(usize),
    /// Statements or expressions are nested in more levels than [`MAX_DEPTH`].
    #[error("statements or expressions are deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// There are more statements and expression nodes than [`MAX_NODES`].
    #[error("a program has at most {MAX_NODES} statements and expression nodes")]
    TooLarge,
    /// The bytes can be read, but the program does not hold what a checked program promises.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// The binary form of a program, which [`decode`] takes back to the same program if it
/// [verifies](Program::verify).
#[must_use]
pub fn encode(program: &Program) -> Vec<u8> {
    write::program(program)
}

/// The program of which `bytes` are the binary form, verified. Takes memory in proportion to
/// `bytes`, whatever they say.
///
/// # Errors
/// The first thing that is wrong, with the place or the bound.
pub fn decode(bytes: &[u8]) -> Result<Program, Error> {
    read::program(bytes)
}

/// The bytes that tell what follows.
mod tag {
    use crate::program::{Binary, Comparison, Place};

    pub(super) const VOLATILE: u8 = 1 << 2;
    pub(super) const BOOLEAN: u8 = 1 << 3;

    // Statements.
    pub(super) const REPORT: u8 = 0;
    pub(super) const FALLTHROUGH: u8 = 1;
    pub(super) const WHEN: u8 = 2;
    pub(super) const WHEN_ELSE: u8 = 3;
    /// Followed by the index of the variable; the tags after it are those of [`PLACES`].
    pub(super) const ASSIGN: u8 = 4;

    // Expressions.
    pub(super) const FALSE: u8 = 0;
    pub(super) const TRUE: u8 = 1;
    pub(super) const NUMBER: u8 = 2;
    pub(super) const INFINITY: u8 = 3;
    /// Followed by the index of the variable; the tags after it are those of [`PLACES`].
    pub(super) const PLACE: u8 = 4;
    pub(super) const SCALE: u8 = 8;
    pub(super) const EWMA: u8 = 9;
    pub(super) const AND: u8 = 10;
    pub(super) const OR: u8 = 11;
    pub(super) const NOT: u8 = 12;
    pub(super) const IF: u8 = 13;
    /// The first of as many as [`BINARIES`].
    pub(super) const BINARY: u8 = 16;
    /// The first of as many as [`COMPARISONS`].
    pub(super) const COMPARE: u8 = 24;
    /// The first of as many as there are signals, by their index.
    pub(super) const SIGNAL: u8 = 32;

    /// In the order of their tags, after that of a variable.
    pub(super) const PLACES: [Place; 3] = [Place::Cwnd, Place::Rate, Place::Micros];

    /// In the order of their tags.
    pub(super) const BINARIES: [Binary; 7] = [
        Binary::Add,
        Binary::Sub,
        Binary::Mul,
        Binary::Div,
        Binary::Min,
        Binary::Max,
        Binary::WrappedMax,
    ];

    /// In the order of their tags.
    pub(super) const COMPARISONS: [Comparison; 6] = [
        Comparison::Eq,
        Comparison::Ne,
        Comparison::Lt,
        Comparison::Le,
        Comparison::Gt,
        Comparison::Ge,
    ];
}
