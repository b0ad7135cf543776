//! Links carry whole packets in order, block nobody, and say when a peer is gone.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adaptive_spin;
mod datagram;
mod places;
mod ring;
mod seqpacket;
mod support;
