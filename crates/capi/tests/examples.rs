//! The examples do what their first lines say, with and without a plane, under sanitizers too.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::process::Command;

use support::{STRICT, cc, compile, compile_sanitized, crate_dir, run, succeed};

fn toy_without_a_plane(program: &Path) {
    let nowhere = program.with_file_name("nobody");
    let said = run(Command::new(program).arg(&nowhere), "");
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[0].ends_with("no plane answers at the path"), "{said}");
    assert!(
        lines[1].starts_with("delivered 4800000 bytes, lost "),
        "{said}"
    );
    assert!(lines[1].ends_with("under the fallback"), "{said}");
    assert_eq!(lines.len(), 2, "{said}");
}

fn ccp_toy_without_an_agent(program: &Path) {
    let nowhere = program.with_file_name("nobody");
    let said = run(Command::new(program).arg(&nowhere), "");
    let lost = said
        .split("lost ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    assert!(
        lost.parse::<u64>().unwrap() > 0,
        "the window never filled the path: {said}"
    );
}

#[test]
fn the_toys_run_under_the_fallback_without_a_plane() {
    let folder = tempfile::tempdir().unwrap();
    let (toy, ccp_toy) = (folder.path().join("toy"), folder.path().join("ccp_toy"));
    compile("examples/toy.c", &toy);
    toy_without_a_plane(&toy);
    compile("examples/ccp_toy.c", &ccp_toy);
    ccp_toy_without_an_agent(&ccp_toy);
}

#[test]
fn the_toys_run_clean_under_sanitizers() {
    let folder = tempfile::tempdir().unwrap();
    let (toy, ccp_toy) = (folder.path().join("toy"), folder.path().join("ccp_toy"));
    if compile_sanitized("examples/toy.c", &toy).is_some() {
        toy_without_a_plane(&toy);
    }
    if compile_sanitized("examples/ccp_toy.c", &ccp_toy).is_some() {
        ccp_toy_without_an_agent(&ccp_toy);
    }
}

#[test]
fn the_toy_is_short_enough_to_read() {
    let toy = std::fs::read_to_string(crate_dir().join("examples/toy.c")).unwrap();
    assert!(toy.lines().count() <= 150, "{} lines", toy.lines().count());
}

#[test]
fn the_headers_are_c_and_cpp() {
    let folder = tempfile::tempdir().unwrap();
    let both = folder.path().join("both.c");
    let text = "#include <fairwater.h>\n#include <ccp.h>\n\
        fw_options options = {sizeof(fw_options), {0, 0, 0, 0}, 0, 0, 0, 0, 0, 0, 0, 0, 0};\n\
        int main() { return ccp_invoke(0) == LIBCCP_NULL_ARG && fw_version() ? 0 : 1; }\n";
    std::fs::write(&both, text).unwrap();
    for (language, standard) in [("c", "-std=c99"), ("c", "-std=c17"), ("c++", "-std=c++11")] {
        let mut command = cc();
        command
            .args(&STRICT[..3])
            .args(["-Wpedantic", standard, "-x", language, "-c"]);
        command.arg("-I").arg(crate_dir().join("include"));
        command.arg("-I").arg(crate_dir().join("include/ccp"));
        command
            .arg(&both)
            .arg("-o")
            .arg(folder.path().join("both.o"));
        succeed(&mut command);
    }
}
