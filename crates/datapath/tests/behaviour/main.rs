//! The datapath at its seams: signals and packets in, controls and packets out.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ccp;
mod cubic;
mod fallback;
mod flows;
mod harness;
mod messages;
mod mss;
mod one_control;
mod queues;
mod release;
