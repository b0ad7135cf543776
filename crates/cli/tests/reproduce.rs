//! `fairwater reproduce`, as a user meets it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
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
