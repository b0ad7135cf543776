//! Two sites in namespaces, with boxes in the kernel and real traffic between them.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests alone"
)]

mod hung;
mod lifecycle;
mod shaping;
mod site;

#[expect(dead_code, reason = "the bundle's own tests use more of it")]
#[path = "../../../bundle/tests/behaviour/plane.rs"]
mod plane;
