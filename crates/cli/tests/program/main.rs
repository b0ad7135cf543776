//! The program as others run it: packagers, service managers, scripts.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attach;
mod bundle;
mod check;
mod generated;
mod real_tcp;
mod replay;
mod serve;
mod simulated;
mod support;
mod r#try;
mod up;
