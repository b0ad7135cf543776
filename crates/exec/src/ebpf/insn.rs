//! Instructions and their parts (RFC 9669 §3–5).

/// One 8-byte instruction slot, laid out as the kernel's `struct bpf_insn` on a little-endian
/// machine, so that a slice of them can be handed to `bpf(2)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Insn {
    /// Operation, source and class.
    pub code: u8,
    /// Destination register in the low four bits, source register in the high four.
    pub regs: u8,
    /// Jump displacement in slots, or memory offset in bytes.
    pub off: i16,
    /// Immediate operand.
    pub imm: i32,
}

impl Insn {
    /// An instruction of these parts.
    #[must_use]
    pub const fn new(code: u8, dst: Reg, src: u8, off: i16, imm: i32) -> Self {
        Self {
            code,
            regs: dst as u8 | src << 4,
            off,
            imm,
        }
    }
}

/// Instruction classes: the low three bits of the code (RFC 9669 §3.1).
pub(crate) mod class {
    pub(crate) const LD: u8 = 0;
    pub(crate) const LDX: u8 = 1;
    pub(crate) const ST: u8 = 2;
    pub(crate) const STX: u8 = 3;
    pub(crate) const ALU: u8 = 4;
    pub(crate) const JMP: u8 = 5;
    pub(crate) const JMP32: u8 = 6;
    pub(crate) const ALU64: u8 = 7;
}

/// The part of the code that is the class.
pub(crate) const CLASS_MASK: u8 = 0x07;
/// The part of the code that is the operation, of arithmetic and jumps.
pub(crate) const OPERATION_MASK: u8 = 0xf0;
/// The operand is a register, not the immediate.
pub(crate) const SRC_REG: u8 = 0x08;
/// Mode of a 64-bit immediate load.
pub(crate) const MODE_IMM: u8 = 0x00;
/// Mode of a regular load or store.
pub(crate) const MODE_MEM: u8 = 0x60;
/// Mode of an atomic operation; the immediate is the operation.
pub(crate) const MODE_ATOMIC: u8 = 0xc0;
/// Move, of class ALU and ALU64.
pub(crate) const MOV: u8 = 0xb0;
/// Negation, of class ALU and ALU64.
pub(crate) const NEG: u8 = 0x80;
/// Jump always; of class JMP32 the displacement is the immediate.
pub(crate) const JA: u8 = 0x00;
/// Call a helper by number.
pub(crate) const CALL: u8 = 0x80;
/// Return.
pub(crate) const EXIT: u8 = 0x90;
/// Source of a 64-bit immediate that is the descriptor of a map.
pub(crate) const PSEUDO_MAP_FD: u8 = 1;
/// Source of a 64-bit immediate that is the address of a map's first value.
pub(crate) const PSEUDO_MAP_VALUE: u8 = 2;

/// A register. `R0` is a call's result, `R1`–`R5` its arguments (all lost by the call), `R6`–`R9`
/// survive calls, `R10` is the top of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the type's documentation tells them apart")]
pub enum Reg {
    R0 = 0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// The second operand of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// A number, sign-extended to 64 bits.
    Imm(i32),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Self {
        Self::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(imm: i32) -> Self {
        Self::Imm(imm)
    }
}

/// Width of a load or store; loads extend with zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Size {
    /// One byte.
    U8 = 0x10,
    /// Two bytes.
    U16 = 0x08,
    /// Four bytes.
    U32 = 0x00,
    /// Eight bytes.
    U64 = 0x18,
}

/// Arithmetic. Division is unsigned; by zero it yields 0, and the remainder is the dividend
/// (RFC 9669 §4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Alu {
    /// Addition, wrapping.
    Add = 0x00,
    /// Subtraction, wrapping.
    Sub = 0x10,
    /// Multiplication, wrapping.
    Mul = 0x20,
    /// Unsigned division.
    Div = 0x30,
    /// Bitwise or.
    Or = 0x40,
    /// Bitwise and.
    And = 0x50,
    /// Shift left.
    Lsh = 0x60,
    /// Shift right, zeros enter.
    Rsh = 0x70,
    /// Unsigned remainder.
    Mod = 0x90,
    /// Bitwise exclusive or.
    Xor = 0xa0,
    /// Shift right, the sign enters.
    Arsh = 0xc0,
}

/// When a conditional jump is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Cond {
    /// `==`
    Eq = 0x10,
    /// `>`, unsigned.
    Gt = 0x20,
    /// `>=`, unsigned.
    Ge = 0x30,
    /// `&` is not 0.
    Set = 0x40,
    /// `!=`
    Ne = 0x50,
    /// `>`, signed.
    Sgt = 0x60,
    /// `>=`, signed.
    Sge = 0x70,
    /// `<`, unsigned.
    Lt = 0xa0,
    /// `<=`, unsigned.
    Le = 0xb0,
    /// `<`, signed.
    Slt = 0xc0,
    /// `<=`, signed.
    Sle = 0xd0,
}
