//! Tests, and the programs that several of them run: the crates `libccp` and `portus` as they are,
//! at the other end of ours.
//!
//! `libccp` links the C library that CCP's datapaths are built on; here it is a datapath under
//! our plane. `portus` is CCP's agent; here it governs flows of our datapath.

pub mod cases;
