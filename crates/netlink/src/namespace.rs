//! Network namespaces without names: they live as long as something holds them open, so that
//! nothing is left of them once this process is gone, however it went.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;

use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// A network namespace of its own, held open by a descriptor.
#[derive(Debug)]
pub struct Namespace {
    fd: OwnedFd,
}

impl Namespace {
    /// Makes an empty namespace.
    ///
    /// # Errors
    /// Those of `unshare(2)`: `EPERM` without `CAP_SYS_ADMIN`.
    pub fn new() -> io::Result<Self> {
        in_thread(|| {
            #[expect(
                unsafe_code,
                reason = "rustix marks unshare unsafe for the sake of FILES"
            )]
            // SAFETY: only the network namespace is unshared, not the table of descriptors.
            unsafe {
                unshare_unsafe(UnshareFlags::NEWNET)?;
            }
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let fd = rustix::fs::open("/proc/thread-self/ns/net", flags, Mode::empty())?;
            Ok(Namespace { fd })
        })?
    }

    /// Runs `work` on a thread of its own inside the namespace.
    ///
    /// # Errors
    /// That the thread could not be made or could not enter; not what `work` returns.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        in_thread(|| {
            enter(self.fd.as_fd())?;
            Ok(work())
        })?
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Moves the calling thread into the network namespace that `namespace` refers to.
///
/// # Errors
/// Those of `setns(2)`.
pub fn enter(namespace: BorrowedFd<'_>) -> io::Result<()> {
    move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))?;
    Ok(())
}

/// Runs `work` on a new thread and waits for it. A panic of `work` becomes an error.
fn in_thread<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let worker = thread::Builder::new().spawn_scoped(scope, work)?;
        worker
            .join()
            .map_err(|_| io::Error::other("a thread inside a network namespace panicked"))
    })
}
