//! The binary form of programs: it takes every program there and back, and whatever else arrives
//! is refused.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail by panicking"
)]

use std::path::Path;

use fairwater_lang::binary::{self, Error, VERSION};
use fairwater_lang::{Invalid, InvalidName, Program, bounds, compile};
use proptest::prelude::*;

fn program(source: &str) -> Program {
    compile("binary.ccp", source)
        .unwrap_or_else(|errors| panic!("{errors}"))
        .program
}

fn golden() -> Vec<Program> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pass");
    let files = std::fs::read_dir(folder).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let sources = files.filter(|path| path.extension().is_some_and(|e| e == "ccp"));
    let programs: Vec<_> = sources
        .map(|path| program(&std::fs::read_to_string(path).unwrap()))
        .collect();
    assert!(programs.len() > 10);
    programs
}

/// Bytes are refused, or are the one form of a program that verifies.
fn judged(bytes: &[u8]) {
    if let Ok(program) = binary::decode(bytes) {
        assert_eq!(program.verify(), Ok(()));
        assert_eq!(binary::encode(&program), bytes);
    }
}

#[test]
fn golden_programs_come_back() {
    for program in golden() {
        let bytes = binary::encode(&program);
        assert_eq!(binary::decode(&bytes), Ok(program));
    }
}

#[test]
fn a_program_is_no_longer_than_its_bytes_say() {
    for program in golden() {
        let mut bytes = binary::encode(&program);
        for end in 0..bytes.len() {
            assert!(binary::decode(&bytes[..end]).is_err(), "{end}");
        }
        bytes.push(0);
        assert_eq!(binary::decode(&bytes), Err(Error::Trailing(1)));
    }
}

#[test]
fn one_wrong_byte_is_refused_or_makes_another_program() {
    for program in golden() {
        let bytes = binary::encode(&program);
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            for byte in 0..=u8::MAX {
                bytes[at] = byte;
                judged(&bytes);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn random_programs_come_back(source in fairwater_lang::arbitrary::source()) {
        let program = program(&source);
        prop_assert_eq!(program.verify(), Ok(()));
        let bytes = binary::encode(&program);
        prop_assert_eq!(binary::decode(&bytes), Ok(program));
    }

    #[test]
    fn several_wrong_bytes_are_refused_or_make_another_program(
        source in fairwater_lang::arbitrary::source(),
        wrong in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = binary::encode(&program(&source));
        for (at, byte) in wrong {
            *at.get_mut(&mut bytes) = byte;
        }
        judged(&bytes);
    }

    #[test]
    fn random_bytes_are_judged(bytes in prop::collection::vec(0..48_u8, 0..200)) {
        judged(&bytes);
        judged(&[&[VERSION][..], &bytes].concat());
    }
}

/// The bytes of a program of one event: no variables, no prelude, a condition and a body.
fn event(condition: &[u8], body: &[u8]) -> Vec<u8> {
    [&[VERSION, 0, 1, 0], condition, body].concat()
}

const TRUE: u8 = 1;
const NOT: u8 = 12;
const WHEN: u8 = 2;

#[test]
fn what_is_wrong_is_named() {
    let refused = |bytes: &[u8]| binary::decode(bytes).unwrap_err();
    assert_eq!(refused(&[]), Error::Truncated);
    assert_eq!(refused(&[9, 0, 0]), Error::Version(9));
    assert_eq!(refused(&[VERSION, 0, 0]), Invalid::NoEvent.into());
    assert_eq!(
        refused(&event(&[200], &[0])),
        Error::Tag { at: 4, tag: 200 }
    );
    assert_eq!(refused(&event(&[TRUE], &[0x80, 0])), Error::Number(7));
    let many = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    assert_eq!(refused(&event(&[TRUE], &many)), Error::Truncated);
    let more = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 3];
    assert_eq!(refused(&event(&[TRUE], &more)), Error::Number(15));
    let name = [&[VERSION, 1, 1, 1, 0xff, 0][..], &[1, 0, TRUE, 0]].concat();
    assert_eq!(refused(&name), Error::Text(5));
    let name = [VERSION, 1, 1, 65];
    let long = Invalid::Name(0, InvalidName::TooLong);
    assert_eq!(refused(&name), long.into());
    let variables = [VERSION, 0x81, 4];
    assert_eq!(refused(&variables), Invalid::TooManyVariables(513).into());
}

#[test]
fn depth_is_bounded() {
    let expression = |levels: usize| {
        let condition = [vec![NOT; levels - 1], vec![TRUE]].concat();
        binary::decode(&event(&condition, &[0]))
    };
    assert!(expression(bounds::MAX_DEPTH).is_ok());
    assert_eq!(expression(bounds::MAX_DEPTH + 1), Err(Error::TooDeep));
    assert_eq!(expression(1_000_000), Err(Error::TooDeep));
    let statements = |levels: usize| {
        let body = [[1, WHEN, TRUE].repeat(levels - 1), vec![0]].concat();
        binary::decode(&event(&[TRUE], &body))
    };
    assert!(statements(bounds::MAX_DEPTH).is_ok());
    assert_eq!(statements(bounds::MAX_DEPTH + 1), Err(Error::TooDeep));
    assert_eq!(statements(1_000_000), Err(Error::TooDeep));
}

#[test]
fn size_is_bounded() {
    // The event and its condition are two nodes.
    let reports = |count: usize| {
        let length = [count as u8 | 0x80, (count >> 7) as u8];
        binary::decode(&event(&[TRUE], &[&length[..], &vec![0; count]].concat()))
    };
    assert!(reports(bounds::MAX_NODES - 2).is_ok());
    assert_eq!(reports(bounds::MAX_NODES - 1), Err(Error::TooLarge));
}
