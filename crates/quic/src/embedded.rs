//! A plane in a thread of this process, for programs that bring their algorithms along.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fairwater_plane::Plane;
use fairwater_proto::link::in_process::{InProcess, pair};
use fairwater_proto::link::{Link, LinkError, MAX_PACKET, Poller};
use fairwater_service::{Config, PeerId, Service};

use crate::datapath::lock;
use crate::keeper::{stop_and_join, stop_file};

/// Half of the interval of signs of life.
const TURN: Duration = Duration::from_millis(20);

/// Packets that wait for a datapath which does not read, before its link is given up.
const MAX_WAITING: usize = 256;

/// Packets that are taken from one link before the others have their turn.
const BUDGET: usize = 256;

const WAKE: u64 = u64::MAX;

/// A plane and its thread, until it is dropped.
#[derive(Debug)]
pub(crate) struct EmbeddedPlane {
    port: PlanePort,
    thread: Option<JoinHandle<()>>,
}

/// Where datapaths of this process join the plane.
#[derive(Debug, Clone)]
pub(crate) struct PlanePort {
    newcomers: Arc<Mutex<Sender<InProcess>>>,
    stop: Arc<OwnedFd>,
}

impl EmbeddedPlane {
    /// Serves the algorithms that the plane has.
    pub(crate) fn start(plane: Plane, epoch: Instant) -> io::Result<Self> {
        let stop = Arc::new(stop_file()?);
        let poller = Poller::new()?;
        poller.add(&stop.as_fd(), WAKE)?;
        let (newcomers, accepted) = channel();
        let server = PlaneThread {
            service: Service::new(plane, Config::default()),
            poller,
            accepted,
            links: BTreeMap::new(),
            epoch,
            buffer: vec![0; MAX_PACKET],
        };
        let thread = thread::Builder::new()
            .name("fairwater-plane".to_owned())
            .spawn(move || server.run())?;
        Ok(Self {
            port: PlanePort {
                newcomers: Arc::new(Mutex::new(newcomers)),
                stop,
            },
            thread: Some(thread),
        })
    }

    pub(crate) fn port(&self) -> PlanePort {
        self.port.clone()
    }
}

impl Drop for EmbeddedPlane {
    fn drop(&mut self) {
        stop_and_join(&self.port.stop, self.thread.take());
    }
}

impl PlanePort {
    pub(crate) fn connect(&self) -> io::Result<Box<dyn Link>> {
        let (own, plane) = pair()?;
        let sent = lock(&self.newcomers).send(plane);
        sent.map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
        Ok(Box::new(own))
    }
}

struct PlaneLink {
    peer: PeerId,
    link: InProcess,
    /// Packets for which the link had no room.
    waiting: VecDeque<Vec<u8>>,
}

struct PlaneThread {
    service: Service,
    poller: Poller,
    accepted: Receiver<InProcess>,
    /// By the peer's index.
    links: BTreeMap<usize, PlaneLink>,
    epoch: Instant,
    buffer: Vec<u8>,
}

impl PlaneThread {
    fn run(mut self) {
        loop {
            let mut is_idle = true;
            for each in self.links.values_mut() {
                is_idle &= each.link.prepare_to_wait();
            }
            let wait = if is_idle { TURN } else { Duration::ZERO };
            let Ok(tokens) = self.poller.wait(Some(wait)) else {
                return;
            };
            if tokens.into_iter().any(|token| token == WAKE) {
                return;
            }
            let now_us = u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.accept(now_us);
            self.receive(now_us);
            self.service.tick(now_us);
            self.transmit();
            // There is nobody to tell.
            self.service.drain_notices().for_each(drop);
        }
    }

    fn accept(&mut self, now_us: u64) {
        while let Ok(link) = self.accepted.try_recv() {
            // Without a place, the link is dropped and the datapath tries again.
            let Ok(peer) = self.service.connect(now_us) else {
                continue;
            };
            if self.poller.add(&link, peer.index() as u64).is_ok() {
                let waiting = VecDeque::new();
                self.links.insert(
                    peer.index(),
                    PlaneLink {
                        peer,
                        link,
                        waiting,
                    },
                );
            }
        }
    }

    fn receive(&mut self, now_us: u64) {
        let mut gone = Vec::new();
        for (index, each) in &mut self.links {
            for _ in 0..BUDGET {
                match each.link.receive(&mut self.buffer) {
                    Ok(length) => {
                        let packet = self.buffer.get(..length).unwrap_or_default();
                        self.service.on_packet(each.peer, packet, now_us);
                    }
                    Err(LinkError::WouldBlock) => break,
                    Err(LinkError::TooLong) => {}
                    Err(LinkError::Gone | LinkError::Broken) => {
                        gone.push(*index);
                        break;
                    }
                }
            }
        }
        gone.into_iter().for_each(|index| self.lose(index));
    }

    fn transmit(&mut self) {
        let mut gone = Vec::new();
        while let Some((peer, packet)) = self.service.poll_transmit() {
            if let Some(each) = self.links.get_mut(&peer.index()) {
                each.waiting.push_back(packet.to_vec());
            }
        }
        for (index, each) in &mut self.links {
            while let Some(packet) = each.waiting.front() {
                match each.link.send(packet) {
                    Ok(()) | Err(LinkError::TooLong) => {
                        each.waiting.pop_front();
                    }
                    Err(LinkError::WouldBlock) if each.waiting.len() <= MAX_WAITING => break,
                    Err(_) => {
                        gone.push(*index);
                        break;
                    }
                }
            }
        }
        gone.into_iter().for_each(|index| self.lose(index));
    }

    fn lose(&mut self, index: usize) {
        if let Some(each) = self.links.remove(&index) {
            let _ = self.poller.remove(&each.link);
            self.service.peer_gone(each.peer);
        }
    }
}
