//! Files that users name: read whole, within bounds.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use thiserror::Error;

/// The longest trace or distribution, bytes.
pub const MAX_INPUT_BYTES: u64 = 256 << 20;

/// Why a file was not read.
#[derive(Debug, Error)]
pub enum InputError {
    /// The system refused it.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A device, a pipe, a folder: reading it may never end.
    #[error("not a regular file")]
    NotAFile,
    /// It is longer than any input.
    #[error("the file is longer than {0} bytes")]
    TooLong(u64),
    /// It is no text.
    #[error("the file is not UTF-8 text")]
    NotText,
}

/// The text of a regular file of at most `most_bytes`.
///
/// # Errors
/// [`InputError`]; nothing of the file is quoted.
pub fn read_text(path: &Path, most_bytes: u64) -> Result<String, InputError> {
    // Opening a pipe would wait for its other end.
    if !std::fs::metadata(path)?.is_file() {
        return Err(InputError::NotAFile);
    }
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(InputError::NotAFile);
    }
    // A file may grow while it is read.
    let mut bytes = Vec::new();
    file.take(most_bytes.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        return Err(InputError::TooLong(most_bytes));
    }
    String::from_utf8(bytes).map_err(|_| InputError::NotText)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_long_files_and_binaries_are_refused_and_not_read_for_ever() {
        let refused = |path: &Path, most| read_text(path, most).map_err(|e| e.to_string());
        let device = refused(Path::new("/dev/zero"), MAX_INPUT_BYTES);
        assert_eq!(device, Err("not a regular file".to_owned()));
        let folder = refused(Path::new("/"), MAX_INPUT_BYTES);
        assert_eq!(folder, Err("not a regular file".to_owned()));
        // A file of /proc says that it has no bytes, and has some.
        let long = refused(Path::new("/proc/self/status"), 10);
        assert_eq!(long, Err("the file is longer than 10 bytes".to_owned()));
        let dir = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let file = dir.path().join("binary");
        std::fs::write(&file, [0xff, 0xfe]).unwrap_or_else(|error| panic!("{error}"));
        let binary = refused(&file, 2);
        assert_eq!(binary, Err("the file is not UTF-8 text".to_owned()));
        std::fs::write(&file, "ok").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(refused(&file, 2), Ok("ok".to_owned()));
    }
}
