//! The test bed's own bulk flow: writes as much as TCP takes, for a while.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use super::{Finished, FlowSpec};
use crate::emulator::{Urgency, ask_for_punctuality};
use crate::error::TestbedError;
use fairwater_netlink::enter;

/// A thread that sends and one that receives.
#[derive(Debug)]
pub(crate) struct Bulk {
    stop: Arc<AtomicBool>,
    sender: Option<JoinHandle<io::Result<()>>>,
    receiver: Option<JoinHandle<io::Result<()>>>,
}

/// Timeout of blocking calls, after which a thread checks whether to stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes a write or read.
const BLOCK: usize = 128 * 1024;

impl Bulk {
    pub(super) fn start(
        sender: BorrowedFd<'_>,
        receiver: BorrowedFd<'_>,
        address: IpAddr,
        flow: &FlowSpec<'_>,
    ) -> Result<Self, TestbedError> {
        let to = SocketAddr::new(address, flow.server_port());
        let stop = Arc::new(AtomicBool::new(false));
        let mut bulk = Bulk {
            stop: Arc::clone(&stop),
            sender: None,
            receiver: None,
        };
        let at_both_ends = flow
            .at_both_ends
            .then(|| flow.congestion_control.to_owned());
        let receiver = receive_at(receiver, to, at_both_ends, Arc::clone(&stop));
        bulk.receiver = Some(receiver.map_err(|e| flow.failed(e))?);

        let namespace = sender.try_clone_to_owned().map_err(|e| flow.failed(e))?;
        let outgoing = Outgoing {
            namespace,
            from: SocketAddr::new(unspecified(address), flow.source_port()),
            to,
            congestion_control: flow.congestion_control.to_owned(),
            start: flow.start,
            end: flow
                .stop
                .map_or(flow.duration, |stop| stop.min(flow.duration)),
            tag: flow.tag,
            stop,
        };
        let sender = thread::Builder::new()
            .name("lab-sender".to_owned())
            .spawn(move || outgoing.send());
        bulk.sender = Some(sender.map_err(|e| flow.failed(e))?);
        Ok(bulk)
    }

    pub(super) fn finished(&mut self) -> Result<Option<Finished>, String> {
        let running = |thread: &Option<JoinHandle<_>>| {
            thread.as_ref().is_some_and(|thread| !thread.is_finished())
        };
        if running(&self.sender) {
            return Ok(None);
        }
        join(self.sender.take())?;
        // Once the sender is gone, what is still on its way serves no purpose.
        self.stop.store(true, Ordering::Relaxed);
        join(self.receiver.take())?;
        Ok(Some(Finished {
            cpu: Duration::ZERO,
            retransmissions: None,
        }))
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in [self.sender.take(), self.receiver.take()]
            .into_iter()
            .flatten()
        {
            // Its failure was seen, or nobody is left to see it.
            let _ = thread.join();
        }
    }
}

fn join(thread: Option<JoinHandle<io::Result<()>>>) -> Result<(), String> {
    match thread.map(JoinHandle::join) {
        None | Some(Ok(Ok(()))) => Ok(()),
        Some(Ok(Err(error))) => Err(error.to_string()),
        Some(Err(_)) => Err("its thread panicked".to_owned()),
    }
}

/// A thread that reads what one connection to an address in the namespace brings, until it is over or `stop` is set.
pub(super) fn receiver(
    namespace: BorrowedFd<'_>,
    at: SocketAddr,
    stop: Arc<AtomicBool>,
) -> io::Result<JoinHandle<io::Result<()>>> {
    receive_at(namespace, at, None, stop)
}

fn receive_at(
    namespace: BorrowedFd<'_>,
    at: SocketAddr,
    congestion_control: Option<String>,
    stop: Arc<AtomicBool>,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let listener = in_namespace(namespace, move || listen(at, congestion_control.as_deref()))?;
    thread::Builder::new()
        .name("lab-receiver".to_owned())
        .spawn(move || receive(&listener, &stop))
}

fn in_namespace<T: Send>(
    namespace: BorrowedFd<'_>,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            enter(namespace)?;
            work()
        });
        let panicked = |_| {
            Err(io::Error::other(
                "a thread inside a network namespace panicked",
            ))
        };
        worker.join().unwrap_or_else(panicked)
    })
}

/// A listener whose connections have that congestion control.
fn listen(at: SocketAddr, congestion_control: Option<&str>) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if let Some(name) = congestion_control {
        socket.set_tcp_congestion(name.as_bytes())?;
    }
    socket.bind(&at.into())?;
    socket.listen(1)?;
    Ok(socket.into())
}

fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
    }
}

/// Reads all that one connection brings.
fn receive(listener: &TcpListener, stop: &AtomicBool) -> io::Result<()> {
    // A reader that waits for the machine's other load closes the window, and would limit the flow.
    ask_for_punctuality(Urgency::Traffic);
    listener.set_nonblocking(true)?;
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error),
        }
    };
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(STOP_CHECK_INTERVAL))?;
    let mut block = vec![0; BLOCK];
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut block) {
            Ok(0) => break,
            Ok(_) => {}
            // The sender drops what it had left when its time is over.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

struct Outgoing {
    namespace: OwnedFd,
    from: SocketAddr,
    to: SocketAddr,
    congestion_control: String,
    start: Duration,
    end: Duration,
    tag: u32,
    stop: Arc<AtomicBool>,
}

impl Outgoing {
    fn send(self) -> io::Result<()> {
        if self.start >= self.end {
            return Ok(());
        }
        ask_for_punctuality(Urgency::Traffic);
        enter(self.namespace.as_fd())?;
        let begun = Instant::now();
        while let Some(left) = self.start.checked_sub(begun.elapsed()) {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            thread::sleep(left.min(STOP_CHECK_INTERVAL));
        }
        let socket = Socket::new(
            Domain::for_address(self.from),
            Type::STREAM,
            Some(Protocol::TCP),
        )?;
        socket.set_reuse_address(true)?;
        socket.set_tcp_congestion(self.congestion_control.as_bytes())?;
        if self.tag != 0 {
            socket.set_mark(self.tag)?;
        }
        socket.bind(&self.from.into())?;
        socket.connect_timeout(&self.to.into(), CONNECT_TIMEOUT)?;
        // At the end nothing is left to be sent, so the run ends when it should.
        socket.set_linger(Some(Duration::ZERO))?;
        let mut stream = TcpStream::from(socket);
        stream.set_write_timeout(Some(STOP_CHECK_INTERVAL))?;
        let block = vec![0; BLOCK];
        // What was there from the beginning sends for all of the time.
        let begun = match self.start {
            Duration::ZERO => Instant::now(),
            _ => begun,
        };
        while begun.elapsed() < self.end && !self.stop.load(Ordering::Relaxed) {
            match stream.write(&block) {
                Ok(_) => {}
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
