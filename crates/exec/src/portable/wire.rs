//! Instructions and registers as bytes.

use alloc::vec::Vec;

/// Bytes of one instruction, and of one event's spans.
pub(super) const RECORD: usize = 16;

/// What an immediate operand of all ones means, and what stands for it.
pub(super) const INFINITY: u32 = u32::MAX;

/// Report and control registers that libccp has, each.
pub(super) const REGISTERS: u32 = 110;
/// Temporary registers that libccp has.
pub(super) const TMPS: usize = 8;
/// Local registers that libccp has.
pub(super) const LOCALS: u32 = 8;
/// Instructions that libccp runs: it counts them in a byte, and never leaves a body that ends with
/// the 256th.
pub(super) const INSTRUCTIONS: usize = 255;
/// Events that libccp takes.
pub(super) const EVENTS: usize = 256;

/// What an instruction does; the discriminant is its opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Op {
    Add = 0,
    Bind = 1,
    Def = 2,
    Div = 3,
    Equal = 4,
    Ewma = 5,
    Greater = 6,
    If = 7,
    Less = 8,
    Max = 9,
    MaxWrap = 10,
    Min = 11,
    Mul = 12,
    NotIf = 13,
    Sub = 14,
}

impl Op {
    /// By opcode.
    const ALL: [Self; 15] = [
        Self::Add,
        Self::Bind,
        Self::Def,
        Self::Div,
        Self::Equal,
        Self::Ewma,
        Self::Greater,
        Self::If,
        Self::Less,
        Self::Max,
        Self::MaxWrap,
        Self::Min,
        Self::Mul,
        Self::NotIf,
        Self::Sub,
    ];

    /// Whether it reads its left operand.
    pub(super) const fn reads_left(self) -> bool {
        !matches!(self, Self::Bind | Self::Def)
    }

    /// Whether it reads its result before it writes it, or may leave it as it is.
    pub(super) const fn reads_result(self) -> bool {
        matches!(self, Self::Ewma | Self::If | Self::NotIf)
    }
}

/// A register, or an immediate operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Register {
    Control { index: u32, volatile: bool },
    Immediate(u32),
    Implicit(u32),
    Local(u32),
    Primitive(u32),
    Report { index: u32, volatile: bool },
    Tmp(u32),
}

impl Register {
    /// The event flag: whether the condition holds.
    pub(super) const FLAG: Self = Self::Implicit(0);
    /// Whether later events run too.
    pub(super) const CONTINUE: Self = Self::Implicit(1);
    /// Whether a report is due.
    pub(super) const REPORT: Self = Self::Implicit(2);
    pub(super) const MICROS: Self = Self::Implicit(3);
    pub(super) const CWND: Self = Self::Implicit(4);
    pub(super) const RATE: Self = Self::Implicit(5);
    /// The datapath's time.
    pub(super) const NOW: Self = Self::Primitive(5);

    fn read(kind: u8, value: u32) -> Option<Self> {
        Some(match kind {
            0 | 8 => Self::Control {
                index: value,
                volatile: kind == 8,
            },
            1 => Self::Immediate(value),
            2 => Self::Implicit(value),
            3 => Self::Local(value),
            4 => Self::Primitive(value),
            5 | 6 => Self::Report {
                index: value,
                volatile: kind == 5,
            },
            7 => Self::Tmp(value),
            _ => return None,
        })
    }

    const fn parts(self) -> (u8, u32) {
        match self {
            Self::Control { index, volatile } => (if volatile { 8 } else { 0 }, index),
            Self::Immediate(value) => (1, value),
            Self::Implicit(index) => (2, index),
            Self::Local(index) => (3, index),
            Self::Primitive(index) => (4, index),
            Self::Report { index, volatile } => (if volatile { 5 } else { 6 }, index),
            Self::Tmp(index) => (7, index),
        }
    }
}

/// One instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) op: Op,
    pub(super) result: Register,
    pub(super) left: Register,
    pub(super) right: Register,
}

/// The byte of an instruction that means nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnknownCode {
    Opcode(u8),
    RegisterType(u8),
}

impl Instruction {
    /// `op @0; {type, u32} result @1, left @6, right @11`.
    pub(super) fn read(bytes: &[u8; RECORD]) -> Result<Self, UnknownCode> {
        let [op, operands @ ..] = bytes;
        let op = *Op::ALL
            .get(usize::from(*op))
            .ok_or(UnknownCode::Opcode(*op))?;
        let (operands, _) = operands.as_chunks();
        let register = |at: usize| {
            let [kind, a, b, c, d]: [u8; 5] = operands.get(at).copied().unwrap_or_default();
            let value = u32::from_le_bytes([a, b, c, d]);
            Register::read(kind, value).ok_or(UnknownCode::RegisterType(kind))
        };
        Ok(Self {
            op,
            result: register(0)?,
            left: register(1)?,
            right: register(2)?,
        })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(self.op as u8);
        for register in [self.result, self.left, self.right] {
            let (kind, value) = register.parts();
            out.push(kind);
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

/// Where the instructions of an event stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spans {
    pub(super) condition_start: u32,
    pub(super) condition_len: u32,
    pub(super) body_start: u32,
    pub(super) body_len: u32,
}

impl Spans {
    pub(super) fn read(bytes: &[u8; RECORD]) -> Self {
        let (words, _) = bytes.as_chunks();
        let word = |at: usize| words.get(at).copied().map_or(0, u32::from_le_bytes);
        Self {
            condition_start: word(0),
            condition_len: word(1),
            body_start: word(2),
            body_len: word(3),
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for word in [
            self.condition_start,
            self.condition_len,
            self.body_start,
            self.body_len,
        ] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }
}
