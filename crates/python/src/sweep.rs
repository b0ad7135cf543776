//! A scenario's grid, point by point, for `fairwater.sweep`: whoever runs a point needs no more than
//! texts and its index, and what is found travels as text too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fairwater_algorithms::Choice;
use fairwater_experiment::Backend;
use fairwater_hosting::{FolderResolver, plane_of, python_source, resolve};
use fairwater_lab::points::simulated;

use fairwater_results::{Folder, PointResult, report, write_whole};
use fairwater_scenario::{self as scenario, Point, Resolver, Scenario};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::simulate::failures;

/// The back end of `fairwater run --on sim`.
const BACKEND: Backend = Backend::Sim;

/// A scenario's grid.
#[pyclass(frozen, module = "fairwater._fairwater")]
pub(crate) struct Grid {
    scenario: Scenario,
    folder: PathBuf,
}

#[pymethods]
impl Grid {
    /// The grid of a scenario's source. Files that it names are those of `files` if that is given,
    /// else read from `folder`; classes in Python files are found in `folder`.
    #[new]
    #[pyo3(signature = (name, source, folder, files = None, settings = Vec::new(), seed = None))]
    fn new(
        name: &str,
        mut source: String,
        folder: PathBuf,
        files: Option<BTreeMap<String, String>>,
        settings: Vec<String>,
        seed: Option<u64>,
    ) -> PyResult<Self> {
        for setting in &settings {
            source = scenario::set(&source, setting).map_err(refused)?;
        }
        if let Some(seed) = seed {
            source = scenario::set_seed(&source, seed).map_err(refused)?;
        }
        let resolver = ScenarioResolver {
            beside: FolderResolver::new(&folder),
            folder: &folder,
            files,
        };
        let scenario = Scenario::parse(name, &source, BACKEND, &resolver)
            .map_err(|diagnostics| PyValueError::new_err(diagnostics.render(false)))?;
        Ok(Self { scenario, folder })
    }

    fn __len__(&self) -> usize {
        self.scenario.len()
    }

    /// The source, with what settings and the seed changed in it.
    #[getter]
    fn source(&self) -> &str {
        self.scenario.source()
    }

    /// The texts of the files that it names, by name.
    #[getter]
    fn files(&self) -> BTreeMap<String, String> {
        self.scenario.files()
    }

    /// The texts of the Python files that its algorithms are in, by name.
    #[getter]
    fn scripts(&self) -> BTreeMap<String, String> {
        let texts = self.scenario.algorithms();
        let sources = texts.iter().filter_map(|t| python_source(t, &self.folder));
        sources.collect()
    }

    /// Simulates a point: what is found, as JSON.
    fn simulate(&self, py: Python<'_>, index: usize) -> PyResult<String> {
        if index >= self.scenario.len() {
            let points = self.scenario.len();
            let message = format!("there is no point {index}: the grid has {points}");
            return Err(PyValueError::new_err(message));
        }
        py.detach(|| {
            let point = self.scenario.sampled_point(index);
            let result = self.simulate_point(&point)?;
            serde_json::to_string(&result).map_err(refused)
        })
    }
}

impl Grid {
    fn simulate_point(&self, point: &Point) -> PyResult<PointResult> {
        let mut choices: Vec<(String, Choice)> = Vec::new();
        for text in point.algorithms() {
            let choice = resolve(&text, &self.folder).map_err(refused)?.choice;
            choices.push((text, choice));
        }
        let named = choices.iter().map(|(name, choice)| (name.as_str(), choice));
        let plane = plane_of(named).map_err(refused)?;
        let outcome = fairwater_sim::run(&point.experiment, plane, &mut ()).map_err(refused)?;
        Ok(simulated(point, &outcome))
    }
}

/// What a scenario refers to.
struct ScenarioResolver<'a> {
    beside: FolderResolver,
    folder: &'a Path,
    files: Option<BTreeMap<String, String>>,
}

impl Resolver for ScenarioResolver<'_> {
    fn read(&self, name: &str) -> Result<String, String> {
        match &self.files {
            Some(files) => files
                .get(name)
                .cloned()
                .ok_or_else(|| format!("{name}: it was not sent along")),
            None => self.beside.read(name),
        }
    }

    fn check_algorithm(&self, text: &str) -> Result<(), Vec<String>> {
        resolve(text, self.folder)
            .map(|_| ())
            .map_err(|error| error.messages)
    }
}

/// The folder of a grid's results: what `fairwater run` makes, file by file.
#[pyclass(frozen, module = "fairwater._fairwater")]
pub(crate) struct ResultsFolder {
    grid: Py<Grid>,
    folder: Folder,
}

#[pymethods]
impl ResultsFolder {
    /// Opens or makes it; `fresh` forgets what is in it.
    #[new]
    fn new(path: PathBuf, grid: Py<Grid>, fresh: bool) -> PyResult<Self> {
        let scenario = &grid.get().scenario;
        let alone = scenario.len() == 1 && Folder::count(&path) <= 1;
        let source = scenario.source();
        let mut files = scenario.files();
        files.extend(grid.get().scripts());
        let folder =
            Folder::open(&path, BACKEND.name(), source, files, fresh || alone).map_err(refused)?;
        Ok(Self { grid, folder })
    }

    /// The points that are still to be run.
    fn missing(&self) -> Vec<usize> {
        let scenario = &self.grid.get().scenario;
        (0..scenario.len())
            .filter(|index| self.kept(*index).is_none())
            .collect()
    }

    /// Keeps what `Grid.simulate` found.
    fn keep(&self, found: &str) -> PyResult<()> {
        let result: PointResult = serde_json::from_str(found).map_err(refused)?;
        self.folder.keep(&result).map_err(unwritten)
    }

    /// Writes tables, lines and the report page of all points.
    /// Returns a sentence for each flow that ran without its algorithm because that failed.
    fn finish(&self, py: Python<'_>, title: &str) -> PyResult<Vec<String>> {
        py.detach(|| {
            let scenario = &self.grid.get().scenario;
            let points: Vec<PointResult> = (0..scenario.len())
                .filter_map(|index| self.kept(index))
                .collect();
            let variables = scenario.variables();
            self.folder.finish(&points, &variables).map_err(unwritten)?;
            let title = scenario.title().unwrap_or(title);
            let page = report::points(title, &points, &variables, scenario.layout());
            write_whole(&self.folder.file("report.html"), page.as_bytes())?;
            Ok(failures(&points))
        })
    }
}

impl ResultsFolder {
    fn kept(&self, index: usize) -> Option<PointResult> {
        let seeds = self.grid.get().scenario.seeds();
        self.folder.read(index, seeds[index % seeds.len()])
    }
}

fn refused(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn unwritten(error: impl std::fmt::Display) -> PyErr {
    PyOSError::new_err(error.to_string())
}
