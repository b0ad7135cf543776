//! vCC's theorems, checked: on a model of appendix A, and on the code.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    clippy::print_stdout,
    reason = "what a search finds is shown with --nocapture"
)]

mod code;
mod model;
#[path = "../behaviour/plane.rs"]
#[expect(dead_code, reason = "shared with the tests of behaviour")]
mod plane;
mod printed;
mod repaired;
#[path = "../behaviour/support.rs"]
#[expect(dead_code, reason = "shared with the tests of behaviour")]
mod support;
