//! The loop around an endpoint.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use fairwater_datapath::{Config, Connection as Plane};
use fairwater_net::Time;
use fairwater_proto::link::{Pollable, Poller};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::PacketPort;
use crate::{ConnectError, ConnectionId, Endpoint, EndpointConfig, StreamError, signal_qualities};

/// An endpoint, the device that carries its packets, and the link to the plane that controls its flows.
///
/// The caller calls [`Driver::turn`] again and again from one thread, and reads and writes in between.
#[derive(Debug)]
pub struct Driver<P> {
    endpoint: Endpoint,
    plane: Plane,
    port: P,
    origin: Instant,
    /// Waits for the plane's link, some of whose descriptors signal once.
    poller: Poller,
    /// Descriptors that it waits for.
    watched: Vec<RawFd>,
}

/// How long [`Driver::turn`] may wait for something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// Not at all: the caller has more to do.
    None,
    /// So long at most.
    UpTo(Duration),
}

/// Most rounds of receiving and sending before the caller has its turn.
const ROUNDS: usize = 8;

impl<P: PacketPort> Driver<P> {
    /// What a user-space TCP's datapath says of itself; `name` and `instance` are the caller's.
    #[must_use]
    pub fn datapath_config(name: &str, instance: u64) -> Config {
        Config {
            name: name.to_owned(),
            signals: signal_qualities(),
            instance,
            ..Config::default()
        }
    }

    /// A host behind `port`, whose flows are the plane's that `plane` leads to, or under the fallback while there is
    /// none. Times are since `origin`, those of `plane` too.
    ///
    /// # Errors
    /// Too many files are open.
    pub fn new(config: EndpointConfig, plane: Plane, port: P, origin: Instant) -> io::Result<Self> {
        Ok(Self {
            endpoint: Endpoint::new(config, plane.peer()),
            plane,
            port,
            origin,
            poller: Poller::new()?,
            watched: Vec::new(),
        })
    }

    /// The endpoint, to be read.
    #[must_use]
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The endpoint, to be called past the driver: for listening, accepting, and releasing.
    pub const fn endpoint_mut(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// The link to the plane, with the flows.
    #[must_use]
    pub const fn plane(&self) -> &Plane {
        &self.plane
    }

    /// Now, as the driver counts.
    #[must_use]
    pub fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    /// [`Endpoint::connect`].
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(
        &mut self,
        local: std::net::SocketAddr,
        remote: std::net::SocketAddr,
        algorithm: &str,
    ) -> Result<ConnectionId, ConnectError> {
        self.endpoint.connect(self.now(), local, remote, algorithm)
    }

    /// [`Endpoint::write`].
    ///
    /// # Errors
    /// See [`StreamError`].
    pub fn write(&mut self, id: ConnectionId, bytes: &[u8]) -> Result<usize, StreamError> {
        self.endpoint.write(id, bytes)
    }

    /// [`Endpoint::read`].
    ///
    /// # Errors
    /// There is no such connection.
    pub fn read(&mut self, id: ConnectionId, out: &mut [u8]) -> Result<usize, StreamError> {
        self.endpoint.read(id, out)
    }

    /// [`Endpoint::abort`].
    ///
    /// # Errors
    /// There is no such connection.
    pub fn abort(&mut self, id: ConnectionId) -> Result<(), StreamError> {
        self.endpoint.abort(self.plane.datapath_mut(), id)
    }

    /// Waits for `pause` at most until there is something to do, and does it: packets in, timers, packets out, messages
    /// to and from the plane.
    ///
    /// # Errors
    /// Those of the device.
    pub fn turn(&mut self, pause: Pause) -> io::Result<()> {
        self.send()?;
        if let Pause::UpTo(longest) = pause {
            self.wait(longest)?;
        }
        for _ in 0..ROUNDS {
            let received = self.receive()?;
            let sent = self.send()?;
            if received == 0 && sent == 0 {
                break;
            }
        }
        let now_us = self.now().as_nanos() / 1_000;
        self.plane.service(now_us);
        Ok(())
    }

    fn receive(&mut self) -> io::Result<usize> {
        let (endpoint, plane, origin) = (&mut self.endpoint, &mut self.plane, self.origin);
        let received = self.port.receive(&mut |packet| {
            let now = Time::ZERO + origin.elapsed();
            endpoint.on_packet(now, plane.datapath_mut(), packet);
        })?;
        let now = self.now();
        self.endpoint.on_timer(now, self.plane.datapath_mut());
        self.plane.flush(now.as_nanos() / 1_000);
        Ok(received)
    }

    fn send(&mut self) -> io::Result<usize> {
        let (endpoint, origin) = (&mut self.endpoint, self.origin);
        self.port.send(&mut |packet| {
            let now = Time::ZERO + origin.elapsed();
            endpoint.poll_transmit(now, packet)
        })
    }

    /// Sleeps until a packet or a message comes, a timer is due, or so long has passed.
    fn wait(&mut self, longest: Duration) -> io::Result<()> {
        if !self.plane.prepare_to_wait() {
            return Ok(());
        }
        let of_plane = self.plane.next_timeout().map(Time::from_micros);
        let timers = self.endpoint.next_timeout().into_iter().chain(of_plane);
        let until = timers.min().map_or(longest, |at| at.since(self.now()));
        let timeout = Timespec::try_from(until.min(longest)).map_err(io::Error::other)?;
        self.watch_plane()?;
        let events = match self.port.is_full() {
            true => PollFlags::IN | PollFlags::OUT,
            false => PollFlags::IN,
        };
        let mut fds = [
            PollFd::from_borrowed_fd(self.port.descriptor(), events),
            PollFd::new(&self.poller, PollFlags::IN),
        ];
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // What signals once has been seen.
        self.poller.wait(Some(Duration::ZERO)).map(drop)
    }

    /// Waits for the plane's link as it is now: it comes and goes.
    fn watch_plane(&mut self) -> io::Result<()> {
        let sources = self.plane.sources().into_iter().flatten();
        let now: Vec<_> = sources.map(|source| source.fd.as_raw_fd()).collect();
        if now != self.watched {
            self.poller = Poller::new()?;
            self.poller.add(&self.plane, 0)?;
            self.watched = now;
        }
        Ok(())
    }
}
