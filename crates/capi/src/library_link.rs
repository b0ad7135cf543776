//! A datapath library_link to a plane by a link of the library's, and one file descriptor to wait on.

use core::ffi::c_int;
use core::fmt;
use core::ops::{Deref, DerefMut};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fairwater_datapath::{Config, Connection};
use fairwater_proto::Dialect;
use fairwater_proto::link::{Link, Poller, datagram, ring, seqpacket};

use crate::options::fw_link;

/// How long a plane may take to answer who asks for rings.
const RING_TIMEOUT: Duration = Duration::from_millis(10);

/// A [`Connection`], which makes its link again when it is lost, and what to wait on whatever link
/// there is.
#[derive(Debug)]
pub(crate) struct LibraryLink {
    connection: Connection,
    path: String,
    /// Why there is no link.
    failure: Arc<Mutex<Option<io::ErrorKind>>>,
    /// What C waits on: always the same.
    outer: Poller,
    /// What waits on the link that there is now, within `outer`.
    inner: Option<Poller>,
    /// Whether there was a link after the last call.
    was_connected: bool,
}

impl LibraryLink {
    /// Not connected yet: the first [`LibraryLink::service`] tries. Takes `config` if it succeeds.
    pub(crate) fn new(
        link: fw_link,
        path: &str,
        config: &mut Config,
        now_us: u64,
    ) -> io::Result<Self> {
        let outer = Poller::new()?;
        let failure = Arc::new(Mutex::new(None));
        let dialect = match link {
            fw_link::FW_LINK_CCP_DATAGRAM => Dialect::Ccp,
            fw_link::FW_LINK_SEQPACKET | fw_link::FW_LINK_SHARED_MEMORY => Dialect::Own,
        };
        let plane = PathBuf::from(path);
        let noted = Arc::clone(&failure);
        let connect = move || {
            let made = connect(link, &plane);
            let failure = made.as_ref().err().map(io::Error::kind);
            *noted.lock().unwrap_or_else(PoisonError::into_inner) = failure;
            made
        };
        Ok(Self {
            connection: Connection::new(core::mem::take(config), dialect, now_us, connect),
            path: path.to_owned(),
            failure,
            outer,
            inner: None,
            was_connected: false,
        })
    }

    /// Readable when the plane has sent something.
    pub(crate) fn fd(&self) -> c_int {
        self.outer.as_fd().as_raw_fd()
    }

    /// [`Connection::service`]; whether the link was made or lost.
    pub(crate) fn service(&mut self, now_us: u64) -> bool {
        if let Some(inner) = &mut self.inner {
            // Clears the wake-up that the caller has seen.
            let _: Result<(), io::Error> = inner.wait(Some(Duration::ZERO)).map(drop);
        }
        self.connection.service(now_us);
        if !self.connection.prepare_to_wait() {
            self.connection.service(now_us);
        }
        self.follow()
    }

    /// [`Connection::flush`]; whether the link was lost.
    pub(crate) fn flush(&mut self, now_us: u64) -> bool {
        self.connection.flush(now_us);
        self.follow()
    }

    /// Waits on the link that there is now. A link is not lost and made in the same call.
    fn follow(&mut self) -> bool {
        let is_connected = self.connection.is_connected();
        if self.was_connected == is_connected {
            return false;
        }
        self.was_connected = is_connected;
        self.inner = None;
        if is_connected {
            // Out of file descriptors, the caller's regular calls still hear the plane.
            self.inner = Poller::new().ok();
        }
        if let Some(inner) = &self.inner {
            let added = inner.add(&self.connection, 0);
            let _: io::Result<()> = added.and_then(|()| self.outer.add(&inner.as_fd(), 0));
        }
        true
    }
}

impl Deref for LibraryLink {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for LibraryLink {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

/// How it stands with the link, for people.
impl fmt::Display for LibraryLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_connected() {
            return write!(f, "library_link the plane at {}", self.path);
        }
        if self.is_refused() {
            return write!(
                f,
                "the plane at {} takes no more datapaths (fairwater serve --max-peers)",
                self.path
            );
        }
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match &*failure {
            Some(error) => write!(f, "no plane at {}: {error}", self.path),
            None => write!(f, "lost the plane at {}", self.path),
        }
    }
}

fn connect(link: fw_link, plane: &Path) -> io::Result<Box<dyn Link>> {
    Ok(match link {
        fw_link::FW_LINK_SEQPACKET => Box::new(seqpacket::Connection::connect(plane)?),
        fw_link::FW_LINK_SHARED_MEMORY => Box::new(ring::Ring::connect(plane, RING_TIMEOUT)?),
        fw_link::FW_LINK_CCP_DATAGRAM => {
            // That no agent is there would be noticed at the first packet only.
            UnixDatagram::unbound()?.connect(plane)?;
            Box::new(datagram::Datapath::bind(own_path(), plane)?)
        }
    })
}

/// Where agents answer to: a path that no other datapath has.
fn own_path() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("fairwater-{}-{count}", std::process::id()))
}
