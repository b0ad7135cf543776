//! The generated code as text, and what cannot be generated.

use fairwater_exec::ebpf::asm::{Asm, AsmError};
use fairwater_exec::ebpf::{Alu, Cond, GenerateError, Host, Operand, Reg, Size, generate, listing};
use fairwater_exec::frame::FrameLayout;
use fairwater_lang::{Program, compile};

/// Calls made-up helpers, so that its pieces are easy to find.
struct Shown;

impl Host for Shown {
    fn enter(&self, asm: &mut Asm) {
        asm.map_value(Reg::R6, 7, 0);
    }
    fn apply_cwnd(&self, asm: &mut Asm) {
        asm.call(1001);
    }
    fn apply_rate(&self, asm: &mut Asm) {
        asm.call(1002);
    }
    fn report(&self, asm: &mut Asm, len: u32) {
        asm.mov(Reg::R3, len as i32);
        asm.call(1003);
    }
    fn fault(&self, asm: &mut Asm) {
        asm.call(1004);
    }
    fn leave(&self, asm: &mut Asm) {
        asm.mov(Reg::R0, 0);
        asm.exit();
    }
}

fn program(source: &str) -> Program {
    compile("test.ccp", source)
        .unwrap_or_else(|errors| panic!("{}", errors.render(false)))
        .program
}

#[test]
fn every_kind_of_instruction_as_text() {
    let mut asm = Asm::new();
    let (back, end) = (asm.label(), asm.label());
    asm.bind(back);
    asm.mov(Reg::R1, -5);
    asm.mov(Reg::R2, Reg::R1);
    asm.constant(Reg::R3, 0x1234_5678_9abc_def0);
    asm.map_fd(Reg::R4, 9);
    asm.map_value(Reg::R5, 9, 64);
    let operations = [
        Alu::Add,
        Alu::Sub,
        Alu::Mul,
        Alu::Div,
        Alu::Or,
        Alu::And,
        Alu::Lsh,
        Alu::Rsh,
        Alu::Mod,
        Alu::Xor,
        Alu::Arsh,
    ];
    for op in operations {
        asm.alu(op, Reg::R0, Reg::R9);
        asm.alu32(op, Reg::R0, 3);
    }
    asm.negate(Reg::R0);
    for size in [Size::U8, Size::U16, Size::U32, Size::U64] {
        asm.load(size, Reg::R1, Reg::R6, 8);
        asm.store(size, Reg::R10, -8, Reg::R1);
        asm.store(size, Reg::R10, -16, -1);
    }
    asm.atomic(Alu::Or, Size::U32, Reg::R6, 164, Reg::R1);
    asm.atomic(Alu::Add, Size::U64, Reg::R6, 168, Reg::R1);
    let conditions = [
        Cond::Eq,
        Cond::Gt,
        Cond::Ge,
        Cond::Set,
        Cond::Ne,
        Cond::Sgt,
        Cond::Sge,
        Cond::Lt,
        Cond::Le,
        Cond::Slt,
        Cond::Sle,
    ];
    for cond in conditions {
        asm.jump_if(cond, Reg::R1, Reg::R2, end);
        asm.jump_if32(cond, Reg::R1, 7, back);
    }
    asm.call(2);
    asm.jump(back);
    asm.bind(end);
    asm.exit();
    insta::assert_snapshot!(listing(&asm.finish().unwrap()));
}

#[test]
fn what_cannot_be_reached_is_left_out() {
    let mut asm = Asm::new();
    let (over, end) = (asm.label(), asm.label());
    asm.mov(Reg::R0, 1);
    asm.jump(over);
    asm.mov(Reg::R0, 2);
    asm.jump_if(Cond::Eq, Reg::R0, 2, end);
    asm.bind(over);
    asm.bind(end);
    asm.exit();
    assert_eq!(
        listing(&asm.finish().unwrap()),
        "    0: r0 = 1\n    1: exit\n"
    );
}

#[test]
fn jumps_beyond_16_bits_go_by_longer_ones() {
    let far = 40_000;
    let mut asm = Asm::new();
    let (start, end) = (asm.label(), asm.label());
    asm.bind(start);
    asm.jump_if(Cond::Eq, Reg::R1, 0, end);
    for _ in 0..far {
        asm.alu(Alu::Add, Reg::R1, Operand::Imm(1));
    }
    asm.jump_if(Cond::Ne, Reg::R1, Reg::R2, start);
    asm.bind(end);
    asm.exit();
    let text = listing(&asm.finish().unwrap());
    let lines: Vec<_> = text.lines().map(str::trim_start).collect();
    assert_eq!(
        lines[..3],
        ["0: if r1 == 0 goto 2", "1: goto 3", "2: gotol 40006"],
    );
    assert_eq!(
        lines[far + 3..],
        [
            "40003: if r1 != r2 goto 40005",
            "40004: goto 40006",
            "40005: gotol 0",
            "40006: exit",
        ],
    );
}

#[test]
fn a_label_that_is_bound_nowhere_is_an_error() {
    let mut asm = Asm::new();
    let nowhere = asm.label();
    asm.mov(Reg::R0, 0);
    asm.jump(nowhere);
    asm.exit();
    assert_eq!(asm.finish(), Err(AsmError::Unbound { at: 1 }));
}

#[test]
fn a_program_that_does_not_fit_its_frame_is_refused() {
    let program = program(&format!(
        "(def (Report{})) (when true (report))",
        (0..20).map(|i| format!(" (r{i} 0)")).collect::<String>(),
    ));
    let generated = generate(&program, FrameLayout::new(16), &Shown);
    let error = GenerateError::TooManyVariables {
        needed: 20,
        capacity: 16,
    };
    assert_eq!(generated.unwrap_err(), error);
    assert_eq!(
        error.to_string(),
        "the program has 20 variables; this datapath's flows have room for 16"
    );
    let huge = generate(&program, FrameLayout::new(4000), &Shown);
    assert!(matches!(huge, Err(GenerateError::FrameTooLarge { .. })));
}
