//! Writes a recording: a folder of files that are each there whole or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fairwater_results::write_whole;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::folder;
use crate::head::{Head, RecordedProgram};
use crate::record::Record;
use crate::reports::Reports;
use crate::table::{self, TableError};

/// Why a recording cannot be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The folder is there, with something in it.
    #[error("{} is there already and not empty: a recording takes a new folder", .0.display())]
    NotEmpty(PathBuf),
    /// The system refused.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Records could not be put into a table.
    #[error("{}: {error}", .path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// Why.
        error: TableError,
    },
}

/// What a recorder says when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct End {
    /// Files with records.
    pub files: u64,
    /// Flows.
    pub flows: u64,
    /// Invocations.
    pub invocations: u64,
    /// Bytes of the files with records.
    pub bytes: u64,
    /// Invocations that the recorder was too slow for.
    pub lost: u64,
}

/// Writes the files of a recording.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    files: u64,
    bytes: u64,
    reports: Reports,
}

impl Writer {
    /// Makes the folder, with its head and programs.
    ///
    /// # Errors
    /// The folder has something in it, or the system refuses.
    pub fn create(
        path: &Path,
        head: &Head,
        programs: &[RecordedProgram],
    ) -> Result<Self, WriteError> {
        let io = |error| WriteError::Io {
            path: path.to_owned(),
            error,
        };
        fs::create_dir_all(path).map_err(io)?;
        if fs::read_dir(path).map_err(io)?.next().is_some() {
            return Err(WriteError::NotEmpty(path.to_owned()));
        }
        // Of two that begin at once in an empty folder, one goes on.
        let claimed = fs::File::create_new(path.join(folder::HEAD));
        claimed.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => WriteError::NotEmpty(path.to_owned()),
            _ => io(error),
        })?;
        let writer = Self {
            path: path.to_owned(),
            files: 0,
            bytes: 0,
            reports: Reports::default(),
        };
        writer.json(folder::HEAD, head)?;
        writer.programs(programs)?;
        Ok(writer)
    }

    /// Writes all programs that records may name.
    ///
    /// # Errors
    /// The system refuses.
    pub fn programs(&self, programs: &[RecordedProgram]) -> Result<(), WriteError> {
        self.json(folder::PROGRAMS, &programs)
    }

    /// Writes records as the next file; nothing if there are none.
    ///
    /// # Errors
    /// The system refuses.
    pub fn records(&mut self, records: &[Record]) -> Result<(), WriteError> {
        if records.is_empty() {
            return Ok(());
        }
        let table = |error| WriteError::Table {
            path: self.path.clone(),
            error,
        };
        let bytes = table::encode(records, &mut self.reports).map_err(table)?;
        self.files += 1;
        self.bytes += bytes.len() as u64;
        self.whole(&folder::table_name(self.files, &bytes), &bytes)
    }

    /// Ends the recording; `flows`, `invocations` and `lost` are as in [`End`].
    ///
    /// # Errors
    /// The system refuses.
    pub fn finish(self, flows: u64, invocations: u64, lost: u64) -> Result<End, WriteError> {
        let end = End {
            files: self.files,
            flows,
            invocations,
            bytes: self.bytes,
            lost,
        };
        self.json(folder::END, &end)?;
        Ok(end)
    }

    fn json(&self, name: &str, value: &impl Serialize) -> Result<(), WriteError> {
        let text = serde_json::to_vec_pretty(value).map_err(|error| WriteError::Io {
            path: self.path.join(name),
            error: error.into(),
        })?;
        self.whole(name, &text)
    }

    fn whole(&self, name: &str, bytes: &[u8]) -> Result<(), WriteError> {
        let path = self.path.join(name);
        write_whole(&path, bytes).map_err(|error| WriteError::Io { path, error })
    }
}
