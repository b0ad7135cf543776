//! Backends of a checked datapath program, one module each, all of one meaning.
//!
//! [`interp`] defines what a program does; [`ebpf`] generates raw eBPF that does the same on a
//! [`frame`] of flow state in kernel memory.

pub mod arith;
pub mod ebpf;
pub mod frame;
pub mod interp;
