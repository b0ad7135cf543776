//! Generated eBPF in the kernel, held to the reference interpreter.

mod agree;
mod bpf;
#[path = "../cases/mod.rs"]
mod cases;
mod harness;

cases::hold_to_the_interpreter!(crate::agree::agree, crate::harness::gate());
