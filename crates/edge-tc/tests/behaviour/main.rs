//! What the programs at a guest's port do with packets, in the kernel.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod frames;
mod kernel;
mod lockstep;
mod malformed;
mod pair;
mod races;
mod steps;

#[expect(dead_code, reason = "the edge's own tests use more of it")]
#[path = "../../../edge/tests/behaviour/plane.rs"]
mod plane;
#[expect(dead_code, reason = "the edge's own tests use more of it")]
#[path = "../../../edge/tests/behaviour/support.rs"]
mod support;
