//! Where the page of a report goes.

use std::fs;
use std::path::{Path, absolute};

use crate::failure::Failure;

/// Finds out before the runs, not after, that a report cannot be written.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if path.is_dir() || !directory.is_dir() {
        let path = path.display();
        return Err(Failure::BadInput(format!(
            "{path}: a report cannot be written there"
        )));
    }
    Ok(())
}

/// The same where a folder is made before the runs: it may be where the report goes.
pub(crate) fn check_beside(path: &Path, made: &Path) -> Result<(), Failure> {
    let parent = path.parent().and_then(|parent| absolute(parent).ok());
    if !made.exists() && parent.is_some() && parent == absolute(made).ok() {
        return Ok(());
    }
    check(path)
}

/// Writes the page, and says on standard error where it is.
pub(crate) fn write(path: &Path, page: &str) -> Result<(), Failure> {
    let shown = path.display().to_string();
    fs::write(path, page).map_err(Failure::io(shown.clone()))?;
    eprintln!("Report with plots: {shown}");
    Ok(())
}
