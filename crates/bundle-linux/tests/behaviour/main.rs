//! What the programs read and count, against the sans-IO boxes.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests alone"
)]

mod frames;
mod lockstep;
