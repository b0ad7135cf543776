//! The catalogue of results, on disk.

use std::fs;
use std::path::{Path, PathBuf};

use fairwater_experiment::Backend;
use fairwater_hosting::FolderResolver;
use fairwater_lab::input::read_text;
use fairwater_reproduce::{Entry, Resolver, World};
use fairwater_scenario::{self as scenario, Scenario};

use crate::failure::Failure;

/// The catalogue in a folder: `PAPER/ID.toml`. What its entries name is relative to the folder that the
/// catalogue is in.
#[derive(Debug)]
pub(super) struct Catalogue {
    folder: PathBuf,
    root: PathBuf,
}

/// Where an entry is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) paper: String,
    /// Digits as numbers, so that 9 comes before 10.
    order: Vec<(u64, String)>,
    pub(super) id: String,
}

impl Catalogue {
    /// The catalogue in this folder.
    pub(super) fn open(folder: &Path) -> Result<Self, Failure> {
        if !folder.is_dir() {
            let shown = folder.display();
            return Err(Failure::BadInput(format!(
                "there is no catalogue at {shown}: run this in Fairwater's source folder, or name the catalogue by --catalogue"
            )));
        }
        let whole = folder
            .canonicalize()
            .map_err(Failure::io(folder.display().to_string()))?;
        let root = whole.parent().unwrap_or(Path::new("/")).to_owned();
        Ok(Self {
            folder: folder.to_owned(),
            root,
        })
    }

    /// All entries, by paper and number.
    pub(super) fn names(&self) -> Result<Vec<Name>, Failure> {
        let mut names = Vec::new();
        for paper in entries(&self.folder)? {
            let path = self.folder.join(&paper);
            if !path.is_dir() {
                continue;
            }
            for file in entries(&path)? {
                if let Some(id) = file.strip_suffix(".toml") {
                    names.push(Name::new(&paper, id));
                }
            }
        }
        names.sort();
        Ok(names)
    }

    /// Reads an entry; what is wrong with it is printed.
    pub(super) fn read(&self, name: &Name) -> Result<Entry, Failure> {
        let path = self
            .folder
            .join(&name.paper)
            .join(format!("{}.toml", name.id));
        let shown = path.display().to_string();
        let source = read_text(&path, scenario::MAX_SOURCE_BYTES)
            .map_err(|error| Failure::BadInput(format!("{shown}: {error}")))?;
        Entry::parse(&name.paper, &name.id, &shown, &source, self).map_err(|refused| {
            anstream::eprint!("{}", refused.render(true));
            Failure::AlreadyReported(2)
        })
    }

    /// The folder of a scenario that an entry names.
    pub(super) fn scenario_folder(&self, file: &str) -> PathBuf {
        let path = self.root.join(file);
        path.parent().unwrap_or(&self.root).to_owned()
    }
}

impl Resolver for Catalogue {
    fn scenario(&self, file: &str, settings: &[String], world: World) -> Result<Scenario, String> {
        let path = self.root.join(file);
        let mut source =
            read_text(&path, scenario::MAX_SOURCE_BYTES).map_err(|error| error.to_string())?;
        for setting in settings {
            source = scenario::set(&source, setting).map_err(|error| error.to_string())?;
        }
        let resolver = FolderResolver::new(&self.scenario_folder(file));
        Scenario::parse(file, &source, backend(world), &resolver)
            .map_err(|refused| refused.render(false))
    }
}

/// What runs the scenarios of a world.
pub(super) fn backend(world: World) -> Backend {
    match world {
        World::Linux => Backend::Linux,
        World::Sim | World::Bench => Backend::Sim,
    }
}

impl Name {
    fn new(paper: &str, id: &str) -> Self {
        let mut order = Vec::new();
        for part in id.split(['.', '-']) {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            let number = part[..digits].parse().unwrap_or(u64::MAX);
            order.push((number, part[digits..].to_owned()));
        }
        Self {
            paper: paper.to_owned(),
            order,
            id: id.to_owned(),
        }
    }

    /// As it is typed: `ccp:14`.
    pub(super) fn shown(&self) -> String {
        format!("{}:{}", self.paper, self.id)
    }
}

/// The names in a folder.
fn entries(folder: &Path) -> Result<Vec<String>, Failure> {
    let failed = || Failure::io(folder.display().to_string());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
