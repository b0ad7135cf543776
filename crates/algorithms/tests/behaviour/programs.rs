//! Each program is a file that can be read, and checked, by itself.

use std::path::{Path, PathBuf};

fn programs(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            programs(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "ccp") {
            found.push(path);
        }
    }
}

/// `fairwater check` accepts each file.
#[test]
fn each_file_compiles_with_its_own_constants() {
    let mut files = Vec::new();
    programs(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut files,
    );
    assert!(files.len() >= 8, "{files:?}");
    for file in files {
        let name = file.display().to_string();
        let source = std::fs::read_to_string(&file).unwrap();
        if let Err(errors) = fairwater_lang::compile(&name, &source) {
            panic!("{errors}");
        }
    }
}
