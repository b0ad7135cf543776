//! What a variable may be called.

use alloc::borrow::ToOwned;
use alloc::string::String;

use crate::bounds::MAX_NAME;
use crate::program::{Place, Scope};
use crate::signal::Signal;
use crate::words::Word;

/// The names that every program has, and their aliases (`Timer.…` in CCP §4.3 and §4.4).
pub(crate) const IMPLICIT: [(&str, Place); 5] = [
    ("Cwnd", Place::Cwnd),
    ("Rate", Place::Rate),
    ("Micros", Place::Micros),
    ("Timer.Micros", Place::Micros),
    ("Timer.micros", Place::Micros),
];

/// Why a variable cannot have a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// It is empty.
    #[error("a name is missing")]
    Missing,
    /// It is longer than [`MAX_NAME`].
    #[error("a name has at most {MAX_NAME} bytes")]
    TooLong,
    /// It has another character.
    #[error("a name is made of ASCII letters, digits, `.` and `_`")]
    Character,
    /// It is a variable's that has no `Report.` prefix, and begins with a digit.
    #[error("a name does not begin with a digit")]
    Digit,
    /// It begins with `__`, as hidden variables do and no others.
    #[error("names that begin with `__` are the compiler's")]
    Compiler,
    /// It is a hidden variable's and does not begin with `__`.
    #[error("the name of a hidden variable begins with `__`")]
    Hidden,
    /// It names a signal or an implicit variable.
    #[error("`{0}` is built in")]
    BuiltIn(String),
    /// It claims to be a signal.
    #[error("names that begin with `Ack.`, `Flow.` or `Timer.` are the datapath's")]
    Datapath,
    /// It is a keyword, an operator or a boolean.
    #[error("`{0}` is a word of the language")]
    Word(String),
}

/// Whether a variable of that scope may have this name, its `Report.` prefix left out.
pub(crate) fn check(scope: Scope, name: &str) -> Result<(), InvalidName> {
    if name.is_empty() {
        return Err(InvalidName::Missing);
    }
    if name.len() > MAX_NAME {
        return Err(InvalidName::TooLong);
    }
    if scope == Scope::Control && (Word::find(name).is_some() || as_boolean(name).is_some()) {
        return Err(InvalidName::Word(name.to_owned()));
    }
    if !name.bytes().all(is_name_byte) {
        return Err(InvalidName::Character);
    }
    match (scope, name.starts_with("__")) {
        (Scope::Hidden, true) => return Ok(()),
        (Scope::Hidden, false) => return Err(InvalidName::Hidden),
        (_, true) => return Err(InvalidName::Compiler),
        (_, false) => {}
    }
    // A report variable is only ever written with its prefix, so it may share a name.
    if scope == Scope::Report {
        return Ok(());
    }
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(InvalidName::Digit);
    }
    if IMPLICIT.iter().any(|(implicit, _)| *implicit == name) || Signal::from_name(name).is_some() {
        return Err(InvalidName::BuiltIn(name.to_owned()));
    }
    if ["Ack.", "Flow.", "Timer."]
        .iter()
        .any(|prefix| name.starts_with(prefix))
    {
        return Err(InvalidName::Datapath);
    }
    Ok(())
}

/// Whether names may contain this byte.
pub(crate) const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_'
}

pub(crate) fn as_boolean(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}
