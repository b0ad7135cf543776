//! Connections whose policy asks for buffers: a thread that holds their data.
//!
//! ```text
//!   guest ──▶ port ──redirect──▶ device ──▶ fairwater_edge::Edge ──▶ device ──return──▶ port ──▶ network
//!   guest ◀── port ◀──return── device ◀── fairwater_edge::Edge ◀── device ◀──redirect── port ◀── network
//! ```
//!
//! The programs at a guest's port send the packets of these connections, both ways and from the first SYN on, to a TAP
//! device (`bpf/redirect.h`). The thread reads them, drives a box of [`fairwater_edge`], and writes what is to go on
//! back to the device, whose program puts it where it came from. Super-packets and unfinished checksums stay what they
//! are. The box is a datapath of the plane by a link within the process.
//!
//! **When the thread is silent** for longer than `silent_after`, or the device is gone, packets pass at the port: the
//! guest still has all that its peer has not acknowledged, and repairs what the box held. The thread sees by its own
//! heartbeat that this may have been so, discards what waits in the device, and forgets its connections; they pass for
//! the rest of their lives.

mod data_plane;
mod device;
mod frame;
mod redirection;
mod worker;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, RwLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fairwater_edge::buffer::{BufferStatistics, Held};
use fairwater_edge::policy::EdgePolicy;
use fairwater_edge::{EdgeStatistics, Fate, FlowKey};
use fairwater_kernel::now_ns;
use fairwater_kernel::tcx::{self, Hook};
use fairwater_net::Time;
use fairwater_proto::link::in_process::{InProcess, pair};
use fairwater_service::Stopper;

use crate::{EdgeError, Programs};
use data_plane::DataPlane;
use device::Device;
use redirection::Redirection;
use worker::{Question, Worker, WorkerCounts};

/// What the plane calls the datapath.
const NAME: &str = "edge-buffers";

/// How long to wait for an answer of the thread: shorter than a plane may be silent.
const ANSWER: Duration = Duration::from_millis(100);

/// The port sets that interfaces are in, a bit each.
pub(crate) type PortSets = Arc<RwLock<HashMap<u32, u64>>>;

/// The thread that holds the data of guests whose policy asks for it. Dropping this lets go of all connections.
#[derive(Debug)]
pub(crate) struct BufferedEdge {
    questions: Sender<Question>,
    stop: Stopper,
    sets: PortSets,
    counts: Arc<WorkerCounts>,
    /// The plane's end of the link, until it is taken.
    link: Option<InProcess>,
    thread: Option<JoinHandle<()>>,
    /// The program at the device.
    _return: OwnedFd,
    /// What was told of: stalls, and that the device is gone.
    told: (u64, bool),
}

/// A connection whose packets go through the thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BufferedConnection {
    pub(crate) key: FlowKey,
    pub(crate) state: crate::ConnectionState,
    pub(crate) algorithm: Option<Arc<str>>,
    pub(crate) exemption: Option<fairwater_edge::Exemption>,
    pub(crate) limit: fairwater_edge::enforce::Limit,
    pub(crate) srtt_us: u64,
    pub(crate) held: Option<Held>,
    pub(crate) seen_ns: u64,
}

/// What buffering has done, and whether it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BufferedStatistics {
    /// What the box has counted.
    pub buffers: BufferStatistics,
    /// The same of packets and connections.
    pub edge: EdgeStatistics,
    /// Connections whose data is held.
    pub held: usize,
    /// Memory that this takes, bytes.
    pub held_bytes: usize,
    /// Packets that the programs sent to the thread.
    pub redirected: u64,
    /// Connections that were to be buffered, and found no room.
    pub without_room: u64,
    /// Packets that came to the thread.
    pub received: u64,
    /// Packets that it wrote.
    pub written: u64,
    /// Packets that could not be written.
    pub unwritten: u64,
    /// Times that the thread was held up for so long that its connections pass from then on.
    pub stalls: u64,
    /// Whether the device is gone, and nothing is buffered any more.
    pub is_broken: bool,
}

impl BufferedStatistics {
    /// Packets that did not come to the thread: the device was full, or the thread was late. Those that wait now are
    /// among them.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.redirected.saturating_sub(self.received)
    }
}

impl BufferedEdge {
    /// Makes the device and starts the thread.
    pub(crate) fn start(
        programs: &Programs,
        policy: &Arc<EdgePolicy>,
        stale: Duration,
    ) -> Result<Self, EdgeError> {
        let device = Device::create().map_err(EdgeError::io("make a TAP device for buffers"))?;
        let interface = device.interface;
        let back = tcx::attach(
            programs.returning.as_fd(),
            interface,
            // What the process writes comes in at its device.
            Hook::Ingress,
        )
        .map_err(EdgeError::io("attach the edge to the device for buffers"))?;
        let mut redirection = Redirection::new(&programs.redirection, &programs.redirected, stale)?;
        let (own, link) = pair().map_err(EdgeError::io("link the buffers to the plane"))?;
        let stop = Stopper::new().map_err(EdgeError::io("make an event file"))?;
        let sets = PortSets::default();
        let counts = Arc::<WorkerCounts>::default();
        let plane = DataPlane::new(policy, &sets, own, Time::from_nanos(now_ns()));
        redirection.begin(interface, random() as u32 | 1);
        let worker = Worker::new(
            device,
            redirection,
            plane,
            Arc::clone(&counts),
            stop.clone(),
        );
        let (questions, asked) = mpsc::channel();
        let thread = thread::Builder::new()
            .name(NAME.to_owned())
            .spawn(move || worker.run(&asked))
            .map_err(EdgeError::io("start the buffers' thread"))?;
        Ok(Self {
            questions,
            stop,
            sets,
            counts,
            link: Some(link),
            thread: Some(thread),
            _return: back,
            told: (0, false),
        })
    }

    /// The plane's end of the link, once.
    pub(crate) const fn take_link(&mut self) -> Option<InProcess> {
        self.link.take()
    }

    /// Says which sets a port is in; `None` forgets it with its connections.
    pub(crate) fn set_port(&self, interface: u32, sets: Option<u64>) {
        let Ok(mut all) = self.sets.write() else {
            return;
        };
        match sets {
            Some(sets) => {
                all.insert(interface, sets);
            }
            None => {
                all.remove(&interface);
                self.tell(Box::new(move |_, plane| {
                    plane.edge.forget(|key| key.interface == interface);
                }));
            }
        }
    }

    /// Takes another policy.
    pub(crate) fn set_policy(&self, policy: &Arc<EdgePolicy>) {
        let (policy, sets) = (Arc::clone(policy), Arc::clone(&self.sets));
        self.tell(Box::new(move |now, plane| {
            plane.set_policy(now, &policy, &sets);
        }));
    }

    /// What an operator should know since the last call, as sentences.
    pub(crate) fn drain_notices(&mut self) -> Vec<String> {
        let now = (self.counts.stalls.load(Relaxed), self.is_broken());
        let before = std::mem::replace(&mut self.told, now);
        let mut sentences = Vec::new();
        if now.0 > before.0 {
            sentences.push(
                "The edge's buffers were late: connections that were buffered pass from now on."
                    .to_owned(),
            );
        }
        if now.1 && !before.1 {
            sentences.push(
                "The edge's buffers have ended, as their device is gone or by a mistake: guests repair their losses themselves \
                 from now on. Restart the edge to buffer again."
                    .to_owned(),
            );
        }
        sentences
    }

    /// Whether the thread has ended by itself.
    fn is_broken(&self) -> bool {
        let thread = self.thread.as_ref();
        self.counts.is_broken.load(Relaxed) || thread.is_none_or(JoinHandle::is_finished)
    }

    fn tell(&self, question: Question) {
        // A thread that has ended has no connections.
        let _ = self.questions.send(question);
        self.stop.wake();
    }

    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut DataPlane) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = mpsc::channel();
        self.tell(Box::new(move |_, plane| {
            let _ = answer.send(question(plane));
        }));
        answered.recv_timeout(ANSWER).ok()
    }

    /// The connections whose packets go through the thread; none if it does not answer.
    pub(crate) fn connections(&self) -> Vec<BufferedConnection> {
        self.ask(|plane| describe(plane)).unwrap_or_default()
    }

    /// What buffering has done.
    pub(crate) fn statistics(&self) -> BufferedStatistics {
        let of_box = self.ask(|plane| {
            let (held, held_bytes) = plane.edge.held();
            BufferedStatistics {
                buffers: *plane.edge.buffer_statistics(),
                edge: *plane.edge.statistics(),
                held,
                held_bytes,
                ..BufferedStatistics::default()
            }
        });
        BufferedStatistics {
            received: self.counts.received.load(Relaxed),
            written: self.counts.written.load(Relaxed),
            unwritten: self.counts.unwritten.load(Relaxed),
            stalls: self.counts.stalls.load(Relaxed),
            is_broken: self.is_broken(),
            ..of_box.unwrap_or_default()
        }
    }
}

impl Drop for BufferedEdge {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked holds nothing any more.
            let _ = thread.join();
        }
    }
}

fn describe(plane: &DataPlane) -> Vec<BufferedConnection> {
    use crate::ConnectionState as State;
    let all = plane.edge.connections().iter();
    let described = all.map(|(_, key, flow, fate)| {
        let mut described = BufferedConnection {
            key: *key,
            state: State::Passed,
            algorithm: None,
            exemption: None,
            limit: fairwater_edge::enforce::Limit::Released,
            srtt_us: flow.sender().srtt_us(),
            held: None,
            seen_ns: flow.last_seen().as_nanos(),
        };
        match fate {
            Fate::Passed => {}
            Fate::Exempt(exemption) => {
                described.state = State::Exempt;
                described.exemption = Some(*exemption);
            }
            Fate::Controlled(controlled) => {
                use fairwater_datapath::FlowState;
                let known = plane.edge.datapath().flow(controlled.flow());
                described.limit = controlled.limit();
                described.held = controlled.held();
                described.algorithm = known.as_ref().map(|flow| Arc::from(flow.algorithm));
                let is_released = described.limit == fairwater_edge::enforce::Limit::Released;
                described.state = match known.map(|flow| flow.state) {
                    Some(FlowState::Waiting) if !is_released => State::Starting,
                    _ if is_released => State::Released,
                    _ => State::Running,
                };
            }
        }
        described
    });
    described.collect()
}

/// A number that nobody can guess.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0)
}
