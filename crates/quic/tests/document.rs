//! `docs/quic.md` shows what compiles and declares what the code declares.

use fairwater_lang::Signal;
use fairwater_quic::Stack;

const DOCUMENT: &str = include_str!("../../../docs/quic.md");
const SOURCE: &str = include_str!("../src/lib.rs");

/// The doc tests of `src/lib.rs` compile each line.
#[test]
fn each_line_of_rust_is_a_doc_test() {
    let blocks = DOCUMENT.split("```rust,ignore\n").skip(1);
    let lines = blocks.flat_map(|block| block.split("```").next().unwrap().lines());
    let mut count = 0;
    for line in lines {
        let tested = SOURCE.lines().any(|source| {
            let documentation = source.strip_prefix("//! ").or(source.strip_prefix("/// "));
            documentation == Some(line)
        });
        assert!(tested, "no doc test has: {line}");
        count += 1;
    }
    assert_eq!(count, 6);
}

#[test]
fn the_table_of_signals_is_what_each_stack_declares() {
    let stacks = [Stack::Noq, Stack::Quinn, Stack::S2n];
    for signal in Signal::ALL {
        let row = DOCUMENT
            .lines()
            .find(|line| line.starts_with(&format!("| `{}` |", signal.name())))
            .unwrap();
        let cells: Vec<_> = row.split('|').skip(2).map(str::trim).collect();
        for (stack, cell) in stacks.iter().zip(cells) {
            let declared = stack.signals().of(signal).name();
            assert_eq!(cell, declared, "{stack} {}", signal.name());
        }
    }
}
