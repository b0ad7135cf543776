//! Sockets at a path.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::directory;

/// A path at which a socket of ours is bound; removed when dropped, if it still is that socket.
#[derive(Debug)]
pub(super) struct Bound {
    path: PathBuf,
    device_and_inode: (u64, u64),
}

impl Bound {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|at| at == self.device_and_inode) {
            // Whatever stands in the way now, there is nobody to tell.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// A Unix socket that does not block.
pub(super) fn socket(kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(
        AddressFamily::UNIX,
        kind,
        flags,
        None,
    )?)
}

/// A socket bound at `path`, to which this user alone may write, whatever the umask. Its directory
/// is made if need be, and must be one in which nobody else can replace the socket. A socket that a
/// process left behind there is replaced; one that is in use, or a file of another kind, is an
/// error.
pub(super) fn bind(path: &Path, kind: SocketType) -> io::Result<(OwnedFd, Bound)> {
    let directory = directory::prepare(path.parent().unwrap_or(Path::new("")))?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let path = &directory.join(name);
    let address = SocketAddrUnix::new(path)?;
    let socket = socket(kind)?;
    // The path gets the socket's mode (`unix_bind_bsd` in the kernel's net/unix/af_unix.c).
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    match rustix::net::bind(&socket, &address) {
        Err(Errno::ADDRINUSE) if is_left_behind(path, &address, kind)? => {
            fs::remove_file(path)?;
            rustix::net::bind(&socket, &address)?;
        }
        bound => bound?,
    }
    let bound = Bound {
        path: path.to_owned(),
        device_and_inode: identity(path)?,
    };
    Ok((socket, bound))
}

/// Whether a socket is there that nobody has open.
fn is_left_behind(path: &Path, address: &SocketAddrUnix, kind: SocketType) -> io::Result<bool> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Ok(false);
    }
    let probe = socket(kind)?;
    Ok(rustix::net::connect(&probe, address) == Err(Errno::CONNREFUSED))
}
