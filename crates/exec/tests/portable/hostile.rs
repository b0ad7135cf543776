//! What no compiler wrote.

use fairwater_exec::portable::{self, Error, InstructionError};
use fairwater_lang::{Signal, Signals, VarId, bounds};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::lockstep::Flow;
use crate::wire::*;

fn refused(bytes: &[u8]) -> Error {
    match portable::decode(bytes) {
        Err(error) => error,
        Ok(decoded) => panic!("{}", decoded.program),
    }
}

/// What is wrong with the one instruction of a body.
fn error(instruction: Instruction) -> InstructionError {
    let defined = [
        (DEF, report(0), report(0), immediate(0)),
        (DEF, control(3), control(3), immediate(0)),
    ];
    match refused(&always(&defined, &[instruction])) {
        Error::Instruction { at: 3, error } => error,
        other => panic!("{other}"),
    }
}

/// What one ACK of 5 bytes does to `Cwnd`.
fn cwnd_after(definitions: &[Instruction], instructions: &[Instruction]) -> u64 {
    let decoded = portable::decode(&always(definitions, instructions)).unwrap();
    let mut signals = Signals::default();
    signals[Signal::BytesAcked] = 5;
    Flow::new(&decoded.program).ack(&signals).cwnd
}

#[test]
fn counts_and_lengths() {
    assert_eq!(refused(&[]), Error::NoCounts);
    assert_eq!(refused(&[0; 7]), Error::NoCounts);
    let whole = always(&[], &[(BIND, CWND, CWND, immediate(1))]);
    assert!(portable::decode(&whole).is_ok());
    for end in 8..whole.len() {
        assert!(matches!(
            refused(&whole[..end]),
            Error::Length {
                events: 1,
                instructions: 2,
                ..
            }
        ));
    }
    for count in [3, u32::MAX] {
        for at in [0, 4] {
            let mut bytes = whole.clone();
            bytes[at..at + 4].copy_from_slice(&count.to_le_bytes());
            assert!(matches!(refused(&bytes), Error::Length { .. }));
        }
    }
    let longer = [&whole[..], &[0]].concat();
    assert!(matches!(refused(&longer), Error::Length { .. }));
}

#[test]
fn nothing_does_nothing() {
    let decoded = portable::decode(&[0; 8]).unwrap();
    let outcome = Flow::new(&decoded.program).ack(&Signals::default());
    assert_eq!((outcome.cwnd, outcome.report), (14480, None));
}

#[test]
fn spans() {
    let holds = (BIND, FLAG, FLAG, immediate(1));
    let set = (BIND, CWND, CWND, immediate(1));
    let program = |spans: &[[u32; 4]]| body(spans, &[holds, set, holds, set]);
    assert!(portable::decode(&program(&[[0, 1, 1, 1], [2, 1, 3, 1]])).is_ok());
    assert!(portable::decode(&program(&[[2, 1, 3, 1], [0, 1, 1, 1]])).is_ok());
    assert!(portable::decode(&program(&[[0, 1, 2, 0]])).is_ok());
    assert_eq!(refused(&program(&[[0, 1, 1, 4]])), Error::OutOfRange(0));
    assert_eq!(refused(&program(&[[0, 1, 4, 1]])), Error::OutOfRange(0));
    assert_eq!(
        refused(&program(&[[0, 1, u32::MAX, u32::MAX]])),
        Error::OutOfRange(0)
    );
    assert_eq!(
        refused(&program(&[[0, 1, 1, 1], [u32::MAX, 1, 3, 1]])),
        Error::OutOfRange(1)
    );
    assert_eq!(refused(&program(&[[0, 1, 0, 1]])), Error::Overlap(0));
    assert_eq!(
        refused(&program(&[[0, 1, 1, 3], [2, 1, 3, 1]])),
        Error::Overlap(1)
    );
    assert_eq!(refused(&program(&[[0, 0, 1, 1]])), Error::NoCondition(0));
    assert_eq!(refused(&program(&[[1, 1, 0, 1]])), Error::NoCondition(0));
}

#[test]
fn conditions() {
    let event = |condition: &[Instruction]| {
        let len = condition.len() as u32;
        let set = (BIND, CWND, CWND, immediate(1));
        let spans = [[0, len, len, 1]];
        portable::decode(&body(&spans, &[condition, &[set]].concat()))
    };
    let error = |condition: &[Instruction]| match event(condition).unwrap_err() {
        Error::Instruction { at: 0, error } => error,
        other => panic!("{other}"),
    };
    let holds = (BIND, FLAG, FLAG, immediate(1));
    assert!(
        event(&[
            (BIND, local(1), local(1), immediate(1)),
            (BIND, FLAG, FLAG, local(1))
        ])
        .is_ok()
    );
    assert_eq!(
        error(&[(BIND, CONTINUE, CONTINUE, immediate(1)), holds]),
        InstructionError::CommandInCondition
    );
    assert_eq!(
        error(&[(BIND, REPORT, REPORT, immediate(1)), holds]),
        InstructionError::CommandInCondition
    );
    assert_eq!(error(&[holds, holds]), InstructionError::EventFlag);
    let sometimes = (IF, FLAG, immediate(1), immediate(1));
    assert_eq!(event(&[sometimes]), Err(Error::NoCondition(0)));
}

#[test]
fn registers() {
    let bind = |right| error((BIND, CWND, CWND, right));
    let write = |result| error((BIND, result, result, immediate(1)));
    assert_eq!(error((15, CWND, CWND, CWND)), InstructionError::Opcode(15));
    assert_eq!(bind((9, 0)), InstructionError::RegisterType(9));
    assert_eq!(
        error((BIND, CWND, (255, 0), CWND)),
        InstructionError::RegisterType(255)
    );
    assert_eq!(bind(signal(15)), InstructionError::Register(15));
    assert_eq!(bind((2, 6)), InstructionError::Register(6));
    assert_eq!(write((2, 6)), InstructionError::Register(6));
    assert_eq!(bind(local(8)), InstructionError::Register(8));
    assert_eq!(bind(tmp(8)), InstructionError::Register(8));
    assert_eq!(write(tmp(u32::MAX)), InstructionError::Register(u32::MAX));
    assert_eq!(bind(report(1)), InstructionError::Undefined(1));
    assert_eq!(
        write(report(u32::MAX)),
        InstructionError::Undefined(u32::MAX)
    );
    // The message that switches to the program may set any of those that libccp has.
    let last = (BIND, CWND, CWND, control(109));
    assert!(portable::decode(&always(&[], &[last])).is_ok());
    assert_eq!(bind(control(110)), InstructionError::Undefined(110));
    assert_eq!(
        write(control(1 << 16 | 3)),
        InstructionError::Undefined(1 << 16 | 3)
    );
    assert_eq!(write(immediate(1)), InstructionError::ReadOnly);
    assert_eq!(write(signal(0)), InstructionError::ReadOnly);
    for hidden in [FLAG, CONTINUE, REPORT] {
        assert_eq!(bind(hidden), InstructionError::WriteOnly);
    }
    assert_eq!(write(FLAG), InstructionError::EventFlag);
    assert_eq!(
        error((BIND, REPORT, REPORT, immediate(0))),
        InstructionError::Command
    );
    assert_eq!(
        error((BIND, CONTINUE, CONTINUE, signal(0))),
        InstructionError::Command
    );
    assert_eq!(
        error((ADD, REPORT, immediate(1), immediate(1))),
        InstructionError::Command
    );
    assert_eq!(bind(tmp(0)), InstructionError::Unwritten(0));
    assert_eq!(
        error((IF, tmp(3), immediate(1), immediate(1))),
        InstructionError::Unwritten(3)
    );
    assert_eq!(
        error((EWMA, tmp(3), immediate(1), immediate(1))),
        InstructionError::Unwritten(3)
    );
    assert_eq!(
        error((DEF, report(0), report(0), immediate(0))),
        InstructionError::Misplaced
    );
}

#[test]
fn definitions() {
    let defined = |definitions: &[Instruction]| portable::decode(&always(definitions, &[]));
    let error = |definitions: &[Instruction]| match defined(definitions).unwrap_err() {
        Error::Instruction { error, .. } => error,
        other => panic!("{other}"),
    };
    let def = |register, value| (DEF, register, register, immediate(value));
    let decoded = defined(&[
        def((8, 5), 7),
        def((5, 0), u32::MAX),
        def(control(109), 0x3fff_ffff),
    ])
    .unwrap();
    let found: Vec<_> = decoded
        .program
        .variables
        .iter()
        .map(|v| (v.name.as_str(), v.volatile, v.init))
        .collect();
    assert_eq!(
        found,
        [
            ("r0", true, u64::MAX),
            ("c5", true, 7),
            ("c109", false, u64::MAX)
        ]
    );
    let controls: Vec<_> = decoded.controls.into_iter().collect();
    assert_eq!(controls, [(5, VarId(1)), (109, VarId(2))]);
    assert_eq!(
        error(&[def(control(110), 0)]),
        InstructionError::Register(110)
    );
    assert_eq!(
        error(&[def(control(0), 0), def((8, 0), 0)]),
        InstructionError::Redefined(0)
    );
    assert_eq!(error(&[def(CWND, 0)]), InstructionError::Definition);
    assert_eq!(error(&[def(tmp(0), 0)]), InstructionError::Definition);
    assert_eq!(
        error(&[(DEF, report(0), report(0), signal(0))]),
        InstructionError::Definition
    );
    assert_eq!(
        defined(&[def(report(0), 0), def(report(2), 0)]),
        Err(Error::ReportGap(1))
    );
    let all: Vec<_> = (0..110)
        .flat_map(|i| [def(report(i), 0), def(control(i), 0)])
        .collect();
    assert_eq!(defined(&all).unwrap().program.variables.len(), 220);
}

#[test]
fn what_a_write_overtakes_is_kept() {
    let acked = signal(0);
    // tmp 0 is read after what it was made of is written, tmp 1 twice.
    let after = cwnd_after(
        &[(DEF, control(0), control(0), immediate(10))],
        &[
            (ADD, tmp(0), control(0), acked),
            (BIND, control(0), control(0), immediate(100)),
            (MUL, tmp(1), control(0), tmp(0)),
            (ADD, tmp(2), tmp(1), tmp(1)),
            (BIND, CWND, CWND, tmp(2)),
        ],
    );
    assert_eq!(after, 2 * 100 * 15);
    // Two registers exchange what they hold.
    let after = cwnd_after(
        &[],
        &[
            (ADD, tmp(0), acked, immediate(1)),
            (ADD, tmp(1), acked, immediate(2)),
            (BIND, tmp(2), tmp(2), tmp(0)),
            (BIND, tmp(0), tmp(0), tmp(1)),
            (BIND, tmp(1), tmp(1), tmp(2)),
            (BIND, CWND, CWND, tmp(0)),
            (SUB, CWND, CWND, tmp(1)),
        ],
    );
    assert_eq!(after, 1);
    // Averages and conditional writes of temporary and local registers.
    let after = cwnd_after(
        &[],
        &[
            (ADD, tmp(0), acked, immediate(95)),
            (EWMA, tmp(0), immediate(5), immediate(200)),
            (IF, tmp(0), acked, immediate(7)),
            (BIND, local(0), local(0), immediate(30)),
            (EWMA, local(0), immediate(5), tmp(0)),
            (IF, local(0), immediate(0), immediate(1)),
            (BIND, CWND, CWND, local(0)),
        ],
    );
    assert_eq!(after, (5 * 30 + 5 * 7) / 10);
}

#[test]
fn conditions_may_write() {
    // The first event's condition doubles the window, and does not hold; the second's adds 1 and
    // holds; so does the third's, which is tried because the second falls through; the last is not.
    let doubles = [(ADD, CWND, CWND, CWND), (BIND, FLAG, FLAG, immediate(0))];
    let adds = [(ADD, CWND, CWND, immediate(1)), (BIND, FLAG, FLAG, CWND)];
    let falls = [(IF, CONTINUE, signal(0), immediate(1))];
    let events = [
        &doubles[..],
        &falls,
        &adds,
        &falls,
        &adds,
        &[],
        &doubles,
        &falls,
    ];
    let run = |acked: u64| {
        let (mut spans, mut instructions) = (Vec::new(), Vec::new());
        for event in events.chunks(2) {
            let start = instructions.len() as u32;
            let (condition, body) = (event[0].len() as u32, event[1].len() as u32);
            spans.push([start, condition, start + condition, body]);
            instructions.extend(event.concat());
        }
        let decoded = portable::decode(&body(&spans, &instructions)).unwrap();
        let mut signals = Signals::default();
        signals[Signal::BytesAcked] = acked;
        Flow::new(&decoded.program).ack(&signals).cwnd
    };
    assert_eq!(run(0), 14480 * 2 + 1);
    assert_eq!(run(1), (14480 * 2 + 2) * 2);
}

#[test]
fn long_programs_are_bounded() {
    let chain = |length: usize| {
        let mut instructions = vec![(ADD, tmp(0), signal(0), signal(0))];
        instructions.resize(length, (ADD, tmp(0), tmp(0), signal(0)));
        instructions.push((BIND, CWND, CWND, tmp(0)));
        always(&[], &instructions)
    };
    assert!(portable::decode(&chain(250)).is_ok());
    assert!(portable::decode(&chain(1000)).is_ok());
    let doubling = |length: usize| {
        let mut instructions = vec![(ADD, tmp(0), signal(0), signal(0))];
        instructions.resize(length, (ADD, tmp(0), tmp(0), tmp(0)));
        instructions.push((BIND, CWND, CWND, tmp(0)));
        always(&[], &instructions)
    };
    let decoded = portable::decode(&doubling(250)).unwrap();
    assert!(decoded.program.variables.len() <= bounds::MAX_VARIABLES);
    assert!(matches!(refused(&doubling(4000)), Error::Invalid(_)));
    assert!(matches!(refused(&chain(4000)), Error::Invalid(_)));
}

fn instructions() -> impl Strategy<Value = Vec<Instruction>> {
    let register = prop_oneof![
        2 => (0..10_u8, 0..9_u32),
        3 => (Just(7), 0..3_u32),
        1 => select(vec![immediate(0), immediate(1), immediate(u32::MAX), CWND, signal(0), local(0), report(0), control(3)]),
    ];
    let result = prop_oneof![
        3 => (Just(7), 0..3_u32),
        2 => select(vec![CWND, local(0), report(0), control(3), REPORT, CONTINUE]),
    ];
    vec((0..15_u8, result, register.clone(), register), 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_instructions_are_refused_or_run(instructions in instructions(), at in 0..31_u32) {
        let defined = [(DEF, report(0), report(0), immediate(0)), (DEF, control(3), control(3), immediate(0))];
        let condition = [(BIND, FLAG, FLAG, immediate(1))];
        let all = [&defined[..], &condition, &instructions].concat();
        let rest = all.len() as u32 - 3;
        let at = at.min(rest);
        let spans = [[2, 1, 3, at]];
        for spans in [&spans[..], &[[2, 1, 3 + at, rest - at]], &[[2, at + 1, 3 + at, rest - at]]] {
            if let Ok(decoded) = portable::decode(&body(spans, &all)) {
                prop_assert_eq!(decoded.program.verify(), Ok(()));
                Flow::new(&decoded.program).ack(&Signals::from_array([3; Signal::COUNT]));
            }
        }
    }

    #[test]
    fn random_bytes_are_refused_or_run(bytes in vec(0..17_u8, 0..200), events in 0..3_u32) {
        let bytes = &bytes[..bytes.len() / 16 * 16];
        let records = bytes.len() as u32 / 16;
        let events = events.min(records);
        let whole = [&events.to_le_bytes()[..], &(records - events).to_le_bytes(), bytes].concat();
        for bytes in [bytes, &whole] {
            if let Ok(decoded) = portable::decode(bytes) {
                prop_assert_eq!(decoded.program.verify(), Ok(()));
                Flow::new(&decoded.program).ack(&Signals::from_array([3; Signal::COUNT]));
            }
        }
    }
}
