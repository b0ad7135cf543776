//! Whether a directory is a safe place for a socket.
//!
//! Who can write to a directory can replace a socket in it, and who owns it can do so at any time.
//! So a directory is trusted when it belongs to root or to this user, and nobody else can write to
//! it unless it is sticky, where entries can be replaced by their owner alone. The same must hold
//! for each directory above it.

use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// Why a directory is no place for a socket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum UnsafeDirectory {
    #[error(
        "{} is a symbolic link, which whoever made it can point elsewhere: remove the link, or \
         name the directory that it leads to",
        .0.display()
    )]
    SymbolicLink(PathBuf),
    #[error(
        "{} belongs to user {owner}, who could replace the socket: remove the directory, or \
         choose another place",
        .path.display()
    )]
    Foreign { path: PathBuf, owner: u32 },
    #[error(
        "other users can write to {} (mode {mode:04o}) and could replace the socket: `chmod go-w` \
         or `chmod +t` it, or choose another place",
        .path.display()
    )]
    Writable { path: PathBuf, mode: u32 },
}

/// Makes the directory for this user alone (mode 0700) if it is missing, and checks that nobody
/// else can put something in the place of what is in it. Returns its path without symbolic links.
///
/// # Errors
/// It cannot be made, or somebody else could replace what is in it; the message says how to mend
/// that.
pub fn prepare(directory: &Path) -> io::Result<PathBuf> {
    let directory = match directory.as_os_str().is_empty() {
        true => Path::new("."),
        false => directory,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    if fs::symlink_metadata(directory)?.is_symlink() {
        let error = UnsafeDirectory::SymbolicLink(directory.to_owned());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, error));
    }
    let resolved = fs::canonicalize(directory)?;
    let user = geteuid().as_raw();
    for ancestor in resolved.ancestors() {
        check(ancestor, &fs::symlink_metadata(ancestor)?, user)
            .map_err(|error| io::Error::new(io::ErrorKind::PermissionDenied, error))?;
    }
    Ok(resolved)
}

fn check(path: &Path, metadata: &Metadata, user: u32) -> Result<(), UnsafeDirectory> {
    const STICKY: u32 = 0o1000;
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    let path = || path.to_owned();
    if owner != user && owner != 0 {
        return Err(UnsafeDirectory::Foreign {
            path: path(),
            owner,
        });
    }
    if mode & WRITABLE_BY_OTHERS != 0 && mode & STICKY == 0 {
        return Err(UnsafeDirectory::Writable { path: path(), mode });
    }
    Ok(())
}
