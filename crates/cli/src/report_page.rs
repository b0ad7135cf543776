//! Where the page of a report goes.

use std::fs;
use std::path::Path;

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

/// Writes the page, and says on standard error where it is.
pub(crate) fn write(path: &Path, page: &str) -> Result<(), Failure> {
    let shown = path.display().to_string();
    fs::write(path, page).map_err(Failure::io(shown.clone()))?;
    eprintln!("Report with plots: {shown}");
    Ok(())
}
