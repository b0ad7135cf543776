//! Files that are there whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a file so that it is there whole or not at all, whatever ends this process: the bytes go
/// into a file beside it, which then takes its name. Nothing is left of a file that could not be
/// written.
///
/// # Errors
/// Those of the system: no space, no permission.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(bytes)?;
    file.finish()
}

/// A file that is being written. Only [`WholeFile::finish`] gives it its name; dropped before, it
/// is gone. A device or a pipe is written to directly.
#[derive(Debug)]
pub struct WholeFile {
    file: File,
    /// The file beside the one to be, and the one to be.
    names: Option<(PathBuf, PathBuf)>,
}

impl WholeFile {
    /// Begins the file that will be at `path`, or where a link there leads.
    ///
    /// # Errors
    /// Those of the system.
    pub fn create(path: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match fs::metadata(&path) {
            Ok(there) if there.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(there) if !there.is_file() => {
                let file = File::options().write(true).open(&path)?;
                return Ok(Self { file, names: None });
            }
            _ => {}
        }
        let Some(name) = path.file_name() else {
            return Err(io::ErrorKind::InvalidFilename.into());
        };
        let mut name = name.to_owned();
        // Two processes that write the same file do not write into each other's.
        name.push(format!(".{}.part", std::process::id()));
        let part = path.with_file_name(name);
        Ok(Self {
            file: File::create(&part)?,
            names: Some((part, path)),
        })
    }

    /// Gives the file its name, in place of what had it before.
    ///
    /// # Errors
    /// Those of the system.
    pub fn finish(mut self) -> io::Result<()> {
        let Some((part, path)) = &self.names else {
            return Ok(());
        };
        self.file.sync_data()?;
        fs::rename(part, path)?;
        self.names = None;
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some((part, _)) = &self.names {
            // It may be gone with its folder; there is nothing else to do about an error.
            let _ = fs::remove_file(part);
        }
    }
}
