//! Where the diagnostics of a document stand.

#![expect(
    clippy::expect_used,
    reason = "helpers of tests fail the test by panicking"
)]

use fairwater_document::diagnostic::{Diagnostics, Sink};
use fairwater_document::fields::Fields;
use fairwater_document::{quantity, tree};

/// The diagnostics of a document whose one key is `period`.
fn check(source: &str) -> Diagnostics {
    let sink = Sink::default();
    let root = tree::parse(source, &sink);
    if let Some(mut fields) = Fields::of("the file", &root, &sink) {
        fields.optional("period", quantity::duration);
        fields.finish();
    }
    sink.finish("host.toml", source)
        .expect_err("a wrong document")
}

#[test]
fn a_byte_order_mark_moves_no_place() {
    let source = "period = 7 # ms?\n";
    let (plain, marked) = (check(source), check(&format!("\u{feff}{source}")));
    assert_eq!(plain.render(false), marked.render(false));
    let place = plain.line_column(plain.iter().next().unwrap().span());
    assert_eq!(place, (1, 10));
}

#[test]
fn a_value_of_several_lines_shows_its_first() {
    let text = check("period = [\n  1,\n  2,\n]\n").render(false);
    assert!(
        text.contains("period = [") && !text.contains("1,"),
        "{text}"
    );
}

#[test]
fn a_very_long_line_is_shown_in_part() {
    let text = check(&format!("x = \"{}\"\n", "é".repeat(100_000))).render(false);
    assert!(text.contains("the file has no key `x`"));
    assert!(text.len() < 20_000, "{}", text.len());
}

#[test]
fn diagnostics_beyond_the_bound_are_counted() {
    let source: String = (0..73).map(|n| format!("key{n} = 1\n")).collect();
    let diagnostics = check(&source);
    assert_eq!(diagnostics.len(), 50);
    let text = diagnostics.render(false);
    assert!(text.contains("did you mean") || text.contains("it has `period`"));
    assert!(text.trim_end().ends_with("= help: 23 more are not shown"));
}
