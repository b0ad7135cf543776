//! The service at its seams: packets in, packets out.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod aggregates;
mod conformance;
mod dead_peers;
mod direct;
mod flow_status;
mod hand_over;
mod invalid_input;
mod isolation;
mod mss;
mod other_users;
mod peers;
mod server;
mod support;
mod switching;
