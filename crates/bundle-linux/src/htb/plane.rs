//! The sendbox in the kernel as a data plane: a thread that carries between the kernel, the control, the receiveboxes
//! and the plane.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use fairwater_bundle::{
    ModeChange, SendBundleConfig, SendboxControl, SendboxDataPlane, SendboxStatus, datapath_config,
};
use fairwater_datapath::{Datapath, PlaneLink};
use fairwater_kernel::{now_ns, now_us};
use fairwater_net::Time;
use fairwater_proto::Dialect;
use fairwater_proto::link::Poller;
use fairwater_proto::link::in_process::{InProcess, pair};
use fairwater_service::Stopper;

use super::{HtbOptions, HtbSendbox};
use crate::BoxError;
use crate::socket::MessageSocket;
use crate::thread::{BoxThread, Questions};

/// Messages that are received in one turn.
const MESSAGES: usize = 256;

/// A sendbox in the kernel of this machine.
#[derive(Debug, Clone)]
pub struct HtbDataPlaneConfig {
    /// Name of the interface by which packets leave for the network.
    pub port: String,
    /// Where messages of receiveboxes are received.
    pub listen: SocketAddr,
    /// How bundles are queued.
    pub options: HtbOptions,
    /// The bundles.
    pub bundles: Vec<SendBundleConfig>,
}

/// A sendbox whose packets stay in the kernel, and the thread that sets their rates. Dropping this lets what waits leave,
/// and removes all of it.
#[derive(Debug)]
pub struct HtbDataPlane {
    thread: BoxThread<Worker>,
    changes: Receiver<ModeChange>,
    /// The plane's end of the link, until it is taken.
    link: Option<InProcess>,
    bundles: Vec<SendBundleConfig>,
    /// Stalls at the last status.
    stalls: u64,
    /// What was told of: stalls, and that the thread has ended.
    told: (u64, bool),
}

#[derive(Debug)]
struct Worker {
    sendbox: HtbSendbox,
    control: SendboxControl,
    socket: MessageSocket,
    link: PlaneLink,
    changed: Sender<ModeChange>,
    stop: Stopper,
    /// Longest time between two heartbeats.
    beat: Duration,
    /// Packets that have passed by the classes, and how often more of them had.
    passed: u64,
    stalls: u64,
}

fn now() -> Time {
    Time::from_nanos(now_ns())
}

impl HtbDataPlane {
    /// Starts it in the calling thread's network namespace.
    ///
    /// # Errors
    /// See [`HtbSendbox::attach`]; the address for messages is taken, or the bundles' configurations contradict each other.
    pub fn start(config: &HtbDataPlaneConfig) -> Result<Self, BoxError> {
        let (own, link) = pair().map_err(BoxError::io("link the sendbox to the plane"))?;
        let mut datapath = Datapath::new(fairwater_datapath::Config {
            instance: now_us(),
            ..datapath_config()
        });
        let peer = datapath.add_peer(Dialect::Own, now_us());
        let control = SendboxControl::new(&config.bundles, datapath, peer)?;
        let listen = |error| BoxError::Listen(config.listen, error);
        let socket = MessageSocket::bind(config.listen).map_err(listen)?;
        let sendbox = HtbSendbox::attach(&config.port, &config.bundles, &config.options)?;
        let stop = Stopper::new().map_err(BoxError::io("make an event file"))?;
        let (changed, changes) = mpsc::channel();
        let worker = Worker {
            sendbox,
            control,
            socket,
            link: PlaneLink::new(peer, Box::new(own)),
            changed,
            stop: stop.clone(),
            beat: config.options.stale_after / 4,
            passed: 0,
            stalls: 0,
        };
        Ok(Self {
            thread: BoxThread::start("sendbox", stop, worker, Worker::run)?,
            changes,
            link: Some(link),
            bundles: config.bundles.clone(),
            stalls: 0,
            told: (0, false),
        })
    }

    /// The plane's end of the link, once.
    pub const fn take_link(&mut self) -> Option<InProcess> {
        self.link.take()
    }
}

impl SendboxDataPlane for HtbDataPlane {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn status(&mut self) -> Option<SendboxStatus> {
        let numbers: Vec<u32> = self.bundles.iter().map(|it| it.channel.bundle).collect();
        let status = self.thread.ask(move |worker| worker.status(&numbers))?;
        self.stalls = status.stalls;
        Some(status)
    }

    fn drain_changes(&mut self) -> Vec<ModeChange> {
        self.changes.try_iter().collect()
    }

    fn drain_notices(&mut self) -> Vec<String> {
        let now = (self.stalls, self.thread.has_ended());
        let before = std::mem::replace(&mut self.told, now);
        let mut sentences = Vec::new();
        if now.0 > before.0 {
            sentences
                .push("The sendbox was late: packets passed by its classes meanwhile.".to_owned());
        }
        if now.1 && !before.1 {
            sentences.push(
                "The sendbox has ended, as its port or queue is gone: packets pass. Restart it to shape again."
                    .to_owned(),
            );
        }
        sentences
    }

    fn reconfigure(&mut self, bundles: &[SendBundleConfig]) -> Result<(), String> {
        let given = bundles.to_vec();
        let asked = self.thread.ask(move |worker| {
            worker.control.reconfigure(&given)?;
            worker.sendbox.reconfigure(&given);
            Ok(())
        });
        asked.unwrap_or_else(|| Err("the sendbox does not answer".to_owned()))?;
        self.bundles = bundles.to_vec();
        Ok(())
    }
}

impl Worker {
    /// Works until it is stopped, or the port or its queue is gone.
    fn run(mut self, questions: &Questions<Self>) {
        // Packets pass when the classes are gone, and whoever asks learns that the thread has ended.
        let _ = self.work(questions);
    }

    fn work(&mut self, questions: &Questions<Self>) -> Result<(), BoxError> {
        const WAKE: u64 = 0;
        let wait = |error| BoxError::io("wait for boundary packets")(error);
        let mut poller = Poller::new().map_err(wait)?;
        poller.add(&self.stop, WAKE).map_err(wait)?;
        poller.add(&self.socket.as_fd(), WAKE).map_err(wait)?;
        poller.add(&self.sendbox.readable(), WAKE).map_err(wait)?;
        poller.add(&self.link, WAKE).map_err(wait)?;
        while !self.stop.is_asked() {
            // Marks before messages: feedback of an unknown packet is of no use.
            self.sendbox.read(&mut self.control)?;
            self.read_messages();
            for question in questions.try_iter() {
                question(self);
            }
            let micros = now().as_nanos() / 1_000;
            self.link.exchange(self.control.datapath_mut(), micros);
            self.sendbox.turn(now(), &mut self.control)?;
            self.tell();
            if self.link.prepare_to_wait() {
                let until = self.next_timer().since(now());
                poller.wait_precisely(until.min(self.beat)).map_err(wait)?;
            }
        }
        Ok(())
    }

    fn next_timer(&self) -> Time {
        let datapath = self.control.datapath().next_timeout();
        let datapath = datapath.map(|us| Time::from_nanos(us.saturating_mul(1_000)));
        let turn = self.sendbox.next_timeout().min(self.control.next_timeout());
        datapath.map_or(turn, |at| at.min(turn))
    }

    fn read_messages(&mut self) {
        let mut buffer = [0; MessageSocket::BUFFER];
        for _ in 0..MESSAGES {
            let Some(received) = self.socket.receive(&mut buffer) else {
                return;
            };
            let message = buffer.get(..received.length).unwrap_or_default();
            // What is refused the control counts.
            let _ = (self.control).on_message(received.at, received.from, message);
        }
    }

    /// Sends messages, and tells of changes.
    fn tell(&mut self) {
        while let Some(message) = self.control.poll_message() {
            self.socket.send(message.to, &message.bytes);
        }
        while let Some(change) = self.control.poll_change() {
            // Nobody may listen any more.
            let _ = self.changed.send(change);
        }
        let passed = self.sendbox.stale_packets();
        self.stalls += u64::from(passed != self.passed);
        self.passed = passed;
    }

    fn status(&self, numbers: &[u32]) -> SendboxStatus {
        let status = |number: &u32| Some((*number, self.control.status(*number)?));
        let bundles: Vec<_> = numbers.iter().filter_map(status).collect();
        SendboxStatus {
            received: self.sendbox.enqueued_packets(),
            written: bundles.iter().map(|(_, bundle)| bundle.sent.1).sum(),
            bundles,
            refusals: *self.control.refusals(),
            dropped: self.sendbox.dropped_packets(),
            passed: self.passed,
            stalls: self.stalls,
            clock_jumps: self.control.clock_jumps(),
        }
    }
}
