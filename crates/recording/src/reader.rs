//! Reads a recording, as far as its files are there and sound.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fairwater_lang::Program;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::folder;
use crate::head::{self, FORMAT, Head, RecordedProgram, VERSION};
use crate::record::{Record, What};
use crate::reports::Reports;
use crate::table;
use crate::writer::End;

/// Largest file that is read, bytes: a recorder's are far smaller.
const MOST_BYTES: u64 = 1 << 28;

/// Why nothing of a recording can be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The folder or a file that every recording has cannot be read.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The folder has no head.
    #[error("{} is no recording: it has no {}", .0.display(), folder::HEAD)]
    NoRecording(PathBuf),
    /// A file that every recording has makes no sense.
    #[error("{} is damaged: {why}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Another version of the format.
    #[error("{} is of version {found} of the format; this software reads version {VERSION}", .path.display())]
    Version {
        /// The head.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
}

/// A recording in memory.
#[derive(Debug)]
pub struct Recording {
    /// The head.
    pub head: Head,
    /// The programs, each with what it was compiled to.
    pub programs: Vec<(RecordedProgram, Program)>,
    /// What happened, in order; [`What::Gap`] where a file is missing.
    pub records: Vec<Record>,
    /// What the recorder said when it ended; `None` if it was cut off.
    pub end: Option<End>,
    /// What cannot be read.
    pub damage: Vec<Damage>,
}

/// A part of a recording that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damage {
    /// A file is missing, by its number.
    Missing(u64),
    /// A file has other bytes than those that were written.
    Changed(String),
    /// A file is no table of records, though its bytes are those that were written.
    Unreadable(String, String),
    /// A file cites a program or an algorithm that the recording does not have.
    Foreign(String),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(number) => write!(f, "file {number:06} is missing"),
            Self::Changed(name) => write!(
                f,
                "{name} is cut or changed: its bytes have another hash than its name"
            ),
            Self::Unreadable(name, why) => write!(f, "{name} cannot be read: {why}"),
            Self::Foreign(name) => write!(
                f,
                "{name} cites a program or an algorithm that the recording does not have"
            ),
        }
    }
}

impl Recording {
    /// Reads the recording in a folder.
    ///
    /// # Errors
    /// There is no recording, it is of another version, or its head or programs are damaged. Damage to
    /// other files is told in [`Recording::damage`].
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let io = |error| ReadError::Io {
            path: path.to_owned(),
            error,
        };
        let mut names = Vec::new();
        for file in fs::read_dir(path).map_err(io)? {
            names.push(file.map_err(io)?.file_name().to_string_lossy().into_owned());
        }
        if !names.iter().any(|name| name == folder::HEAD) {
            return Err(ReadError::NoRecording(path.to_owned()));
        }
        Self::read(path, &names, &mut |name| read_file(&path.join(name)))
    }

    /// Reads the recording of files with these names, by whatever reads one; `path` is the folder for
    /// errors.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn read(
        path: &Path,
        names: &[String],
        read: &mut dyn FnMut(&str) -> io::Result<Vec<u8>>,
    ) -> Result<Self, ReadError> {
        let mut bytes = |name: &str| {
            let path = path.join(name);
            match read(name) {
                Ok(bytes) => Ok((path, bytes)),
                Err(error) => Err(ReadError::Io { path, error }),
            }
        };
        let (head_path, head) = bytes(folder::HEAD)?;
        let head = read_head(&head_path, &head)?;
        let (programs_path, programs) = bytes(folder::PROGRAMS)?;
        let programs = read_programs(&programs_path, &programs)?;
        let end = match names.iter().any(|name| name == folder::END) {
            true => {
                let (path, end) = bytes(folder::END)?;
                Some(from_json(&path, &end)?)
            }
            false => None,
        };
        let mut recording = Self {
            head,
            programs,
            records: Vec::new(),
            end,
            damage: Vec::new(),
        };
        recording.read_tables(names, read);
        Ok(recording)
    }

    /// The invocations, numbered from 1, in order.
    pub fn invocations(&self) -> impl Iterator<Item = (u64, &Record)> {
        let is_invocation = |record: &&Record| matches!(record.what, What::Invoked(_));
        (1..).zip(self.records.iter().filter(is_invocation))
    }

    fn read_tables(&mut self, names: &[String], read: &mut dyn FnMut(&str) -> io::Result<Vec<u8>>) {
        let numbered = names.iter().filter_map(|name| {
            let number = folder::table_number(name)?;
            Some((number, name.as_str()))
        });
        let tables: BTreeMap<u64, &str> = numbered.collect();
        let last = tables.keys().next_back().copied().unwrap_or(0);
        let last = last.max(self.end.map_or(0, |end| end.files));
        let mut reports = Reports::default();
        let mut next = 1;
        for (number, name) in tables {
            self.missing(next, number, &mut reports);
            next = number.saturating_add(1);
            match self.read_table((number, name), read, &mut reports) {
                Ok(records) => self.records.extend(records),
                Err(damage) => self.gap(damage, &mut reports),
            }
        }
        self.missing(next, last.saturating_add(1), &mut reports);
    }

    /// The files of these numbers are missing.
    fn missing(&mut self, from: u64, to: u64, reports: &mut Reports) {
        // A name may have any number: one mention of many files is enough.
        for number in (from..to).take(MOST_MENTIONED) {
            self.gap(Damage::Missing(number), reports);
        }
    }

    fn gap(&mut self, damage: Damage, reports: &mut Reports) {
        self.damage.push(damage);
        let gap = Record::gap();
        reports.note(&gap);
        self.records.push(gap);
    }

    fn read_table(
        &self,
        (number, name): (u64, &str),
        read: &mut dyn FnMut(&str) -> io::Result<Vec<u8>>,
        reports: &mut Reports,
    ) -> Result<Vec<Record>, Damage> {
        let unreadable = |why: String| Damage::Unreadable(name.to_owned(), why);
        let bytes = read(name).map_err(|error| unreadable(error.to_string()))?;
        if folder::table_name(number, &bytes) != name {
            return Err(Damage::Changed(name.to_owned()));
        }
        let records = decode(bytes, reports).map_err(unreadable)?;
        match records.iter().all(|record| self.has_what_it_cites(record)) {
            true => Ok(records),
            false => Err(Damage::Foreign(name.to_owned())),
        }
    }

    fn has_what_it_cites(&self, record: &Record) -> bool {
        use crate::record::PlaneEvent as Event;

        let program =
            |index: Option<u32>| index.is_none_or(|index| (index as usize) < self.programs.len());
        let algorithm = |index: Option<u32>| {
            index.is_none_or(|index| (index as usize) < self.head.algorithms.len())
        };
        match &record.what {
            What::State(state) => {
                program(state.program)
                    && state.program.is_none_or(|index| {
                        let (_, program) = &self.programs[index as usize];
                        program.variables.len() == state.variables.len()
                    })
            }
            What::Invoked(invoked) => {
                let stage = invoked.stage.as_ref();
                program(invoked.program) && program(stage.and_then(|stage| stage.switch))
            }
            What::Command(command) => program(command.stage.switch) && algorithm(command.hand_over),
            What::Event(Event::Created(arrival) | Event::Resumed(arrival)) => {
                algorithm(Some(arrival.algorithm))
            }
            What::Event(Event::Reported(report)) => program(Some(report.program)),
            _ => true,
        }
    }
}

/// Missing files that are told one by one.
const MOST_MENTIONED: usize = 1000;

/// Decodes a table. Its bytes are those that some recorder wrote, unless somebody made their hash up:
/// the Parquet reader is not made for that, and may panic.
fn decode(bytes: Vec<u8>, reports: &mut Reports) -> Result<Vec<Record>, String> {
    let before = reports.clone();
    let decoded = catch_unwind(AssertUnwindSafe(|| table::decode(bytes, reports)));
    match decoded {
        Ok(Ok(records)) => Ok(records),
        Ok(Err(error)) => {
            *reports = before;
            Err(error.to_string())
        }
        Err(_) => {
            *reports = before;
            Err("it is malformed".to_owned())
        }
    }
}

fn read_head(path: &Path, bytes: &[u8]) -> Result<Head, ReadError> {
    let damaged = |why: String| ReadError::Damaged {
        path: path.to_owned(),
        why,
    };
    let any: serde_json::Value = from_json(path, bytes)?;
    if any.get("format").and_then(|format| format.as_str()) != Some(FORMAT) {
        return Err(damaged(format!("it does not say `{FORMAT}`")));
    }
    let version = any.get("version").and_then(serde_json::Value::as_u64);
    let found = version.and_then(|version| u32::try_from(version).ok());
    let found = found.ok_or_else(|| damaged("it has no version".to_owned()))?;
    if found != VERSION {
        return Err(ReadError::Version {
            path: path.to_owned(),
            found,
        });
    }
    let head: Head = serde_json::from_value(any).map_err(|error| damaged(error.to_string()))?;
    if head.signals != head::signal_names() {
        return Err(damaged(
            "its signals are not those of this version".to_owned(),
        ));
    }
    Ok(head)
}

fn read_programs(path: &Path, bytes: &[u8]) -> Result<Vec<(RecordedProgram, Program)>, ReadError> {
    let programs: Vec<RecordedProgram> = from_json(path, bytes)?;
    let decoded = programs.into_iter().map(|recorded| {
        let program = recorded.decode().ok_or_else(|| ReadError::Damaged {
            path: path.to_owned(),
            why: format!("the code of program `{}` is changed", recorded.name),
        })?;
        Ok((recorded, program))
    });
    decoded.collect()
}

fn from_json<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, ReadError> {
    serde_json::from_slice(bytes).map_err(|error| ReadError::Damaged {
        path: path.to_owned(),
        why: error.to_string(),
    })
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.len() > MOST_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    fs::read(path)
}
