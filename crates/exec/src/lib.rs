//! Backends of a checked datapath program, one module each, all of one meaning.
//!
//! [`interp`] defines what a program does; [`native`] compiles it to this machine's own code, for
//! datapaths in user space; [`ebpf`] generates raw eBPF that does the same on a [`frame`] of flow
//! state in kernel memory. [`cost`] bounds what an invocation costs in each. [`portable`] takes programs from libccp's instruction encoding and back.
//!
//! ```
//! use fairwater_exec::interp::{Input, Machine};
//! use fairwater_lang::{Signal, Signals, compile};
//!
//! let source = "(def (Report (volatile acked 0)))
//! (when true
//!   (:= Report.acked (+ Report.acked Ack.bytes_acked))
//!   (:= Cwnd (+ Cwnd Ack.bytes_acked))
//!   (when (> Micros 10000) (report) (reset)))";
//! let program = compile("count.ccp", source)?.program;
//! let mut machine = Machine::new(&program, 0);
//! let mut signals = Signals::default();
//! signals[Signal::Now] = 10_001;
//! signals[Signal::BytesAcked] = 2896;
//! let outcome = machine.invoke(&Input { signals, cwnd: 14480, rate: 0, stage: None });
//! assert_eq!(outcome.cwnd, 17376);
//! assert_eq!(outcome.report, Some(vec![2896]));
//! # Ok::<(), fairwater_lang::Diagnostics>(())
//! ```

#![cfg_attr(not(any(feature = "ebpf", feature = "native")), no_std)]

extern crate alloc;

pub mod arith;
#[cfg(feature = "ebpf")]
pub mod cost;
#[cfg(feature = "ebpf")]
pub mod ebpf;
#[cfg(any(feature = "ebpf", feature = "native"))]
mod fold;
pub mod frame;
pub mod interp;
pub mod invocation;
#[cfg(feature = "native")]
pub mod native;
pub mod portable;
