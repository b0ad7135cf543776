//! The parts of a portable program: counts, spans, definitions, events.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use fairwater_lang::{Event, Expr, Place, Program, Scope, Stmt, Type, VarId, Variable};

use super::lift::{Lift, Names};
use super::sequence;
use super::wire::{INFINITY, Instruction, Op, RECORD, REGISTERS, Register, Spans, UnknownCode};
use super::{Decoded, Error, InstructionError};

/// What libccp takes for infinity in a definition; portus writes [`INFINITY`].
const DEFINED_INFINITY: u32 = 0x3fff_ffff;

pub(super) fn program(body: &[u8]) -> Result<Decoded, Error> {
    let (spans, instructions) = parts(body)?;
    let spans: Vec<_> = spans.iter().map(Spans::read).collect();
    let spans = ranges(&spans, instructions.len())?;
    let instructions: Vec<_> = instructions
        .iter()
        .enumerate()
        .map(|(at, bytes)| {
            Instruction::read(bytes).map_err(|unknown| {
                let error = match unknown {
                    UnknownCode::Opcode(op) => InstructionError::Opcode(op),
                    UnknownCode::RegisterType(kind) => InstructionError::RegisterType(kind),
                };
                Error::Instruction { at, error }
            })
        })
        .collect::<Result<_, _>>()?;

    let (mut variables, names) = definitions(&instructions)?;
    let mut lift = Lift::new(&instructions, names, variables.len());
    let mut events = Vec::new();
    for (at, (condition, body)) in spans.iter().enumerate() {
        let (prelude, condition) = lift.condition(at, condition.clone())?;
        let body = lift.body(body.clone())?;
        events.push(Event {
            prelude,
            condition,
            body,
        });
    }
    if events.is_empty() {
        // libccp runs a program without events; it does nothing.
        events.push(Event {
            prelude: Vec::new(),
            condition: Expr::Const(0, Type::Bool),
            body: Vec::new(),
        });
    }
    let named = variables.len();
    let does_more = |statement: &Stmt| match statement {
        Stmt::Assign(Place::Var(id), _) => usize::from(id.0) < named,
        _ => true,
    };
    if events
        .iter()
        .any(|event| event.prelude.iter().any(does_more))
    {
        // Before a condition our programs assign to hidden variables only.
        events = vec![sequence::event(events, &mut lift)];
    }
    let (controls, mut hidden) = lift.finish();
    variables.append(&mut hidden);
    let program = Program::new(variables, events)?;
    Ok(Decoded { program, controls })
}

type Records<'b> = &'b [[u8; RECORD]];

/// The bytes of each event's spans and of each instruction.
fn parts(body: &[u8]) -> Result<(Records<'_>, Records<'_>), Error> {
    let (counts, rest) = body.split_first_chunk::<8>().ok_or(Error::NoCounts)?;
    let [a, b, c, d, e, f, g, h] = *counts;
    let events = u32::from_le_bytes([a, b, c, d]);
    let instructions = u32::from_le_bytes([e, f, g, h]);
    let wrong = Error::Length {
        events,
        instructions,
        bytes: body.len(),
    };
    let (records, []) = rest.as_chunks() else {
        return Err(wrong);
    };
    if u64::from(events) + u64::from(instructions) != records.len() as u64 {
        return Err(wrong);
    }
    Ok(records.split_at(events as usize))
}

/// Where the instructions of a condition and of its body are.
type EventRanges = (Range<usize>, Range<usize>);

/// Where each event's condition and body are, none sharing an instruction with another.
fn ranges(spans: &[Spans], len: usize) -> Result<Vec<EventRanges>, Error> {
    let range = |at: usize, start: u32, count: u32| {
        let (start, count) = (start as usize, count as usize);
        match start.checked_add(count) {
            Some(end) if end <= len => Ok(start..end),
            _ => Err(Error::OutOfRange(at)),
        }
    };
    let mut found = Vec::new();
    let mut taken = Vec::new();
    for (at, spans) in spans.iter().enumerate() {
        let condition = range(at, spans.condition_start, spans.condition_len)?;
        let body = range(at, spans.body_start, spans.body_len)?;
        for range in [&condition, &body] {
            if !range.is_empty() {
                taken.push((range.start, range.end, at));
            }
        }
        found.push((condition, body));
    }
    taken.sort_unstable();
    match taken.windows(2).find(|pair| pair[0].1 > pair[1].0) {
        Some(pair) => Err(Error::Overlap(pair[1].2)),
        None => Ok(found),
    }
}

/// The variables that the leading definitions make, and what registers they are.
fn definitions(instructions: &[Instruction]) -> Result<(Vec<Variable>, Names), Error> {
    let mut reports = BTreeMap::new();
    let mut controls = BTreeMap::new();
    let leading = instructions.iter().take_while(|i| i.op == Op::Def);
    for (at, instruction) in leading.enumerate() {
        let wrong = |error| Error::Instruction { at, error };
        let (registers, index, volatile) = match instruction.left {
            Register::Report { index, volatile } => (&mut reports, index, volatile),
            Register::Control { index, volatile } => (&mut controls, index, volatile),
            _ => return Err(wrong(InstructionError::Definition)),
        };
        let Register::Immediate(value) = instruction.right else {
            return Err(wrong(InstructionError::Definition));
        };
        if index >= REGISTERS {
            return Err(wrong(InstructionError::Register(index)));
        }
        let init = match value {
            INFINITY | DEFINED_INFINITY => u64::MAX,
            value => value.into(),
        };
        if registers.insert(index, (volatile, init)).is_some() {
            return Err(wrong(InstructionError::Redefined(index)));
        }
    }
    // The message that switches a flow to the program may set others.
    let operands = instructions
        .iter()
        .flat_map(|i| [i.result, i.left, i.right]);
    for operand in operands {
        if let Register::Control { index, volatile } = operand
            && index < REGISTERS
        {
            controls.entry(index).or_insert((volatile, 0));
        }
    }
    // libccp reports as many registers as are defined, from the first on.
    if let Some((gap, _)) = (0..).zip(reports.keys()).find(|(n, index)| n != *index) {
        return Err(Error::ReportGap(gap));
    }
    let mut names = Names {
        reports: reports.len() as u32,
        controls: BTreeMap::new(),
    };
    let mut variables = Vec::new();
    for (scope, prefix, registers) in [
        (Scope::Report, 'r', &reports),
        (Scope::Control, 'c', &controls),
    ] {
        for (index, (volatile, init)) in registers {
            if scope == Scope::Control {
                names.controls.insert(*index, VarId(variables.len() as u16));
            }
            variables.push(Variable {
                name: format!("{prefix}{index}"),
                scope,
                volatile: *volatile,
                ty: Type::Num,
                init: *init,
            });
        }
    }
    Ok((variables, names))
}
