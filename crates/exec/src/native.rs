//! Machine code from a checked program, by Cranelift, for x86-64 and aarch64.
//!
//! [`Code::run`] means what [`interp::run`](crate::interp::run) means. Variables and registers
//! stay in memory between invocations, where updates and reports find them; within one, a value
//! that was read or written once is kept in a processor register, and what is assigned is stored
//! at once. So a path through the program loads and stores only what it uses.
//!
//! ```
//! use fairwater_exec::invocation::{Registers, initial};
//! use fairwater_exec::native::Code;
//! use fairwater_lang::{Signal, Signals, compile};
//!
//! let source = "(when true (:= Cwnd (+ Cwnd Ack.bytes_acked)))";
//! let program = compile("grow.ccp", source)?.program;
//! let code = Code::compile(&program)?;
//! let mut registers = Registers { cwnd: 14480, ..Registers::default() };
//! let mut signals = Signals::default();
//! signals[Signal::BytesAcked] = 2896;
//! assert!(!code.run(&mut registers, &mut initial(&program), &signals));
//! assert_eq!(registers.cwnd, 17376);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arithmetic;
mod events;
mod memory;
mod places;
mod target;
mod values;

use std::io;

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::FunctionBuilderContext;
use fairwater_lang::{Program, Signals};

use crate::invocation::Registers;
use memory::Executable;

pub use target::Target;

/// Why a program could not be compiled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No code can be generated for this machine.
    #[error("no machine code for this processor: {0}")]
    Target(String),
    /// The code generator gave up, for instance because the code is too large.
    #[error("cannot compile the program: {0}")]
    Code(String),
    /// The system gave no executable memory.
    #[error("no memory for compiled code")]
    Memory(#[from] io::Error),
}

/// What compiled code is called by; returns whether `(report)` ran.
type Entry = unsafe extern "C" fn(*mut Registers, *mut u64, *const u64) -> u64;

/// A program as machine code, in memory of its own that is never writable and executable at once.
#[derive(Debug)]
pub struct Code {
    entry: Entry,
    /// How many variables the code may touch.
    variables: usize,
    /// Where `entry` lies.
    memory: Executable,
}

impl Code {
    /// Compiles `program` for the machine that this runs on.
    ///
    /// # Errors
    /// When this machine is neither x86-64 nor aarch64, when the code generator has a bound that
    /// the program exceeds, or when memory is refused.
    pub fn compile(program: &Program) -> Result<Self, Error> {
        let (code, variables) = generate(program, target::host()?)?;
        let memory = Executable::new(&code)?;
        #[expect(unsafe_code, reason = "the bytes become a function")]
        // SAFETY: at the start of `memory` is a function of this signature, generated for this
        // machine in the C calling convention; it stays as long as `Self`, which alone calls it.
        let entry = unsafe { std::mem::transmute::<*const u8, Entry>(memory.start()) };
        Ok(Self {
            entry,
            variables,
            memory,
        })
    }

    /// Runs the events of the program once: what [`interp::run`](crate::interp::run) does.
    /// Returns whether `(report)` ran.
    ///
    /// # Panics
    /// If `variables` is shorter than [`Program::variables`].
    #[inline]
    pub fn run(&self, registers: &mut Registers, variables: &mut [u64], signals: &Signals) -> bool {
        let variables = &mut variables[..self.variables];
        #[expect(
            unsafe_code,
            reason = "compiled code has no type that the compiler can check"
        )]
        // SAFETY: the code reads and writes the three words of `registers` and the first
        // `self.variables` words of `variables`, and reads `signals`; it keeps no address. It
        // cannot trap, and its stack is probed page by page.
        let report = unsafe {
            (self.entry)(
                registers,
                variables.as_mut_ptr(),
                signals.as_array().as_ptr(),
            )
        };
        report != 0
    }

    /// Bytes of machine code. Memory is taken in whole pages.
    #[must_use]
    pub fn size(&self) -> usize {
        self.memory.len()
    }
}

/// The machine code of `program` for `target`, which need not be this machine: for inspection.
///
/// # Errors
/// As [`Code::compile`], except that no executable memory is needed.
pub fn machine_code(program: &Program, target: Target) -> Result<Vec<u8>, Error> {
    Ok(generate(program, &*target.isa()?)?.0)
}

/// The instructions of `program` on this machine as text: blocks, and in each a line for an instruction.
#[cfg(feature = "ebpf")]
pub(crate) fn listing(program: &Program) -> Result<String, Error> {
    let isa = target::host()?;
    let mut context = Context::new();
    context.set_disasm(true);
    let mut builder = FunctionBuilderContext::new();
    events::lower(program, isa, &mut context.func, &mut builder);
    let compiled = context
        .compile(isa, &mut ControlPlane::default())
        .map_err(|error| Error::Code(error.inner.to_string()))?;
    Ok(compiled.vcode.clone().unwrap_or_default())
}

/// The code, and how many variables it may touch.
fn generate(program: &Program, isa: &dyn TargetIsa) -> Result<(Vec<u8>, usize), Error> {
    let mut context = Context::new();
    let mut builder = FunctionBuilderContext::new();
    let variables = events::lower(program, isa, &mut context.func, &mut builder);
    let compiled = context
        .compile(isa, &mut ControlPlane::default())
        .map_err(|error| Error::Code(error.inner.to_string()))?;
    debug_assert!(compiled.buffer.relocs().is_empty(), "it calls nothing");
    Ok((compiled.code_buffer().to_vec(), variables))
}
