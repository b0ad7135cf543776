//! What goes to standard output: nothing but what was asked for.

use std::io::{self, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Prints as it is.
pub(crate) fn print(output: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(output.as_ref())
        .and_then(|()| out.flush())
        .map_err(Failure::io("standard output"))
}

/// Prints one JSON document, indented.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let mut out = serde_json::to_string_pretty(value)
        .map_err(io::Error::from)
        .map_err(Failure::io("standard output"))?;
    out.push('\n');
    print(out)
}
