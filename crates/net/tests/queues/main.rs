//! What each queue discipline promises, held against the numbers of its source.

#![expect(
    clippy::expect_used,
    reason = "helpers of tests fail the test by panicking"
)]

mod codel;
mod discipline;
mod fair;
mod fq_codel;
mod invariants;

mod pie;
mod priority;
mod red;
mod step;
mod support;
mod wdrr;
