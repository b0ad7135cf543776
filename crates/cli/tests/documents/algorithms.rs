//! Each algorithm has its page, and the page is right about it.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use fairwater_algorithms::{Entry, Parameter};

use crate::root;

/// A row of the table of parameters, up to what the page may say in its own words.
fn row(parameter: &Parameter) -> String {
    let Parameter {
        key,
        range,
        default,
        ..
    } = parameter;
    format!("| `{key}` | {range} | {default} | ")
}

/// The parameters of an algorithm, for its page.
fn parameters_table(entry: &Entry) -> String {
    let mut table = "| key | range | default | meaning |\n| --- | --- | --- | --- |\n".to_owned();
    for parameter in entry.parameters {
        writeln!(table, "{}{} |", row(parameter), parameter.meaning).unwrap();
    }
    table
}

/// Whether the page has a row for each parameter and no other, in their order.
fn has_table(page: &str, entry: &Entry) -> bool {
    let after = page.split_once("| key | range | default | meaning |\n");
    let rows = after.map_or("", |(_, rows)| rows).lines().skip(1);
    let mut rows = rows.take_while(|line| line.starts_with('|'));
    let each = entry.parameters.iter();
    let mut found =
        each.map(|parameter| rows.next().is_some_and(|r| r.starts_with(&row(parameter))));
    found.all(|found| found) && rows.next().is_none()
}

#[test]
fn each_algorithm_has_a_page_with_its_parameters_a_figure_and_a_row_in_the_index() {
    let folder = root().join("docs/algorithms");
    let mut faults = Vec::new();
    for entry in fairwater_algorithms::all() {
        let name = entry.name;
        let page = fs::read_to_string(folder.join(name).with_extension("md")).unwrap_or_default();
        if !page.starts_with(&format!("# {name}\n")) {
            faults.push(format!(
                "docs/algorithms/{name}.md does not begin with `# {name}`"
            ));
        }
        if !page.contains(&format!("]({name}.svg)")) || !folder.join(format!("{name}.svg")).exists()
        {
            faults.push(format!("docs/algorithms/{name}.md shows no {name}.svg"));
        }
        if !has_table(&page, entry) {
            let expected = parameters_table(entry);
            faults.push(format!(
                "docs/algorithms/{name}.md has not this table:\n{expected}"
            ));
        }
    }
    let index = fs::read_to_string(folder.join("README.md")).unwrap();
    let rows = index.lines().filter_map(|line| line.strip_prefix("| ["));
    let linked: Vec<_> = rows.filter_map(|row| row.split(']').next()).collect();
    let names: Vec<_> = fairwater_algorithms::all().iter().map(|e| e.name).collect();
    if linked != names {
        faults.push(format!(
            "docs/algorithms/README.md has {linked:?}, and there are {names:?}"
        ));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The lines of all Rust files there, and below.
fn lines_below(folder: &Path, lines: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            lines_below(&path, lines);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            lines.extend(text.lines().map(|line| code(unquoted(line)).to_owned()));
        }
    }
}

/// A line of a program without its comment.
fn code(line: &str) -> &str {
    line.split(" #").next().unwrap().trim()
}

/// What is in the string of a line of Rust that begins or ends one; else the line.
fn unquoted(line: &str) -> &str {
    let begin = ["= \"", "format!(\""];
    let inside = begin.iter().find_map(|begin| line.split_once(begin));
    let line = inside.map_or(line, |(_, inside)| inside);
    let line = line.strip_suffix("\"),").unwrap_or(line);
    line.trim_end_matches(['"', ';', '\\'])
}

/// Whether a quoted line is this one of a source, in which `@name@` and `{name}` stand for what is
/// put in when the program is built.
fn is_of(quoted: &str, source: &str) -> bool {
    let mut parts = Vec::new();
    let mut rest = source;
    while let Some(start) = rest.find(['@', '{']) {
        let close = if rest[start..].starts_with('@') {
            '@'
        } else {
            '}'
        };
        let Some(length) = rest[start + 1..].find(close) else {
            break;
        };
        parts.push(&rest[..start]);
        rest = &rest[start + length + 2..];
    }
    // What is mostly put in would be anything.
    let literal = parts.iter().map(|part| part.len()).sum::<usize>() + rest.len();
    if literal * 3 < quoted.len() {
        return false;
    }
    let Some(mut quoted) = quoted.strip_suffix(rest) else {
        return false;
    };
    for (index, part) in parts.iter().enumerate() {
        match quoted.find(part) {
            Some(at) if index > 0 || at == 0 => quoted = &quoted[at + part.len()..],
            _ => return false,
        }
    }
    !parts.is_empty() || quoted.is_empty()
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
                // Where a part of the source ends, the quotation may close what it opened.
                let line = code(line);
                let bare = line.trim_end_matches(')');
                let found = |source: &String| {
                    is_of(line, source) || is_of(bare, source.trim_end_matches(')'))
                };
                if !bare.is_empty() && !sources.iter().any(found) {
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
