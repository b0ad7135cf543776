//! The crate `libccp` as a datapath under our plane.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod algorithms;
mod behaviours;
mod programs;
mod server;
mod support;
