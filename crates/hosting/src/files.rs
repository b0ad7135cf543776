//! Files and algorithms that a scenario names, relative to the scenario's folder.

use std::path::{Path, PathBuf};

use fairwater_lab::input::{MAX_INPUT_BYTES, read_text};
use fairwater_scenario::Resolver;

use crate::resolve;

/// Resolves what a scenario names in one folder.
#[derive(Debug, Clone)]
pub struct FolderResolver {
    folder: PathBuf,
}

impl FolderResolver {
    /// A resolver for this folder.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        FolderResolver {
            folder: folder.to_owned(),
        }
    }
}

impl Resolver for FolderResolver {
    fn read(&self, name: &str) -> Result<String, String> {
        let path = self.folder.join(name);
        read_text(&path, MAX_INPUT_BYTES).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn check_algorithm(&self, text: &str) -> Result<(), Vec<String>> {
        resolve(text, &self.folder)
            .map(|_| ())
            .map_err(|error| error.messages)
    }
}
