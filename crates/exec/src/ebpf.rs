//! Raw eBPF from a checked program.
//!
//! [`generate`] turns a program into instructions that run one invocation on a
//! [frame](crate::frame); a [`Host`] wraps them for one datapath's hook. The instructions are
//! the kernel's own (RFC 9669), so they are loaded as they are: no clang, no libbpf, no
//! relocation.

mod arithmetic;
pub mod asm;
mod expr;
mod generate;
mod host;
pub(crate) mod insn;
mod layout;
mod proof;
mod stage;
mod text;
mod walk;

pub use generate::{GenerateError, fit, generate};
pub use host::Host;
pub use insn::{Alu, Cond, Insn, Operand, Reg, Size};
pub use text::listing;
