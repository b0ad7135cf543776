//! Scenarios: a network, its traffic and what to measure, in one TOML file that the simulator and
//! the lab both run. `docs/scenarios.md` is the reference of the file.
//!
//! ```
//! use fairwater_experiment::Backend;
//! use fairwater_scenario::{Resolver, Scenario};
//!
//! struct Nothing;
//!
//! impl Resolver for Nothing {
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
//! let scenario = Scenario::parse("grid.toml", text, Backend::Sim, &Nothing)?;
//! assert_eq!(scenario.len(), 4);
//! assert_eq!(scenario.point(2).variables, [("rate".to_owned(), "48mbit".to_owned())]);
//! # Ok::<(), fairwater_scenario::Diagnostics>(())
//! ```

mod build;
mod bundle;
mod capacity;
mod disturbance;
mod files;
mod flow;
mod host_edge;
mod linux;
mod network;
mod paths;
mod report;
mod setting;
mod sweep;
mod tcp;
mod traffic;

use std::collections::BTreeMap;
use std::ops::Range;

use fairwater_experiment::{Backend, Experiment};
use fairwater_results::report::GridLayout;

use diagnostic::Sink;
use fairwater_document::{diagnostic, fields, quantity, queue, tree};

pub use diagnostic::{Diagnostic, Diagnostics};
use files::Files;
pub use files::Resolver;
pub use setting::{SettingError, set, set_seed};
use sweep::Sweep;
use tree::Node;

/// The most bytes of a scenario's file.
pub const MAX_SOURCE_BYTES: u64 = 1 << 20;

/// The most points of a grid, seeds included.
const MAX_POINTS: usize = 1_000_000;

/// Samples of a run that is alone, if the scenario asks for none.
const SAMPLES: u32 = 500;

/// A scenario that was read and checked at each point of its grid.
#[derive(Debug)]
pub struct Scenario {
    source: String,
    root: Node,
    sweep: Sweep,
    layout: GridLayout,
    files: Files,
}

/// One point of a scenario's grid: a simulation, or a run on real TCP.
#[derive(Debug, Clone)]
pub struct Point {
    /// Its place in the grid.
    pub index: usize,
    /// The variables of the sweep, in the order of the file, with their values here as text.
    pub variables: Vec<(String, String)>,
    /// What to run. A plane hosts each algorithm under the text that the file has for it.
    pub experiment: Experiment,
    /// The tables of flows.
    pub groups: Vec<Group>,
    /// By edge: the name of its delivery trace, if that is its capacity.
    pub traces: Vec<Option<String>>,
    /// By node: its name.
    pub hosts: Vec<String>,
}

impl Point {
    /// Each algorithm of this project that something at this point runs, as its text, once.
    #[must_use]
    pub fn algorithms(&self) -> Vec<String> {
        let of_groups = self.groups.iter().flat_map(Group::algorithms);
        let of_bundles = self.experiment.bundles.iter();
        let mut texts: Vec<String> = Vec::new();
        for text in of_groups.chain(of_bundles.map(|bundle| &bundle.algorithm)) {
            if !texts.contains(text) {
                texts.push(text.clone());
            }
        }
        texts
    }

    /// Index of the group that a flow is in.
    #[must_use]
    pub fn group_of(&self, flow: usize) -> usize {
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
    /// The algorithms of the box that the senders are behind, as the file has them.
    pub edge: Vec<String>,
    /// Which flows of [`Experiment::flows`] these are.
    pub flows: Range<usize>,
}

impl Group {
    /// The algorithms of this project that its flows run, in their sender or at its host's edge.
    pub fn algorithms(&self) -> impl Iterator<Item = &String> {
        self.sender_algorithm().into_iter().chain(&self.edge)
    }

    /// The algorithm of this project that its senders run.
    #[must_use]
    pub const fn sender_algorithm(&self) -> Option<&String> {
        match &self.sender {
            Sender::Plane(text) => Some(text),
            Sender::Native(_) | Sender::Kernel(_) => None,
        }
    }
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

/// What context needs everywhere.
struct Context<'a> {
    sink: &'a Sink,
    files: &'a Files,
    resolver: &'a dyn Resolver,
    backend: Backend,
}

impl Scenario {
    /// Reads a scenario and checks it at each point of its grid.
    ///
    /// # Errors
    /// Everything that is wrong with it, or that this backend cannot do, each thing at its line.
    pub fn parse(
        file_name: &str,
        source: &str,
        backend: Backend,
        resolver: &dyn Resolver,
    ) -> Result<Self, Diagnostics> {
        let sink = Sink::default();
        let files = Files::default();
        if source.len() as u64 > MAX_SOURCE_BYTES {
            let message = format!("a scenario has at most {MAX_SOURCE_BYTES} bytes");
            sink.push(Diagnostic::new(0..0, message));
        }
        let read = if sink.said() == 0 { source } else { "" };
        let root = tree::parse(read, &sink);
        // What could not be parsed would only be missed again.
        let parsed = sink.said() == 0;
        let sweep = Sweep::read(&root, &sink);
        let mut layout = GridLayout::default();
        if parsed {
            let context = Context {
                sink: &sink,
                files: &files,
                resolver,
                backend,
            };
            if let Some(node) = root.entry("report") {
                layout = report::read(node, &sweep, &context);
            }
            check(&root, &sweep, &context);
        }
        sink.finish(file_name, read)?;
        Ok(Scenario {
            source: source.to_owned(),
            root,
            sweep,
            layout,
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
    pub fn layout(&self) -> &GridLayout {
        &self.layout
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
        let context = Context {
            sink: &sink,
            files: &self.files,
            resolver: &AlreadyChecked,
            backend: Backend::Sim,
        };
        build::point(
            &self.root,
            &self.sweep,
            index,
            &mut self.sweep.unused(),
            &context,
        )
    }

    /// A point as it is run: one that is alone is sampled even if the scenario asks for no
    /// samples, for its report shows it in time.
    #[must_use]
    pub fn sampled_point(&self, index: usize) -> Point {
        let mut point = self.point(index);
        if self.len() == 1 {
            point.experiment.measure.requests = true;
        }
        if self.len() == 1 && point.experiment.measure.interval.is_none() {
            let interval = point.experiment.sample_interval(SAMPLES);
            point.experiment.measure.interval = Some(interval);
        }
        point
    }

    /// Each algorithm of this project that flows or sendboxes of any point run, as its text, once.
    #[must_use]
    pub fn algorithms(&self) -> Vec<String> {
        self.texts(Point::algorithms)
    }

    /// Each algorithm of this project that senders of any point run, as its text, once.
    #[must_use]
    pub fn sender_algorithms(&self) -> Vec<String> {
        self.texts(|point| {
            let of_senders = point.groups.iter().filter_map(Group::sender_algorithm);
            of_senders.cloned().collect()
        })
    }

    fn texts(&self, of: impl Fn(&Point) -> Vec<String>) -> Vec<String> {
        let mut texts = Vec::new();
        let seeds = self.seeds().len();
        for index in (0..self.len()).step_by(seeds) {
            for text in of(&self.point(index)) {
                if !texts.contains(&text) {
                    texts.push(text);
                }
            }
        }
        texts
    }
}

/// Reads each point of the grid but those that differ in the seed alone.
fn check(root: &Node, sweep: &Sweep, context: &Context<'_>) {
    let mut used = sweep.unused();
    if sweep.is_too_large() {
        // What else is wrong shows at the first point.
        build::point(root, sweep, 0, &mut used, context);
        return;
    }
    for index in (0..sweep.points()).step_by(sweep.seeds.len()) {
        build::point(root, sweep, index, &mut used, context);
        if context.sink.is_full() {
            return;
        }
    }
    if context.sink.said() == 0 {
        sweep.name_unused(&used, context.sink);
    }
}

/// For what was checked already: files are kept, and algorithms are right.
struct AlreadyChecked;

impl Resolver for AlreadyChecked {
    fn read(&self, _: &str) -> Result<String, String> {
        Err("it was not read before".to_owned())
    }

    fn check_algorithm(&self, _: &str) -> Result<(), Vec<String>> {
        Ok(())
    }
}
