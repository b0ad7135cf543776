//! Instructions as text, in the kernel's own notation.

use super::insn::{
    CALL, EXIT, Insn, JA, MODE_ATOMIC, MODE_MEM, MOV, NEG, PSEUDO_MAP_FD, PSEUDO_MAP_VALUE,
    SRC_REG, class,
};
use std::fmt;

/// One line for each instruction: its index, then what it does. Jumps name the index of their
/// target; a 64-bit immediate takes two indices.
#[must_use]
pub fn listing(code: &[Insn]) -> String {
    use fmt::Write as _;
    let mut text = String::new();
    let mut at = 0;
    while let Some(insn) = code.get(at) {
        let line = Line {
            insn,
            at,
            high: code.get(at + 1),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{at:5}: {line}");
        at += if line.is_wide() { 2 } else { 1 };
    }
    text
}

struct Line<'a> {
    insn: &'a Insn,
    at: usize,
    /// The next slot: the high half of a 64-bit immediate.
    high: Option<&'a Insn>,
}

impl Line<'_> {
    const fn is_wide(&self) -> bool {
        self.insn.code == class::LD | 0x18
    }

    fn target(&self, displacement: i32) -> i64 {
        self.at as i64 + 1 + i64::from(displacement)
    }

    /// The second operand, in registers of that letter.
    fn operand(&self, letter: char) -> String {
        if self.insn.code & SRC_REG != 0 {
            format!("{letter}{}", self.insn.regs >> 4)
        } else {
            self.insn.imm.to_string()
        }
    }

    fn wide(&self, f: &mut fmt::Formatter<'_>, dst: u8) -> fmt::Result {
        let low = self.insn.imm.cast_unsigned();
        let high = self.high.map_or(0, |h| h.imm.cast_unsigned());
        match self.insn.regs >> 4 {
            PSEUDO_MAP_FD => write!(f, "r{dst} = map[fd {low}]"),
            PSEUDO_MAP_VALUE => write!(f, "r{dst} = map_value[fd {low}] + {high}"),
            _ => write!(
                f,
                "r{dst} = {:#x} ll",
                u64::from(high) << 32 | u64::from(low)
            ),
        }
    }

    fn memory(&self, f: &mut fmt::Formatter<'_>, dst: u8, src: u8) -> fmt::Result {
        let Insn { code, off, imm, .. } = *self.insn;
        let size = match code & 0x18 {
            0x00 => "u32",
            0x08 => "u16",
            0x10 => "u8",
            _ => "u64",
        };
        match (code & 0x07, code & 0xe0) {
            (class::LDX, MODE_MEM) => write!(f, "r{dst} = *({size} *)(r{src} {off:+})"),
            (class::ST, MODE_MEM) => write!(f, "*({size} *)(r{dst} {off:+}) = {imm}"),
            (class::STX, MODE_MEM) => write!(f, "*({size} *)(r{dst} {off:+}) = r{src}"),
            (class::STX, MODE_ATOMIC) => {
                let op = u8::try_from(imm).ok().and_then(alu_symbol).unwrap_or("?=");
                write!(f, "lock *({size} *)(r{dst} {off:+}) {op} r{src}")
            }
            _ => write!(f, ".insn {:?}", self.insn),
        }
    }

    fn arithmetic(&self, f: &mut fmt::Formatter<'_>, letter: char, dst: u8) -> fmt::Result {
        let op = self.insn.code & 0xf0;
        match alu_symbol(op) {
            _ if op == NEG => write!(f, "{letter}{dst} = -{letter}{dst}"),
            Some(symbol) => write!(f, "{letter}{dst} {symbol} {}", self.operand(letter)),
            None => write!(f, ".insn {:?}", self.insn),
        }
    }

    fn jump(&self, f: &mut fmt::Formatter<'_>, letter: char, dst: u8) -> fmt::Result {
        let Insn { code, off, imm, .. } = *self.insn;
        match code & 0xf0 {
            JA if letter == 'w' => write!(f, "gotol {}", self.target(imm)),
            JA => write!(f, "goto {}", self.target(off.into())),
            CALL => write!(f, "call {imm}"),
            EXIT => write!(f, "exit"),
            op => match cond_symbol(op) {
                Some(symbol) => {
                    let right = self.operand(letter);
                    let target = self.target(off.into());
                    write!(f, "if {letter}{dst} {symbol} {right} goto {target}")
                }
                None => write!(f, ".insn {:?}", self.insn),
            },
        }
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dst, src) = (self.insn.regs & 0x0f, self.insn.regs >> 4);
        match self.insn.code & 0x07 {
            class::LD if self.is_wide() => self.wide(f, dst),
            class::LD | class::LDX | class::ST | class::STX => self.memory(f, dst, src),
            class::ALU => self.arithmetic(f, 'w', dst),
            class::ALU64 => self.arithmetic(f, 'r', dst),
            class::JMP => self.jump(f, 'r', dst),
            _ => self.jump(f, 'w', dst),
        }
    }
}

const fn alu_symbol(op: u8) -> Option<&'static str> {
    Some(match op {
        0x00 => "+=",
        0x10 => "-=",
        0x20 => "*=",
        0x30 => "/=",
        0x40 => "|=",
        0x50 => "&=",
        0x60 => "<<=",
        0x70 => ">>=",
        0x90 => "%=",
        0xa0 => "^=",
        MOV => "=",
        0xc0 => "s>>=",
        _ => return None,
    })
}

const fn cond_symbol(op: u8) -> Option<&'static str> {
    Some(match op {
        0x10 => "==",
        0x20 => ">",
        0x30 => ">=",
        0x40 => "&",
        0x50 => "!=",
        0x60 => "s>",
        0x70 => "s>=",
        0xa0 => "<",
        0xb0 => "<=",
        0xc0 => "s<",
        0xd0 => "s<=",
        _ => return None,
    })
}
