//! How true the emulator is on this machine, measured from outside it: by what a receiver sees.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairwater_net::{CapacitySpec, LinkSpec, Rate};
use fairwater_results::{Lateness, TrafficProgram};

use crate::clock::Clock;
use crate::emulator::{Emulator, Urgency, ask_for_punctuality, lateness};
use crate::error::TestbedError;
use crate::path::Path;
use crate::preflight;
use crate::steal::MachineTime;

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// How far the rate of an overloaded link was from what it should be, as a share of it:
    /// 0.01 is one percent too fast.
    pub rate_error: f64,
    /// How much longer than it should a packet took over an idle link: the median, µs.
    pub delay_error_p50_us: f64,
    /// The same: 99 of 100 packets took at most this much longer, µs.
    pub delay_error_p99_us: f64,
    /// Packets that crossed the idle link.
    pub probes: usize,
    /// How late the emulator knew itself to be in both measurements.
    pub lateness_ms: Lateness,
    /// The share of CPU time stolen meanwhile, 0 to 1.
    pub steal: f64,
}

/// The port that measurements go to.
const PORT: u16 = 9000;

/// IP and UDP headers, bytes.
const HEADERS: u64 = 28;

/// Payload of a packet that fills the link, bytes: 1500 with its headers.
const FILL_BYTES: usize = 1472;

/// Payload of a packet whose delay is measured, bytes.
const PROBE_BYTES: usize = 72;

/// A link is overloaded by this much.
const OVERLOAD: f64 = 1.15;

/// Measures a link with a constant rate: first idle, then overloaded, each for `duration`. The
/// buffer should be long enough to keep the link busy while the sender waits for a CPU.
///
/// # Errors
/// [`TestbedError`]; [`TestbedError::Part`] when the link follows a trace, which has no one rate.
pub fn calibrate(link: &LinkSpec, duration: Duration) -> Result<Calibration, TestbedError> {
    let CapacitySpec::Rate(rate) = link.capacity else {
        return Err(TestbedError::Part {
            part: "calibration",
            reason: format!("`{}` is not a constant rate", link.capacity),
        });
    };
    preflight::require(TrafficProgram::Bulk).map_err(TestbedError::Missing)?;
    let capacity = fairwater_net::Capacity::Rate(rate);
    let path = Path::new(false, false).map_err(TestbedError::system("make the lab's hosts"))?;
    let steal_before = MachineTime::now().map_err(TestbedError::system("read /proc/stat"))?;
    let emulator = Emulator::start(
        &path,
        Clock::start(),
        [&link.forward_config(&capacity), &link.reverse_config()],
        0,
    )
    .map_err(TestbedError::system("start the emulator"))?;
    let sockets = Sockets::new(&path).map_err(TestbedError::system("open a socket in a host"))?;

    let mut errors = sockets
        .probe(link, rate, duration)
        .map_err(TestbedError::system("send probes"))?;
    let measured_bps = sockets
        .fill(link, rate, duration)
        .map_err(TestbedError::system("fill the link"))?;

    let log = emulator
        .finish()
        .map_err(TestbedError::system("emulate the link"))?;
    let steal_after = MachineTime::now().map_err(TestbedError::system("read /proc/stat"))?;
    errors.sort_by(f64::total_cmp);
    let quantile = |percent: usize| {
        let index = (errors.len() * percent / 100).min(errors.len().saturating_sub(1));
        errors.get(index).copied().unwrap_or(f64::NAN)
    };
    Ok(Calibration {
        rate_error: measured_bps / rate.bps() as f64 - 1.0,
        delay_error_p50_us: quantile(50),
        delay_error_p99_us: quantile(99),
        probes: errors.len(),
        lateness_ms: lateness(&log.lateness_ns),
        steal: steal_after.steal_since(steal_before),
    })
}

/// A socket in each host.
struct Sockets {
    from: UdpSocket,
    at: UdpSocket,
}

impl Sockets {
    fn new(path: &Path) -> io::Result<Self> {
        let to = SocketAddr::new(path.receiver_address, PORT);
        let at = path.receiver.inside(|| UdpSocket::bind(to))??;
        at.set_read_timeout(Some(Duration::from_millis(100)))?;
        // Room for what comes while the receiving thread waits for a CPU.
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&at, 256 << 20)?;
        let from = path.sender.inside(|| -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind(("0.0.0.0", 0))?;
            socket.connect(to)?;
            Ok(socket)
        })??;
        Ok(Sockets { from, at })
    }

    /// Sends packets one at a time, each with the time it was sent; how much too long each took,
    /// µs.
    fn probe(&self, link: &LinkSpec, rate: Rate, duration: Duration) -> io::Result<Vec<f64>> {
        let service = rate.time_for(PROBE_BYTES as u64 + HEADERS);
        let ideal = link.rtt / 2 + service;
        let gap = Duration::from_millis(2).max(service * 4);
        let epoch = Instant::now();
        let receive = |errors: &mut Vec<f64>, packet: &[u8]| {
            if let Some(sent) = packet.first_chunk() {
                let took = epoch.elapsed().as_nanos() as f64 - u64::from_ne_bytes(*sent) as f64;
                errors.push((took - ideal.as_nanos() as f64) / 1e3);
            }
        };
        self.exchange(receive, Vec::new(), QUIET + link.rtt, || {
            let mut packet = [0; PROBE_BYTES];
            while epoch.elapsed() < duration {
                let now = epoch.elapsed().as_nanos() as u64;
                packet[..8].copy_from_slice(&now.to_ne_bytes());
                self.from.send(&packet)?;
                thread::sleep(gap);
            }
            Ok(())
        })
    }

    /// Sends more than the link carries; the rate of what came out, bits/s of IP.
    fn fill(&self, link: &LinkSpec, rate: Rate, duration: Duration) -> io::Result<f64> {
        let offered_bytes_s = rate.bps() as f64 / 8.0 * OVERLOAD;
        let epoch = Instant::now();
        let receive = |arrivals: &mut Vec<(Instant, u64)>, packet: &[u8]| {
            arrivals.push((Instant::now(), packet.len() as u64 + HEADERS));
        };
        let arrivals = self.exchange(receive, Vec::new(), QUIET + link.rtt, || {
            let packet = [0; FILL_BYTES];
            let mut sent_bytes = 0;
            while epoch.elapsed() < duration {
                let due = (epoch.elapsed().as_secs_f64() * offered_bytes_s) as u64;
                while sent_bytes < due {
                    self.from.send(&packet)?;
                    sent_bytes += FILL_BYTES as u64 + HEADERS;
                }
                thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        })?;
        let (Some((first, _)), Some((last, _))) = (arrivals.first(), arrivals.last()) else {
            return Ok(0.0);
        };
        let bytes: u64 = arrivals.iter().skip(1).map(|(_, bytes)| bytes).sum();
        Ok(bytes as f64 * 8.0 / last.duration_since(*first).as_secs_f64())
    }

    /// Sends on a thread and receives on another, until nothing came for as long as `quiet` after
    /// the sending ended. Both are punctual, so that it is the emulator that is measured and not
    /// who else wants the CPUs.
    fn exchange<T: Send>(
        &self,
        receive: impl Fn(&mut T, &[u8]) + Send + Sync,
        mut received: T,
        quiet: Duration,
        send: impl FnOnce() -> io::Result<()> + Send,
    ) -> io::Result<T> {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let receiver = scope.spawn(|| -> io::Result<T> {
                ask_for_punctuality(Urgency::Network);
                let mut packet = [0; 2048];
                let mut quiet_since = Instant::now();
                loop {
                    match self.at.recv(&mut packet) {
                        Ok(length) => {
                            receive(&mut received, &packet[..length]);
                            quiet_since = Instant::now();
                        }
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {
                            if done.load(Ordering::Relaxed) && quiet_since.elapsed() > quiet {
                                return Ok(received);
                            }
                        }
                        Err(error) => return Err(error),
                    }
                }
            });
            let sender = scope.spawn(|| {
                ask_for_punctuality(Urgency::Network);
                let sent = send();
                done.store(true, Ordering::Relaxed);
                sent
            });
            let sent = sender
                .join()
                .map_err(|_| io::Error::other("the sending thread panicked"))?;
            let received = receiver
                .join()
                .map_err(|_| io::Error::other("the receiving thread panicked"))??;
            sent.map(|()| received)
        })
    }
}

/// A link is empty when nothing came for this long and an RTT.
const QUIET: Duration = Duration::from_millis(500);
