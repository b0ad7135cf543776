//! A sendbox whose data plane is this process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use fairwater_bundle::{
    ModeChange, Prefix, SendBundleConfig, Sendbox, SendboxDataPlane, SendboxStatus, datapath_config,
};
use fairwater_datapath::{Datapath, PlaneLink};
use fairwater_kernel::now_us;
use fairwater_proto::Dialect;
use fairwater_proto::link::in_process::{InProcess, pair};
use fairwater_service::Stopper;

use super::device::Device;
use super::diversion::Diversion;
use super::frame::FlowHash;
use super::worker::{Worker, WorkerCounts};
use crate::socket::MessageSocket;
use crate::thread::BoxThread;
use crate::{BoxError, random};

/// A sendbox on this machine.
#[derive(Debug, Clone)]
pub struct TapSendboxConfig {
    /// Names of the interfaces from which the site's packets come.
    pub ports: Vec<String>,
    /// Where messages of receiveboxes are received.
    pub listen: SocketAddr,
    /// Messages between boxes have this port at one end: those that come from the site pass.
    pub message_port: u16,
    /// Most bytes in all queues.
    pub max_queued_bytes: u64,
    /// Packets pass the box when it has not shown for so long that it lives.
    pub stale: Duration,
    /// The bundles.
    pub bundles: Vec<SendBundleConfig>,
}

/// A sendbox at the ports of a site: a thread that queues and sends the bundles' packets, at the rates that a plane's
/// algorithms find. Dropping this lets all packets pass again; what is queued is sent first, at its rate.
#[derive(Debug)]
pub struct TapSendbox {
    thread: BoxThread<Worker>,
    changes: Receiver<ModeChange>,
    counts: Arc<WorkerCounts>,
    /// The plane's end of the link, until it is taken.
    link: Option<InProcess>,
    bundles: Vec<SendBundleConfig>,
    /// What was told of: stalls, and that the thread has ended.
    told: (u64, bool),
}

impl TapSendbox {
    /// Starts it in the calling thread's network namespace.
    ///
    /// # Errors
    /// A port is not there or no Ethernet, the process lacks `CAP_NET_ADMIN` or `CAP_BPF`, the address for messages is
    /// taken, or the bundles' configurations contradict each other.
    pub fn start(config: &TapSendboxConfig) -> Result<Self, BoxError> {
        let (own, link) = pair().map_err(BoxError::io("link the sendbox to the plane"))?;
        let mut datapath = Datapath::new(fairwater_datapath::Config {
            instance: now_us(),
            ..datapath_config()
        });
        let peer = datapath.add_peer(Dialect::Own, now_us());
        let sendbox = Sendbox::new(&config.bundles, config.max_queued_bytes, datapath, peer)?;
        let listen = |error| BoxError::Listen(config.listen, error);
        let socket = MessageSocket::bind(config.listen).map_err(listen)?;
        let ports = config.ports.iter();
        let devices = ports.map(|port| Device::create(port));
        let devices = devices.collect::<Result<Vec<_>, _>>()?;
        let drawn: [u8; 20] = random().map_err(BoxError::io("draw random numbers"))?;
        let numbers: [u32; 5] = std::array::from_fn(|index| {
            let bytes = drawn[4 * index..].first_chunk().copied();
            u32::from_ne_bytes(bytes.unwrap_or_default())
        });
        let word = |index: usize| u64::from(numbers[index]) << 32 | u64::from(numbers[index + 1]);
        let prefixes = config.bundles.iter().flat_map(|it| &it.destinations);
        let prefixes: Vec<Prefix> = prefixes.copied().collect();
        let diversion = Diversion::start(
            &devices,
            prefixes,
            config.message_port,
            (config.stale, numbers[4] | 1),
        )?;
        let stop = Stopper::new().map_err(BoxError::io("make an event file"))?;
        let counts = Arc::<WorkerCounts>::default();
        let (changed, changes) = mpsc::channel();
        let worker = Worker {
            devices,
            diversion,
            sendbox,
            socket,
            link: PlaneLink::new(peer, Box::new(own)),
            hash: FlowHash([word(0), word(2)]),
            counts: Arc::clone(&counts),
            changed,
            stop: stop.clone(),
            discard_before: fairwater_net::Time::ZERO,
        };
        Ok(Self {
            thread: BoxThread::start("sendbox", stop, worker, Worker::run)?,
            changes,
            counts,
            link: Some(link),
            bundles: config.bundles.clone(),
            told: (0, false),
        })
    }

    /// The plane's end of the link, once.
    pub const fn take_link(&mut self) -> Option<InProcess> {
        self.link.take()
    }
}

impl SendboxDataPlane for TapSendbox {
    fn name(&self) -> &'static str {
        "tap"
    }

    fn status(&mut self) -> Option<SendboxStatus> {
        let numbers: Vec<u32> = self.bundles.iter().map(|it| it.channel.bundle).collect();
        let status = self.thread.ask(move |worker| worker.status(&numbers))?;
        Some(self.counts.added_to(status))
    }

    fn drain_changes(&mut self) -> Vec<ModeChange> {
        self.changes.try_iter().collect()
    }

    fn drain_notices(&mut self) -> Vec<String> {
        let now = (self.counts.stalls(), self.thread.has_ended());
        let before = std::mem::replace(&mut self.told, now);
        let mut sentences = Vec::new();
        if now.0 > before.0 {
            sentences.push(
                "The sendbox was late: packets passed by it meanwhile, and what waited for it was discarded."
                    .to_owned(),
            );
        }
        if now.1 && !before.1 {
            sentences.push(
                "The sendbox has ended, as a device or port is gone: packets pass. Restart it to shape again."
                    .to_owned(),
            );
        }
        sentences
    }

    fn reconfigure(&mut self, bundles: &[SendBundleConfig]) -> Result<(), String> {
        let given = bundles.to_vec();
        let asked = self
            .thread
            .ask(move |worker| worker.sendbox.reconfigure(&given));
        asked.unwrap_or_else(|| Err("the sendbox does not answer".to_owned()))?;
        self.bundles = bundles.to_vec();
        Ok(())
    }
}
