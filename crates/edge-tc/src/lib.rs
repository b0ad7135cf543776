//! The edge's data plane in the kernel.
#![deny(unsafe_code)]
mod error;
mod programs;
mod skeleton;
pub use error::TcError;
pub use programs::{Options, Programs};
pub const MAX_RULES: usize = 64;
