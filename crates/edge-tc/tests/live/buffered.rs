//! Guests whose data the edge holds: `mode = "buffer"`.

use std::fs::File;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fairwater_edge::Mode;
use fairwater_edge::buffer::ReturnReason;
use fairwater_edge::policy::EdgePolicy;
use fairwater_edge_tc::ConnectionState;
use fairwater_net::{Capacity, Limit, LinkConfig, LossConfig, Probability, QueueConfig, Rate};
use fairwater_netlink::{Interfaces, remove};
use fairwater_testbed::{BridgedSite, Family};

use crate::at_work::{AtWork, eventually, site};
use crate::transfer::transfer;

/// Bytes of a transfer.
const BYTES: usize = 8 << 20;

/// A policy that holds the data of every connection.
const BUFFER: &str = "[[rule]]\nalgorithm = \"cubic\"\nmode = \"buffer\"\n";

#[test]
fn the_edge_carries_what_a_guest_sends_and_every_byte_arrives() {
    let Some(site) = site() else { return };
    for family in [Family::V4, Family::V6] {
        let edge = AtWork::start(&site, BUFFER);
        let mut seen = Vec::new();
        let transfer = transfer(&site, family, BYTES, || {
            edge.await_running();
            seen = edge.connections();
        });
        assert!(transfer.intact);
        let statistics = edge.with(|edge| edge.buffered_statistics().unwrap());
        let statistics = statistics.unwrap();
        let flow = seen.pop().unwrap();
        assert_eq!(flow.state, ConnectionState::Running, "{flow:?}");
        assert!(flow.held.is_some(), "{flow:?}");
        assert!(statistics.buffers.taken > 0, "{statistics:?}");
        edge.stop();
    }
}

/// A link of 50 Mbit/s and 10 ms each way that loses so many packets of a million.
fn link(lost_ppm: u32) -> LinkConfig {
    let queue = QueueConfig::DropTail(Limit::Packets(170));
    let capacity = Capacity::Rate(Rate::from_bps(50_000_000).unwrap());
    LinkConfig {
        loss: LossConfig::Random(Probability::from_ppb(lost_ppm * 1_000).unwrap()),
        seed: 7,
        ..LinkConfig::new(capacity, queue, Duration::from_millis(10))
    }
}

/// A site whose peer is behind a lossy link.
fn lossy_site(lost_ppm: u32) -> Option<BridgedSite> {
    site()?;
    Some(BridgedSite::with_links([&link(lost_ppm), &link(0)]).unwrap())
}

#[test]
fn a_guest_behind_a_lossy_path_gets_several_times_its_throughput() {
    let Some(site) = lossy_site(20_000) else {
        return;
    };
    let policy = BUFFER.replace("cubic", "constant:cwnd=120");
    let timed = |bytes: usize| {
        let began = Instant::now();
        assert!(transfer(&site, Family::V4, bytes, || ()).intact);
        bytes as f64 * 8.0 / 1e6 / began.elapsed().as_secs_f64()
    };
    let alone = timed(BYTES / 4);
    let edge = AtWork::start(&site, &policy);
    let buffered = timed(BYTES);
    let statistics = edge.with(|edge| edge.buffered_statistics().unwrap());
    let statistics = statistics.unwrap();
    println!("alone {alone:.1}, buffered {buffered:.1} Mbit/s, {statistics:?}");
    assert!(statistics.buffers.retransmissions > 50, "{statistics:?}");
    assert!(statistics.buffers.hidden > 50, "{statistics:?}");
    assert!(buffered > 2.0 * alone, "{alone} against {buffered} Mbit/s");
    edge.stop();
}

/// Packets of an algorithm that paces leave at its rate, 50 Mbit/s, one in 240 µs: not with the ticks of a coarse timer.
#[test]
fn a_guest_that_is_paced_fills_the_path() {
    let Some(site) = lossy_site(0) else {
        return;
    };
    let edge = AtWork::start(&site, &BUFFER.replace("cubic", "bbr:probe_rtt=false"));
    let began = Instant::now();
    assert!(transfer(&site, Family::V4, 2 * BYTES, || ()).intact);
    let mbit = 2.0 * BYTES as f64 * 8.0 / 1e6 / began.elapsed().as_secs_f64();
    println!("{mbit:.1} Mbit/s");
    assert!(mbit > 25.0, "{mbit} Mbit/s");
    edge.stop();
}

/// Names the namespace of the host to another process of this test.
const NAMESPACE: &str = "FAIRWATER_TEST_NAMESPACE";

/// An edge with the default heartbeat in a process of its own.
struct OtherProcess {
    child: Child,
    /// Read from as long as it writes.
    _lines: Lines<BufReader<ChildStdout>>,
}

impl OtherProcess {
    fn start(site: &BridgedSite) -> Self {
        let namespace = site.host().as_fd().as_raw_fd();
        let path = format!("/proc/{}/fd/{namespace}", std::process::id());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "buffered::edge_of_another_process"])
            .args(["--ignored", "--nocapture"])
            .env(NAMESPACE, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("edge is ready")));
        Self {
            child,
            _lines: lines,
        }
    }

    fn signal(&self, signal: libc::c_int) {
        let pid = libc::pid_t::try_from(self.child.id()).unwrap();
        #[expect(unsafe_code, reason = "std only kills")]
        // SAFETY: `kill` takes two integers.
        let sent = unsafe { libc::kill(pid, signal) };
        assert_eq!(sent, 0);
    }

    /// Lets it end by itself.
    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "the other tests start it in a process of its own"]
fn edge_of_another_process() {
    let Some(path) = std::env::var_os(NAMESPACE) else {
        return;
    };
    let namespace = File::open(path).unwrap();
    let edge = AtWork::start_in(namespace.into(), BUFFER, Duration::from_millis(200));
    println!("edge is ready");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    edge.stop();
}

/// Reads everything that comes to a listener's first connection: the sum of the bytes with their places, how many, and
/// the longest time between two reads.
fn read_all(listener: TcpListener) -> JoinHandle<(u64, usize, Duration)> {
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = vec![0; 65_536];
        let (mut sum, mut length, mut longest) = (0_u64, 0, Duration::ZERO);
        let mut last = Instant::now();
        loop {
            let read = stream.read(&mut buffer).unwrap();
            longest = longest.max(last.elapsed());
            last = Instant::now();
            for byte in &buffer[..read] {
                sum = sum.wrapping_mul(31).wrapping_add(u64::from(*byte));
            }
            length += read;
            if read == 0 {
                return (sum, length, longest);
            }
        }
    })
}

/// Sends from the guest, calls `midway` when a third is sent, and returns the longest pause at the receiver.
fn send_all(site: &BridgedSite, family: Family, bytes: usize, midway: impl FnOnce()) -> Duration {
    let listener = site.listen(family).unwrap();
    let mut stream = site.connect(&listener).unwrap();
    let reader = read_all(listener);
    let data: Vec<u8> = (0..bytes).map(|at| ((at * 31) >> 7) as u8).collect();
    stream.write_all(&data[..bytes / 3]).unwrap();
    midway();
    stream.write_all(&data[bytes / 3..]).unwrap();
    drop(stream);
    let (sum, length, longest) = reader.join().unwrap();
    let sent = data.iter().fold(0_u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
    });
    assert_eq!((sum, length), (sent, bytes));
    longest
}

/// Guests whose edge is killed, or hangs, may wait for so long: the heartbeat's 200 ms, then a retransmission timeout of
/// the guest, which may be doubled once.
const STALL: Duration = Duration::from_secs(2);

#[test]
fn a_transfer_goes_on_when_the_process_is_killed() {
    let Some(site) = lossy_site(0) else { return };
    for family in [Family::V4, Family::V6] {
        let edge = OtherProcess::start(&site);
        assert_eq!(devices(&site), 1);
        let longest = send_all(&site, family, BYTES, || edge.signal(libc::SIGKILL));
        println!("longest pause {longest:?}");
        assert!(longest < STALL, "{longest:?}");
        drop(edge);
        assert_eq!(devices(&site), 0);
    }
}

#[test]
fn a_transfer_goes_on_while_the_process_hangs_and_after() {
    let Some(site) = lossy_site(0) else { return };
    let edge = OtherProcess::start(&site);
    let longest = send_all(&site, Family::V4, BYTES, || edge.signal(libc::SIGSTOP));
    println!("longest pause {longest:?}");
    assert!(longest < STALL, "{longest:?}");
    // It hangs still: new connections pass.
    let longest = send_all(&site, Family::V4, BYTES, || edge.signal(libc::SIGCONT));
    println!("longest pause {longest:?}");
    assert!(longest < STALL, "{longest:?}");
    send_all(&site, Family::V4, BYTES, || ());
    edge.end();
    assert_eq!(devices(&site), 0);
}

/// Devices of the edge's in the host's namespace.
fn devices(site: &BridgedSite) -> usize {
    let listed = site
        .host()
        .inside(|| Interfaces::new().unwrap().list().unwrap());
    let listed = listed.unwrap();
    listed
        .iter()
        .filter(|it| it.name.starts_with("fwbuf"))
        .count()
}

#[test]
fn many_connections_are_buffered_and_the_edge_ends_under_load() {
    const CONNECTIONS: usize = 60;
    let Some(site) = lossy_site(5_000) else {
        return;
    };
    let edge = AtWork::start(&site, BUFFER);
    let mut edge = Some(edge);
    thread::scope(|scope| {
        let senders: Vec<_> = (0..CONNECTIONS)
            .map(|index| {
                let family = [Family::V4, Family::V6][index % 2];
                let site = &site;
                scope.spawn(move || send_all(site, family, BYTES / 32, || ()))
            })
            .collect();
        let most_held = (0..100).map(|_| {
            thread::sleep(Duration::from_millis(10));
            let edge = edge.as_ref().unwrap();
            let seen = edge.connections();
            seen.iter().filter(|flow| flow.held.is_some()).count()
        });
        let most_held = most_held.max().unwrap();
        println!("{most_held} connections were held at a time");
        assert!(most_held > CONNECTIONS / 4, "{most_held}");
        edge.take().unwrap().stop();
        assert_eq!(devices(&site), 0);
        for sender in senders {
            println!("longest pause {:?}", sender.join().unwrap());
        }
    });
}

#[test]
fn what_a_connection_may_hold_is_bounded_and_its_guest_waits_for_acks() {
    let Some(site) = lossy_site(10_000) else {
        return;
    };
    const BOUND: usize = 128_000;
    let policy = format!(
        "[defaults]\nmax_buffer_per_flow = \"{}kB\"\n{}",
        BOUND / 1000,
        BUFFER.replace("cubic", "constant:cwnd=200")
    );
    let edge = AtWork::start(&site, &policy);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !stop.load(Ordering::Acquire) {
                let seen = edge.connections();
                let held = seen.iter().filter_map(|flow| flow.held);
                most = held.map(|held| held.bytes).max().unwrap_or(0).max(most);
            }
            most
        });
        send_all(&site, Family::V4, BYTES / 2, || ());
        stop.store(true, Ordering::Release);
        let most = watch.join().unwrap();
        println!("at most {most} bytes were held");
        assert!((BOUND / 4..=BOUND).contains(&most), "{most}");
    });
    let statistics = edge.with(|edge| edge.buffered_statistics().unwrap());
    let statistics = statistics.unwrap();
    // A guest that keeps to its window never meets the bound.
    assert_eq!(statistics.buffers.full, 0, "{statistics:?}");
    edge.stop();
}

#[test]
fn connections_that_memory_does_not_suffice_for_go_on_by_their_windows() {
    let Some(site) = lossy_site(10_000) else {
        return;
    };
    let policy = format!(
        "[defaults]\nmax_buffers = \"64kB\"\n{}",
        BUFFER.replace("cubic", "constant:cwnd=100")
    );
    let edge = AtWork::start(&site, &policy);
    send_all(&site, Family::V4, BYTES / 8, || ());
    let statistics = edge.with(|edge| edge.buffered_statistics().unwrap());
    let buffers = statistics.unwrap().buffers;
    let evicted = buffers.returned[ReturnReason::Memory.index()];
    assert_eq!((buffers.begun, evicted), (1, 1), "{buffers:?}");
    edge.stop();
}

#[test]
fn a_guest_that_resets_is_forgotten_and_so_is_the_peer_of_one_that_vanishes() {
    let Some(site) = lossy_site(0) else { return };
    let edge = AtWork::start(&site, &format!("[defaults]\nclosing = \"1s\"\n{BUFFER}"));
    let listener = site.listen(Family::V4).unwrap();
    let mut stream = site.connect(&listener).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    let patience = Some(Duration::from_secs(5));
    accepted.set_read_timeout(patience).unwrap();
    stream.write_all(&[7; 100_000]).unwrap();
    eventually(|| {
        edge.connections()
            .iter()
            .any(|flow| flow.held.is_some())
            .then_some(())
    });
    // Closed with a linger time of zero a socket resets its connection (RFC 9293 §3.10.4).
    reset(stream);
    let read = std::io::copy(&mut accepted, &mut std::io::sink());
    let kind = read.unwrap_err().kind();
    assert_eq!(kind, std::io::ErrorKind::ConnectionReset);
    eventually(|| edge.connections().is_empty().then_some(()));

    let mut stream = site.connect(&listener).unwrap();
    stream.write_all(&[7; 1000]).unwrap();
    eventually(|| {
        edge.connections()
            .iter()
            .any(|flow| flow.held.is_some())
            .then_some(())
    });
    site.host().inside(|| remove("uplink")).unwrap().unwrap();
    // As much as the socket takes without waiting.
    stream.write_all(&[7; 10_000]).unwrap();
    // The box gives up after four timeouts, and leaves the connection to the guest.
    let returned = || {
        let statistics = edge.with(|edge| edge.buffered_statistics().unwrap());
        statistics.unwrap().buffers.returned[ReturnReason::Stalled.index()]
    };
    let began = Instant::now();
    while returned() == 0 {
        assert!(began.elapsed() < Duration::from_secs(20));
        thread::sleep(Duration::from_millis(50));
    }
    edge.stop();
    assert_eq!(devices(&site), 0);
}

/// Closes a socket so that its connection is reset.
fn reset(stream: TcpStream) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    #[expect(unsafe_code, reason = "std has no stable form of SO_LINGER")]
    // SAFETY: the option's value is one `linger`, whose size is told.
    let set = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            libc::socklen_t::try_from(size_of_val(&linger)).unwrap(),
        )
    };
    assert_eq!(set, 0);
    drop(stream);
}

#[test]
fn a_policy_that_asks_for_buffers_later_is_for_new_connections() {
    let Some(site) = lossy_site(0) else { return };
    let edge = AtWork::start(&site, "[[rule]]\nalgorithm = \"cubic\"\n");
    assert_eq!(devices(&site), 0);
    send_all(&site, Family::V4, BYTES / 2, || {
        let parsed = EdgePolicy::parse("test", BUFFER, None).unwrap();
        edge.with(|edge| edge.set_policy(Arc::new(parsed.policy)).unwrap());
        assert_eq!(devices(&site), 1);
        let seen = edge.connections();
        assert!(
            seen.iter().all(|flow| flow.mode == Some(Mode::Window)),
            "{seen:?}"
        );
    });
    let mut seen = Vec::new();
    send_all(&site, Family::V4, BYTES / 2, || {
        seen = edge.connections();
    });
    assert!(
        seen.iter().any(|flow| flow.mode == Some(Mode::Buffer)),
        "{seen:?}"
    );
    edge.stop();
}
