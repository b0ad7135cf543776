//! The receivebox: a program in the kernel counts and finds boundary packets, and a thread answers.

mod kernel;

pub use kernel::{KernelReceivebox, ReceiveOptions};

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use fairwater_bundle::{ReceiveBundleConfig, ReceiveBundleStatus, Receivebox, RefusalCounts};
use fairwater_kernel::now_ns;
use fairwater_kernel::tcx::Hook;
use fairwater_net::Time;
use fairwater_netlink::link_facts;
use fairwater_proto::link::Poller;
use fairwater_service::Stopper;

use crate::socket::MessageSocket;
use crate::thread::{BoxThread, Questions};
use crate::{BoxError, Framing, MESSAGE_PORT};

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

/// A receivebox at the ports from the network: a program in the kernel that counts, and a thread that answers. Dropping
/// this detaches it.
#[derive(Debug)]
pub struct LinuxReceivebox {
    thread: BoxThread<Worker>,
}

#[derive(Debug)]
struct Worker {
    kernel: KernelReceivebox,
    receivebox: Receivebox,
    /// Numbers of the bundles, by place.
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
        let kernel = attach(config, socket.port().unwrap_or(MESSAGE_PORT))?;
        let stop = Stopper::new().map_err(BoxError::io("make an event file"))?;
        let worker = Worker {
            kernel,
            receivebox,
            numbers: config.bundles.iter().map(|it| it.channel.bundle).collect(),
            socket,
            stop: stop.clone(),
            answered: 0,
        };
        Ok(Self {
            thread: BoxThread::start("receivebox", stop, worker, Worker::run)?,
        })
    }

    /// The state; `None` if the box does not answer in time, or has ended.
    #[must_use]
    pub fn status(&self) -> Option<LinuxReceiveboxStatus> {
        self.thread.ask(|worker| worker.status())
    }
}

/// Loads the program and attaches it to the ports.
fn attach(config: &LinuxReceiveboxConfig, message_port: u16) -> Result<KernelReceivebox, BoxError> {
    let mut ports = Vec::new();
    let mut framings = Vec::new();
    for name in &config.ports {
        let facts = link_facts(name).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => BoxError::NoPort(name.clone()),
            _ => BoxError::io("ask for an interface")(error),
        })?;
        let framing = match facts.has_ethernet {
            true => Framing::Ethernet,
            false => Framing::Ip,
        };
        if framings.first().is_some_and(|first| *first != framing) {
            return Err(BoxError::MixedPorts(name.clone()));
        }
        framings.push(framing);
        ports.push(facts.index);
    }
    let options = ReceiveOptions {
        framing: framings.first().copied().unwrap_or_default(),
        message_port,
        ..ReceiveOptions::default()
    };
    let mut kernel = KernelReceivebox::load(&config.bundles, &options)?;
    for port in ports {
        kernel.attach(port, Hook::Ingress)?;
    }
    Ok(kernel)
}

fn now() -> Time {
    Time::from_nanos(now_ns())
}

impl Worker {
    fn run(mut self, questions: &Questions<Self>) {
        // What can fail is waiting, and reading the ring: the box then answers nobody, which its sendboxes notice.
        let _ = self.work(questions);
    }

    fn work(&mut self, questions: &Questions<Self>) -> Result<(), BoxError> {
        const WAKE: u64 = 0;
        let wait = |error| BoxError::io("wait for boundary packets")(error);
        let mut poller = Poller::new().map_err(wait)?;
        poller.add(&self.stop, WAKE).map_err(wait)?;
        poller.add(&self.socket.as_fd(), WAKE).map_err(wait)?;
        poller.add(&self.kernel.readable(), WAKE).map_err(wait)?;
        while !self.stop.is_asked() {
            self.kernel.turn(&mut self.receivebox)?;
            self.answer();
            if self.read_messages() {
                // They may ask for other epochs.
                self.kernel.turn(&mut self.receivebox)?;
            }
            self.answer();
            for question in questions.try_iter() {
                question(self);
            }
            let _ = poller.wait(Some(IDLE)).map_err(wait)?;
        }
        Ok(())
    }

    /// Reads what has come; whether anything was accepted.
    fn read_messages(&mut self) -> bool {
        let mut buffer = [0; MessageSocket::BUFFER];
        let mut is_any = false;
        for _ in 0..MESSAGES {
            let Some(received) = self.socket.receive(&mut buffer) else {
                break;
            };
            let message = buffer.get(..received.length).unwrap_or_default();
            // What is refused the box counts.
            let accepted = self.receivebox.on_message(now(), received.from, message);
            is_any |= accepted.is_ok();
        }
        is_any
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
            let counters = self.kernel.counters(index);
            Some((*number, ReceiveBundleStatus { counters, ..status }))
        });
        LinuxReceiveboxStatus {
            bundles: status.collect(),
            refusals: *self.receivebox.refusals(),
            answered: self.answered,
            lost: self.kernel.lost_boundaries(),
        }
    }
}
