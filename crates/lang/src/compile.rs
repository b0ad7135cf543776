//! From source text to a checked program.

use crate::diagnostic::Sink;
use crate::{Diagnostic, Diagnostics, Program, Span, bounds, check, syntax, token};

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
