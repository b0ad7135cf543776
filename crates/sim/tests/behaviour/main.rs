//! The simulator at its public seam: configurations in, outcomes out.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod buffered;
mod bundles;
mod capture;
mod check;
mod conservation;
mod datagrams;
mod determinism;
mod elasticity;
mod grid;
mod guests;
mod incast;
mod measuring;
mod plane;
mod pool;
mod random;
mod sendbox;
mod sharing;
mod stepping;
mod support;
mod traffic;
