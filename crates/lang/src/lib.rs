//! CCP's datapath language: source text to a checked, typed [`Program`].
//!
//! A datapath program folds the [`Signal`]s of each ACK into variables and acts in `when`
//! clauses (CCP §4.1). This crate does no I/O and knows no datapath: it turns source into a
//! [`Program`] or into [diagnostics](Diagnostics) that show every error at once.
//!
//! A program travels in its [`binary`] form, and [`Program::verify`] holds one from elsewhere to all
//! that a compiled one promises.
//!
//! Without the default feature `compile` there is no compiler, for datapaths that receive programs
//! and do not compile them; the crate is then `no_std` with `alloc`.
//!
//! ```
//! let source = "(def (Report (volatile acked 0)))
//! (when true
//!   (:= Report.acked (+ Report.acked Ack.bytes_acked))
//!   (when (> Micros 10000) (report) (reset)))";
//! let compiled = fairwater_lang::compile("count.ccp", source)?;
//! assert_eq!(compiled.program.report_len(), 1);
//! # Ok::<(), fairwater_lang::Diagnostics>(())
//! ```

#![cfg_attr(not(feature = "compile"), no_std)]

#[macro_use]
extern crate alloc;

#[cfg(feature = "arbitrary")]
pub mod arbitrary;
pub mod binary;
pub mod bounds;
#[cfg(feature = "compile")]
mod check;
#[cfg(feature = "compile")]
mod compile;
#[cfg(feature = "compile")]
mod constants;
#[cfg(feature = "compile")]
mod diagnostic;
mod name;
mod print;
mod program;
mod require;
mod signal;
#[cfg(feature = "compile")]
mod suggest;
#[cfg(feature = "compile")]
mod syntax;
#[cfg(feature = "compile")]
mod token;
mod verify;
mod walk;
mod words;

#[cfg(feature = "compile")]
pub use compile::{Compiled, compile, compile_with};
#[cfg(feature = "compile")]
pub use constants::ConstantValue;
#[cfg(feature = "compile")]
pub use diagnostic::{Diagnostic, Diagnostics, Label, Severity, Span};
pub use name::InvalidName;
pub use program::{
    Binary, Comparison, Event, Expr, MAX_RATE, Place, Program, Scope, Stmt, Type, VarId, Variable,
};
pub use require::MissingSignals;
pub use signal::{Signal, SignalSet, Signals};
#[cfg(feature = "compile")]
pub use suggest::{did_you_mean, nearest};
pub use verify::{EventError, Invalid};
