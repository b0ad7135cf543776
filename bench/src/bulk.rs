//! Bulk transfers.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How fast each flow's application writes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// As fast as the socket takes it.
    Full,
    /// A chunk of so many bytes each so often.
    Chunk(usize, Duration),
}

/// Sends over loopback at that pace on `flows` connections with that congestion control; yields the
/// throughput in bits/s over the time after `warm_up`.
pub(crate) fn throughput(
    congestion_control: &str,
    flows: usize,
    pace: Pace,
    warm_up: Duration,
    time: Duration,
) -> io::Result<f64> {
    let mut connections = Vec::new();
    for _ in 0..flows {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let sender = TcpStream::connect(listener.local_addr()?)?;
        let receiver = listener.accept()?.0;
        rustix::net::sockopt::set_tcp_congestion(&sender, congestion_control)?;
        connections.push((sender, receiver));
    }
    throughput_of(connections, pace, warm_up, time)
}

/// Sends at that pace on these connections, each a sender and a receiver; yields the throughput in bits/s over
/// the time after `warm_up`.
pub(crate) fn throughput_of(
    connections: Vec<(TcpStream, TcpStream)>,
    pace: Pace,
    warm_up: Duration,
    time: Duration,
) -> io::Result<f64> {
    let stop = Arc::new(AtomicBool::new(false));
    let received = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let mut threads = Vec::new();
    for (mut sender, mut receiver) in connections {
        let stopping = Arc::clone(&stop);
        threads.push(std::thread::spawn(move || -> io::Result<()> {
            let bytes = match pace {
                Pace::Full => 1 << 16,
                Pace::Chunk(bytes, _) => bytes,
            };
            let chunk = vec![0x5a; bytes];
            while !stopping.load(Ordering::Relaxed) {
                sender.write_all(&chunk)?;
                if let Pace::Chunk(_, period) = pace {
                    std::thread::sleep(period);
                }
            }
            Ok(())
        }));
        let count = Arc::clone(&received);
        threads.push(std::thread::spawn(move || -> io::Result<()> {
            let mut buffer = vec![0; 1 << 18];
            loop {
                match receiver.read(&mut buffer)? {
                    0 => return Ok(()),
                    n => count.fetch_add(n as u64, Ordering::Relaxed),
                };
            }
        }));
    }
    std::thread::sleep(warm_up);
    let (begin, start) = (received.load(Ordering::Relaxed), Instant::now());
    std::thread::sleep(time);
    let bytes = received.load(Ordering::Relaxed) - begin;
    let seconds = start.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        match thread.join() {
            Ok(result) => result?,
            Err(_) => return Err(io::Error::other("a traffic thread panicked")),
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a throughput")]
    Ok(bytes as f64 * 8.0 / seconds)
}
