//! CCP's datapath language: source text to a checked, typed [`Program`].
//!
//! A datapath program folds the [`Signal`]s of each ACK into variables and acts in `when`
//! clauses (CCP §4.1). This crate does no I/O and knows no datapath: it turns source into a
//! [`Program`] or into [diagnostics](Diagnostics) that show every error at once.
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

#[cfg(feature = "arbitrary")]
pub mod arbitrary;
pub mod bounds;
mod check;
mod diagnostic;
mod print;
mod program;
mod require;
mod signal;
mod suggest;
mod syntax;
mod token;
mod walk;
mod words;

pub use diagnostic::{Diagnostic, Diagnostics, Label, Severity, Span};
pub use program::{
    Binary, Comparison, Event, Expr, MAX_RATE, Place, Program, Scope, Stmt, Type, VarId, Variable,
};
pub use require::MissingSignals;
pub use signal::{Signal, SignalSet};

use diagnostic::Sink;

/// A program that compiled, and what is doubtful about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    /// The checked program.
    pub program: Program,
    /// What it probably does not mean; often empty.
    pub warnings: Diagnostics,
}

/// Compiles the text of a datapath program; `file_name` only appears in diagnostics.
///
/// # Errors
/// All errors of the program, in the order of the source. Never empty.
pub fn compile(file_name: &str, source: &str) -> Result<Compiled, Diagnostics> {
    let mut errors = Sink::default();
    let mut warnings = Sink::default();
    if source.len() > bounds::MAX_SOURCE {
        let message = format!(
            "a program has at most {} bytes of source, this has {}",
            bounds::MAX_SOURCE,
            source.len()
        );
        errors.push(Diagnostic::error(
            "source-too-large",
            Span::new(0, 0),
            message,
        ));
        return Err(errors.finish(file_name, source));
    }
    let tokens = token::tokenize(source, &mut errors);
    let forms = syntax::parse(source, &tokens, &mut errors);
    let program = check::check(source, &forms, &mut errors, &mut warnings);
    if errors.is_empty() {
        Ok(Compiled {
            program,
            warnings: warnings.finish(file_name, source),
        })
    } else {
        Err(errors.finish(file_name, source))
    }
}
