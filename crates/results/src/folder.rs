//! The folder of a grid's results. Each point is a file that is there whole or not at all; what
//! they were made from is kept beside them, so that results of two scenarios are never mixed.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::PointResult;
use crate::files::write_whole;
use crate::tables::{TABLES, tables};

/// What the results in a folder were made from.
const ORIGIN: &str = "origin.json";

/// Where the points' files are.
const POINTS: &str = "points";

/// All points, a line each.
const LINES: &str = "results.jsonl";

/// A folder of results that belong together.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _lock: FolderLock,
}

/// The file that the process writing into a folder holds a lock on; the process's id is in it.
const LOCK: &str = ".lock";

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
    /// Another process writes into it.
    #[error("{}: process {pid} is writing results there; wait, or give another folder by --out", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
        /// The process's id, as far as it is known.
        pid: String,
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
    backend: String,
    scenario: String,
    files: BTreeMap<String, String>,
}

impl Folder {
    /// The folder at `path`, made if it is not there. If it holds results already they must be of
    /// the same scenario, of the same files, by the same back end; `fresh` removes those of another.
    ///
    /// # Errors
    /// [`FolderError`]; nothing is removed then.
    pub fn open(
        path: &Path,
        backend: &str,
        scenario: &str,
        files: BTreeMap<String, String>,
        fresh: bool,
    ) -> Result<Self, FolderError> {
        let origin = Origin {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            backend: backend.to_owned(),
            scenario: scenario.to_owned(),
            files,
        };
        let file = path.join(ORIGIN);
        let foreign = || {
            let path = path.to_owned();
            Err(FolderError::Foreign { path })
        };
        // In a folder that is not ours nothing is made, not even a lock.
        if !file.exists() && !path.join(LOCK).exists() && is_occupied(path) {
            return foreign();
        }
        fs::create_dir_all(path).map_err(io_error(path))?;
        let folder = Folder {
            path: path.to_owned(),
            _lock: FolderLock::take(path)?,
        };
        match fs::read(&file) {
            Ok(bytes) => {
                let before: Option<Origin> = serde_json::from_slice(&bytes).ok();
                if fresh {
                    folder.clear()?;
                } else if let Some(what) = difference(before.as_ref(), &origin) {
                    let path = path.to_owned();
                    return Err(FolderError::Another { path, what });
                } else {
                    folder.make_points()?;
                    return Ok(folder);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if is_occupied(path) {
                    return foreign();
                }
            }
            Err(source) => return Err(FolderError::Io { path: file, source }),
        }
        write(&file, &to_json(&origin, &file)?)?;
        folder.make_points()?;
        Ok(folder)
    }

    fn make_points(&self) -> Result<(), FolderError> {
        self.remove_parts();
        let points = self.path.join(POINTS);
        fs::create_dir_all(&points).map_err(io_error(&points))
    }

    /// Removes what a process that was killed had not finished.
    fn remove_parts(&self) {
        for folder in [self.path.clone(), self.path.join(POINTS)] {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let stem = path
                    .extension()
                    .filter(|e| *e == "part")
                    .and(path.file_stem());
                let pid = stem.and_then(|stem| Path::new(stem).extension()?.to_str());
                if pid.is_some_and(|pid| pid.bytes().all(|b| b.is_ascii_digit())) {
                    // What cannot be removed harms no result.
                    let _ = fs::remove_file(path);
                }
            }
        }
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
    pub fn count(path: &Path) -> usize {
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

    /// The kept result of a point; `None` when it has not been run, or its file is damaged.
    #[must_use]
    pub fn read(&self, index: usize, seed: u64) -> Option<PointResult> {
        let bytes = fs::read(self.point(index, seed)).ok()?;
        let point: PointResult = serde_json::from_slice(&bytes).ok()?;
        (point.point == index && point.seed == seed).then_some(point)
    }

    /// Keeps the result of a point.
    ///
    /// # Errors
    /// That it cannot be written.
    pub fn keep(&self, point: &PointResult) -> Result<(), FolderError> {
        let file = self.point(point.point, point.seed);
        write(&file, &to_json(point, &file)?)
    }

    /// Writes all points, in the order of the grid, as JSON lines and as Parquet tables, whose
    /// columns of variables are named `$name`. The files' names are returned.
    ///
    /// # Errors
    /// That a file cannot be written.
    pub fn finish(
        &self,
        points: &[PointResult],
        variables: &[&str],
    ) -> Result<Vec<&'static str>, FolderError> {
        let lines = self.file(LINES);
        let mut text = Vec::new();
        for point in points {
            text.extend(to_json(&point.summary(), &lines)?);
        }
        write(&lines, &text)?;
        let mut names = vec![LINES];
        for (name, table) in tables(points, variables) {
            let path = self.file(name);
            let mut bytes = Vec::new();
            table
                .write(&mut bytes)
                .map_err(|error| FolderError::Table {
                    path: path.clone(),
                    reason: error.to_string(),
                })?;
            write(&path, &bytes)?;
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
    if before.backend != now.backend {
        return Some(format!("the same on {}", before.backend));
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

fn write(path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
    write_whole(path, bytes).map_err(io_error(path))
}

/// Whether a folder has anything in it that no results have.
fn is_occupied(path: &Path) -> bool {
    let Ok(entries) = fs::read_dir(path) else {
        return false;
    };
    entries.flatten().any(|entry| entry.file_name() != LOCK)
}

/// A folder that this process alone writes into. The lock ends with the process, however it ends;
/// its file is removed when the folder is released in good order.
#[derive(Debug)]
struct FolderLock {
    path: PathBuf,
    _file: File,
}

impl FolderLock {
    fn take(folder: &Path) -> Result<Self, FolderError> {
        let path = folder.join(LOCK);
        loop {
            let mut options = File::options();
            let opened = options
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path);
            let mut file = opened.map_err(io_error(&path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let mut pid = String::new();
                    // The other may not have written it yet.
                    let _ = (&file).take(20).read_to_string(&mut pid);
                    let path = folder.to_owned();
                    return Err(FolderError::Busy { path, pid });
                }
                Err(TryLockError::Error(source)) => return Err(FolderError::Io { path, source }),
            }
            // A process that released the folder meanwhile removed this file: lock the next one.
            if !is_file_at(&file, &path) {
                continue;
            }
            let written = file
                .set_len(0)
                .and_then(|()| write!(file, "{}", std::process::id()));
            written.map_err(io_error(&path))?;
            return Ok(Self { path, _file: file });
        }
    }
}

impl Drop for FolderLock {
    /// Before the file is closed, and so while it is locked.
    fn drop(&mut self) {
        // What cannot be removed does no harm: a lock is held by a process, not by its file.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether this open file is the one that the path leads to.
fn is_file_at(file: &File, path: &Path) -> bool {
    let at_path = fs::metadata(path).map(|m| (m.dev(), m.ino()));
    let opened = file.metadata().map(|m| (m.dev(), m.ino()));
    matches!((opened, at_path), (Ok(opened), Ok(at_path)) if opened == at_path)
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
