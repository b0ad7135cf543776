//! Scenarios: a network, its traffic and what to measure, in one TOML file that the simulator and
//! the lab both run. `docs/scenarios.md` is the reference of the file.
//!
//! ```
//! use fairwater_lab::scenario::{Scenario, Surroundings, World};
//!
//! struct Nothing;
//!
//! impl Surroundings for Nothing {
//!     fn read(&self, _: &str) -> Result<String, String> {
//!         Err("there are no files here".to_owned())
//!     }
//!
//!     fn check_algorithm(&self, _: &str) -> Result<(), Vec<String>> {
//!         Ok(())
//!     }
//! }
//!
//! let text = r#"
//!     duration = "10s"
//!     seeds = 2
//!     dumbbell = { rate = "$rate", rtt = "20ms" }
//!     flow = [{ algorithm = "cubic:report=10ms" }]
//!     sweep = { rate = ["12mbit", "48mbit"] }
//! "#;
//! let scenario = Scenario::parse("grid.toml", text, World::Sim, &Nothing)?;
//! assert_eq!(scenario.len(), 4);
//! assert_eq!(scenario.point(2).variables, [("rate".to_owned(), "48mbit".to_owned())]);
//! # Ok::<(), fairwater_lab::scenario::Diagnostics>(())
//! ```

mod build;
mod capacity;
mod diagnostic;
mod disturbance;
mod emulated;
mod fields;
mod files;
mod flow;
mod network;
mod picture;
mod quantity;
mod queue;
mod setting;
mod sweep;
mod tcp;
mod traffic;
mod tree;
mod ways;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use fairwater_sim::Config;
use serde::Serialize;

use diagnostic::Sink;
pub use diagnostic::{Diagnostic, Diagnostics};
use files::Files;
pub use files::Surroundings;
pub use picture::Picture;
pub use setting::{SettingError, set, set_seed};
use sweep::Sweep;
use tree::Node;

/// The most bytes of a scenario's file.
const MAX_SOURCE: usize = 1 << 20;

/// The most points of a grid, seeds included.
const MAX_POINTS: usize = 1_000_000;

/// Samples of a run that is alone, if the scenario asks for none.
const SAMPLES: u32 = 500;

/// Where a scenario, or an experiment, runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// In the simulator.
    Sim,
    /// Over an emulated link, with this machine's TCP.
    Linux,
}

impl World {
    /// What results call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            World::Sim => "sim",
            World::Linux => "linux",
        }
    }
}

/// A scenario that was read and checked at each point of its grid.
#[derive(Debug)]
pub struct Scenario {
    source: String,
    root: Node,
    sweep: Sweep,
    picture: Picture,
    files: Files,
}

/// One point of a scenario's grid: a simulation, or a run on real TCP.
#[derive(Debug, Clone)]
pub struct Point {
    /// Its place in the grid.
    pub index: usize,
    /// The variables of the sweep, in the order of the file, with their values here as text.
    pub variables: Vec<(String, String)>,
    /// What to simulate. A plane hosts each algorithm under the text that the file has for it.
    pub config: Config,
    /// The tables of flows.
    pub groups: Vec<Group>,
    /// By edge: the name of its delivery trace, if that is its capacity.
    pub traces: Vec<Option<String>>,
    /// By node: its name.
    pub hosts: Vec<String>,
}

impl Point {
    /// Which of its groups a flow is in.
    pub(crate) fn group_of(&self, flow: usize) -> usize {
        let found = self.groups.iter().position(|g| g.flows.contains(&flow));
        found.unwrap_or(0)
    }
}

/// The flows of one `[[flow]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name, which no other group has.
    pub name: String,
    /// Who decides for its flows.
    pub sender: Sender,
    /// Which flows of [`Config::flows`] these are.
    pub flows: Range<usize>,
}

/// Who decides cwnd and rate, as the file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sender {
    /// An algorithm of this project: `cubic:report=10ms`.
    Plane(String),
    /// One inside the simulated sender: `native:cubic`.
    Native(String),
    /// One of the kernel's: `kernel:cubic`. In the simulator, the native one of that name.
    Kernel(String),
}

impl Sender {
    /// The text of the file.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Sender::Plane(text) | Sender::Native(text) | Sender::Kernel(text) => text,
        }
    }
}

/// What reading needs everywhere.
struct Reading<'a> {
    sink: &'a Sink,
    files: &'a Files,
    surroundings: &'a dyn Surroundings,
    world: World,
}

impl Scenario {
    /// Reads a scenario and checks it at each point of its grid.
    ///
    /// # Errors
    /// Everything that is wrong with it, or that this world cannot do, each thing at its line.
    pub fn parse(
        file_name: &str,
        source: &str,
        world: World,
        surroundings: &dyn Surroundings,
    ) -> Result<Self, Diagnostics> {
        let sink = Sink::default();
        let files = Files::default();
        if source.len() > MAX_SOURCE {
            let message = format!("a scenario has at most {MAX_SOURCE} bytes");
            sink.push(Diagnostic::new(0..0, message));
        }
        let read = if sink.said() == 0 { source } else { "" };
        let root = tree::parse(read, &sink);
        // What could not be parsed would only be missed again.
        let parsed = sink.said() == 0;
        let sweep = Sweep::read(&root, &sink);
        let mut picture = Picture::default();
        if parsed {
            let reading = Reading {
                sink: &sink,
                files: &files,
                surroundings,
                world,
            };
            if let Some(node) = root.entry("report") {
                picture = picture::read(node, &sweep, &reading);
            }
            check(&root, &sweep, &reading);
        }
        sink.finish(file_name, read)?;
        Ok(Scenario {
            source: source.to_owned(),
            root,
            sweep,
            picture,
            files,
        })
    }

    /// The text of the file.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Its `title`, if it has one.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        match &self.root.entry("title")?.value {
            tree::Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// How its report is drawn.
    #[must_use]
    pub fn picture(&self) -> &Picture {
        &self.picture
    }

    /// The texts of the files that it names, by name.
    #[must_use]
    pub fn files(&self) -> BTreeMap<String, String> {
        self.files.texts()
    }

    /// How many points its grid has, seeds included; at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a grid is never empty")]
    #[must_use]
    pub fn len(&self) -> usize {
        self.sweep.points()
    }

    /// The names of the variables of the sweep, in the order of the file.
    #[must_use]
    pub fn variables(&self) -> Vec<&str> {
        self.sweep.names().collect()
    }

    /// The seeds; each point of the sweep has all of them, one after another.
    #[must_use]
    pub fn seeds(&self) -> &[u64] {
        &self.sweep.seeds
    }

    /// A point of the grid; one beyond the last is the last.
    #[must_use]
    pub fn point(&self, index: usize) -> Point {
        let index = index.min(self.len() - 1);
        // Everything was checked when the file was read, and is the same now.
        let sink = Sink::default();
        let reading = Reading {
            sink: &sink,
            files: &self.files,
            surroundings: &Known,
            world: World::Sim,
        };
        build::point(
            &self.root,
            &self.sweep,
            index,
            &mut self.sweep.unused(),
            &reading,
        )
    }

    /// A point as it is simulated: one that is alone is sampled even if the scenario asks for no
    /// samples, for there is a picture of it in time.
    #[must_use]
    pub fn sampled_point(&self, index: usize) -> Point {
        let mut point = self.point(index);
        let measure = &mut point.config.measure;
        if self.len() == 1 && measure.interval.is_none() {
            let interval = point.config.duration / SAMPLES;
            measure.interval = Some(interval.max(Duration::from_nanos(1)));
        }
        point
    }

    /// Each algorithm of this project that flows of any point run, as its text, once.
    #[must_use]
    pub fn algorithms(&self) -> Vec<String> {
        let mut texts = Vec::new();
        let seeds = self.seeds().len();
        for index in (0..self.len()).step_by(seeds) {
            for group in self.point(index).groups {
                if let Sender::Plane(text) = group.sender
                    && !texts.contains(&text)
                {
                    texts.push(text);
                }
            }
        }
        texts
    }
}

/// Reads each point of the grid but those that differ in the seed alone.
fn check(root: &Node, sweep: &Sweep, reading: &Reading<'_>) {
    let mut used = sweep.unused();
    for index in (0..sweep.points()).step_by(sweep.seeds.len()) {
        build::point(root, sweep, index, &mut used, reading);
        if reading.sink.is_full() {
            return;
        }
    }
    if reading.sink.said() == 0 {
        sweep.name_unused(&used, reading.sink);
    }
}

/// For what was checked already: files are kept, and algorithms are right.
struct Known;

impl Surroundings for Known {
    fn read(&self, _: &str) -> Result<String, String> {
        Err("it was not read before".to_owned())
    }

    fn check_algorithm(&self, _: &str) -> Result<(), Vec<String>> {
        Ok(())
    }
}
