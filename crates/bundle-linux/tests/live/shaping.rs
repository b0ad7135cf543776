//! A bundle of real TCP is shaped to its rate, flows share it, and its marks are matched.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use fairwater_bundle::Mode;
use fairwater_bundle_linux::HtbOptions;

use crate::site::{Boxes, PORT, RECEIVER, SENDER, Sites, now};

/// 48 Mbit/s.
const RATE: u64 = 6_000_000;
const BULK_FLOWS: usize = 20;

/// Sends a little, then as fast as it can, until told to stop.
fn bulk(stage: &AtomicU32, stop: &AtomicBool, address: std::net::SocketAddr) {
    // The size of super-packets is chosen as a connection begins.
    while stage.load(Relaxed) == 0 {
        thread::sleep(Duration::from_millis(10));
    }
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_write_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let data = vec![0; 64 << 10];
    while !stop.load(Relaxed) {
        if stage.load(Relaxed) == 2 {
            let _ = stream.write(&data);
        } else {
            let _ = stream.write(&data[..2_000]);
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Round trips of small datagrams, µs, until told to stop.
fn ping(stop: &AtomicBool, socket: &UdpSocket) -> Vec<u64> {
    let mut found = Vec::new();
    let mut buffer = [0; 64];
    socket
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    while !stop.load(Relaxed) {
        let sent = Instant::now();
        socket.send(&[1; 32]).unwrap();
        if socket.recv(&mut buffer).is_ok() {
            found.push(u64::try_from(sent.elapsed().as_micros()).unwrap());
        }
        thread::sleep(Duration::from_millis(5));
    }
    found.sort_unstable();
    found
}

#[test]
fn shapes_to_the_rate_and_shares_it() {
    let Some(sites) = Sites::new() else {
        return;
    };
    let (stage, stop) = (AtomicU32::new(0), AtomicBool::new(false));
    let listener = sites
        .receiver
        .inside(|| TcpListener::bind((RECEIVER, 0)).unwrap());
    let listener = listener.unwrap();
    let address = listener.local_addr().unwrap();
    let echo = sites
        .receiver
        .inside(|| UdpSocket::bind((RECEIVER, 4_001)).unwrap());
    let echo = echo.unwrap();
    let pinger = sites.sender.inside(|| {
        let socket = UdpSocket::bind((SENDER, 0)).unwrap();
        socket.connect((RECEIVER, 4_001)).unwrap();
        socket
    });
    let pinger = pinger.unwrap();
    let paths = sites.paths();
    let options = HtbOptions {
        // A flow's turn is a whole super-packet, of 64 kB otherwise.
        max_segments: Some(2),
        ..HtbOptions::default()
    };
    thread::scope(|scope| {
        for _ in 0..BULK_FLOWS {
            scope.spawn(|| {
                sites
                    .sender
                    .inside(|| bulk(&stage, &stop, address))
                    .unwrap()
            });
        }
        scope.spawn(|| {
            for _ in 0..BULK_FLOWS {
                let (mut stream, _) = listener.accept().unwrap();
                scope.spawn(move || {
                    let mut buffer = vec![0; 256 << 10];
                    while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
                });
            }
        });
        scope.spawn(|| {
            echo.set_read_timeout(Some(Duration::from_millis(100)))
                .unwrap();
            let mut buffer = [0; 64];
            while !stop.load(Relaxed) {
                if let Ok((_, from)) = echo.recv_from(&mut buffer) {
                    let _ = echo.send_to(&buffer[..32], from);
                }
            }
        });
        let boxes = scope.spawn(|| {
            let mut boxes = Boxes::new(&paths, RATE, &options).unwrap();
            stage.store(1, Relaxed);
            let begin = now();
            while boxes.status().mode != Mode::Control {
                assert!(
                    now().since(begin) < Duration::from_secs(10),
                    "{:?}",
                    boxes.status()
                );
                boxes.run_until(now() + Duration::from_millis(100));
            }
            stage.store(2, Relaxed);
            boxes.run_until(now() + Duration::from_secs(2));
            let measured = AtomicBool::new(false);
            thread::scope(|scope| {
                let pings = scope.spawn(|| ping(&measured, &pinger));
                let (before, at) = (boxes.kernel_receivebox.counters(0), now());
                let mut queued = Vec::new();
                for _ in 0..30 {
                    boxes.run_until(now() + Duration::from_millis(100));
                    queued.push(boxes.status().queued_bytes);
                }
                let after = boxes.kernel_receivebox.counters(0);
                let time = now().since(at).as_secs_f64();
                measured.store(true, Relaxed);
                let rate = (after.bytes - before.bytes) as f64 / time;
                queued.sort_unstable();
                let lost =
                    boxes.sendbox.lost_boundaries() + boxes.kernel_receivebox.lost_boundaries();
                (
                    boxes.status(),
                    lost,
                    rate,
                    queued[queued.len() / 2],
                    pings.join().unwrap(),
                )
            })
        });
        let outcome = boxes.join();
        stage.store(2, Relaxed);
        stop.store(true, Relaxed);
        let (status, lost, rate, queued, pings) = outcome.unwrap();
        let (p50, p99) = (pings[pings.len() / 2], pings[pings.len() * 99 / 100]);
        let in_queue_ms = queued as f64 / RATE as f64 * 1e3;
        println!(
            "{:.3} of the rate; ping p50 {p50} us, p99 {p99} us beside a queue of {in_queue_ms:.1} ms; {status:?}",
            rate / RATE as f64
        );
        assert!((rate / RATE as f64 - 1.0).abs() < 0.02, "{rate} of {RATE}");
        assert!(in_queue_ms > 5.0, "no queue: {in_queue_ms}");
        // In a FIFO a ping would wait as long as all of the queue.
        assert!(
            (p50 as f64) < in_queue_ms * 1e3 * 0.75,
            "{p50} us beside {in_queue_ms} ms"
        );
        assert!(status.estimates.match_ratio.unwrap() > 0.98, "{status:?}");
        assert!(status.estimates.coverage > 0.99, "{status:?}");
        assert!(
            status.estimates.out_of_order.unwrap_or(0.0) < 0.02,
            "{status:?}"
        );
        assert_eq!(lost, 0);
    });
    let left = sites
        .sender
        .inside(|| fairwater_bundle_linux::remove_leftovers(PORT));
    assert!(!left.unwrap().unwrap(), "the queueing discipline stayed");
}
