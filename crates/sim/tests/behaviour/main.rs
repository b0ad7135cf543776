//! The simulator at its public seam: configurations in, outcomes out.

mod capture;
mod check;
mod determinism;
mod measuring;
mod plane;
mod random;

mod sharing;
mod support;
mod traffic;
