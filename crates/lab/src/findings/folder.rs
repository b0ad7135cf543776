//! The folder of a grid's results. Each point is a file that is there whole or not at all; what
//! they were made from is kept beside them, so that results of two scenarios are never mixed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Finding;
use super::tables::{TABLES, tables};

/// What the results in a folder were made from.
const ORIGIN: &str = "origin.json";

/// Where the points' files are.
const POINTS: &str = "points";

/// All findings, a line each.
const LINES: &str = "results.jsonl";

/// A folder of results that belong together.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

/// Why a folder cannot be used.
#[derive(Debug, Error)]
pub enum FolderError {
    /// What is there was made from something else.
    #[error(
        "{} holds results of {what}: give another folder by --out, or begin anew by --fresh",
        path.display()
    )]
    Another {
        /// The folder.
        path: PathBuf,
        /// What differs.
        what: String,
    },
    /// There are files that nobody here wrote.
    #[error("{} is not empty, and holds no results: give another folder by --out", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A table could not be written.
    #[error("{}: {reason}", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// What results are made from: if any of this differs, they are of something else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Origin {
    version: String,
    world: String,
    scenario: String,
    files: BTreeMap<String, String>,
}

impl Folder {
    /// The folder at `path`, made if it is not there. If it holds results already they must be of
    /// the same scenario, of the same files, in the same world; `fresh` removes those of another.
    ///
    /// # Errors
    /// [`FolderError`]; nothing is removed then.
    pub fn open(
        path: &Path,
        world: &str,
        scenario: &str,
        files: BTreeMap<String, String>,
        fresh: bool,
    ) -> Result<Self, FolderError> {
        let folder = Folder {
            path: path.to_owned(),
        };
        let origin = Origin {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            world: world.to_owned(),
            scenario: scenario.to_owned(),
            files,
        };
        let file = path.join(ORIGIN);
        match fs::read(&file) {
            Ok(bytes) => {
                let before: Option<Origin> = serde_json::from_slice(&bytes).ok();
                if fresh {
                    folder.clear()?;
                } else if let Some(what) = difference(before.as_ref(), &origin) {
                    let path = path.to_owned();
                    return Err(FolderError::Another { path, what });
                } else {
                    return Ok(folder);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let occupied = fs::read_dir(path).is_ok_and(|mut dir| dir.next().is_some());
                if occupied {
                    let path = path.to_owned();
                    return Err(FolderError::Foreign { path });
                }
            }
            Err(source) => return Err(FolderError::Io { path: file, source }),
        }
        let points = path.join(POINTS);
        fs::create_dir_all(&points).map_err(io_error(&points))?;
        write_whole(&file, &to_json(&origin, &file)?)?;
        Ok(folder)
    }

    /// Removes what was found before, so that nothing of it stays beside what comes.
    fn clear(&self) -> Result<(), FolderError> {
        let points = self.path.join(POINTS);
        gone(fs::remove_dir_all(&points), &points)?;
        for name in std::iter::once(LINES).chain(TABLES) {
            let file = self.file(name);
            gone(fs::remove_file(&file), &file)?;
        }
        Ok(())
    }

    /// How many points' results are in the folder at `path`; 0 where there is none.
    #[must_use]
    pub fn points(path: &Path) -> usize {
        let Ok(entries) = fs::read_dir(path.join(POINTS)) else {
            return 0;
        };
        let is_point =
            |name: &std::ffi::OsStr| Path::new(name).extension().is_some_and(|e| e == "json");
        entries
            .flatten()
            .filter(|entry| is_point(&entry.file_name()))
            .count()
    }

    /// The file of that name in it.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn point(&self, index: usize, seed: u64) -> PathBuf {
        self.path
            .join(POINTS)
            .join(format!("{index:07}-{seed}.json"))
    }

    /// What was found at a point before; `None` when it has not been run, or its file is damaged.
    #[must_use]
    pub fn read(&self, index: usize, seed: u64) -> Option<Finding> {
        let bytes = fs::read(self.point(index, seed)).ok()?;
        let finding: Finding = serde_json::from_slice(&bytes).ok()?;
        (finding.point == index && finding.seed == seed).then_some(finding)
    }

    /// Keeps what was found at a point.
    ///
    /// # Errors
    /// That it cannot be written.
    pub fn keep(&self, finding: &Finding) -> Result<(), FolderError> {
        let file = self.point(finding.point, finding.seed);
        write_whole(&file, &to_json(finding, &file)?)
    }

    /// Writes all findings, in the order of the grid, as JSON lines and as Parquet tables, whose
    /// columns of variables are named `$name`. The files' names are returned.
    ///
    /// # Errors
    /// That a file cannot be written.
    pub fn finish(
        &self,
        findings: &[Finding],
        variables: &[&str],
    ) -> Result<Vec<&'static str>, FolderError> {
        let lines = self.file(LINES);
        let mut text = Vec::new();
        for finding in findings {
            text.extend(to_json(&finding.summary(), &lines)?);
        }
        write_whole(&lines, &text)?;
        let mut names = vec![LINES];
        for (name, table) in tables(findings, variables) {
            let path = self.file(name);
            let mut bytes = Vec::new();
            table
                .write(&mut bytes)
                .map_err(|error| FolderError::Table {
                    path: path.clone(),
                    reason: error.to_string(),
                })?;
            write_whole(&path, &bytes)?;
            names.push(name);
        }
        Ok(names)
    }
}

fn difference(before: Option<&Origin>, now: &Origin) -> Option<String> {
    let Some(before) = before else {
        return Some("something that cannot be read".to_owned());
    };
    if before.version != now.version {
        return Some(format!("Fairwater {}", before.version));
    }
    if before.world != now.world {
        return Some(format!("the same on {}", before.world));
    }
    if before.scenario != now.scenario {
        let lines = before.scenario.lines().zip(now.scenario.lines());
        let same = lines.take_while(|(before, now)| before == now).count();
        return Some(format!(
            "another scenario, which differs from line {}",
            same + 1
        ));
    }
    if before.files != now.files {
        let changed = now
            .files
            .iter()
            .find(|(name, text)| before.files.get(*name) != Some(text));
        let name = changed.map_or("a file", |(name, _)| name.as_str());
        return Some(format!("another `{name}`"));
    }
    None
}

/// One line of JSON.
fn to_json(value: &impl Serialize, path: &Path) -> Result<Vec<u8>, FolderError> {
    let mut bytes = serde_json::to_vec(value)
        .map_err(io::Error::from)
        .map_err(io_error(path))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Writes a file so that it is there whole or not at all, whatever ends this process.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    let written = fs::File::create(&part).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_data()
    });
    written
        .and_then(|()| fs::rename(&part, path))
        .map_err(io_error(path))
}

/// What is removed may not have been there.
fn gone(removed: io::Result<()>, path: &Path) -> Result<(), FolderError> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(io_error(path)),
    }
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.to_owned();
    move |source| FolderError::Io { path, source }
}
