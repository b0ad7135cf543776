//! Bulk flows of a TCP in user space, to the kernel's TCP in the receiver's namespace.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fairwater_datapath::Connection as Plane;
use fairwater_net::Time;
use fairwater_proto::Dialect;
use fairwater_proto::link::Link;
use fairwater_results::SocketSample;
use fairwater_utcp::io::{DescriptorPort, Driver, Pause};
use fairwater_utcp::{
    CloseReason, Config, Connection, ConnectionId, Ecn, EndpointConfig, State, TcpConfig,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::{FlowSpec, bulk};
use crate::emulator::{Urgency, ask_for_punctuality};
use crate::error::TestbedError;
use crate::path::{MTU, Path};

/// What stands before the name of an algorithm whose flows a TCP in user space sends.
pub const USER_TCP: &str = "utcp:";

/// Bytes of packets on their way to the emulator, as much as a device's queue holds.
const DEVICE_QUEUE_BYTES: usize = 32 << 20;

/// How often a connection's state is sampled.
const SAMPLE_PERIOD: Duration = Duration::from_millis(10);

/// Makes links to the plane that controls the flows of a TCP in user space.
#[derive(Clone)]
pub struct UserPlane(Arc<Connect>);

type Connect = dyn Fn() -> io::Result<Box<dyn Link>> + Send + Sync;

impl UserPlane {
    /// A plane that `connect` makes links to, which must not block.
    pub fn new(connect: impl Fn() -> io::Result<Box<dyn Link>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(connect))
    }
}

impl fmt::Debug for UserPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserPlane")
    }
}

/// What a user-space TCP has sent.
#[derive(Debug, Default)]
pub(crate) struct UserLog {
    /// By flow.
    pub(crate) samples: Vec<Vec<SocketSample>>,
    /// By flow: segments sent again.
    pub(crate) retransmissions: Vec<u64>,
}

/// The flows of a run. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct UserTcp {
    stop: Arc<AtomicBool>,
    sender: Option<JoinHandle<io::Result<UserLog>>>,
    receivers: Vec<JoinHandle<io::Result<()>>>,
}

/// A device whose one end is the TCP in user space and whose other is the emulator: one packet with each read and
/// write, as a TUN device.
pub(crate) fn device() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let ends = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    for end in [&ends.0, &ends.1] {
        let socket = socket2::SockRef::from(end);
        socket.set_send_buffer_size(DEVICE_QUEUE_BYTES)?;
    }
    Ok(ends)
}

impl UserTcp {
    /// Starts the flows; `device` is the sender's end, `ecn` whether they offer it.
    pub(crate) fn start(
        path: &Path,
        device: OwnedFd,
        plane: &UserPlane,
        flows: &[FlowSpec<'_>],
        ecn: Ecn,
        clock: crate::clock::Clock,
    ) -> Result<Self, TestbedError> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut user = Self {
            stop: Arc::clone(&stop),
            sender: None,
            receivers: Vec::new(),
        };
        for flow in flows {
            let at = SocketAddr::new(path.receiver_address, flow.server_port());
            let receiver = bulk::receiver(path.receiver.as_fd(), at, Arc::clone(&stop));
            user.receivers.push(receiver.map_err(|e| flow.failed(e))?);
        }
        let outgoing: Vec<_> = flows.iter().map(|flow| Outgoing::new(path, flow)).collect();
        let plane = plane.clone();
        let sender = thread::Builder::new()
            .name("lab-utcp".to_owned())
            .spawn(move || send(device, &plane, outgoing, ecn, clock, &stop));
        user.sender = Some(sender.map_err(TestbedError::system("start a TCP in user space"))?);
        Ok(user)
    }

    /// What was sent, once all flows have ended.
    pub(crate) fn finished(&mut self) -> Result<Option<UserLog>, String> {
        if self
            .sender
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
        {
            return Ok(None);
        }
        let log = match self.sender.take().map(JoinHandle::join) {
            None => UserLog::default(),
            Some(Ok(log)) => log.map_err(|error| error.to_string())?,
            Some(Err(_)) => return Err("the thread of the TCP in user space panicked".to_owned()),
        };
        self.stop.store(true, Ordering::Relaxed);
        for receiver in self.receivers.drain(..) {
            match receiver.join() {
                Ok(received) => received.map_err(|error| error.to_string())?,
                Err(_) => return Err("a receiver's thread panicked".to_owned()),
            }
        }
        Ok(Some(log))
    }
}

impl Drop for UserTcp {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(sender) = self.sender.take() {
            // Its failure was seen, or nobody is left to see it.
            let _ = sender.join();
        }
        for receiver in self.receivers.drain(..) {
            let _ = receiver.join();
        }
    }
}

/// One flow, as the sender's thread has it.
struct Outgoing {
    from: SocketAddr,
    to: SocketAddr,
    /// What its results are called.
    name: String,
    algorithm: String,
    start: Duration,
    end: Duration,
    connection: Option<ConnectionId>,
    is_over: bool,
    samples: Vec<SocketSample>,
    retransmissions: u64,
}

impl Outgoing {
    fn new(path: &Path, flow: &FlowSpec<'_>) -> Self {
        let name = flow.congestion_control;
        let end = flow
            .stop
            .map_or(flow.duration, |stop| stop.min(flow.duration));
        Self {
            from: SocketAddr::new(path.sender_address, flow.source_port()),
            to: SocketAddr::new(path.receiver_address, flow.server_port()),
            name: name.to_owned(),
            algorithm: name.strip_prefix(USER_TCP).unwrap_or(name).to_owned(),
            start: flow.start,
            end,
            connection: None,
            is_over: flow.start >= end,
            samples: Vec::new(),
            retransmissions: 0,
        }
    }

    /// Opens, writes and ends the flow as it is time.
    fn turn(
        &mut self,
        driver: &mut Driver<DescriptorPort>,
        elapsed: Duration,
        block: &[u8],
    ) -> io::Result<()> {
        if self.is_over || elapsed < self.start {
            return Ok(());
        }
        let Some(id) = self.connection else {
            let connection = driver.connect(self.from, self.to, &self.algorithm);
            self.connection = Some(connection.map_err(io::Error::other)?);
            return Ok(());
        };
        if elapsed >= self.end {
            self.is_over = true;
            // At the end nothing is left to be sent, so the run ends when it should.
            return driver.abort(id).map_err(io::Error::other);
        }
        while driver.write(id, block).map_err(io::Error::other)? == block.len() {}
        Ok(())
    }

    fn sample(&mut self, at: Time, driver: &Driver<DescriptorPort>) {
        let connection = self
            .connection
            .and_then(|id| driver.endpoint().connection(id));
        let Some(connection) = connection.filter(|c| c.state() == State::Established) else {
            return;
        };
        self.retransmissions = connection.counters().retransmissions;
        self.samples.extend(sample(at, &self.name, connection));
    }
}

fn sample(at: Time, name: &str, connection: &Connection) -> Option<SocketSample> {
    let controls = connection.controls()?;
    let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let mss = connection.mss().max(1);
    Some(SocketSample {
        at,
        congestion_control: name.to_owned(),
        cwnd_packets: small(controls.cwnd / u64::from(mss)),
        mss_bytes: mss,
        ssthresh_packets: None,
        state: None,
        srtt_us: small(connection.srtt_us()),
        pacing_bps: (controls.rate > 0).then(|| controls.rate.saturating_mul(8)),
        delivery_bps: 0,
        retransmissions: small(connection.counters().retransmissions),
    })
}

fn send(
    device: OwnedFd,
    plane: &UserPlane,
    mut flows: Vec<Outgoing>,
    ecn: Ecn,
    clock: crate::clock::Clock,
    stop: &AtomicBool,
) -> io::Result<UserLog> {
    ask_for_punctuality(Urgency::Network);
    let mtu = u16::try_from(MTU).unwrap_or(u16::MAX);
    let endpoint = EndpointConfig {
        connection: Config {
            tcp: TcpConfig {
                ecn,
                ..Config::default().tcp
            },
            mtu,
            send_buffer: 16 << 20,
            ..Config::default()
        },
        key: rand_key(),
        ..EndpointConfig::default()
    };
    let config = Driver::<DescriptorPort>::datapath_config("utcp", std::process::id().into());
    let links = Arc::clone(&plane.0);
    let plane = Plane::new(config, Dialect::Own, 0, move || links());
    let begun = Instant::now();
    let mut driver = Driver::new(endpoint, plane, DescriptorPort::new(device, mtu), begun)?;
    let block = vec![0; 1 << 16];
    let mut sampled = Duration::ZERO;
    // The plane knows its datapath before the first flow begins.
    driver.turn(Pause::UpTo(Duration::from_millis(20)))?;
    while !stop.load(Ordering::Relaxed) && flows.iter().any(|flow| !flow.is_over) {
        let elapsed = begun.elapsed();
        for flow in &mut flows {
            flow.turn(&mut driver, elapsed, &block)?;
        }
        if elapsed >= sampled + SAMPLE_PERIOD {
            sampled = elapsed;
            for flow in &mut flows {
                flow.sample(clock.now(), &driver);
            }
        }
        driver.turn(Pause::UpTo(SAMPLE_PERIOD))?;
    }
    // The resets leave.
    driver.turn(Pause::None)?;
    let refused = |flow: &Outgoing| {
        let id = flow.connection?;
        let reason = driver.endpoint().connection(id)?.close_reason()?;
        (reason != CloseReason::Aborted).then_some(reason)
    };
    if let Some(reason) = flows.iter().find_map(refused) {
        return Err(io::Error::other(reason.as_str()));
    }
    Ok(UserLog {
        retransmissions: flows.iter().map(|flow| flow.retransmissions).collect(),
        samples: flows.into_iter().map(|flow| flow.samples).collect(),
    })
}

/// A secret of this run's.
fn rand_key() -> [u8; 16] {
    let mut key = [0; 16];
    // Where the kernel has no randomness yet, the lab's numbers may be guessed.
    let _ = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::NONBLOCK);
    key
}
