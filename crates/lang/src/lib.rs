//! CCP's datapath language: source text to a checked, typed [`Program`].
//!
//! A datapath program folds the [`Signal`]s of each ACK into variables and acts in `when`
//! clauses (CCP §4.1). This crate does no I/O and knows no datapath: it turns source into a
//! [`Program`] or into [diagnostics](Diagnostics) that show every error at once.

mod program;
mod signal;

pub use program::{
    Binary, Comparison, Event, Expr, Place, Program, Scope, Stmt, Type, VarId, Variable,
};
pub use program::MAX_RATE;
pub use signal::{Signal, SignalSet};
