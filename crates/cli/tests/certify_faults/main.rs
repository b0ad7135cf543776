//! The search finds three known faults by itself, and makes the paths small.
//!
//! Searches take minutes: `cargo test -p fairwater --test certify_faults -- --ignored --nocapture`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod stuck_cubic;

use fairwater_algorithms::by_spec;
use fairwater_certify::{Budget, Fault, Found, Objective, Path, Space, minimise, search};
use fairwater_experiment::Backend;
use fairwater_lab::points::simulated;
use fairwater_plane::{Algorithm, Plane, Programs};
use fairwater_results::PointResult;
use fairwater_scenario::{Resolver, Scenario};

/// Scenarios here name no files, and only algorithms that exist.
struct Nothing;

impl Resolver for Nothing {
    fn read(&self, name: &str) -> Result<String, String> {
        Err(format!("there is no {name}"))
    }

    fn check_algorithm(&self, _: &str) -> Result<(), Vec<String>> {
        Ok(())
    }
}

/// An algorithm under another name.
struct Named(&'static str, Box<dyn Algorithm>);

impl Algorithm for Named {
    fn name(&self) -> &str {
        self.0
    }

    fn new_flow(
        &self,
        info: &fairwater_plane::FlowInfo,
        control: &mut fairwater_plane::Control<'_>,
    ) -> Box<dyn fairwater_plane::Flow> {
        self.1.new_flow(info, control)
    }
}

/// The algorithm under test.
#[derive(Clone, Copy)]
struct Subject {
    name: &'static str,
    build: fn(&mut Programs) -> Box<dyn Algorithm>,
}

const OLD_COPA: Subject = Subject {
    name: "copa:mode=paper",
    build: |programs| by_spec("copa:mode=paper").unwrap().build(programs).unwrap(),
};

const COPA: Subject = Subject {
    name: "copa",
    build: |programs| by_spec("copa").unwrap().build(programs).unwrap(),
};

const BBR: Subject = Subject {
    name: "bbr",
    build: |programs| by_spec("bbr").unwrap().build(programs).unwrap(),
};

const STUCK_CUBIC: Subject = Subject {
    name: "stuck_cubic",
    build: |programs| Box::new(stuck_cubic::StuckCubic::new(programs)),
};

impl Subject {
    fn run(self, text: &str) -> PointResult {
        assert!(text.lines().count() <= 15, "{text}");
        let scenario = Scenario::parse("path.toml", text, Backend::Sim, &Nothing);
        let scenario = scenario.map_err(|d| d.render(false)).unwrap();
        let point = scenario.point(0);
        let mut plane = Plane::new();
        let added = plane.add(|programs| Ok(Named(self.name, (self.build)(programs))));
        assert!(added.is_ok());
        let outcome = fairwater_sim::run(&point.experiment, plane, &mut ());
        simulated(&point, &outcome.unwrap())
    }

    fn fault(self, objective: Objective, path: &Path) -> Fault {
        let run = self.run(&path.scenario(self.name));
        let reference = objective.reference(path, &run, self.name);
        let reference = reference.map(|text| self.run(&text));
        objective.fault(path, &run, reference.as_ref())
    }

    /// Searches and minimises, and prints what was found.
    fn worst(self, objective: Objective, space: Space) -> Found {
        let begun = std::time::Instant::now();
        let mut paths = 0;
        let found = search(objective, space, Budget::QUICK, 1, &mut |batch| {
            paths += batch.len();
            Some(
                batch
                    .iter()
                    .map(|path| self.fault(objective, path))
                    .collect(),
            )
        });
        let found = found.unwrap().unwrap();
        assert!(objective.is_shown(&found.fault), "{found:?}");
        let smallest = minimise(objective, found, &mut |path| {
            let fault = objective
                .applies(path)
                .then(|| self.fault(objective, path))?;
            objective.is_shown(&fault).then_some(fault)
        });
        let took = begun.elapsed();
        eprintln!(
            "{}: {paths} paths, {took:?}: {:?}",
            self.name, smallest.fault
        );
        eprintln!("{}", smallest.path.scenario(self.name));
        smallest
    }
}

/// Several flows of Copa with the paper's detector lock each other into competitive mode
/// (docs/algorithms/copa.md). One flow alone does not, and neither does Copa as it is now.
#[test]
#[ignore = "takes minutes"]
fn mutual_lock_in_of_copa_is_found() {
    let found = OLD_COPA.worst(Objective::LockIn, Objective::LockIn.space());
    let mended = COPA.fault(Objective::LockIn, &found.path);
    eprintln!("copa as it is now: {mended:?}");
    assert!(!Objective::LockIn.is_shown(&mended), "{mended:?}");
}

/// Flows of BBR whose delay differs by jitter starve (Arun et al., SIGCOMM 2022).
#[test]
#[ignore = "takes minutes"]
fn starvation_of_bbr_under_jitter_is_found() {
    // Flows of other algorithms would be starved without jitter, too.
    let alone = Space {
        competitors: (0, 0),
        ..Objective::Starvation.space()
    };
    let found = BBR.worst(Objective::Starvation, alone);
    let path = found.path;
    let calm = Path {
        jitter_ms: 0,
        ..path
    };
    assert!(path.jitter_ms > 0, "{path:?}");
    let calm = BBR.fault(Objective::Starvation, &calm);
    eprintln!("without jitter: {calm:?}");
    assert!(!Objective::Starvation.is_shown(&calm), "{calm:?}");
}

/// A planted bug: the window sticks at two packets after a timeout.
#[test]
#[ignore = "takes minutes"]
fn window_that_sticks_after_a_timeout_is_found() {
    let found = STUCK_CUBIC.worst(Objective::Collapse, Objective::Collapse.space());
    let run = STUCK_CUBIC.run(&found.path.scenario(STUCK_CUBIC.name));
    let timeouts: u64 = run.flows.iter().map(|flow| flow.timeouts).sum();
    assert!(timeouts > 0, "{run:?}");
}
