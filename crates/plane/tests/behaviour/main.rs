//! The plane at its public seam.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod aggregates;
mod careful_resume;
mod events;
mod isolation;
mod support;
