//! Golden files: each `pass/*.ccp` compiles to the typed program and warnings beside it, each
//! `fail/*.ccp` to the diagnostics beside it. A new `.ccp` file is a new test; run with
//! `UPDATE_GOLDEN=1` to write what is expected of it, and read that before it is committed.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::path::{Path, PathBuf};

use fairwater_lang::compile;

fn programs(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(folder);
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "ccp"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// Compares with the golden file, or writes it; yields what to complain about.
fn compare(program: &Path, extension: &str, actual: &str) -> Option<String> {
    let golden = program.with_extension(extension);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(golden, actual).unwrap();
        return None;
    }
    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    let differs = expected != actual;
    differs.then(|| {
        format!(
            "{}\n--- expected\n{expected}\n--- actual\n{actual}",
            golden.display()
        )
    })
}

fn check(folder: &str, extension: &str, render: fn(&str, &str) -> Result<String, String>) {
    let mut complaints = Vec::new();
    for program in programs(folder) {
        let source = std::fs::read_to_string(&program).unwrap();
        let name = program.file_name().unwrap().to_str().unwrap();
        match render(name, &source) {
            Ok(actual) => complaints.extend(compare(&program, extension, &actual)),
            Err(complaint) => complaints.push(complaint),
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn what_passes_is_typed() {
    check("pass", "typed", |name, source| {
        match compile(name, source) {
            Ok(compiled) if compiled.warnings.is_empty() => Ok(compiled.program.to_string()),
            Ok(compiled) => Ok(format!("{}\n{}", compiled.program, compiled.warnings)),
            Err(errors) => Err(errors.to_string()),
        }
    });
}

#[test]
fn what_fails_is_explained() {
    check("fail", "diagnostics", |name, source| {
        match compile(name, source) {
            Ok(_) => Err(format!("{name} compiles")),
            Err(errors) => Ok(errors.to_string()),
        }
    });
}
