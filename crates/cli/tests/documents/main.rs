//! What the documents claim about the repository holds.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod algorithms;
mod signals;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// The words in backticks of a Markdown table cell.
fn quoted(cell: &str) -> BTreeSet<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// What each crate may import, by the table "Crates" of docs/architecture.md.
fn allowed_imports() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let table = text.split("## Crates").nth(1).expect("the section Crates");
    let rows = table
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('`'));
    let mut allowed = BTreeMap::new();
    for row in rows.take_while(|row| row.split('|').count() == 6) {
        let cells: Vec<_> = row.split('|').collect();
        let name = quoted(cells[2]).pop_first().unwrap();
        let imports = if cells[4].trim() == "all" {
            allowed.keys().cloned().collect()
        } else {
            quoted(cells[4])
        };
        allowed.insert(name, imports);
    }
    allowed
}

/// The layer of each crate, by the same table.
fn layers() -> BTreeMap<String, u32> {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let table = text.split("## Crates").nth(1).expect("the section Crates");
    let cells = |row: &str| row.split('|').map(str::to_owned).collect::<Vec<_>>();
    let rows = table.lines().map(cells).filter(|cells| cells.len() == 6);
    rows.filter_map(|cells| {
        Some((
            quoted(&cells[2]).pop_first()?,
            cells[1].trim().parse().ok()?,
        ))
    })
    .collect()
}

#[test]
fn imports_go_to_lower_layers() {
    let layers = layers();
    assert!(layers.len() > 10, "{layers:?}");
    for (name, imports) in allowed_imports() {
        for import in imports {
            assert!(
                layers[&import] < layers[&name],
                "{name} on layer {} imports {import} on layer {}",
                layers[&name],
                layers[&import]
            );
        }
    }
}

#[test]
fn crates_import_what_the_architecture_allows() {
    let allowed = allowed_imports();
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // `bench` measures the others and may import any of them.
    let crates = root().join("crates");
    let is_crate = |package: &&serde_json::Value| {
        Path::new(package["manifest_path"].as_str().unwrap()).starts_with(&crates)
    };
    let packages: Vec<_> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(is_crate)
        .collect();
    assert_eq!(packages.len(), allowed.len(), "{:?}", allowed.keys());
    for package in packages {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let name = manifest
            .parent()
            .unwrap()
            .file_name()
            .unwrap()
            .to_str()
            .unwrap();
        let allowed = allowed
            .get(name)
            .unwrap_or_else(|| panic!("{name} is not in the table"));
        for dependency in package["dependencies"].as_array().unwrap() {
            let Some(import) = dependency["name"]
                .as_str()
                .unwrap()
                .strip_prefix("fairwater-")
            else {
                continue;
            };
            if dependency["kind"].is_null() {
                assert!(allowed.contains(import), "{name} imports {import}");
            }
        }
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    let root = root();
    let mut documents: Vec<_> = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        .into_iter()
        .map(|name| root.join(name))
        .collect();
    for folder in ["docs", "docs/algorithms"] {
        let entries = fs::read_dir(root.join(folder)).unwrap();
        documents.extend(entries.map(|entry| entry.unwrap().path()));
    }
    let mut links = 0;
    for document in documents
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
    {
        let text = fs::read_to_string(document).unwrap();
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let path = target.split('#').next().unwrap();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            links += 1;
            let found = document.parent().unwrap().join(path).exists();
            assert!(found, "{} links to {target}", document.display());
        }
    }
    assert!(links > 5, "only {links} links were found");
}

#[test]
fn the_readmes_algorithm_is_the_tested_example() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let block = readme
        .split("```python\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("a Python block");
    let example = fs::read_to_string(root().join("examples/python/aimd.py")).unwrap();
    assert!(
        example.ends_with(block),
        "the README's Python differs from examples/python/aimd.py:\n{block}"
    );
}

/// The crate of docs/own-algorithm.md: its program is the example, and what it depends on exists.
#[test]
fn the_crate_of_ones_own_is_the_example() {
    let page = fs::read_to_string(root().join("docs/own-algorithm.md")).unwrap();
    let block = |language: &str| {
        let rest = page.split(&format!("```{language}\n")).nth(1).unwrap();
        rest.split("```").next().unwrap()
    };
    assert!(include_str!("../../examples/own_algorithm.rs").ends_with(block("rust")));
    let manifest = block("toml");
    let paths: Vec<_> = manifest.split("path = \"../fairwater/").skip(1).collect();
    assert!(!paths.is_empty(), "{manifest}");
    for path in paths {
        let path = path.split('"').next().unwrap();
        assert!(root().join(path).join("Cargo.toml").exists(), "{path}");
    }
}

#[test]
fn the_readme_is_short() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let words = readme.split_whitespace().count();
    assert!(words <= 1000, "README.md has {words} words");
}

/// Every page in `docs` is listed in `docs/README.md`.
#[test]
fn the_index_lists_every_page() {
    let folder = root().join("docs");
    let index = fs::read_to_string(folder.join("README.md")).unwrap();
    let pages = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap());
    let missing: Vec<_> = pages
        .map(|page| page.file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".md") && name != "README.md")
        .filter(|name| !index.contains(&format!("]({name})")))
        .collect();
    assert!(missing.is_empty(), "docs/README.md lacks {missing:?}");
}
