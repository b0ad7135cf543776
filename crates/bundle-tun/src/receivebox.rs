//! A receivebox on this machine.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fairwater_bundle::{ReceiveBundleConfig, ReceiveBundleStatus, Receivebox, RefusalCounts};
use fairwater_kernel::now_ns;
use fairwater_net::Time;
use fairwater_netlink::index_of;
use fairwater_proto::link::Poller;
use fairwater_service::Stopper;

use crate::observer::Observer;
use crate::punctuality::ask_for_punctuality;
use crate::socket::MessageSocket;
use crate::{BoxError, MESSAGE_PORT};

/// How long to wait for an answer of the thread.
const ANSWER: Duration = Duration::from_millis(500);
/// The longest sleep.
const IDLE: Duration = Duration::from_secs(1);
/// Messages that are received in one turn.
const MESSAGES: usize = 256;

/// A receivebox on this machine.
#[derive(Debug, Clone)]
pub struct LinuxReceiveboxConfig {
    /// Names of the interfaces at which packets come from the network.
    pub ports: Vec<String>,
    /// Where messages of sendboxes are received.
    pub listen: SocketAddr,
    /// The bundles.
    pub bundles: Vec<ReceiveBundleConfig>,
}

/// The state of a receivebox.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinuxReceiveboxStatus {
    /// Its bundles by number, in the order of the configuration.
    pub bundles: Vec<(u32, ReceiveBundleStatus)>,
    /// Messages refused, by reason.
    pub refusals: RefusalCounts,
    /// Feedback sent.
    pub answered: u64,
    /// Boundary packets that could not be told, as too many waited.
    pub lost: u64,
}

type Question = Box<dyn FnOnce(&Worker) + Send>;

/// A receivebox at the ports from the network: a program in the kernel that counts, and a thread that answers. Dropping
/// this detaches it.
#[derive(Debug)]
pub struct LinuxReceivebox {
    questions: Sender<Question>,
    stop: Stopper,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Worker {
    observer: Observer,
    receivebox: Receivebox,
    numbers: Vec<u32>,
    socket: MessageSocket,
    stop: Stopper,
    answered: u64,
}

impl LinuxReceivebox {
    /// Starts it in the calling thread's network namespace.
    ///
    /// # Errors
    /// A port is not there, the process lacks `CAP_NET_ADMIN` or `CAP_BPF`, the address for messages is taken, or the
    /// bundles' configurations contradict each other.
    pub fn start(config: &LinuxReceiveboxConfig) -> Result<Self, BoxError> {
        let receivebox = Receivebox::new(&config.bundles)?;
        let listen = |error| BoxError::Listen(config.listen, error);
        let socket = MessageSocket::bind(config.listen).map_err(listen)?;
        let port = socket.port().unwrap_or(MESSAGE_PORT);
        let mut observer = Observer::load(&config.bundles, port)?;
        for name in &config.ports {
            let interface = index_of(name).map_err(|_| BoxError::NoPort(name.clone()))?;
            observer.attach(interface)?;
        }
        let stop = Stopper::new().map_err(BoxError::io("make an event file"))?;
        let worker = Worker {
            observer,
            receivebox,
            numbers: config.bundles.iter().map(|it| it.channel.bundle).collect(),
            socket,
            stop: stop.clone(),
            answered: 0,
        };
        let (questions, asked) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("receivebox".to_owned())
            .spawn(move || worker.run(&asked))
            .map_err(BoxError::io("start the receivebox's thread"))?;
        Ok(Self {
            questions,
            stop,
            thread: Some(thread),
        })
    }

    /// The state; `None` if the box does not answer in time, or has ended.
    #[must_use]
    pub fn status(&self) -> Option<LinuxReceiveboxStatus> {
        let (answer, answered) = mpsc::channel();
        let question = Box::new(move |worker: &Worker| {
            let _ = answer.send(worker.status());
        });
        self.questions.send(question).ok()?;
        self.stop.wake();
        answered.recv_timeout(ANSWER).ok()
    }
}

impl Drop for LinuxReceivebox {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked holds nothing any more.
            let _ = thread.join();
        }
    }
}

fn now() -> Time {
    Time::from_nanos(now_ns())
}

impl Worker {
    fn run(mut self, questions: &Receiver<Question>) {
        ask_for_punctuality();
        // What can fail is making a poller: the box then answers nobody, which its sendboxes notice.
        let _ = self.work(questions);
    }

    fn work(&mut self, questions: &Receiver<Question>) -> Result<(), BoxError> {
        const WAKE: u64 = 0;
        let wait = |error| BoxError::io("wait for boundary packets")(error);
        let mut boundaries = self.observer.boundaries()?;
        let mut poller = Poller::new().map_err(wait)?;
        poller.add(&self.stop, WAKE).map_err(wait)?;
        poller.add(&self.socket.as_fd(), WAKE).map_err(wait)?;
        poller.add(&boundaries.as_fd(), WAKE).map_err(wait)?;
        while !self.stop.is_asked() {
            for found in boundaries.take() {
                let (at, index) = (found.received_at, found.bundle);
                let receivebox = &mut self.receivebox;
                receivebox.on_boundary(at, index, found.boundary, found.counters);
            }
            self.answer();
            self.read_messages();
            self.answer();
            for question in questions.try_iter() {
                question(self);
            }
            let _ = poller.wait(Some(IDLE)).map_err(wait)?;
        }
        Ok(())
    }

    fn read_messages(&mut self) {
        let mut buffer = [0; MessageSocket::BUFFER];
        for _ in 0..MESSAGES {
            let Some(received) = self.socket.receive(&mut buffer) else {
                break;
            };
            let message = buffer.get(..received.length).unwrap_or_default();
            // What is refused the box counts.
            let accepted = self.receivebox.on_message(now(), received.from, message);
            if accepted.is_ok() {
                self.follow_epochs();
            }
        }
    }

    /// Tells the program which packets begin epochs.
    fn follow_epochs(&self) {
        for (index, number) in self.numbers.iter().enumerate() {
            let status = self.receivebox.status(*number);
            if let Some(status) = status.filter(|status| status.sendbox.is_some()) {
                self.observer.set_epoch(index, status.epoch);
            }
        }
    }

    fn answer(&mut self) {
        while let Some(message) = self.receivebox.poll_message() {
            self.socket.send(message.to, &message.bytes);
            self.answered += 1;
        }
    }

    fn status(&self) -> LinuxReceiveboxStatus {
        let numbers = self.numbers.iter().enumerate();
        let status = numbers.filter_map(|(index, number)| {
            let status = self.receivebox.status(*number)?;
            let counters = self.observer.counters(index);
            Some((*number, ReceiveBundleStatus { counters, ..status }))
        });
        LinuxReceiveboxStatus {
            bundles: status.collect(),
            refusals: *self.receivebox.refusals(),
            answered: self.answered,
            lost: self.observer.lost(),
        }
    }
}
