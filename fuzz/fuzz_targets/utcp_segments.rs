//! A user-space TCP takes any packets at any times: nothing panics, what it sends is sound, and it holds no more than it
//! may.

#![no_main]

use std::net::SocketAddr;
use std::time::Duration;

use fairwater_datapath::{Config as DatapathConfig, Datapath};
use fairwater_fuzz::Input;
use fairwater_net::Time;
use fairwater_proto::Dialect;
use fairwater_utcp::{Config, ConnectionId, Ecn, Endpoint, EndpointConfig, State, TcpConfig};
use fairwater_wire::{
    Checksum, EcnCodepoint, Packet, SackBlock, SackBlocks, Seq, TcpFlags, TcpOption, compose,
};
use libfuzzer_sys::fuzz_target;

const MAX_CONNECTIONS: usize = 8;
const BUFFER: usize = 20_000;

fn own() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 80))
}

fn peer(port: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 2], 1000 + u16::from(port % 4)))
}

/// The last numbers that the endpoint sent to a port: near them are those that matter.
#[derive(Clone, Copy, Default)]
struct Numbers {
    seq: u32,
    ack: u32,
    clock: u32,
}

fn near(input: &mut Input<'_>, of: u32) -> u32 {
    match input.u8() % 6 {
        0 => of,
        1 => of.wrapping_add(u32::from(input.u8())),
        2 => of.wrapping_sub(u32::from(input.u8())),
        3 => of.wrapping_add(u32::from(input.u8()) * 256),
        4 => of.wrapping_add(1 << 31),
        _ => u32::from_le_bytes(input.take()),
    }
}

fn segment(input: &mut Input<'_>, port: u8, numbers: Numbers) -> Vec<u8> {
    let ip = compose::Ip {
        ecn: EcnCodepoint::from_bits(input.u8()),
        ..compose::Ip::new(peer(port).ip(), own().ip())
    };
    let flags = match input.u8() % 8 {
        0 => TcpFlags::SYN,
        1 => TcpFlags::SYN | TcpFlags::ACK,
        2 => TcpFlags::RST,
        3 => TcpFlags::FIN | TcpFlags::ACK,
        4 => TcpFlags::from_bits(u16::from_le_bytes(input.take())),
        _ => TcpFlags::ACK,
    };
    let tcp = compose::Tcp {
        source_port: peer(port).port(),
        destination_port: own().port(),
        seq: Seq(near(input, numbers.ack)),
        ack: Seq(near(input, numbers.seq)),
        flags,
        window: u16::from_le_bytes(input.take()),
        urgent: 0,
    };
    let blocks: Vec<_> = (0..input.u8() % 4)
        .map(|_| {
            let (start, end) = (Seq(near(input, numbers.seq)), Seq(near(input, numbers.seq)));
            SackBlock { start, end }.to_bytes()
        })
        .collect();
    let choices = input.u8();
    let mut options = Vec::new();
    if choices & 1 == 0 {
        options.push(TcpOption::Timestamps {
            value: near(input, 1000),
            echo: near(input, numbers.clock),
        });
    }
    if flags.contains(TcpFlags::SYN) {
        options.push(TcpOption::Mss(u16::from(choices) * 8));
        options.push(TcpOption::SackPermitted);
        options.push(TcpOption::WindowScale(choices >> 4));
    } else {
        options.extend(SackBlocks::new(&blocks).map(TcpOption::Sack));
    }
    let payload = vec![choices; usize::from(input.u8()) * 8 * usize::from(choices & 2 == 0)];
    let mut bytes = vec![0; 120 + payload.len()];
    let written = compose::tcp(
        &ip,
        &tcp,
        &options,
        &payload,
        Checksum::Complete,
        &mut bytes,
    );
    bytes.truncate(written.unwrap_or(0));
    bytes
}

/// Takes all that the endpoint sends, and notes its numbers.
fn drain(endpoint: &mut Endpoint, now: Time, numbers: &mut [Numbers; 4]) {
    let mut packet = [0; 1500];
    let mut count = 0;
    while let Some(length) = endpoint.poll_transmit(now, &mut packet) {
        count += 1;
        assert!(count < 10_000, "it sends without end");
        let packet = Packet::parse_ip(&packet[..length]).expect("sound");
        assert!(packet.has_valid_checksums());
        let tcp = packet.tcp().expect("TCP");
        let options = tcp.option_summary().expect("sound options");
        let of_port = usize::from(tcp.destination_port() - 1000);
        if let Some(of_port) = numbers.get_mut(of_port) {
            *of_port = Numbers {
                seq: tcp.seq().plus(tcp.seq_length()).0,
                ack: tcp.ack().0,
                clock: options.timestamps.map_or(0, |(value, _)| value),
            };
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let mut datapath = Datapath::new(DatapathConfig::default());
    let plane = datapath.add_peer(Dialect::Own, 0);
    let connection = Config {
        tcp: TcpConfig {
            receive_window: BUFFER as u64,
            ecn: Ecn::Classic,
            ..TcpConfig::default()
        },
        send_buffer: BUFFER,
        ..Config::default()
    };
    let config = EndpointConfig {
        connection,
        max_connections: MAX_CONNECTIONS,
        max_half_open: 3,
        key: [4; 16],
    };
    let mut endpoint = Endpoint::new(config, plane);
    endpoint.listen(own(), "cubic");
    let mut now = Time::from_millis(1);
    let mut numbers = [Numbers::default(); 4];
    let mut known: Vec<ConnectionId> = Vec::new();
    while !input.0.is_empty() {
        match input.u8() % 12 {
            0 => endpoint.on_packet(now, &mut datapath, &input.bytes()),
            1..=5 => {
                let port = input.u8();
                let bytes = segment(&mut input, port, numbers[usize::from(port % 4)]);
                endpoint.on_packet(now, &mut datapath, &bytes);
            }
            6 => {
                now = now + Duration::from_millis(u64::from(input.u8()) << (input.u8() % 12));
                endpoint.on_timer(now, &mut datapath);
            }
            7 => {
                let port = input.u8();
                known.extend(endpoint.connect(now, own(), peer(port), "").ok());
            }
            choice => {
                let Some(&id) = known.get(usize::from(input.u8()) % known.len().max(1)) else {
                    continue;
                };
                match (choice, input.u8() % 4) {
                    (8 | 9, _) => {
                        let _ = endpoint.write(id, &vec![7; usize::from(input.u8()) * 64]);
                    }
                    (10, _) => {
                        let _ = endpoint.read(id, &mut vec![0; usize::from(input.u8()) * 64]);
                    }
                    (_, 0) => drop(endpoint.shutdown(id)),
                    (_, 1) => drop(endpoint.release(&mut datapath, id)),
                    (_, 2) => drop(endpoint.abort(&mut datapath, id)),
                    _ => {}
                }
            }
        }
        known.extend(std::iter::from_fn(|| endpoint.accept()));
        drain(&mut endpoint, now, &mut numbers);
        assert!(endpoint.connections().count() <= MAX_CONNECTIONS);
        let mut open = 0;
        for (_, connection) in endpoint.connections() {
            assert!(connection.readable() <= BUFFER as u64);
            open += usize::from(connection.state().is_synchronized());
        }
        assert_eq!(datapath.flows().count(), open);
    }
    // All that is released ends.
    for id in known {
        let _ = endpoint.release(&mut datapath, id);
    }
    drain(&mut endpoint, now, &mut numbers);
    let mut steps = 0;
    while let Some(at) = endpoint.next_timeout() {
        now = now.max(at);
        endpoint.on_timer(now, &mut datapath);
        drain(&mut endpoint, now, &mut numbers);
        steps += 1;
        assert!(steps < 100_000, "its timers go on without end");
    }
    let closed = |state: State| state == State::Closed;
    assert!(endpoint.connections().all(|(_, c)| closed(c.state())));
    assert_eq!(endpoint.connections().count(), 0);
    assert_eq!(datapath.flows().count(), 0);
});
