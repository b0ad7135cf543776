//! An assembler: instructions in order, jumps to labels.

use super::insn::{
    Alu, CALL, Cond, EXIT, Insn, JA, MODE_ATOMIC, MODE_IMM, MODE_MEM, MOV, NEG, Operand,
    PSEUDO_MAP_FD, PSEUDO_MAP_VALUE, Reg, SRC_REG, Size, class,
};
use super::layout;
use super::walk::Walk;

/// The most instructions that the kernel takes in one program (`BPF_MAXINSNS` for the
/// privileged, `BPF_COMPLEXITY_LIMIT_INSNS`).
pub const MAX_INSNS: usize = 1_000_000;

/// A place in the code that jumps can name before it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label(usize);

/// Why the code could not be finished.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AsmError {
    /// A jump names a label that was never bound: a mistake of the code's author.
    #[error("instruction {at} jumps to a label that is bound nowhere")]
    Unbound {
        /// Index of the jump.
        at: usize,
    },
    /// The code has more instructions than the kernel takes.
    #[error("the program takes {len} eBPF instructions; the kernel's bound is {MAX_INSNS}")]
    TooLong {
        /// How many there are.
        len: usize,
    },
}

/// Code under construction.
#[derive(Debug, Clone, Default)]
pub struct Asm {
    insns: Vec<Insn>,
    jumps: Vec<(usize, Label)>,
    bound: Vec<Option<usize>>,
    walk: Walk,
}

impl Asm {
    /// No code yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A new label, to be [bound](Self::bind) once.
    pub fn label(&mut self) -> Label {
        self.bound.push(None);
        Label(self.bound.len() - 1)
    }

    /// Binds the label, one of this assembler's, to the next instruction.
    pub fn bind(&mut self, label: Label) {
        if let Some(bound) = self.bound.get_mut(label.0) {
            *bound = Some(self.insns.len());
        }
    }

    /// Binds the label where paths meet again and no register differs that is of use later.
    ///
    /// It means what [`bind`](Self::bind) means, but may add a jump to the next instruction, here
    /// or before the next jump, so that the verifier walks what follows only once.
    pub fn meet(&mut self, label: Label) {
        let jumped_to = self.walk.meet();
        self.jump_to_next(jumped_to);
        self.bind(label);
    }

    fn jump_to_next(&mut self, wanted: bool) {
        if wanted {
            self.insns
                .push(Insn::new(class::JMP | JA, Reg::R0, 0, 0, 0));
        }
    }

    /// Appends one instruction as it is.
    pub fn raw(&mut self, insn: Insn) {
        let jumped_to = self.walk.instruction();
        self.jump_to_next(jumped_to);
        self.insns.push(insn);
    }

    /// Appends a jump to the label.
    fn jump_by(&mut self, insn: Insn, to: Label) {
        let jumped_to = self.walk.jump();
        self.jump_to_next(jumped_to);
        self.jumps.push((self.insns.len(), to));
        self.insns.push(insn);
    }

    /// `dst = src`, 64 bits; an immediate is sign-extended.
    pub fn mov(&mut self, dst: Reg, src: impl Into<Operand>) {
        self.raw(operation(class::ALU64 | MOV, dst, src.into()));
    }

    /// `dst = value`, in the shortest form.
    pub fn constant(&mut self, dst: Reg, value: u64) {
        match i32::try_from(value.cast_signed()) {
            Ok(imm) => self.mov(dst, imm),
            Err(_) => self.wide(dst, 0, value),
        }
    }

    /// `dst` = the map of this descriptor, as helpers take it.
    pub fn map_fd(&mut self, dst: Reg, fd: i32) {
        self.wide(dst, PSEUDO_MAP_FD, u64::from(fd.cast_unsigned()));
    }

    /// `dst` = the address of byte `offset` of the only value of an array map (Linux ≥ 5.2).
    pub fn map_value(&mut self, dst: Reg, fd: i32, offset: u32) {
        let both = u64::from(offset) << 32 | u64::from(fd.cast_unsigned());
        self.wide(dst, PSEUDO_MAP_VALUE, both);
    }

    /// `dst op= src`, 64 bits; an immediate is sign-extended.
    pub fn alu(&mut self, op: Alu, dst: Reg, src: impl Into<Operand>) {
        self.raw(operation(class::ALU64 | op as u8, dst, src.into()));
    }

    /// `dst op= src` on the low 32 bits; the high 32 become 0.
    pub fn alu32(&mut self, op: Alu, dst: Reg, src: impl Into<Operand>) {
        self.raw(operation(class::ALU | op as u8, dst, src.into()));
    }

    /// `dst = *(size *)(base + off)`, extended with zeros.
    pub fn load(&mut self, size: Size, dst: Reg, base: Reg, off: i16) {
        let code = class::LDX | MODE_MEM | size as u8;
        self.raw(Insn::new(code, dst, base as u8, off, 0));
    }

    /// `dst = -dst`, 64 bits.
    pub fn negate(&mut self, dst: Reg) {
        self.raw(Insn::new(class::ALU64 | NEG, dst, 0, 0, 0));
    }

    /// `*(size *)(base + off) = src`; an immediate is sign-extended.
    pub fn store(&mut self, size: Size, base: Reg, off: i16, src: impl Into<Operand>) {
        let code = MODE_MEM | size as u8;
        self.raw(match src.into() {
            Operand::Reg(src) => Insn::new(class::STX | code, base, src as u8, off, 0),
            Operand::Imm(imm) => Insn::new(class::ST | code, base, 0, off, imm),
        });
    }

    /// `*(size *)(base + off) op= src`, atomically. `size` is 4 or 8 bytes; `op` is `Add`,
    /// `Or`, `And` or `Xor`.
    pub fn atomic(&mut self, op: Alu, size: Size, base: Reg, off: i16, src: Reg) {
        let code = class::STX | MODE_ATOMIC | size as u8;
        self.raw(Insn::new(code, base, src as u8, off, i32::from(op as u8)));
    }

    /// Goes to the label.
    pub fn jump(&mut self, to: Label) {
        self.jump_by(Insn::new(class::JMP | JA, Reg::R0, 0, 0, 0), to);
    }

    /// Goes to the label if `left cond right` holds on 64 bits.
    pub fn jump_if(&mut self, cond: Cond, left: Reg, right: impl Into<Operand>, to: Label) {
        self.jump_by(operation(class::JMP | cond as u8, left, right.into()), to);
    }

    /// Goes to the label if `left cond right` holds on the low 32 bits.
    pub fn jump_if32(&mut self, cond: Cond, left: Reg, right: impl Into<Operand>, to: Label) {
        self.jump_by(operation(class::JMP32 | cond as u8, left, right.into()), to);
    }

    /// Calls the helper of this number (`BPF_FUNC_*`): arguments in `R1`–`R5`, which are lost,
    /// result in `R0`.
    pub fn call(&mut self, helper: i32) {
        self.raw(Insn::new(class::JMP | CALL, Reg::R0, 0, 0, helper));
    }

    /// Returns `R0`.
    pub fn exit(&mut self) {
        self.raw(Insn::new(class::JMP | EXIT, Reg::R0, 0, 0, 0));
    }

    /// Resolves the jumps, and leaves out what cannot be reached: the kernel refuses such code.
    ///
    /// A jump whose displacement does not fit 16 bits goes by a 32-bit one (Linux ≥ 6.6).
    ///
    /// # Errors
    /// When a jump's label is bound nowhere or the code is longer than [`MAX_INSNS`].
    pub fn finish(self) -> Result<Vec<Insn>, AsmError> {
        let mut targets = vec![None; self.insns.len()];
        for &(at, Label(label)) in &self.jumps {
            let target = self.bound.get(label).copied().flatten();
            targets[at] = Some(target.ok_or(AsmError::Unbound { at })?);
        }
        let code = layout::lay_out(&self.insns, &targets);
        match code.len() {
            len if len > MAX_INSNS => Err(AsmError::TooLong { len }),
            _ => Ok(code),
        }
    }

    fn wide(&mut self, dst: Reg, src: u8, value: u64) {
        let code = class::LD | MODE_IMM | Size::U64 as u8;
        self.raw(Insn::new(code, dst, src, 0, value as u32 as i32));
        let high = (value >> 32) as u32 as i32;
        self.insns.push(Insn {
            imm: high,
            ..Insn::default()
        });
    }
}

const fn operation(code: u8, dst: Reg, src: Operand) -> Insn {
    match src {
        Operand::Reg(src) => Insn::new(code | SRC_REG, dst, src as u8, 0, 0),
        Operand::Imm(imm) => Insn::new(code, dst, 0, 0, imm),
    }
}
