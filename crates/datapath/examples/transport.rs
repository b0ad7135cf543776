//! A transport of an afternoon: two sockets of this process send to each other over UDP, and
//! Fairwater says how much may be in flight, and how fast.
//!
//! ```sh
//! fairwater serve cubic &
//! cargo run --release -p fairwater-datapath --example transport
//! ```
//!
//! Without a plane at the path, the fallback governs all the way.

#![expect(clippy::print_stdout, reason = "what it is for")]

use std::collections::VecDeque;
use std::env;
use std::error::Error;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::process;
use std::time::{Duration, Instant};

use fairwater_datapath::{Config, Connection, Controls, Signal, Signals};
use fairwater_lang::SignalSet;
use fairwater_proto::{FlowInfo, SignalQualities};

/// Payload of one packet, bytes.
const MSS: usize = 1200;
const TRANSFER: u64 = 50_000_000;
/// A packet is lost when one that was sent so much later is acknowledged.
const REORDERING: u64 = 3;
const TIMEOUT_US: u64 = 200_000;

/// One packet in flight.
struct Sent {
    number: u64,
    at_us: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1);
    let path = path.unwrap_or_else(|| "/tmp/fairwater/plane".to_owned());
    let began = Instant::now();
    let now = || began.elapsed().as_micros() as u64;

    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;
    receiver.set_nonblocking(true)?;
    sender.set_nonblocking(true)?;

    // What this transport measures. A program that reads anything else is refused.
    let signals = [
        Signal::Now,
        Signal::BytesAcked,
        Signal::PacketsAcked,
        Signal::LostPkts,
        Signal::BytesInFlight,
        Signal::PacketsInFlight,
        Signal::BytesPending,
        Signal::RttSampleUs,
        Signal::WasTimeout,
        // Each packet is acknowledged for itself, and none asks for ECN marks: always 0.
        Signal::BytesMisordered,
        Signal::PacketsMisordered,
        Signal::EcnBytes,
        Signal::EcnPackets,
    ];
    let config = Config {
        name: "example".to_owned(),
        signals: SignalQualities::exact(SignalSet::from_iter(signals)),
        instance: u64::from(process::id()),
        ..Config::default()
    };
    let mut plane = Connection::seqpacket(config, path, now());
    let mut controls = Controls {
        cwnd: 10 * MSS as u64,
        rate: 0,
    };
    let flow = plane.start(
        "",
        &FlowInfo {
            local: sender.local_addr()?,
            remote: receiver.local_addr()?,
            mss: MSS as u32,
            cwnd: controls.cwnd,
            srtt_us: 0,
            now_us: now(),
            tag: 0,
            ..FlowInfo::default()
        },
    )?;

    let mut in_flight: VecDeque<Sent> = VecDeque::new();
    let (mut next, mut acked, mut pace_us) = (0_u64, 0_u64, 0_u64);
    let mut last_ack_us = now();
    let mut buffer = [0; 2048];
    while acked < TRANSFER {
        let now_us = now();
        // Send while the window and the rate allow it.
        while (in_flight.len() + 1) * MSS <= controls.cwnd as usize && now_us >= pace_us {
            let mut packet = [0; MSS];
            packet[..8].copy_from_slice(&next.to_le_bytes());
            match sender.send(&packet) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
            in_flight.push_back(Sent {
                number: next,
                at_us: now_us,
            });
            next += 1;
            // A rate of 0 is none.
            let gap_us = (1_000_000 * MSS as u64).checked_div(controls.rate);
            pace_us = pace_us.max(now_us) + gap_us.unwrap_or(0);
        }
        // The receiver acknowledges each packet by its number.
        while let Ok((length, from)) = receiver.recv_from(&mut buffer) {
            receiver.send_to(&buffer[..length.min(8)], from)?;
        }
        // What the ACKs say becomes signals.
        let mut measured = Signals::default();
        measured[Signal::RttSampleUs] = u64::MAX;
        let mut is_news = false;
        while let Ok(length) = sender.recv(&mut buffer) {
            let Some(number) = buffer[..length]
                .first_chunk()
                .copied()
                .map(u64::from_le_bytes)
            else {
                continue;
            };
            let Some(at) = in_flight.iter().position(|sent| sent.number == number) else {
                continue;
            };
            if let Some(sent) = in_flight.remove(at) {
                measured[Signal::RttSampleUs] = now_us - sent.at_us;
            }
            measured[Signal::BytesAcked] += MSS as u64;
            measured[Signal::PacketsAcked] += 1;
            acked += MSS as u64;
            last_ack_us = now_us;
            is_news = true;
            let lost = in_flight.partition_point(|sent| sent.number + REORDERING <= number);
            in_flight.drain(..lost);
            measured[Signal::LostPkts] += lost as u64;
        }
        if !in_flight.is_empty() && now_us - last_ack_us > TIMEOUT_US {
            measured[Signal::WasTimeout] = 1;
            measured[Signal::LostPkts] = in_flight.len() as u64;
            in_flight.clear();
            last_ack_us = now_us;
            is_news = true;
        }
        if is_news {
            measured[Signal::Now] = now_us;
            measured[Signal::PacketsInFlight] = in_flight.len() as u64;
            measured[Signal::BytesInFlight] = (in_flight.len() * MSS) as u64;
            measured[Signal::BytesPending] = TRANSFER.saturating_sub(acked);
            // The one call per ACK.
            if let Some(changed) = plane.invoke(flow, &measured)? {
                controls = changed;
            }
        } else {
            std::thread::sleep(Duration::from_micros(50));
        }
        plane.service(now_us);
    }
    let took = began.elapsed();
    println!(
        "{} MB in {took:.2?}, cwnd {} bytes at the end, {:?}",
        acked / 1_000_000,
        controls.cwnd,
        plane.datapath().flow(flow).map(|flow| flow.state),
    );
    plane.close(flow)?;
    plane.service(now());
    Ok(())
}
