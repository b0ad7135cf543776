//! Compiled machine code, held to the reference interpreter.

#![cfg(feature = "native")]

mod agree;
#[path = "../cases/mod.rs"]
mod cases;
mod memory;

cases::hold_to_the_interpreter!(crate::agree::agree, Some(()));
