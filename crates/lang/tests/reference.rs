//! The language reference: its examples compile without a warning, its table of signals and its
//! bounds are those of the crate.

use fairwater_lang::{Signal, Type, bounds, compile};

const REFERENCE: &str = include_str!("../../../docs/language.md");

#[test]
fn examples_compile() {
    let mut examples = 0;
    for block in REFERENCE.split("\n```ccp\n").skip(1) {
        let Some((source, _)) = block.split_once("\n```\n") else {
            panic!("a block is not closed")
        };
        match compile("language.md", source) {
            Ok(compiled) => assert!(
                compiled.warnings.is_empty(),
                "{}\n{source}",
                compiled.warnings
            ),
            Err(errors) => panic!("{errors}\n{source}"),
        }
        examples += 1;
    }
    assert_eq!(examples, REFERENCE.matches("```ccp").count());
    assert!(examples >= 5);
}

#[test]
fn signals_are_listed() {
    for signal in Signal::ALL {
        let ty = if signal.ty() == Type::Bool {
            "boolean"
        } else {
            "number"
        };
        let row = format!("\n| `{}` | {ty} |", signal.name());
        assert!(REFERENCE.contains(&row), "{row}");
    }
}

#[test]
fn bounds_are_listed() {
    for (what, bound) in [
        ("source text", format!("{} MiB", bounds::MAX_SOURCE >> 20)),
        (
            "variables, and each `ewma` with a state of its own",
            bounds::MAX_VARIABLES.to_string(),
        ),
        ("a variable's name", format!("{} bytes", bounds::MAX_NAME)),
        (
            "levels of parentheses, levels of one expression",
            bounds::MAX_DEPTH.to_string(),
        ),
        (
            "statements and parts of expressions, together",
            bounds::MAX_NODES.to_string(),
        ),
    ] {
        let row = format!("\n| {what} | {bound} |");
        assert!(REFERENCE.contains(&row), "{row}");
    }
}
