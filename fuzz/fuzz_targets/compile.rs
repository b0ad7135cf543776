//! Whatever the source, compiling it ends in a program or in errors with places inside it.

#![no_main]

use fairwater_lang::{Diagnostics, compile};
use libfuzzer_sys::fuzz_target;

fn well_placed(diagnostics: &Diagnostics, source: &str) {
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    for label in diagnostics.iter().flat_map(|d| &d.labels) {
        assert!(
            source.get(label.span.start..label.span.end).is_some(),
            "{label:?}"
        );
    }
    let _ = diagnostics.to_string();
}

fuzz_target!(|source: &str| {
    match compile("fuzz.ccp", source) {
        Ok(compiled) => {
            well_placed(&compiled.warnings, source);
            assert!(!compiled.program.to_string().is_empty());
        }
        Err(errors) => {
            assert!(!errors.is_empty());
            well_placed(&errors, source);
        }
    }
});
