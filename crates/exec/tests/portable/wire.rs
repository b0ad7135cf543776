//! Portable programs by hand.

pub(crate) const ADD: u8 = 0;
pub(crate) const BIND: u8 = 1;
pub(crate) const DEF: u8 = 2;
pub(crate) const EWMA: u8 = 5;
pub(crate) const IF: u8 = 7;
pub(crate) const MUL: u8 = 12;
pub(crate) const SUB: u8 = 14;

/// A register type and index.
pub(crate) type Register = (u8, u32);

pub(crate) const FLAG: Register = (2, 0);
pub(crate) const CONTINUE: Register = (2, 1);
pub(crate) const REPORT: Register = (2, 2);
pub(crate) const CWND: Register = (2, 4);

pub(crate) const fn control(index: u32) -> Register {
    (0, index)
}

pub(crate) const fn immediate(value: u32) -> Register {
    (1, value)
}

pub(crate) const fn local(index: u32) -> Register {
    (3, index)
}

pub(crate) const fn signal(index: u32) -> Register {
    (4, index)
}

pub(crate) const fn report(index: u32) -> Register {
    (6, index)
}

pub(crate) const fn tmp(index: u32) -> Register {
    (7, index)
}

/// Opcode, result, left, right.
pub(crate) type Instruction = (u8, Register, Register, Register);

/// The bytes of a program of these spans and instructions.
pub(crate) fn body(spans: &[[u32; 4]], instructions: &[Instruction]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((spans.len() as u32).to_le_bytes());
    bytes.extend((instructions.len() as u32).to_le_bytes());
    bytes.extend(spans.iter().flatten().flat_map(|word| word.to_le_bytes()));
    for (op, result, left, right) in instructions {
        bytes.push(*op);
        for (kind, value) in [result, left, right] {
            bytes.push(*kind);
            bytes.extend(value.to_le_bytes());
        }
    }
    bytes
}

/// The bytes of a program of one event, `when true`, with definitions before it.
pub(crate) fn always(definitions: &[Instruction], instructions: &[Instruction]) -> Vec<u8> {
    let start = definitions.len() as u32;
    let condition = (BIND, FLAG, FLAG, immediate(1));
    let all = [definitions, &[condition], instructions].concat();
    body(&[[start, 1, start + 1, instructions.len() as u32]], &all)
}
