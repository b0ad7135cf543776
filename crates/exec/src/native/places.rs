//! What a program reads and writes, in memory and in SSA values.
//!
//! Memory is always up to date: an assignment stores at once. A value that is known on every path
//! to a point is not loaded again there.

use std::collections::HashMap;

use cranelift_codegen::ir::{Block, InstBuilder, MemFlagsData, Value, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use fairwater_lang::{Place, Signal, VarId};
use std::mem::offset_of;

use crate::invocation::Registers;

/// What is known on every path to the point that code is generated for.
#[derive(Debug, Clone, Default)]
struct KnownState {
    /// The slots whose value need not be loaded.
    slots: Vec<bool>,
    /// Whether `(report)` ran, if that is the same on all paths.
    report: Option<bool>,
    /// Whether `(fallthrough)` ran, likewise.
    fallthrough: Option<bool>,
}

impl KnownState {
    fn and(&mut self, other: &Self) {
        self.slots.truncate(other.slots.len());
        for (known, other) in self.slots.iter_mut().zip(&other.slots) {
            *known &= other;
        }
        self.report = self.report.filter(|_| self.report == other.report);
        self.fallthrough = self
            .fallthrough
            .filter(|_| self.fallthrough == other.fallthrough);
    }
}

/// Where a slot's word lies.
#[derive(Debug, Clone, Copy)]
struct Word {
    base: Value,
    offset: i32,
}

/// A command that takes effect at most once in an invocation.
#[derive(Debug, Clone, Copy)]
pub(super) enum Command {
    Report,
    Fallthrough,
}

/// A function under construction.
pub(super) struct Lower<'a, 'f> {
    pub(super) ir: &'a mut FunctionBuilder<'f>,
    registers: Value,
    variables: Value,
    signals: Value,
    /// One each for `Cwnd`, `Rate`, the timer, and the program's variables.
    slots: Vec<Variable>,
    report: Variable,
    fallthrough: Variable,
    known: KnownState,
    /// What is known where blocks begin that something jumps to.
    entries: HashMap<Block, KnownState>,
}

/// Slots before those of the variables.
const CONTROLS: usize = 3;

impl<'a, 'f> Lower<'a, 'f> {
    /// Begins in the function's first block, whose parameters are the three addresses.
    pub(super) fn new(
        ir: &'a mut FunctionBuilder<'f>,
        [registers, variables, signals]: [Value; 3],
    ) -> Self {
        let (report, fallthrough) = (ir.declare_var(types::I64), ir.declare_var(types::I64));
        let no = ir.ins().iconst(types::I64, 0);
        ir.def_var(report, no);
        ir.def_var(fallthrough, no);
        let known = KnownState {
            slots: Vec::new(),
            report: Some(false),
            fallthrough: Some(false),
        };
        Self {
            ir,
            registers,
            variables,
            signals,
            slots: Vec::new(),
            report,
            fallthrough,
            known,
            entries: HashMap::new(),
        }
    }

    /// The variables that the code touches are below this.
    pub(super) fn variables(&self) -> usize {
        self.slots.len().saturating_sub(CONTROLS)
    }

    /// Ends the block by going to `to`.
    pub(super) fn jump(&mut self, to: Block) {
        self.ir.ins().jump(to, &[]);
        self.arrive(to);
    }

    /// Ends the block by going to one of two.
    pub(super) fn branch(&mut self, condition: Value, then: Block, otherwise: Block) {
        self.ir.ins().brif(condition, then, &[], otherwise, &[]);
        self.arrive(then);
        self.arrive(otherwise);
    }

    /// Notes that a path leads from here to `to`.
    pub(super) fn arrive(&mut self, to: Block) {
        match self.entries.get_mut(&to) {
            Some(entry) => entry.and(&self.known),
            None => drop(self.entries.insert(to, self.known.clone())),
        }
    }

    /// Goes on in `block`, to which all jumps have been made; tells whether there are any.
    pub(super) fn enter(&mut self, block: Block) -> bool {
        let Some(known) = self.entries.remove(&block) else {
            return false;
        };
        self.known = known;
        self.ir.switch_to_block(block);
        self.ir.seal_block(block);
        true
    }

    pub(super) fn number(&mut self, value: u64) -> Value {
        self.ir.ins().iconst(types::I64, value.cast_signed())
    }

    pub(super) fn signal(&mut self, signal: Signal) -> Value {
        // Nothing writes signals meanwhile, so one load serves all uses.
        let flags = MemFlagsData::trusted().with_readonly().with_can_move();
        let offset = 8 * signal as i32;
        self.ir.ins().load(types::I64, flags, self.signals, offset)
    }

    pub(super) fn read(&mut self, place: Place) -> Value {
        let zero = self.word(place);
        if place == Place::Micros {
            let now = self.signal(Signal::Now);
            return self.ir.ins().isub(now, zero);
        }
        zero
    }

    pub(super) fn write(&mut self, place: Place, value: Value) {
        let value = if place == Place::Micros {
            let now = self.signal(Signal::Now);
            let value = self.timer(value);
            self.ir.ins().isub(now, value)
        } else {
            value
        };
        let (slot, word) = self.locate(place);
        self.ir
            .ins()
            .store(MemFlagsData::trusted(), value, word.base, word.offset);
        self.know(slot, value);
    }

    /// The word in memory that stands for the place.
    fn word(&mut self, place: Place) -> Value {
        let (slot, word) = self.locate(place);
        if self.known.slots.get(slot).is_some_and(|known| *known) {
            return self.ir.use_var(self.slots[slot]);
        }
        let value = self
            .ir
            .ins()
            .load(types::I64, MemFlagsData::trusted(), word.base, word.offset);
        self.know(slot, value);
        value
    }

    fn know(&mut self, slot: usize, value: Value) {
        self.ir.def_var(self.slots[slot], value);
        if self.known.slots.len() <= slot {
            self.known.slots.resize(slot + 1, false);
        }
        self.known.slots[slot] = true;
    }

    fn locate(&mut self, place: Place) -> (usize, Word) {
        let register = |offset: usize| Word {
            base: self.registers,
            offset: offset as i32,
        };
        let (slot, word) = match place {
            Place::Cwnd => (0, register(offset_of!(Registers, cwnd))),
            Place::Rate => (1, register(offset_of!(Registers, rate))),
            Place::Micros => (2, register(offset_of!(Registers, timer_zero))),
            Place::Var(VarId(at)) => {
                let word = Word {
                    base: self.variables,
                    offset: 8 * i32::from(at),
                };
                (CONTROLS + usize::from(at), word)
            }
        };
        while self.slots.len() <= slot {
            self.slots.push(self.ir.declare_var(types::I64));
        }
        (slot, word)
    }

    /// Notes that the command ran.
    pub(super) fn note_command(&mut self, command: Command) {
        let yes = self.number(1);
        let variable = match command {
            Command::Report => {
                self.known.report = Some(true);
                self.report
            }
            Command::Fallthrough => {
                self.known.fallthrough = Some(true);
                self.fallthrough
            }
        };
        self.ir.def_var(variable, yes);
    }

    /// Whether the command ran, if that is known at this point.
    pub(super) fn known_command(&self, command: Command) -> Option<bool> {
        match command {
            Command::Report => self.known.report,
            Command::Fallthrough => self.known.fallthrough,
        }
    }

    /// 1 if the command ran, 0 if not.
    pub(super) fn command_flag(&mut self, command: Command) -> Value {
        let variable = match command {
            Command::Report => self.report,
            Command::Fallthrough => self.fallthrough,
        };
        self.ir.use_var(variable)
    }
}
