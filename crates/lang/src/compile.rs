//! From source text to a checked program.

use crate::diagnostic::Sink;
use crate::{
    ConstantValue, Diagnostic, Diagnostics, Program, Span, bounds, check, constants, syntax, token,
};

/// A program that compiled, and its warnings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    /// The checked program.
    pub program: Program,
    /// Warnings: what the program probably does not mean. Often empty.
    pub warnings: Diagnostics,
    /// Where each event's `when` stands in the source, a byte-order mark not counted.
    pub event_spans: Vec<Span>,
}

/// Compiles the text of a datapath program; `file_name` only appears in diagnostics. A byte-order
/// mark at the beginning, which some editors write, is no part of the text.
///
/// # Errors
/// All errors of the program, in the order of the source. Never empty.
pub fn compile(file_name: &str, source: &str) -> Result<Compiled, Diagnostics> {
    compile_with(file_name, source, &[])
}

/// Compiles a program with other values for its compile-time constants, by name:
///
/// ```
/// let source = "(const (fast false) (period_us 10000))
/// (when fast (:= Cwnd (* 2 Cwnd)))
/// (when (> Micros period_us) (report) (reset))";
/// let constants = [("period_us", 500.into())];
/// let compiled = fairwater_lang::compile_with("paced.ccp", source, &constants)?;
/// assert_eq!(compiled.program.events.len(), 1);
/// # Ok::<(), fairwater_lang::Diagnostics>(())
/// ```
///
/// # Errors
/// All errors of the program, and a name or a type that its constants do not have. Never empty.
pub fn compile_with(
    file_name: &str,
    source: &str,
    constants: &[(&str, ConstantValue)],
) -> Result<Compiled, Diagnostics> {
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    let mut errors = Sink::default();
    let mut warnings = Sink::default();
    if source.len() > bounds::MAX_SOURCE {
        // How many more is not said: whoever reads a file stops behind the bound.
        let message = format!(
            "the program is larger than {} bytes, the most that a program may have",
            bounds::MAX_SOURCE
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
    let written: Vec<_> = constants.iter().map(|(_, value)| value.text()).collect();
    let given: Vec<_> = constants
        .iter()
        .zip(&written)
        .map(|((name, value), text)| (*name, *value, text.as_str()))
        .collect();
    let forms = constants::resolve(forms, &given, &mut errors, &mut warnings);
    let (program, event_spans) = check::check(source, &forms, &mut errors, &mut warnings);
    if errors.is_empty() {
        Ok(Compiled {
            program,
            warnings: warnings.finish(file_name, source),
            event_spans,
        })
    } else {
        Err(errors.finish(file_name, source))
    }
}
