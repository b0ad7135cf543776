//! What a program may be at most. Each bound is checked at compile time, and the error names it,
//! so that every backend fits and none needs an error path.

pub use crate::program::MAX_VARIABLES;

/// Bytes of source text.
pub const MAX_SOURCE: usize = 1 << 20;

/// Levels of parentheses, and levels of one expression.
pub const MAX_DEPTH: usize = 128;

/// Statements and expression nodes of one program, together.
pub const MAX_NODES: usize = 4096;

/// Bytes of a variable's name, its `Report.` prefix not counted.
pub const MAX_NAME: usize = 64;

/// The largest numerator and denominator of a decimal constant that is not a whole number, as a
/// reduced fraction.
pub const MAX_RATIO: u32 = u32::MAX;

/// Errors that are reported one by one; a last one counts the rest.
pub const MAX_ERRORS: usize = 256;
