//! Raw eBPF from a checked program.
