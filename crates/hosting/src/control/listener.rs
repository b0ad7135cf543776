//! The plane's end of the control socket: a thread for each peer, so that one that neither sends nor
//! reads delays nobody.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::AcqRel;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Arc, RwLock};
use std::{fs, thread};

use fairwater_proto::link::directory::prepare;
use fairwater_proto::link::peer_groups;
use fairwater_service::Stopper;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use super::{MAX_REQUEST, PEER_TIMEOUT, Request, Response};

/// Peers at once, of those who have rights and of the others each, so that the latter cannot keep the
/// former out; more are turned away.
const MAX_PEERS: usize = 32;

/// Answers that wait for a peer to read; a peer that leaves more unread is dropped.
const MAX_UNREAD: usize = 64;

/// A request, and where its answers go.
#[derive(Debug)]
pub struct Asked {
    /// What was asked; the peer has the right to.
    pub request: Request,
    answers: SyncSender<Response>,
}

impl Asked {
    /// Answers. Returns whether the peer is still there and reads.
    pub fn answer(&self, response: Response) -> bool {
        self.answers.try_send(response).is_ok()
    }
}

/// The control socket; it is removed when this is dropped.
#[derive(Debug)]
pub struct ControlListener {
    path: PathBuf,
    requests: Receiver<Asked>,
    sender: Sender<Asked>,
    groups: Arc<RwLock<Vec<u32>>>,
    waker: Stopper,
}

impl ControlListener {
    /// Binds the socket. `groups` may change things; `waker` ends the plane's wait when somebody
    /// asks.
    ///
    /// # Errors
    /// Another plane is there, or the socket cannot be bound; the message names it.
    pub fn bind(path: &Path, groups: Vec<u32>, waker: Stopper) -> io::Result<Self> {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        claim(path).map_err(named)?;
        let listener = UnixListener::bind(path).map_err(named)?;
        // Who may ask what is decided by who the peer is.
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).map_err(named)?;
        let (sender, requests) = mpsc::channel();
        let control = Self {
            path: path.to_owned(),
            requests,
            sender,
            groups: Arc::new(RwLock::new(groups)),
            waker,
        };
        control.accept(listener)?;
        Ok(control)
    }

    /// The groups that may change things are others from now on.
    pub fn set_groups(&self, groups: Vec<u32>) {
        if let Ok(mut current) = self.groups.write() {
            *current = groups;
        }
    }

    /// What was asked since the last call.
    pub fn asked(&self) -> impl Iterator<Item = Asked> + '_ {
        self.requests.try_iter()
    }

    /// Accepts peers in a thread, which goes on until the process ends.
    fn accept(&self, listener: UnixListener) -> io::Result<()> {
        let sender = self.sender.clone();
        let groups = Arc::clone(&self.groups);
        let waker = self.waker.clone();
        let (with_rights, others) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let run = move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    // Out of descriptors: others may end meanwhile.
                    thread::sleep(PEER_TIMEOUT / 50);
                    continue;
                };
                let peer = Peer {
                    sender: sender.clone(),
                    groups: Arc::clone(&groups),
                    waker: waker.clone(),
                };
                let peers = match peer.has_rights(&stream) {
                    true => &with_rights,
                    false => &others,
                };
                if peers.fetch_add(1, AcqRel) >= MAX_PEERS {
                    peers.fetch_sub(1, AcqRel);
                    let _ = write(
                        &stream,
                        &Response::Refused("too many ask at once".to_owned()),
                    );
                    continue;
                }
                let count = Arc::clone(peers);
                let serve = move || {
                    // A peer that leaves, or sends nonsense, ends its own connection alone.
                    let _ = peer.serve(&stream);
                    count.fetch_sub(1, AcqRel);
                };
                let spawned = thread::Builder::new()
                    .name("control-peer".to_owned())
                    .spawn(serve);
                if spawned.is_err() {
                    peers.fetch_sub(1, AcqRel);
                }
            }
        };
        thread::Builder::new()
            .name("control".to_owned())
            .spawn(run)?;
        Ok(())
    }
}

impl Drop for ControlListener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Makes a path free for a socket: prepares its directory, and removes a socket that nobody listens
/// at. Anything else there is left, and binding refuses it.
pub(crate) fn claim(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    if let Some(directory) = path.parent() {
        prepare(directory)?;
    }
    if UnixStream::connect(path).is_ok() {
        let message = "another plane is there; stop it first, or choose another socket";
        return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
    }
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path),
        _ => Ok(()),
    }
}

/// What the thread of one peer needs.
struct Peer {
    sender: Sender<Asked>,
    groups: Arc<RwLock<Vec<u32>>>,
    waker: Stopper,
}

impl Peer {
    fn serve(&self, stream: &UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PEER_TIMEOUT))?;
        stream.set_write_timeout(Some(PEER_TIMEOUT))?;
        let mut lines = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            let read = lines
                .by_ref()
                .take(MAX_REQUEST)
                .read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(());
            }
            let request = match serde_json::from_slice::<Request>(&line) {
                Ok(request) => request,
                Err(error) => {
                    return write(stream, &Response::Failed(format!("no request: {error}")));
                }
            };
            if request.needs_rights() && !self.has_rights(stream) {
                let refusal = "only root, the plane's own user and the groups of its configuration \
                               ([control] groups) may ask that";
                write(stream, &Response::Refused(refusal.to_owned()))?;
                continue;
            }
            self.pass_on(request, stream)?;
        }
    }

    /// Passes a request on to the plane, and its answers to the peer.
    fn pass_on(&self, request: Request, stream: &UnixStream) -> io::Result<()> {
        let (answers, answered) = mpsc::sync_channel(MAX_UNREAD);
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        self.sender
            .send(Asked { request, answers })
            .map_err(|_| gone())?;
        self.waker.wake();
        for response in answered {
            write(stream, &response)?;
        }
        Ok(())
    }

    /// Whether the peer may change things, by what the kernel noted of it as it connected.
    fn has_rights(&self, stream: &UnixStream) -> bool {
        let Ok(peer) = socket_peercred(stream) else {
            return false;
        };
        if peer.uid.is_root() || peer.uid == geteuid() {
            return true;
        }
        let Ok(allowed) = self.groups.read() else {
            return false;
        };
        let groups = || peer_groups(stream).unwrap_or_default();
        !allowed.is_empty()
            && (allowed.contains(&peer.gid.as_raw())
                || groups().iter().any(|group| allowed.contains(group)))
    }
}

fn write(mut stream: &UnixStream, response: &Response) -> io::Result<()> {
    let mut line = serde_json::to_vec(response)?;
    line.push(b'\n');
    stream.write_all(&line)
}
