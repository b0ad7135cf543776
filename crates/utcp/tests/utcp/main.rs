//! A user-space TCP at its public seams, over simulated links.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod bad_network;
mod conformance;
mod ending;
mod handshake;
mod invalid_input;
mod network;
mod path_mtu;
mod windows;
