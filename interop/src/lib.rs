//! Tests with the unchanged crates `libccp` and `portus` at the other end, and the programs that
//! several of these tests run.
//!
//! `libccp` links the C library that CCP's datapaths are built on; here it is a datapath under
//! our plane. `portus` is CCP's agent; here it controls flows of our datapath.

pub mod cases;
