//! Where the page of a report goes.

use std::path::{Path, absolute};

use fairwater_results::{WholeFile, write_whole};

use crate::failure::Failure;

/// Finds out before the runs, not after, that a report cannot be written.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        return Err(refused(path, "it is a folder"));
    }
    // Nothing is left of a file that is not finished.
    match WholeFile::create(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(refused(path, &error.to_string())),
    }
}

fn refused(path: &Path, reason: &str) -> Failure {
    let path = path.display();
    Failure::BadInput(format!(
        "{path}: a report cannot be written there: {reason}"
    ))
}

/// The same where a folder is made before the runs: it may be where the report goes, but not what
/// the report replaces.
pub(crate) fn check_beside(path: &Path, made: &Path) -> Result<(), Failure> {
    let made_at = absolute(made).ok();
    if made_at.is_some() && absolute(path).ok() == made_at {
        return Err(refused(path, "it is the folder of the results"));
    }
    let parent = path.parent().and_then(|parent| absolute(parent).ok());
    if !made.exists() && parent.is_some() && parent == made_at {
        return Ok(());
    }
    check(path)
}

/// Writes the page, and says on standard error where it is.
pub(crate) fn write(path: &Path, page: &str) -> Result<(), Failure> {
    let shown = path.display().to_string();
    write_whole(path, page.as_bytes()).map_err(Failure::io(shown.clone()))?;
    eprintln!("Report with plots: {shown}");
    Ok(())
}
