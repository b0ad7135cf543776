//! Generated eBPF in the kernel, held to the reference interpreter.

mod agree;
mod bounds;
mod bpf;
mod edges;
mod harness;
mod random;
