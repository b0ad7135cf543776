//! Runs, each kept on disk as it is done, so that what was stopped goes on.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::num::NonZero;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;

use fairwater_experiment::TICK;
use fairwater_lab::points::schedule;
use fairwater_results::PointResult;
use serde::{Deserialize, Serialize};

use super::workers::{Ended, Workers};
use crate::commands::run::watch::Watch;
use crate::commands::simulate::{Request, Run};
use crate::failure::Failure;

/// What is known of a run.
#[derive(Debug, Clone)]
pub(super) enum Known {
    /// What it measured.
    Measured(Box<PointResult>),
    /// How it failed.
    Failed(String),
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Kept {
    run: Run,
    result: Box<PointResult>,
}

/// Runs that are done, and the file that keeps them.
pub(super) struct Runs<'a> {
    workers: &'a Workers<'a>,
    folder: &'a Path,
    file: Mutex<File>,
    known: Mutex<HashMap<Run, Known>>,
    jobs: usize,
    quiet: bool,
}

impl<'a> Runs<'a> {
    /// The runs that `file` keeps. Files that scenarios name are relative to `folder`.
    pub(super) fn open(
        file: &Path,
        folder: &'a Path,
        workers: &'a Workers<'a>,
        jobs: Option<usize>,
        quiet: bool,
    ) -> Result<Self, Failure> {
        let shown = file.display().to_string();
        let opened = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(file);
        let mut file = opened.map_err(Failure::io(shown.clone()))?;
        let mut known = HashMap::new();
        let mut is_cut = false;
        for line in BufReader::new(&file).split(b'\n').map_while(Result::ok) {
            // A line that a kill cut off is run again.
            match serde_json::from_slice::<Kept>(&line) {
                Ok(kept) => {
                    known.insert(kept.run, Known::Measured(kept.result));
                }
                Err(_) => is_cut = true,
            }
        }
        if is_cut {
            file.write_all(b"\n").map_err(Failure::io(shown))?;
        }
        let cores = || thread::available_parallelism().map_or(1, NonZero::get);
        Ok(Self {
            workers,
            folder,
            file: Mutex::new(file),
            known: Mutex::new(known),
            jobs: jobs.unwrap_or_else(cores),
            quiet,
        })
    }

    /// What is known of these runs, in their order; those that are missing are run. `None` when it was stopped. `what` names them in the progress.
    pub(super) fn all(&self, what: &str, asked: &[Run]) -> Result<Option<Vec<Known>>, Failure> {
        let is_known = |run: &Run| self.lock().contains_key(run);
        let missing: Vec<usize> = (0..asked.len())
            .filter(|index| !is_known(&asked[*index]))
            .collect();
        if !self.quiet && !missing.is_empty() && !what.is_empty() {
            eprintln!(
                "{what}: {} to run",
                crate::units::count(missing.len(), "run")
            );
        }
        let is_quiet = self.quiet || what.is_empty();
        let mut watch = Watch::new(is_quiet || missing.is_empty(), missing.len(), 0);
        let mut failed = None;
        schedule(
            missing,
            self.jobs,
            TICK,
            |index| self.one(&asked[index]).transpose(),
            |done| {
                match done {
                    Some(Ok(())) => watch.advance(),
                    Some(Err(failure)) => {
                        failed.get_or_insert(failure);
                    }
                    None => {}
                }
                failed.is_none()
            },
        );
        if let Some(failure) = failed {
            return Err(failure);
        }
        let known = self.lock();
        Ok(asked.iter().map(|run| known.get(run).cloned()).collect())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Run, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one and keeps it; `None` when it was stopped.
    fn one(&self, run: &Run) -> Result<Option<()>, Failure> {
        let request = Request {
            run: run.clone(),
            folder: self.folder.to_owned(),
        };
        let known = match self.workers.simulate(&request)? {
            None => return Ok(None),
            Some(Ended::Failed(text)) => Known::Failed(text),
            Some(Ended::Done(result)) => {
                let kept = Kept {
                    run: run.clone(),
                    result,
                };
                self.keep(&kept)?;
                Known::Measured(kept.result)
            }
        };
        self.lock().insert(run.clone(), known);
        Ok(Some(()))
    }

    fn keep(&self, kept: &Kept) -> Result<(), Failure> {
        let written = serde_json::to_vec(kept)
            .map_err(std::io::Error::from)
            .and_then(|mut line| {
                line.push(b'\n');
                let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
                file.write_all(&line)
            });
        written.map_err(Failure::io("keeping a run"))
    }
}
