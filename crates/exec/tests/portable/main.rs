//! Programs in libccp's instruction encoding: what portus compiles means the same as what we
//! compile, and whatever else arrives is refused or is a program.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail by panicking"
)]

mod encoded;
mod hostile;
mod listings;
mod lockstep;
mod wire;
