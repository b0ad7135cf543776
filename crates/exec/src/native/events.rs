//! One run of a program as a function.

use cranelift_codegen::ir::{AbiParam, Block, Function, InstBuilder, types};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use fairwater_lang::{Event, Program, Stmt};

use super::places::{Command, Lower};
use crate::fold::fold;

/// Makes `function` the program: it takes the addresses of the registers, the variables and the
/// signals, and returns 1 if `(report)` ran, else 0. Returns how many variables it may touch.
pub(super) fn lower(
    program: &Program,
    isa: &dyn TargetIsa,
    function: &mut Function,
    context: &mut FunctionBuilderContext,
) -> usize {
    let address = isa.pointer_type();
    function.signature.call_conv = isa.default_call_conv();
    let parameters = [AbiParam::new(address); 3];
    function.signature.params.extend(parameters);
    function.signature.returns.push(AbiParam::new(types::I64));
    let mut ir = FunctionBuilder::new(function, context);
    let start = ir.create_block();
    let addresses = parameters.map(|p| ir.append_block_param(start, p.value_type));
    ir.switch_to_block(start);
    ir.seal_block(start);
    let mut lower = Lower::new(&mut ir, addresses);
    let end = lower.ir.create_block();
    lower.events(&program.events, end);
    if lower.enter(end) {
        let report = lower.command_flag(Command::Report);
        lower.ir.ins().return_(&[report]);
    }
    let touched = lower.variables();
    ir.finalize(isa.frontend_config());
    touched.max(program.variables.len())
}

impl Lower<'_, '_> {
    /// The events; they end at `end`.
    fn events(&mut self, events: &[Event], end: Block) {
        for event in events {
            let (body, next) = (self.ir.create_block(), self.ir.create_block());
            self.statements(&event.prelude);
            self.decide(&fold(&event.condition), body, next);
            if self.enter(body) {
                self.statements(&event.body);
                match self.known_command(Command::Fallthrough) {
                    Some(true) => self.jump(next),
                    Some(false) => self.jump(end),
                    None => {
                        let falls = self.command_flag(Command::Fallthrough);
                        self.branch(falls, next, end);
                    }
                }
            }
            if !self.enter(next) {
                return;
            }
        }
        self.jump(end);
    }

    fn statements(&mut self, statements: &[Stmt]) {
        for statement in statements {
            match statement {
                Stmt::Assign(place, value) => {
                    let value = self.value(&fold(value));
                    self.write(*place, value);
                }
                Stmt::If {
                    condition,
                    then,
                    otherwise,
                } => {
                    let blocks = [(); 3].map(|()| self.ir.create_block());
                    let [yes, no, after] = blocks;
                    self.decide(&fold(condition), yes, no);
                    for (block, statements) in [(yes, then), (no, otherwise)] {
                        if self.enter(block) {
                            self.statements(statements);
                            self.jump(after);
                        }
                    }
                    self.enter(after);
                }
                Stmt::Report => self.note_command(Command::Report),
                Stmt::Fallthrough => self.note_command(Command::Fallthrough),
            }
        }
    }
}
