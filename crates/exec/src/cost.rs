//! What one invocation of a program costs at most, in each backend's instructions.
//!
//! A program has no loop, so each of its paths is a bound on itself and the longest bounds them all:
//! [`of`] generates the code of each backend and walks it. The bound covers an invocation that applies a
//! stage, switches the program, changes both controls and reports. It leaves out what a datapath puts
//! around the program: filling in signals, the system's part of applying a control, sending a report.
//!
//! ```
//! use fairwater_exec::cost;
//! use fairwater_lang::compile;
//!
//! let program = compile("grow.ccp", "(when true (:= Cwnd (+ Cwnd Ack.bytes_acked)))")?.program;
//! let cost = cost::of(&program);
//! assert!(cost.ebpf.is_ok_and(|instructions| instructions < 100));
//! assert_eq!(cost.libccp, Ok(2));
//! # Ok::<(), fairwater_lang::Diagnostics>(())
//! ```

mod bare;
mod budget;
mod longest;
#[cfg(feature = "native")]
mod machine_code;

use fairwater_lang::Program;

use crate::ebpf::GenerateError;
use crate::portable::{self, Append, Inexpressible};

pub use bare::{generate, longest_path};
pub use budget::{DEFAULT_BUDGET, OverBudget, Part, within};

/// The most instructions of one invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// eBPF, as the kernel runs it.
    pub ebpf: Result<usize, GenerateError>,
    /// Machine code, as this machine's compiler lists it; `None` where there is no compiler.
    pub machine_code: Option<usize>,
    /// libccp's, which interprets them.
    pub libccp: Result<usize, Inexpressible>,
}

/// The worst case of a program.
#[must_use]
pub fn of(program: &Program) -> Cost {
    Cost {
        ebpf: ebpf(program),
        #[cfg(feature = "native")]
        machine_code: machine_code::longest_path(program),
        #[cfg(not(feature = "native"))]
        machine_code: None,
        libccp: portable::encode(program, Append::Nothing).map(|encoded| encoded.longest_path()),
    }
}

/// The most eBPF instructions of one invocation.
///
/// # Errors
/// The program exceeds a bound of eBPF.
pub fn ebpf(program: &Program) -> Result<usize, GenerateError> {
    Ok(longest_path(&generate(program)?))
}
