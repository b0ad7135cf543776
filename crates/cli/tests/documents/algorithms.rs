//! Each algorithm has its page, and the page is right about it.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use fairwater_algorithms::{Entry, Parameter};

use crate::root;

/// A row of the table of parameters.
fn row(parameter: &Parameter) -> String {
    let Parameter {
        key,
        range,
        default,
        meaning,
        ..
    } = parameter;
    format!("| `{key}` | {range} | {default} | {meaning} |")
}

/// The parameters of an algorithm, for its page.
fn parameters_table(entry: &Entry) -> String {
    let mut table = "| key | range | default | meaning |\n| --- | --- | --- | --- |\n".to_owned();
    for parameter in &entry.parameters() {
        writeln!(table, "{}", row(parameter)).unwrap();
    }
    table
}

/// The table of parameters on a page, if there is one.
fn table_of(page: &str) -> Option<std::ops::Range<usize>> {
    let start = page.find("| key | range | default | meaning |\n")?;
    let lines = page[start..].split_inclusive('\n');
    let length = lines.take_while(|line| line.starts_with('|'));
    Some(start..start + length.map(str::len).sum::<usize>())
}

#[test]
fn each_algorithm_has_a_page_with_its_parameters_a_figure_and_a_row_in_the_index() {
    let folder = root().join("docs/algorithms");
    let mut faults = Vec::new();
    for entry in fairwater_algorithms::all() {
        let name = entry.name;
        let file = folder.join(name).with_extension("md");
        let mut page = fs::read_to_string(&file).unwrap_or_default();
        if !page.starts_with(&format!("# {name}\n")) {
            faults.push(format!(
                "docs/algorithms/{name}.md does not begin with `# {name}`"
            ));
        }
        if !page.contains(&format!("]({name}.svg)")) || !folder.join(format!("{name}.svg")).exists()
        {
            faults.push(format!("docs/algorithms/{name}.md shows no {name}.svg"));
        }
        let expected = parameters_table(entry);
        match table_of(&page) {
            Some(at) if page[at.clone()] == expected => {}
            Some(at) if std::env::var_os("FAIRWATER_WRITE_TABLES").is_some() => {
                page.replace_range(at, &expected);
                fs::write(&file, page).unwrap();
            }
            _ => faults.push(format!(
                "docs/algorithms/{name}.md has not this table (FAIRWATER_WRITE_TABLES=1 writes it):\n{expected}"
            )),
        }
    }
    let index = fs::read_to_string(folder.join("README.md")).unwrap();
    let list = index.split("\n## ").next().unwrap();
    let rows = list.lines().filter_map(|line| line.strip_prefix("| ["));
    let linked: Vec<_> = rows.filter_map(|row| row.split(']').next()).collect();
    let names: Vec<_> = fairwater_algorithms::all().iter().map(|e| e.name).collect();
    if linked != names {
        faults.push(format!(
            "docs/algorithms/README.md has {linked:?}, and there are {names:?}"
        ));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The lines of all programs there and below, and of the sources that put programs together.
fn lines_below(folder: &Path, lines: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            lines_below(&path, lines);
        } else if path.extension().is_some_and(|e| e == "ccp" || e == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            lines.extend(text.lines().map(|line| bare(line).to_owned()));
        }
    }
}

/// A line of a program without its comment and the parentheses that it closes: where a part of the
/// source ends, the quotation may close what it opened.
fn bare(line: &str) -> &str {
    let code = line.split(" #").next().unwrap_or_default();
    code.trim().trim_end_matches(')')
}

#[test]
fn quoted_parts_of_programs_are_in_the_source() {
    let mut sources = Vec::new();
    lines_below(&root().join("crates/algorithms/src"), &mut sources);
    let mut seen = 0;
    let mut strange = Vec::new();
    for entry in fs::read_dir(root().join("docs/algorithms")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "md") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for block in text.split("```ccp-part\n").skip(1) {
            seen += 1;
            for line in block.split("```").next().unwrap().lines() {
                let line = bare(line);
                if !line.is_empty() && !sources.iter().any(|source| source == line) {
                    strange.push(format!("{}: {line}", path.display()));
                }
            }
        }
    }
    assert!(seen > 4, "only {seen} quotations were found");
    assert!(
        strange.is_empty(),
        "not in any program:\n{}",
        strange.join("\n")
    );
}
