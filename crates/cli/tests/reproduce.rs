//! `fairwater reproduce`, as a user meets it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn reproduce(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairwater"))
        .arg("reproduce")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A catalogue of one result, of two claims that hold and fail, and one that is not run.
fn small_catalogue() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "scenarios/two.toml",
        r#"
            duration = "2s"
            dumbbell = { rate = "12mbit", rtt = "20ms" }
            flow = [{ algorithm = "$algorithm", jitter = "100ms" }]
            sweep = { algorithm = ["native:reno", "native:constant:15kB"] }
        "#,
    );
    write(
        "reproduce/paper/1.toml",
        r#"
            title = "Utilisation"
            section = "§1"
            world = "sim"
            scenario = "scenarios/two.toml"
            seeds = 2

            [[claim]]
            id = "reno"
            text = "Reno fills the link"
            section = "§1"
            theirs = "all of it"
            measure = "utilisation"
            where = { algorithm = "native:reno" }
            at_least = 80
            bound = "ours"

            [[claim]]
            id = "sabotage"
            text = "Half a window fills the link, too"
            section = "§1"
            theirs = "all of it"
            measure = "utilisation"
            where = { algorithm = "native:constant:15kB" }
            at_least = 80
            bound = "ours"
        "#,
    );
    write(
        "reproduce/paper/2.toml",
        r#"
            title = "Cost"
            section = "§2"
            world = "bench"

            [[not_run]]
            world = "bench"
            reason = "benchmarks are run by hand"
            command = "make bench"

            [[claim]]
            id = "cost"
            text = "It costs nothing"
            section = "§2"
            theirs = "0 %"
        "#,
    );
    folder
}

#[test]
fn verdicts_are_told_and_kept_and_a_claim_that_fails_is_no_failure() {
    let folder = small_catalogue();
    let first = reproduce(folder.path(), &["--quiet"]);
    let shown = text(&first.stdout);
    assert!(first.status.success(), "{}", text(&first.stderr));
    for expected in [
        "  holds: Reno fills the link (§1)",
        "  does not hold: Half a window fills the link, too (§1)",
        "  not run: It costs nothing (§2)",
        "not run in bench: benchmarks are run by hand; by hand: make bench",
        "3 claims of 2 results: 1 holds, 1 does not hold, 0 cannot be told, 1 not run",
    ] {
        assert!(shown.contains(expected), "{expected} is not in\n{shown}");
    }
    // What is kept is not run again; more seeds are added to it.
    let again = reproduce(folder.path(), &[]);
    assert_eq!(text(&again.stdout), shown);
    assert!(text(&again.stderr).contains("4 of 4 points were done before"));
    let more = reproduce(folder.path(), &["paper:1", "--seeds", "3", "--json"]);
    assert!(text(&more.stderr).contains("4 of 6 points were done before"));
    let json: serde_json::Value = serde_json::from_slice(&more.stdout).unwrap();
    assert_eq!(json[0]["claims"][0]["verdict"], "holds");
    assert_eq!(json[0]["claims"][0]["ours"]["seeds"], 3);
    // From nothing, the same verdicts byte by byte.
    let fresh = reproduce(folder.path(), &["--quiet", "--fresh"]);
    assert_eq!(text(&fresh.stdout), shown);
}

#[test]
fn what_does_not_exist_is_named() {
    let folder = small_catalogue();
    let cases: [(&[&str], &str); 4] = [
        (
            &["paper:3"],
            "there is no result `paper:3`; did you mean `paper:1`?",
        ),
        (
            &["--paper", "papr"],
            "there is no result `papr`; did you mean `paper`?",
        ),
        (
            &["--catalogue", "nowhere"],
            "there is no catalogue at nowhere",
        ),
        (&["--seeds", "1"], "1 is not in 2..=1000"),
    ];
    for (arguments, expected) in cases {
        let output = reproduce(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = text(&output.stderr);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    let entry = folder.path().join("reproduce/paper/1.toml");
    let wrong = fs::read_to_string(&entry)
        .unwrap()
        .replace("two.toml", "three.toml");
    fs::write(&entry, wrong).unwrap();
    let output = reproduce(folder.path(), &["--list"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains("the scenario `scenarios/three.toml` cannot be used"),
        "{said}"
    );
    assert!(said.contains("1.toml:5:"), "{said}");
}

#[test]
fn the_catalogue_has_all_results_and_each_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = root().join("reproduce").display().to_string();
    let output = reproduce(
        folder.path(),
        &["--list", "--json", "--catalogue", &catalogue],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let list = list.as_array().unwrap();
    let of = |paper: &str| {
        let prefix = format!("{paper}:");
        let is_of =
            |entry: &&serde_json::Value| entry["name"].as_str().unwrap().starts_with(&prefix);
        list.iter().filter(is_of).count()
    };
    let papers = ["ccp", "reproduction", "vcc", "bundler", "mystique"].map(of);
    assert_eq!(papers, [12, 7, 14, 14, 5]);
    assert_eq!(list.len(), 52);
}

/// All files below a folder, by name, with what is in them.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_owned();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn the_atlas_is_the_same_byte_for_byte() {
    let folder = small_catalogue();
    let first = reproduce(folder.path(), &["--quiet", "--atlas", "first"]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(text(&first.stderr).contains("Atlas: first/index.html"));
    // From runs that are there, and from nothing.
    let kept = reproduce(folder.path(), &["--kept", "--atlas", "kept"]);
    assert_eq!(text(&kept.stdout), text(&first.stdout));
    reproduce(folder.path(), &["--quiet", "--fresh", "--atlas", "again"]);
    let first = files(&folder.path().join("first"));
    assert_eq!(first, files(&folder.path().join("kept")));
    assert_eq!(first, files(&folder.path().join("again")));
    let html = |name: &str| text(&first[Path::new(name)]);
    let index = html("index.html");
    for expected in [
        "<a href=\"paper/1.html\">paper:1</a>",
        "sim: does not hold · 1 of 2 hold",
        "bench: not run",
    ] {
        assert!(index.contains(expected), "{expected} is not in\n{index}");
    }
    let page = html("paper/1.html");
    for expected in ["chip holds", "chip fails", "../assets/report.css", "<svg"] {
        assert!(page.contains(expected), "{expected} is not in\n{page}");
    }
    assert!(html("paper/2.html").contains("benchmarks are run by hand"));
    assert!(first.contains_key(Path::new("assets/report.js")));
}

/// What was never run is told so by `--kept`.
#[test]
fn nothing_runs_where_only_kept_runs_are_judged() {
    let folder = small_catalogue();
    let output = reproduce(folder.path(), &["paper:1", "--kept"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.contains("not run: Reno fills the link"), "{shown}");
    assert!(shown.contains("reason: not run yet"), "{shown}");
}

/// `constant` in the place of Cubic, in the catalogue's own entry.
#[test]
fn a_constant_window_is_not_taken_for_cubic() {
    let folder = tempfile::tempdir().unwrap();
    let change = |name: &str, from: &str, to: &str| {
        let text = fs::read_to_string(root().join(name)).unwrap();
        assert!(text.contains(from), "{name} has no {from}");
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace(from, to)).unwrap();
    };
    change(
        "scenarios/ccp/10.toml",
        "\"cubic\"]",
        "\"constant:cwnd=200\"]",
    );
    let (from, to) = ("algorithm = \"cubic\"", "algorithm = \"constant:cwnd=200\"");
    change("reproduce/ccp/9.toml", from, to);
    let arguments = [
        "ccp:9", "--world", "sim", "--quick", "--seeds", "2", "--quiet", "--json",
    ];
    let output = reproduce(folder.path(), &arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let claims = json[0]["claims"].as_array().unwrap();
    assert_eq!(claims.len(), 2);
    for claim in claims {
        assert_eq!(claim["verdict"], "does-not-hold", "{claim}");
    }
}

/// A benchmark that another program plays: its calm rounds count, and are kept.
#[test]
fn rounds_of_a_benchmark_are_judged_and_kept() {
    let folder = small_catalogue();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(
        "reproduce/paper/2.toml",
        r#"
            title = "Cost"
            section = "§2"
            world = "bench"
            benchmark = "loopback"
            seeds = 2

            [[claim]]
            id = "cost"
            text = "It costs nothing"
            section = "§2"
            theirs = "0 %"
            measure = "loopback_kept"
            at_least = 95
            bound = "ours"
        "#,
    );
    write(
        "bench",
        r#"#!/bin/sh
            echo "$@" >> arguments
            echo '{"benchmark":"loopback","series":[{"measure":"loopback_kept","variables":{},"values":[99.0,98.9,1.0]}],"disturbed":[null,null,"noise"]}'
        "#,
    );
    let program = folder.path().join("bench");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let run = |more: &[&str]| {
        let mut arguments = vec!["paper:2", "--quiet", "--bench", "./bench"];
        arguments.extend(more);
        text(&reproduce(folder.path(), &arguments).stdout)
    };
    let shown = run(&[]);
    if !rustix::process::geteuid().is_root() {
        assert!(shown.contains("reason: it needs root"), "{shown}");
        return;
    }
    assert!(shown.contains("  holds: It costs nothing"), "{shown}");
    assert_eq!(run(&[]), shown);
    let arguments = fs::read_to_string(folder.path().join("arguments")).unwrap();
    assert_eq!(arguments, "loopback --rounds 2 --json\n");
    assert!(run(&["--fresh"]).contains("  holds: It costs nothing"));
    // A program that fails, or says something else, is no verdict.
    write("bench", "#!/bin/sh\necho broken\n");
    let shown = run(&["--fresh"]);
    assert!(shown.contains("not run: It costs nothing"), "{shown}");
    assert!(shown.contains("printed no results"), "{shown}");
}
