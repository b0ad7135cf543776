//! A namespace with a TUN device: the kernel's TCP at one address, ours at another.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fairwater_datapath::{Connection as Plane, Datapath};
use fairwater_net::Time;
use fairwater_netlink::{Namespace, TunKind, TunOffloads, add_address, bring_up, make_tun};
use fairwater_proto::Dialect;
use fairwater_utcp::io::{DescriptorPort, Driver, Pause};
use fairwater_utcp::{Connection, ConnectionId, Endpoint, EndpointConfig, State};
use fairwater_wire::Packet;

use super::lossy::{Impairment, LossyPort};

const KERNEL: [u8; 4] = [10, 9, 0, 1];
const OURS: [u8; 4] = [10, 9, 0, 2];
const OUR_PORT: u16 = 40_000;
const MTU: u16 = 1500;
/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Site {
    namespace: Namespace,
    pub(crate) driver: Driver<LossyPort>,
    resets_before: u64,
    has_wrapped: Arc<AtomicBool>,
}

/// Bytes of a stream at an offset.
pub(crate) fn pattern(offset: u64, length: u64) -> Vec<u8> {
    let byte = |at: u64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
    (offset..offset + length).map(byte).collect()
}

pub(crate) fn hash_of(bytes: u64) -> blake3::Hash {
    let mut all = blake3::Hasher::new();
    let mut at = 0;
    while at < bytes {
        let chunk = pattern(at, (bytes - at).min(1 << 16));
        all.update(&chunk);
        at += chunk.len() as u64;
    }
    all.finalize()
}

/// The number of the SYN that a host with this key sends at first.
fn first_number(key: [u8; 16]) -> u32 {
    let mut datapath = Datapath::new(fairwater_datapath::Config::default());
    let peer = datapath.add_peer(Dialect::Own, 0);
    let config = EndpointConfig {
        key,
        ..EndpointConfig::default()
    };
    let mut endpoint = Endpoint::new(config, peer);
    let (from, to) = (
        SocketAddr::from((OURS, OUR_PORT)),
        SocketAddr::from((KERNEL, 80)),
    );
    endpoint.connect(Time::ZERO, from, to, "").unwrap();
    let mut bytes = [0; MTU as usize];
    let length = endpoint.poll_transmit(Time::ZERO, &mut bytes).unwrap();
    let syn = Packet::parse_ip(&bytes[..length]).unwrap();
    syn.tcp().unwrap().seq().0
}

impl Site {
    pub(crate) fn new(impairment: Impairment) -> Option<Self> {
        Self::with_key(impairment, [9; 16])
    }

    /// A site whose first connection's numbers come to 2³² after `before` bytes at most, and not at once.
    pub(crate) fn before_wrap(impairment: Impairment, before: u32) -> Option<Self> {
        let key = (0..u128::MAX).map(u128::to_le_bytes).find(|key| {
            let left = first_number(*key).wrapping_neg();
            (before / 2..before).contains(&left)
        });
        Self::with_key(impairment, key?)
    }

    fn with_key(impairment: Impairment, key: [u8; 16]) -> Option<Self> {
        match Self::make(impairment, key) {
            Ok(site) => Some(site),
            Err(error) => {
                let required = std::env::var_os("FAIRWATER_REQUIRE_PRIVILEGED");
                assert!(required.is_none_or(|value| value != "1"), "{error}");
                eprintln!("skipped: no namespace with a TUN device can be made: {error}");
                None
            }
        }
    }

    fn make(impairment: Impairment, key: [u8; 16]) -> io::Result<Self> {
        let namespace = Namespace::new()?;
        let device = namespace.inside(|| -> io::Result<_> {
            let device = make_tun("utcp0", TunKind::Ip, TunOffloads::None)?.0;
            bring_up("utcp0")?;
            add_address("utcp0", KERNEL.into(), 24)?;
            Ok(device)
        })??;
        let port = LossyPort::new(DescriptorPort::new(device, MTU), impairment);
        let has_wrapped = port.has_wrapped();
        let config = Driver::<LossyPort>::datapath_config("utcp-test", 1);
        // Nobody is there: flows are under the fallback.
        let plane = Plane::seqpacket(config, "/nonexistent/plane", 0);
        let endpoint = EndpointConfig {
            key,
            ..EndpointConfig::default()
        };
        let driver = Driver::new(endpoint, plane, port, Instant::now())?;
        let mut site = Self {
            namespace,
            driver,
            resets_before: 0,
            has_wrapped,
        };
        site.resets_before = site.counter("OutRsts");
        Ok(site)
    }

    pub(crate) fn connection(&self, id: ConnectionId) -> &Connection {
        self.driver.endpoint().connection(id).expect("known")
    }

    pub(crate) fn state(&self, id: ConnectionId) -> State {
        self.connection(id).state()
    }

    /// Whether sequence numbers have begun anew at 0.
    pub(crate) fn has_wrapped(&self) -> bool {
        self.has_wrapped.load(Ordering::Relaxed)
    }

    /// Turns the driver until something is so.
    pub(crate) fn until(&mut self, what: &str, is_so: impl FnMut(&mut Self) -> bool) {
        self.until_within(what, PATIENCE, is_so);
    }

    pub(crate) fn until_within(
        &mut self,
        what: &str,
        patience: Duration,
        mut is_so: impl FnMut(&mut Self) -> bool,
    ) {
        let begin = Instant::now();
        while !is_so(self) {
            assert!(
                begin.elapsed() < patience,
                "{what}: not within {patience:?}"
            );
            self.driver
                .turn(Pause::UpTo(Duration::from_millis(5)))
                .unwrap();
        }
    }

    pub(crate) fn connect_to(&mut self, port: u16) -> ConnectionId {
        let from = SocketAddr::from((OURS, OUR_PORT));
        self.driver
            .connect(from, (KERNEL, port).into(), "cubic")
            .unwrap()
    }

    /// A connection that we begin.
    pub(crate) fn connect(&mut self) -> (ConnectionId, TcpStream) {
        let listener = self
            .namespace
            .inside(|| TcpListener::bind(SocketAddr::from((KERNEL, 80))));
        let listener = listener.unwrap().unwrap();
        let id = self.connect_to(80);
        let accepting = thread::spawn(move || listener.accept().unwrap().0);
        self.until("the handshake", |_| accepting.is_finished());
        (id, accepting.join().unwrap())
    }

    pub(crate) fn kernel_connects_to(&self, port: u16) -> JoinHandle<io::Result<TcpStream>> {
        let namespace = std::os::fd::AsFd::as_fd(&self.namespace)
            .try_clone_to_owned()
            .unwrap();
        thread::spawn(move || {
            fairwater_netlink::enter(std::os::fd::AsFd::as_fd(&namespace)).unwrap();
            TcpStream::connect(SocketAddr::from((OURS, port)))
        })
    }

    /// A connection that the kernel begins.
    pub(crate) fn accept(&mut self) -> (ConnectionId, TcpStream) {
        let at = SocketAddr::from((OURS, 80));
        self.driver.endpoint_mut().listen(at, "cubic");
        let connecting = self.kernel_connects_to(80);
        let mut accepted = None;
        self.until("the handshake", |site| {
            accepted = accepted.or_else(|| site.driver.endpoint_mut().accept());
            accepted.is_some() && connecting.is_finished()
        });
        (accepted.unwrap(), connecting.join().unwrap().unwrap())
    }

    /// A counter of the kernel's TCP (RFC 4022).
    fn counter(&self, name: &str) -> u64 {
        let read = || fs::read_to_string("/proc/thread-self/net/snmp");
        let text = self.namespace.inside(read).unwrap().unwrap();
        let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
        let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
        let mut pairs = names.split_whitespace().zip(values.split_whitespace());
        pairs
            .find(|(found, _)| *found == name)
            .unwrap()
            .1
            .parse()
            .unwrap()
    }

    /// The kernel has seen no wrong checksum and sent no reset; nor have we.
    pub(crate) fn assert_sound(&self) {
        assert_eq!(self.counter("InCsumErrors"), 0);
        assert_eq!(self.counter("InErrs"), 0);
        assert_eq!(self.counter("OutRsts"), self.resets_before);
        let own = self.driver.endpoint().statistics();
        assert_eq!((own.bad_checksums, own.stray), (0, 0), "{own:?}");
    }
}
