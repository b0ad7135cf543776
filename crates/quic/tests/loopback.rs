//! Files over real UDP: noq, rustls, and planes that come and go.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::UdpSocket;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fairwater_plane::Plane;
use fairwater_proto::link::{Link, Listener, ring};
use fairwater_proto::{Dialect, ToDatapath, Welcome};
use fairwater_quic::certificate::Certificate;
use fairwater_quic::transfer::{
    Content, Fetched, FileServer, Fingerprint, GetConfig, ServeConfig, Served, TransferError, get,
};
use fairwater_quic::{Factory, Options};
use fairwater_service::{Config, Endpoints, Server, Stopper};
use noq_proto::rustls::RootCertStore;
use noq_proto::{ClientConfig, Endpoint, EndpointConfig};

/// A plane with Copa at a socket for rings, until it is dropped.
struct RunningPlane {
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl RunningPlane {
    fn start(socket: &Path, instance: u64) -> Self {
        let mut plane = Plane::new();
        let copa = fairwater_algorithms::by_spec("copa").unwrap();
        plane.add(|programs| copa.build(programs)).unwrap();
        let config = Config {
            instance,
            ..Config::default()
        };
        let endpoints = Endpoints {
            ring: Some(socket.to_owned()),
            ..Endpoints::default()
        };
        let mut server = Server::bind(plane, config, &endpoints).unwrap();
        let stopper = server.stopper();
        let thread = Some(thread::spawn(move || server.run().unwrap()));
        Self { stopper, thread }
    }
}

impl Drop for RunningPlane {
    fn drop(&mut self) {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

/// A server in a thread.
struct RunningServer {
    address: std::net::SocketAddr,
    trust: Fingerprint,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Served>>,
}

impl RunningServer {
    fn start(content: Content, controllers: Option<Arc<Factory>>, qlog: Option<PathBuf>) -> Self {
        let mut server = FileServer::bind(ServeConfig {
            listen: "127.0.0.1:0".parse().unwrap(),
            content,
            controllers,
            certificate: Certificate::generate(["localhost".to_owned()]).unwrap(),
            qlog,
        })
        .unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        Self {
            address: server.address(),
            trust: server.fingerprint(),
            stop,
            thread: thread::spawn(move || {
                let mut served = Vec::new();
                while !stopped.load(Ordering::Relaxed) {
                    served.extend(server.turn(Duration::from_millis(100), &stopped));
                }
                server.close();
                served
            }),
        }
    }

    fn get(&self, output: Option<PathBuf>) -> Result<Fetched, TransferError> {
        self.get_slowly(output, &AtomicBool::new(true))
    }

    /// Reads slowly until the flag is set.
    fn get_slowly(
        &self,
        output: Option<PathBuf>,
        hurry: &AtomicBool,
    ) -> Result<Fetched, TransferError> {
        let config = GetConfig {
            remote: self.address,
            trust: self.trust,
            output,
            qlog: None,
        };
        get(&config, &AtomicBool::new(false), &mut |_| {
            if !hurry.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(20));
            }
        })
    }

    fn stop(self) -> Vec<Served> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Waits until it is so.
#[track_caller]
fn eventually(within: Duration, what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < within, "{what}: not within {within:?}");
        thread::sleep(Duration::from_millis(2));
    }
    began.elapsed()
}

#[test]
fn a_file_arrives_whole_under_an_embedded_plane() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("content");
    let content: Vec<_> = (0..3_000_000_u32).map(|n| (n * 7 % 251) as u8).collect();
    std::fs::write(&file, &content).unwrap();
    let factory = Options::default().embedded().noq("copa").unwrap();
    let controllers = Some(Arc::clone(&factory));
    let qlog = Some(folder.path().to_owned());
    let server = RunningServer::start(Content::File(file), controllers, qlog);
    let copy = folder.path().join("copy");
    let fetched = server.get(Some(copy.clone())).unwrap();
    assert_eq!(fetched.bytes, 3_000_000);
    assert_eq!(std::fs::read(copy).unwrap(), content);
    let served = server.stop();
    assert_eq!(served.len(), 1, "{served:?}");
    assert_eq!(served[0].failure, None);
    assert_eq!(served[0].bytes, 3_000_000);
    assert!(served[0].delivery_rate.unwrap().bytes_per_s > 0);
    let status = factory.status();
    assert!(status.reports > 0, "{status:?}");
    // The connection is gone, and with it the flow.
    assert_eq!(status.flows, 0);
    let files = std::fs::read_dir(folder.path()).unwrap();
    let names = files.map(|file| file.unwrap().file_name());
    assert!(
        names
            .into_iter()
            .any(|n| n.to_string_lossy().ends_with(".qlog"))
    );
}

#[test]
fn another_certificate_is_refused_and_a_part_of_a_file_removed() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start(Content::Zeros(1000), None, None);
    let output = folder.path().join("out");
    let config = GetConfig {
        remote: server.address,
        trust: "00".repeat(32).parse().unwrap(),
        output: Some(output.clone()),
        qlog: None,
    };
    let refused = get(&config, &AtomicBool::new(false), &mut |_| ());
    assert!(matches!(refused, Err(TransferError::Connection(_))));
    assert!(!output.exists());
    let stopped = get(
        &GetConfig {
            trust: server.trust,
            ..config
        },
        &AtomicBool::new(true),
        &mut |_| (),
    );
    assert!(matches!(stopped, Err(TransferError::Stopped)));
    server.stop();
}

#[test]
fn a_plane_dies_and_returns_in_the_middle_of_a_transfer() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("plane.ring");
    let factory = Options::default().plane(&socket).noq("copa").unwrap();
    assert!(!factory.status().is_connected, "that is no error");
    let hurry = AtomicBool::new(false);
    let server = RunningServer::start(Content::Zeros(12_000_000), Some(Arc::clone(&factory)), None);
    thread::scope(|scope| {
        let transfers: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| server.get_slowly(None, &hurry)))
            .collect();
        let second = Duration::from_secs(1);
        eventually(5 * second, "flows without a plane", || {
            factory.status().flows == 2
        });
        assert_eq!(factory.status().running, 0);
        for life in 1..=2 {
            let plane = RunningPlane::start(&socket, life);
            let taken = eventually(3 * second, "taken by the plane", || {
                factory.status().running == 2
            });
            drop(plane);
            let fallen = eventually(3 * second, "under the fallback", || {
                factory.status().running == 0
            });
            println!("life {life}: taken after {taken:?}, under the fallback after {fallen:?}");
        }
        let _plane = RunningPlane::start(&socket, 3);
        hurry.store(true, Ordering::Relaxed);
        for transfer in transfers {
            let fetched = transfer.join().unwrap().unwrap();
            assert_eq!(fetched.bytes, 12_000_000);
        }
    });
    let served = server.stop();
    assert!(
        served.iter().all(|each| each.failure.is_none()),
        "{served:?}"
    );
    assert!(factory.status().fallbacks >= 2);
    assert_eq!(factory.status().flows, 0);
}

#[test]
fn fifty_connections_share_one_plane() {
    let factory = Options::default().embedded().noq("copa").unwrap();
    let server = RunningServer::start(Content::Zeros(300_000), Some(Arc::clone(&factory)), None);
    thread::scope(|scope| {
        let transfers: Vec<_> = (0..50).map(|_| scope.spawn(|| server.get(None))).collect();
        for transfer in transfers {
            assert_eq!(transfer.join().unwrap().unwrap().bytes, 300_000);
        }
    });
    let served = server.stop();
    assert_eq!(served.len(), 50);
    assert!(
        served.iter().all(|each| each.failure.is_none()),
        "{served:?}"
    );
    assert_eq!(factory.status().flows, 0);
}

/// A plane that answers with bytes of a generator, some of which begin as messages do.
fn send_nonsense(socket: &Path, stop: &AtomicBool) -> u64 {
    let mut listener = ring::Listener::bind(socket, 1 << 18).unwrap();
    let (mut links, mut sent) = (Vec::new(), 0_u64);
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move || {
        // xorshift64 (Marsaglia, 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut greeting = Vec::new();
    let welcome = ToDatapath::Welcome(Welcome {
        instance: 7,
        alive_us: 50_000,
    });
    Dialect::Own
        .encode_to_datapath(&welcome, &mut greeting)
        .unwrap();
    while !stop.load(Ordering::Relaxed) {
        links.extend(listener.accept().unwrap());
        for link in &mut links {
            let mut heard = [0; 1 << 16];
            while link.receive(&mut heard).is_ok() {}
            let length = random() as usize % 200;
            let mut packet: Vec<u8> = (0..length).map(|_| random() as u8).collect();
            match random() % 3 {
                0 => packet = greeting.clone(),
                1 => packet
                    .splice(0..0, greeting[..2].iter().copied())
                    .for_each(drop),
                _ => {}
            }
            sent += u64::from(link.send(&packet).is_ok());
        }
        thread::sleep(Duration::from_micros(200));
    }
    sent
}

#[test]
fn a_plane_that_sends_nonsense_moves_no_connection() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("plane.ring");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let nonsense = scope.spawn(|| send_nonsense(&socket, &stop));
        let factory = Options::default().plane(&socket).noq("copa").unwrap();
        let server =
            RunningServer::start(Content::Zeros(3_000_000), Some(Arc::clone(&factory)), None);
        for _ in 0..3 {
            assert_eq!(server.get(None).unwrap().bytes, 3_000_000);
        }
        let served = server.stop();
        assert!(
            served.iter().all(|each| each.failure.is_none()),
            "{served:?}"
        );
        let status = factory.status();
        assert_eq!((status.flows, status.running), (0, 0), "{status:?}");
        stop.store(true, Ordering::Relaxed);
        assert!(nonsense.join().unwrap() > 100);
    });
}

/// The first datagram of a connection that will never go on.
fn initial(endpoint: &mut Endpoint, server: &RunningServer) -> Vec<u8> {
    let roots = Arc::new(RootCertStore::empty());
    let anything = Certificate::generate(["x".to_owned()]).unwrap();
    let mut store = RootCertStore::clone(&roots);
    store.add(anything.certificate).unwrap();
    let config = ClientConfig::with_root_certificates(Arc::new(store)).unwrap();
    let now = Instant::now();
    let (_, mut connection) = endpoint
        .connect(now, config, server.address, "localhost")
        .unwrap();
    let mut bytes = Vec::new();
    let transmit = connection.poll_transmit(now, NonZeroUsize::MIN, &mut bytes);
    bytes.truncate(transmit.unwrap().size);
    bytes
}

#[test]
fn initials_without_an_address_leave_nothing_behind() {
    let factory = Options::default().embedded().noq("copa").unwrap();
    let server = RunningServer::start(Content::Zeros(1000), Some(Arc::clone(&factory)), None);
    let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, false);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for count in 0..1200 {
        let datagram = initial(&mut endpoint, &server);
        socket.send_to(&datagram, server.address).unwrap();
        if count % 20 == 0 {
            thread::sleep(Duration::from_millis(2));
        }
    }
    thread::sleep(Duration::from_millis(300));
    assert_eq!(factory.status().flows, 0);
    assert_eq!(server.get(None).unwrap().bytes, 1000);
    server.stop();
    assert_eq!(factory.status().flows, 0);
}
