//! A machine for generated eBPF (RFC 9669) that counts what it executes. The frame is all its memory,
//! from address 0 on.

use fairwater_exec::ebpf::Insn;

/// Runs the code on a frame to its end; how many instructions that took.
pub(crate) fn run(code: &[Insn], frame: &mut [u8]) -> usize {
    let (mut registers, mut at, mut executed) = ([0_u64; 11], 0_usize, 0);
    loop {
        let insn = code[at];
        executed += 1;
        at += 1;
        let (dst, src) = (usize::from(insn.regs & 15), usize::from(insn.regs >> 4));
        let immediate = i64::from(insn.imm).cast_unsigned();
        let operand = if insn.code & 8 == 0 {
            immediate
        } else {
            registers[src]
        };
        let operation = insn.code & 0xf0;
        let address = |base: u64| base.wrapping_add_signed(insn.off.into());
        match insn.code & 7 {
            // A 64-bit constant in two slots.
            0 => {
                let high = u64::from(code[at].imm.cast_unsigned());
                registers[dst] = high << 32 | u64::from(insn.imm.cast_unsigned());
                at += 1;
            }
            1 => registers[dst] = load(frame, address(registers[src]), insn.code),
            2 => store(frame, address(registers[dst]), insn.code, immediate),
            3 if insn.code & 0xe0 == 0xc0 => {
                let to = address(registers[dst]);
                let old = load(frame, to, insn.code);
                let new = compute(insn.imm as u8, old, registers[src]);
                store(frame, to, insn.code, new);
            }
            3 => store(frame, address(registers[dst]), insn.code, registers[src]),
            4 => {
                let (left, right) = (registers[dst] as u32, operand as u32);
                registers[dst] = compute(operation, left.into(), right.into()) & 0xffff_ffff;
            }
            7 => registers[dst] = compute(operation, registers[dst], operand),
            class => match operation {
                0x90 => return executed,
                0x80 => panic!("no helper is called"),
                0x00 if class == 6 => at = at.wrapping_add_signed(insn.imm as isize),
                _ => {
                    let holds = if class == 6 {
                        holds(
                            operation,
                            u64::from(registers[dst] as u32),
                            operand as u32 as u64,
                        )
                    } else {
                        holds(operation, registers[dst], operand)
                    };
                    if holds {
                        at = at.wrapping_add_signed(insn.off.into());
                    }
                }
            },
        }
    }
}

const fn size(code: u8) -> usize {
    match code & 0x18 {
        0x10 => 1,
        0x08 => 2,
        0x00 => 4,
        _ => 8,
    }
}

fn load(frame: &[u8], address: u64, code: u8) -> u64 {
    let mut word = [0; 8];
    let size = size(code);
    word[..size].copy_from_slice(&frame[address as usize..][..size]);
    u64::from_le_bytes(word)
}

fn store(frame: &mut [u8], address: u64, code: u8, value: u64) {
    let size = size(code);
    frame[address as usize..][..size].copy_from_slice(&value.to_le_bytes()[..size]);
}

/// 64-bit arithmetic, of whose operations generated code shifts to the right in 64 bits alone.
fn compute(operation: u8, left: u64, right: u64) -> u64 {
    match operation {
        0x00 => left.wrapping_add(right),
        0x10 => left.wrapping_sub(right),
        0x20 => left.wrapping_mul(right),
        0x30 => left.checked_div(right).unwrap_or(0),
        0x40 => left | right,
        0x50 => left & right,
        0x60 => left.wrapping_shl(right as u32),
        0x70 => left.wrapping_shr(right as u32),
        0x80 => left.wrapping_neg(),
        0x90 => left.checked_rem(right).unwrap_or(left),
        0xa0 => left ^ right,
        0xb0 => right,
        0xc0 => left
            .cast_signed()
            .wrapping_shr(right as u32)
            .cast_unsigned(),
        other => panic!("operation {other:#x}"),
    }
}

fn holds(operation: u8, left: u64, right: u64) -> bool {
    let signed = (left.cast_signed(), right.cast_signed());
    match operation {
        0x00 => true,
        0x10 => left == right,
        0x20 => left > right,
        0x30 => left >= right,
        0x40 => left & right != 0,
        0x50 => left != right,
        0x60 => signed.0 > signed.1,
        0x70 => signed.0 >= signed.1,
        0xa0 => left < right,
        0xb0 => left <= right,
        0xc0 => signed.0 < signed.1,
        0xd0 => signed.0 <= signed.1,
        other => panic!("condition {other:#x}"),
    }
}
