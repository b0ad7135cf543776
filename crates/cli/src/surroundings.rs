//! What a scenario refers to: files beside it, and this project's algorithms.

use std::fs;
use std::path::{Path, PathBuf};

use fairwater_lab::scenario::Surroundings;

use crate::algorithm;

/// The longest file read, bytes.
const MAX_FILE: u64 = 256 << 20;

/// Files whose names are relative to the scenario's own folder.
#[derive(Debug, Clone)]
pub struct Beside {
    folder: PathBuf,
}

impl Beside {
    /// In this folder.
    #[must_use]
    pub fn folder(folder: &Path) -> Self {
        Beside {
            folder: folder.to_owned(),
        }
    }
}

/// The folder of a scenario.
pub(crate) fn folder(scenario: &Path) -> &Path {
    scenario.parent().unwrap_or(Path::new(""))
}

impl Surroundings for Beside {
    fn read(&self, name: &str) -> Result<String, String> {
        let path = self.folder.join(name);
        let refused = |error: std::io::Error| format!("{}: {error}", path.display());
        let length = fs::metadata(&path).map_err(refused)?.len();
        if length > MAX_FILE {
            return Err(format!("{}: it has more than 256 MiB", path.display()));
        }
        fs::read_to_string(&path).map_err(refused)
    }

    fn check_algorithm(&self, text: &str) -> Result<(), Vec<String>> {
        algorithm::beside(text, &self.folder)
            .map(|_| ())
            .map_err(|unknown| unknown.faults)
    }
}
