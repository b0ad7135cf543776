//! What carries packets between a datapath and its plane.

use core::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use fairwater_proto::Dialect;
use fairwater_proto::link::{Link, LinkError, MAX_PACKET, Poller, datagram, seqpacket};

use crate::options::fw_link;

/// How long a plane that is not there is left alone, µs.
const RETRY_US: u64 = 100_000;

/// Who takes packets for the plane.
#[derive(Debug)]
pub(crate) enum Carrier {
    /// Not chosen yet.
    None,
    /// The transport itself.
    Transport {
        send: unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> c_int,
        user_data: *mut c_void,
    },
    /// A link of the library's.
    Link(Linked),
}

/// A link to whoever is at a path, made again when it is lost.
pub(crate) struct Linked {
    kind: fw_link,
    path: PathBuf,
    link: Option<Box<dyn Link>>,
    poller: Poller,
    retry_us: u64,
    /// A packet for which the link had no room.
    waiting: Vec<u8>,
    buffer: Vec<u8>,
}

/// What became of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Made,
    Lost,
}

impl Linked {
    /// A link that is not made yet.
    pub(crate) fn new(kind: fw_link, path: &Path) -> io::Result<Self> {
        Ok(Self {
            kind,
            path: path.to_owned(),
            link: None,
            poller: Poller::new()?,
            retry_us: 0,
            waiting: Vec::new(),
            buffer: vec![0; MAX_PACKET],
        })
    }

    pub(crate) fn dialect(&self) -> Dialect {
        match self.kind {
            fw_link::FW_LINK_CCP_DATAGRAM => Dialect::Ccp,
            fw_link::FW_LINK_SEQPACKET => Dialect::Own,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Readable when the plane has sent something.
    pub(crate) fn fd(&self) -> c_int {
        self.poller.as_fd().as_raw_fd()
    }

    /// Makes the link if it is not there and it is time to try.
    pub(crate) fn connect(&mut self, now_us: u64) -> io::Result<Option<Change>> {
        if self.link.is_some() || now_us < self.retry_us {
            return Ok(None);
        }
        self.retry_us = now_us.saturating_add(RETRY_US);
        let link: Box<dyn Link> = match self.kind {
            fw_link::FW_LINK_SEQPACKET => Box::new(seqpacket::Connection::connect(&self.path)?),
            fw_link::FW_LINK_CCP_DATAGRAM => {
                // An agent that is not there would be noticed at the first packet only.
                UnixDatagram::unbound()?.connect(&self.path)?;
                Box::new(datagram::Datapath::bind(own_path(), &self.path)?)
            }
        };
        self.poller.add(&*link, 0)?;
        self.link = Some(link);
        Ok(Some(Change::Made))
    }

    /// Whether a packet can be taken.
    pub(crate) fn is_ready(&mut self) -> Result<bool, Change> {
        if self.waiting.is_empty() {
            return Ok(self.link.is_some());
        }
        let waiting = core::mem::take(&mut self.waiting);
        self.send(&waiting)?;
        Ok(self.waiting.is_empty())
    }

    /// Sends a packet, or keeps it for later. Only when [`Linked::is_ready`].
    pub(crate) fn send(&mut self, packet: &[u8]) -> Result<(), Change> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        match link.send(packet) {
            // A packet that is too long for this link is too long for ever.
            Ok(()) | Err(LinkError::TooLong) => Ok(()),
            Err(LinkError::WouldBlock) => {
                self.waiting.clear();
                self.waiting.extend_from_slice(packet);
                Ok(())
            }
            Err(LinkError::Gone | LinkError::Broken) => Err(self.lose()),
        }
    }

    /// The next packet of the plane's, if there is one.
    pub(crate) fn receive(&mut self) -> Result<Option<&[u8]>, Change> {
        loop {
            let Some(link) = &mut self.link else {
                return Ok(None);
            };
            match link.receive(&mut self.buffer) {
                Ok(length) => return Ok(Some(&self.buffer[..length])),
                Err(LinkError::TooLong) => {}
                Err(LinkError::WouldBlock) => {
                    if link.prepare_to_wait() {
                        return Ok(None);
                    }
                }
                Err(LinkError::Gone | LinkError::Broken) => return Err(self.lose()),
            }
        }
    }

    fn lose(&mut self) -> Change {
        if let Some(link) = self.link.take() {
            // It is gone in any case.
            let _: io::Result<()> = self.poller.remove(&*link);
        }
        self.waiting.clear();
        Change::Lost
    }
}

impl core::fmt::Debug for Linked {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Linked")
            .field("kind", &self.kind)
            .field("path", &self.path)
            .field("is_made", &self.link.is_some())
            .finish_non_exhaustive()
    }
}

/// Where agents answer to: a path that no other datapath has.
fn own_path() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("fairwater-{}-{count}", std::process::id()))
}
