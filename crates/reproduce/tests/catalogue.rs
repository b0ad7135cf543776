//! Entries that are wrong are refused with everything that is wrong, each thing at its line.

mod support;

use std::fs;

use fairwater_reproduce::{Check, Entry, Run, Scale, World};
use support::{Files, entry};

#[test]
fn bad_entries_are_refused_with_everything_that_is_wrong() {
    let mut seen = 0;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bad");
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let file_name = format!("{name}.toml");
        let refused = Entry::parse("test", &name, &file_name, &text, &Files).expect_err(&name);
        insta::with_settings!({snapshot_path => "snapshots", prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!(&*name, refused.to_string());
        });
        seen += 1;
    }
    assert_eq!(seen, 10);
}

#[test]
fn a_claim_has_all_that_it_does_not_say() {
    let entry = entry(
        r#"
measure = "flow_throughput"
flows = "tested"
where = { algorithm = "cubic", path = "near" }
against = { flows = "others", where = { path = "far" } }
at_least = 1
"#,
    );
    assert_eq!(
        (entry.name(), entry.world),
        ("test:1".to_owned(), World::Sim)
    );
    let run = entry.runs.first().unwrap();
    assert_eq!((run.full.seeds, run.full.most_seeds), (10, 40));
    assert_eq!(run.quick, run.full);
    // The algorithm changes slowest.
    assert_eq!(run.full.plan.points(), [0, 1]);
    let comparison = entry.claims[0].comparison.as_ref().unwrap();
    assert_eq!(comparison.scale, Scale::Ratio);
    assert_eq!(comparison.check, Check::AtLeast(1.0));
    let against = comparison.against.as_ref().unwrap();
    assert_eq!(against.points["algorithm"], "cubic");
    assert_eq!(against.flows.as_deref(), Some("others"));
}

/// Runs of the simulator and of Linux are of one scenario, or of two; Linux may judge fewer claims.
#[test]
fn an_entry_may_run_on_linux_too() {
    let source = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/good/linux.toml"
    ));
    let entry = Entry::parse("test", "1", "1.toml", &source.unwrap(), &Files)
        .unwrap_or_else(|refused| panic!("{}", refused.render(false)));
    let [sim, linux] = &entry.runs[..] else {
        panic!("{} runs", entry.runs.len())
    };
    assert_eq!((sim.world, linux.world), (World::Sim, World::Linux));
    assert_eq!(linux.source.name(), "two.toml");
    assert_eq!(linux.full.settings, ["duration=5s", "seeds=3"]);
    assert_eq!((linux.full.seeds, linux.quick.seeds), (3, 2));
    let judged = |run: &Run| {
        entry
            .claims
            .iter()
            .filter(|claim| run.judges(claim))
            .count()
    };
    assert_eq!((judged(sim), judged(linux)), (2, 1));
    assert_eq!(sim.full.plan.points(), [0, 2]);
    assert_eq!(linux.full.plan.points(), [0]);
    assert_eq!(entry.questions.len(), 1);
}

/// Every byte of an entry may be missing: the rest is refused or read, and never panics.
#[test]
fn an_entry_may_end_anywhere() {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bad/names.toml"));
    let text = text.unwrap();
    for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
        let _ = Entry::parse("test", "1", "1.toml", &text[..end], &Files);
    }
}
