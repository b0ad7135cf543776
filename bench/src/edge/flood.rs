//! What established connections of a guest keep while the guest opens half-connections as fast as it can, with
//! the edge at its port and without.

use std::io;
use std::mem;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairwater_edge_tc::EdgeOptions;
use fairwater_netlink::{enter, index_of};
use fairwater_testbed::{BridgedSite, Family};

use super::running::{RunningEdge, controlling};
use crate::bulk::{Pace, throughput_of};
use crate::statistics::Rounds;

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Algorithm of guests that the edge controls; the guests themselves use Reno.
    #[arg(long, default_value = "reno")]
    algorithm: String,
    /// SYNs a second; fewer are sent where the machine cannot.
    #[arg(long, default_value_t = 500_000)]
    syns: u64,
    /// Established connections.
    #[arg(long, default_value_t = 4)]
    flows: usize,
    /// Rounds; each measures with the edge and without, with the flood and without.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of a measurement.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
}

/// Time between the begin of the flood and that of the measurement.
const WARM_UP: Duration = Duration::from_millis(500);

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let site = BridgedSite::new()?;
    let mut throughput = [(); 4].map(|()| Rounds::default());
    let mut kept = [(); 2].map(|()| Rounds::default());
    let mut beyond = Rounds::default();
    let mut rates = [(); 2].map(|()| Rounds::default());
    for round in 1..=arguments.rounds {
        let mut share = [0.0; 2];
        // Whoever goes first has the other's heat.
        for with_edge in [round % 2 == 0, round % 2 == 1] {
            let index = usize::from(with_edge);
            let quiet = measure(&site, arguments, with_edge, false)?;
            let flooded = measure(&site, arguments, with_edge, true)?;
            share[index] = flooded.throughput_bps / quiet.throughput_bps;
            throughput[index * 2].push(quiet.throughput_bps / 1e9);
            throughput[index * 2 + 1].push(flooded.throughput_bps / 1e9);
            kept[index].push(share[index]);
            rates[index].push(flooded.syns_per_s / 1e3);
        }
        beyond.push(share[1] / share[0]);
        println!(
            "round {round}: {:.3} kept without the edge, {:.3} with it",
            share[0], share[1]
        );
    }
    for (index, name) in ["without the edge", "with the edge"]
        .into_iter()
        .enumerate()
    {
        println!(
            "{name}: {} Gbit/s, {} under {:.0} thousand SYNs/s: {:.3} kept",
            throughput[index * 2],
            throughput[index * 2 + 1],
            rates[index],
            kept[index]
        );
    }
    println!("kept with the edge / without: {beyond:.3}");
    Ok(())
}

struct Measured {
    throughput_bps: f64,
    syns_per_s: f64,
}

fn measure(
    site: &BridgedSite,
    arguments: &Arguments,
    with_edge: bool,
    flooded: bool,
) -> anyhow::Result<Measured> {
    let policy = controlling(&arguments.algorithm);
    let edge = with_edge.then(|| {
        let host = site.host().as_fd();
        RunningEdge::start(host, &policy, &arguments.algorithm, EdgeOptions::default())
    });
    let edge = edge.transpose()?;
    let mut connections = Vec::new();
    for _ in 0..arguments.flows {
        let listener = site.listen(Family::V4)?;
        let sender = site.connect(&listener)?;
        connections.push((sender, listener.accept()?.0));
    }
    let flood = flooded
        .then(|| Flood::start(site, arguments.syns))
        .transpose()?;
    let begin = Instant::now();
    let time = Duration::from_secs(arguments.seconds);
    let throughput_bps = throughput_of(connections, Pace::Full, WARM_UP, time)?;
    let syns = flood.map_or(Ok(0), Flood::stop)?;
    drop(edge);
    Ok(Measured {
        throughput_bps,
        syns_per_s: syns as f64 / begin.elapsed().as_secs_f64(),
    })
}

/// A thread of the guest that sends SYNs, each of another connection.
struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: thread::JoinHandle<io::Result<()>>,
}

impl Flood {
    fn start(site: &BridgedSite, per_second: u64) -> io::Result<Self> {
        let namespace = site.guest().as_fd().try_clone_to_owned()?;
        let stop = Arc::new(AtomicBool::new(false));
        let sent = Arc::new(AtomicU64::new(0));
        let (stopping, counting) = (Arc::clone(&stop), Arc::clone(&sent));
        let thread = thread::spawn(move || {
            enter(namespace.as_fd())?;
            let mut packets = Packets::new(index_of("eth0")?)?;
            let begin = Instant::now();
            while !stopping.load(Ordering::Relaxed) {
                let due = per_second * begin.elapsed().as_micros() as u64 / 1_000_000;
                if counting.load(Ordering::Relaxed) < due {
                    counting.fetch_add(packets.send()?, Ordering::Relaxed);
                } else {
                    thread::yield_now();
                }
            }
            Ok(())
        });
        Ok(Self { stop, sent, thread })
    }

    /// Ends it; how many SYNs it sent.
    fn stop(self) -> io::Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        ended.unwrap_or_else(|_| Err(io::Error::other("the flood's thread panicked")))?;
        Ok(self.sent.load(Ordering::Relaxed))
    }
}

/// SYNs of one call.
const BATCH: usize = 64;
/// IPv4 header, TCP header, and the options of a SYN of Linux.
const SYN_BYTES: usize = 20 + 40;
/// A host that is not there: the bridge forwards, the peer's device drops, and nobody answers.
const ABSENT: [u8; 8] = [2, 0, 0, 0, 0, 0x99, 0, 0];

/// A packet socket and a batch of SYNs.
struct Packets {
    socket: OwnedFd,
    to: libc::sockaddr_ll,
    syns: [[u8; SYN_BYTES]; BATCH],
    /// Ports of the next connection.
    next: u32,
}

impl Packets {
    fn new(interface: u32) -> io::Result<Self> {
        let protocol = (libc::ETH_P_IP as u16).to_be();
        #[expect(unsafe_code, reason = "no library in use sends batches of packets")]
        // SAFETY: `socket` has no pointers, and the descriptor is owned by nobody else.
        let socket = unsafe {
            let socket = libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
            if socket < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(socket)
        };
        Ok(Self {
            socket,
            to: libc::sockaddr_ll {
                sll_family: libc::AF_PACKET as u16,
                sll_protocol: protocol,
                sll_ifindex: interface as i32,
                sll_hatype: 0,
                sll_pkttype: 0,
                sll_halen: 6,
                sll_addr: ABSENT,
            },
            syns: [syn(); BATCH],
            next: 0,
        })
    }

    /// Sends a batch; how many SYNs the kernel took.
    fn send(&mut self) -> io::Result<u64> {
        for syn in &mut self.syns {
            self.next = self.next.wrapping_add(1);
            syn[20..24].copy_from_slice(&self.next.to_be_bytes());
        }
        let name = &raw mut self.to;
        let mut vectors = self.syns.each_mut().map(|syn| libc::iovec {
            iov_base: syn.as_mut_ptr().cast(),
            iov_len: SYN_BYTES,
        });
        let mut messages = vectors.each_mut().map(|vector| {
            #[expect(unsafe_code, reason = "its padding has no names")]
            // SAFETY: all fields of the structure may be zero.
            let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
            message.msg_hdr.msg_name = name.cast();
            message.msg_hdr.msg_namelen = mem::size_of::<libc::sockaddr_ll>() as u32;
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
            message
        });
        #[expect(unsafe_code, reason = "no library in use sends batches of packets")]
        // SAFETY: messages, vectors, packets and the address outlive the call.
        let sent = unsafe {
            let socket = self.socket.as_raw_fd();
            libc::sendmmsg(socket, messages.as_mut_ptr(), BATCH as u32, 0)
        };
        match u64::try_from(sent) {
            Ok(sent) => Ok(sent),
            // The device's queue is full.
            Err(_) if io::Error::last_os_error().raw_os_error() == Some(libc::ENOBUFS) => Ok(0),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}

/// A SYN as Linux sends it, from the guest to an address without a host; no checksum of TCP.
fn syn() -> [u8; SYN_BYTES] {
    let mut packet = [0; SYN_BYTES];
    packet[0] = 0x45;
    packet[3] = SYN_BYTES as u8;
    packet[8] = 64;
    packet[9] = 6;
    packet[12..16].copy_from_slice(&Ipv4Addr::new(10, 0, 0, 1).octets());
    packet[16..20].copy_from_slice(&Ipv4Addr::new(10, 0, 0, 99).octets());
    let words = packet[..20]
        .chunks(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum: u32 = words.sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    // Data offset of ten words; SYN.
    packet[32..34].copy_from_slice(&[0xa0, 0x02]);
    // MSS 1460, SACK permitted, timestamps, window scale 7.
    packet[40..60].copy_from_slice(&[
        2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
    ]);
    packet
}
