//! The listings of the CCP paper that portus takes, as portus 0.9 compiles them: beside each
//! `portus/*.ccp` is the INSTALL message for it, from its twelfth byte on.

use std::path::Path;

use fairwater_exec::portable::{self, Decoded};
use fairwater_lang::{Program, VarId, compile};
use proptest::prelude::*;
use proptest::sample::select;

use crate::lockstep::{acks, agree};

/// The source, compiled by us, and what portus made of it.
fn listings() -> Vec<(Program, Decoded)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/portable/portus");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path());
    let mut sources: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|e| e == "ccp"))
        .collect();
    sources.sort();
    assert_eq!(sources.len(), 7);
    let pair = |path: &std::path::PathBuf| {
        let source = std::fs::read_to_string(path).unwrap();
        let compiled = compile("portus.ccp", &source).unwrap_or_else(|errors| panic!("{errors}"));
        let installed = std::fs::read(path.with_extension("install")).unwrap();
        let decoded = portable::decode(&installed).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        (compiled.program, decoded)
    };
    sources.iter().map(pair).collect()
}

/// The variables of both, those of the source beside those decoded. portus numbers registers in
/// the order of declaration.
fn pairs(ours: &Program, theirs: &Decoded) -> Vec<(VarId, VarId)> {
    let reports = ours.report_len() as u16;
    assert_eq!(theirs.program.report_len(), usize::from(reports));
    assert_eq!(
        ours.variables
            .iter()
            .map(|v| v.volatile)
            .collect::<Vec<_>>(),
        theirs.program.variables[..ours.variables.len()]
            .iter()
            .map(|v| v.volatile)
            .collect::<Vec<_>>()
    );
    let controls = (reports..).zip(theirs.controls.values());
    let controls = controls.map(|(ours, theirs)| (VarId(ours), *theirs));
    let reports = (0..reports).map(|at| (VarId(at), VarId(at)));
    let pairs: Vec<_> = reports.chain(controls).collect();
    assert_eq!(pairs.len(), ours.variables.len());
    pairs
}

proptest! {
    #[test]
    fn mean_the_same((ours, theirs) in select(listings()), acks in acks()) {
        agree(&ours, &theirs.program, &pairs(&ours, &theirs), &acks);
    }
}

#[test]
fn are_lifted_without_hidden_variables() {
    for (ours, theirs) in listings() {
        assert_eq!(theirs.program.variables.len(), ours.variables.len());
        assert_eq!(theirs.program.verify(), Ok(()));
    }
}

#[test]
fn read_as_written() {
    let text: Vec<_> = listings()
        .iter()
        .map(|(_, theirs)| theirs.program.to_string())
        .collect();
    insta::assert_snapshot!(text.join("\n"));
}
