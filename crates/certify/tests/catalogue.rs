//! Each section is sound for each algorithm, and its scenario can be simulated.

use std::collections::BTreeSet;

use fairwater_certify::{Budget, Fault, Objective, Path, minimise, search, sections};
use fairwater_experiment::Backend;
use fairwater_scenario::{Resolver, Scenario};
use proptest::prelude::*;

struct Nothing;

impl Resolver for Nothing {
    fn read(&self, name: &str) -> Result<String, String> {
        Err(format!("there is no {name}"))
    }

    fn check_algorithm(&self, _: &str) -> Result<(), Vec<String>> {
        Ok(())
    }
}

#[test]
fn each_section_names_points_flows_and_links_that_exist() {
    for candidate in [
        "native:cubic",
        "copa:delta=0.1",
        "/a folder/my.py:Mine",
        "bbr",
    ] {
        for section in sections(candidate) {
            let entry = section.entry(candidate, &Nothing).unwrap();
            let is_run = section.source(candidate, &[]).unwrap().is_some();
            assert_eq!(!entry.runs.is_empty(), is_run, "{}", section.id);
        }
    }
}

#[test]
fn names_of_sections_and_objectives_differ() {
    let mut names = BTreeSet::new();
    let all = sections("bbr").map(|section| section.id);
    for name in all.chain(Objective::ALL.map(Objective::name)) {
        assert!(names.insert(name), "{name}");
    }
    assert!(sections("bbr").count() > sections("reno").count());
}

/// Worse with more jitter and more flows, up to a bound: a search must climb.
fn made_up(path: &Path) -> Fault {
    let jitter = f64::from(path.jitter_ms) / f64::from(path.rtt_ms);
    Fault {
        value: 40.0 * jitter * f64::from(path.flows),
        reference: Some(1.0),
    }
}

#[test]
fn a_search_repeats_and_climbs_and_its_path_gets_small() {
    let objective = Objective::Starvation;
    let run = || {
        let mut asked = Vec::new();
        let found = search(
            objective,
            objective.space(),
            Budget::QUICK,
            7,
            &mut |paths| {
                asked.extend_from_slice(paths);
                Some(paths.iter().map(made_up).collect())
            },
        );
        (found.unwrap().unwrap(), asked)
    };
    let (found, asked) = run();
    assert_eq!(run(), (found, asked.clone()));
    let first = asked[..10].iter().map(|path| made_up(path).value);
    assert!(found.fault.value > first.fold(0.0, f64::max));
    let smallest = minimise(objective, found, &mut |path| {
        let fault = made_up(path);
        objective.is_shown(&fault).then_some(fault)
    });
    let path = smallest.path;
    assert_eq!(
        (path.loss_bp, path.ack_gap_ms, path.competitors, path.gap_ms),
        (0, 0, 0, 0)
    );
    assert!(path.jitter_ms > 0 && smallest.fault.value >= objective.bound());
}

#[test]
fn a_search_that_is_stopped_says_so() {
    let objective = Objective::Collapse;
    let stopped = search(objective, objective.space(), Budget::QUICK, 1, &mut |_| {
        None
    });
    assert!(stopped.is_err());
}

proptest! {
    /// Every path that a search may ask for is a scenario of at most 15 lines.
    #[test]
    fn each_path_is_a_scenario(seed in 0..1_000_u64, objective in 0..4_usize) {
        let objective = Objective::ALL[objective];
        let budget = Budget { particles: 4, rounds: 0 };
        let mut texts = Vec::new();
        let found = search(objective, objective.space(), budget, seed, &mut |paths| {
            texts.extend(paths.iter().map(|path| path.scenario("copa:mode=paper")));
            Some(paths.iter().map(made_up).collect())
        });
        prop_assert!(found.is_ok());
        for text in texts {
            prop_assert!(text.lines().count() <= 15, "{}", text);
            let scenario = Scenario::parse("path.toml", &text, Backend::Sim, &Nothing);
            prop_assert!(scenario.is_ok(), "{}\n{}", text, scenario.err().unwrap().render(false));
        }
    }
}
