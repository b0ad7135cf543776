//! Whatever the source, compiling it ends in a program or in errors with places inside it.

use fairwater_lang::{Diagnostics, Severity, bounds, compile};
use proptest::prelude::*;

/// What must hold of any diagnostics, rendering included.
fn well_placed(diagnostics: &Diagnostics, severity: Severity, source: &str) {
    let mut last = 0;
    for diagnostic in diagnostics {
        assert_eq!(diagnostic.severity, severity);
        assert!(!diagnostic.message.is_empty());
        assert!(!diagnostic.labels.is_empty());
        assert!(diagnostic.span().start >= last);
        last = diagnostic.span().start;
        for label in &diagnostic.labels {
            let range = label.span.start..label.span.end;
            assert!(
                source.get(range).is_some(),
                "{label:?} is not within the source"
            );
        }
        let (line, column) = diagnostics.line_column(diagnostic.span());
        assert!(line >= 1 && column >= 1);
    }
    assert!(diagnostics.len() <= bounds::MAX_ERRORS);
    assert!(!diagnostics.to_string().contains('\u{1b}'));
}

fn compiles_or_explains(source: &str) {
    match compile("random.ccp", source) {
        Ok(compiled) => {
            well_placed(&compiled.warnings, Severity::Warning, source);
            assert!(!compiled.program.to_string().is_empty());
        }
        Err(errors) => {
            assert!(!errors.is_empty());
            well_placed(&errors, Severity::Error, source);
        }
    }
}

const TOKENS: [&str; 60] = [
    "(",
    "(",
    "(",
    "(",
    ")",
    ")",
    ")",
    ")",
    "def",
    "when",
    "volatile",
    "Report",
    "report",
    "reset",
    "fallthrough",
    ":=",
    "+",
    "-",
    "*",
    "/",
    "min",
    "wrapped_max",
    "<",
    ">=",
    "==",
    "!=",
    "!",
    "!if",
    "if",
    "ewma",
    "&&",
    "Or",
    "true",
    "false",
    "+infinity",
    "0",
    "1",
    "7",
    "1.25",
    "0.3",
    "18446744073709551616",
    "9x",
    "-3",
    "Report.a",
    "Report.b",
    "a",
    "b",
    "__c",
    "Cwnd",
    "Rate",
    "Micros",
    "Timer.micros",
    "Ack.now",
    "Ack.bytes_acked",
    "Flow.was_timeout",
    "# (",
    "\n",
    "\n(when",
    "é",
    ";",
];

fn tokens() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(TOKENS.to_vec()), 0..80)
        .prop_map(|tokens| tokens.join(" "))
}

/// A valid program from which a part is removed, doubled, or replaced by a token.
fn mutated() -> impl Strategy<Value = String> {
    let edits = prop::collection::vec(
        (
            any::<prop::sample::Index>(),
            0..12_usize,
            0..3_u8,
            0..TOKENS.len(),
        ),
        1..4,
    );
    (fairwater_lang::arbitrary::source(), edits).prop_map(|(mut source, edits)| {
        for (at, length, edit, token) in edits {
            let boundary = |at: usize| {
                (0..=at)
                    .rev()
                    .find(|i| source.is_char_boundary(*i))
                    .unwrap_or(0)
            };
            let start = boundary(at.index(source.len() + 1));
            let end = boundary((start + length).min(source.len()));
            let replacement = match edit {
                0 => String::new(),
                1 => source[start..end].repeat(2),
                _ => TOKENS[token].to_owned(),
            };
            source.replace_range(start..end, &replacement);
        }
        source
    })
}

proptest! {
    #[test]
    fn any_text(source in any::<String>()) {
        compiles_or_explains(&source);
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        compiles_or_explains(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_tokens(source in tokens()) {
        compiles_or_explains(&source);
    }

    #[test]
    fn any_mutation(source in mutated()) {
        compiles_or_explains(&source);
    }

    #[test]
    fn valid_programs_compile(source in fairwater_lang::arbitrary::source()) {
        if let Err(errors) = compile("valid.ccp", &source) {
            prop_assert!(false, "{errors}\n{source}");
        }
        compiles_or_explains(&source);
    }
}
