//! A minimal transport: one UDP socket of this process sends to another, and Fairwater says how
//! much may be in flight, and how fast.
//!
//! ```sh
//! fairwater serve cubic &
//! cargo run --release -p fairwater-datapath --example transport
//! ```
//!
//! Without a plane at the path, the flow stays under the fallback.

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::collections::VecDeque;
use std::env;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use std::{process, thread};

use fairwater_datapath::{Config, Connection, Controls, Signal, Signals};
use fairwater_lang::SignalSet;
use fairwater_proto::{FlowInfo, SignalQualities};

/// Payload of one packet, bytes.
const MSS: usize = 1200;
/// Bytes to send.
const TRANSFER: u64 = 50_000_000;
/// A packet is lost when one that was sent this many packets later is acknowledged.
const REORDERING: u64 = 3;
/// Retransmission timeout, µs.
const TIMEOUT_US: u64 = 200_000;

/// What this transport measures. A program that reads anything else is refused.
const SIGNALS: [Signal; 13] = [
    Signal::Now,
    Signal::BytesAcked,
    Signal::PacketsAcked,
    Signal::LostPkts,
    Signal::BytesInFlight,
    Signal::PacketsInFlight,
    Signal::BytesPending,
    Signal::RttSampleUs,
    Signal::WasTimeout,
    // Each packet is acknowledged on its own, and no packet asks for ECN marks: always 0.
    Signal::BytesMisordered,
    Signal::PacketsMisordered,
    Signal::EcnBytes,
    Signal::EcnPackets,
];

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1);
    let path = path.unwrap_or_else(|| "/tmp/fairwater/plane".to_owned());
    let began = Instant::now();
    let now = || began.elapsed().as_micros() as u64;

    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    receiver.set_nonblocking(true)?;
    let mut sender = Sender::connect(receiver.local_addr()?, now())?;

    let config = Config {
        name: "example".to_owned(),
        signals: SignalQualities::exact(SignalSet::from_iter(SIGNALS)),
        instance: u64::from(process::id()),
        ..Config::default()
    };
    let mut plane = Connection::seqpacket(config, path, now());
    let flow = plane.start("", &sender.flow_info(now())?)?;
    while sender.acked < TRANSFER {
        let now_us = now();
        sender.send(now_us)?;
        acknowledge(&receiver)?;
        match sender.receive(now_us) {
            // The one call per ACK.
            Some(measured) => {
                if let Some(changed) = plane.invoke(flow, &measured)? {
                    sender.controls = changed;
                }
            }
            None => thread::sleep(Duration::from_micros(50)),
        }
        plane.service(now_us);
    }
    let took = began.elapsed();
    println!(
        "{} MB in {took:.2?}, cwnd {} bytes at the end, {:?}",
        sender.acked / 1_000_000,
        sender.controls.cwnd,
        plane.datapath().flow(flow).map(|flow| flow.state),
    );
    plane.close(flow)?;
    plane.service(now());
    Ok(())
}

/// The receiver: acknowledges each packet by its number.
fn acknowledge(receiver: &UdpSocket) -> io::Result<()> {
    let mut buffer = [0; 2048];
    while let Ok((length, from)) = receiver.recv_from(&mut buffer) {
        receiver.send_to(&buffer[..length.min(8)], from)?;
    }
    Ok(())
}

/// One packet in flight.
struct Sent {
    number: u64,
    at_us: u64,
}

/// The sender: keeps to the window and the rate, and measures what ACKs say.
struct Sender {
    socket: UdpSocket,
    controls: Controls,
    in_flight: VecDeque<Sent>,
    /// Number of the next packet.
    next: u64,
    /// Bytes acknowledged.
    acked: u64,
    /// When the rate allows the next packet, µs.
    pace_us: u64,
    last_ack_us: u64,
}

impl Sender {
    fn connect(receiver: SocketAddr, now_us: u64) -> io::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(receiver)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            controls: Controls {
                cwnd: 10 * MSS as u64,
                rate: 0,
            },
            in_flight: VecDeque::new(),
            next: 0,
            acked: 0,
            pace_us: 0,
            last_ack_us: now_us,
        })
    }

    /// The flow as the plane gets to know it.
    fn flow_info(&self, now_us: u64) -> io::Result<FlowInfo> {
        Ok(FlowInfo {
            local: self.socket.local_addr()?,
            remote: self.socket.peer_addr()?,
            mss: MSS as u32,
            cwnd: self.controls.cwnd,
            srtt_us: 0,
            now_us,
            tag: 0,
            ..FlowInfo::default()
        })
    }

    /// Sends while the window and the rate allow it.
    fn send(&mut self, now_us: u64) -> io::Result<()> {
        let Controls { cwnd, rate } = self.controls;
        while (self.in_flight.len() + 1) * MSS <= cwnd as usize && now_us >= self.pace_us {
            let mut packet = [0; MSS];
            packet[..8].copy_from_slice(&self.next.to_le_bytes());
            match self.socket.send(&packet) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            self.in_flight.push_back(Sent {
                number: self.next,
                at_us: now_us,
            });
            self.next += 1;
            // A rate of 0 is none.
            let gap_us = (1_000_000 * MSS as u64).checked_div(rate);
            self.pace_us = self.pace_us.max(now_us) + gap_us.unwrap_or(0);
        }
        Ok(())
    }

    /// The signals of the ACKs that have arrived, or of a timeout; `None` if neither happened.
    fn receive(&mut self, now_us: u64) -> Option<Signals> {
        let mut measured = Signals::default();
        measured[Signal::RttSampleUs] = u64::MAX;
        let mut buffer = [0; 2048];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            if let Some(number) = buffer[..length].first_chunk() {
                self.on_ack(u64::from_le_bytes(*number), now_us, &mut measured);
            }
        }
        if !self.in_flight.is_empty() && now_us - self.last_ack_us > TIMEOUT_US {
            measured[Signal::WasTimeout] = 1;
            measured[Signal::LostPkts] = self.in_flight.len() as u64;
            self.in_flight.clear();
            self.last_ack_us = now_us;
        } else if measured[Signal::PacketsAcked] == 0 {
            return None;
        }
        measured[Signal::Now] = now_us;
        measured[Signal::PacketsInFlight] = self.in_flight.len() as u64;
        measured[Signal::BytesInFlight] = (self.in_flight.len() * MSS) as u64;
        measured[Signal::BytesPending] = TRANSFER.saturating_sub(self.acked);
        Some(measured)
    }

    /// Adds one ACK to what was measured.
    fn on_ack(&mut self, number: u64, now_us: u64, measured: &mut Signals) {
        let at = self.in_flight.iter().position(|sent| sent.number == number);
        let Some(sent) = at.and_then(|at| self.in_flight.remove(at)) else {
            return;
        };
        measured[Signal::RttSampleUs] = now_us - sent.at_us;
        measured[Signal::BytesAcked] += MSS as u64;
        measured[Signal::PacketsAcked] += 1;
        self.acked += MSS as u64;
        self.last_ack_us = now_us;
        let lost = self
            .in_flight
            .partition_point(|sent| sent.number + REORDERING <= number);
        self.in_flight.drain(..lost);
        measured[Signal::LostPkts] += lost as u64;
    }
}
