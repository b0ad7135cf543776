//! A box at a host's edge takes any packets at any times: nothing panics, memory is bounded, and what the box
//! writes is sound.

#![no_main]

use fairwater_datapath::{Config, Datapath, PeerId};
use fairwater_edge::buffer::BufferConfig;
use fairwater_edge::track::TableConfig;
use fairwater_edge::{Direction, Echo, Edge, Mode, PortPacket, Treatment};
use fairwater_fuzz::Input;
use fairwater_lang::{binary, compile};
use fairwater_net::Time;
use fairwater_proto::{Dialect, ToDatapath, ToPlane, Welcome};
use fairwater_wire::{Checksum, Packet, SackBlock, SackBlocks, Seq, TcpFlags, TcpOption, compose};
use libfuzzer_sys::fuzz_target;

/// Halves at marks and losses, and grows slowly.
const PROGRAM: &str = "(def (Report (volatile lost 0)) (w 20000))
    (when (> (+ Ack.ecn_packets Ack.lost_pkts_sample) 0) (:= w (max 2000 (/ w 2))) (fallthrough))
    (when true (:= w (+ w 100)) (:= Cwnd w) (:= Rate 1000000))";

const BUFFERS: BufferConfig = BufferConfig {
    max_flow_bytes: 40_000,
    max_bytes: 80_000,
    min_rto: std::time::Duration::from_millis(200),
};

struct Plane {
    edge: Edge,
    peer: PeerId,
    now: Time,
}

impl Plane {
    fn new(mode: Mode) -> Self {
        let config = match mode {
            Mode::Window => Edge::datapath_config(),
            Mode::Buffer => Edge::buffering_datapath_config(),
        };
        let mut datapath = Datapath::new(Config {
            silence_us: 1_000_000,
            ..config
        });
        let peer = datapath.add_peer(Dialect::Own, 0);
        let policy = Box::new(move |_: &_| {
            Some(Treatment {
                algorithm: "".into(),
                ecn: true,
                police: true,
                max_scale: Some(3),
                mode,
                echo: Echo::EachMark,
                ..Treatment::default()
            })
        });
        let table = TableConfig {
            max_flows: 64,
            max_half_open: 16,
            ..TableConfig::default()
        };
        let edge = Edge::new(table, datapath, peer, policy).with_buffers(BUFFERS);
        let mut plane = Self {
            edge,
            peer,
            now: Time::from_millis(1_000),
        };
        plane.welcome();
        let body = binary::encode(&compile("fuzz", PROGRAM).unwrap().program);
        plane.tell(&ToDatapath::Install {
            idle_restart: true,
            program: 1,
            body: &body,
        });
        plane
    }

    fn welcome(&mut self) {
        self.tell(&ToDatapath::Welcome(Welcome {
            instance: 1,
            alive_us: 100_000,
        }));
    }

    fn tell(&mut self, message: &ToDatapath<'_>) {
        let mut packet = Vec::new();
        Dialect::Own
            .encode_to_datapath(message, &mut packet)
            .unwrap();
        let now_us = self.now.as_nanos() / 1_000;
        self.edge
            .datapath_mut()
            .on_message(self.peer, &packet, now_us);
    }

    /// The plane answers, or is silent.
    fn serve(&mut self, is_alive: bool) {
        let mut begun = Vec::new();
        while let Some((_, packet)) = self.edge.datapath_mut().poll_transmit(1400) {
            for message in Dialect::Own.to_plane(packet) {
                if let Ok(ToPlane::Created { flow, .. } | ToPlane::Resumed { flow, .. }) = message {
                    begun.push(flow);
                }
            }
        }
        if !is_alive {
            return;
        }
        self.welcome();
        for flow in begun {
            self.tell(&ToDatapath::Command {
                flow,
                switch: Some(1),
                cwnd: None,
                rate: None,
                updates: (&[]).into(),
                withdraw: false,
            });
        }
    }

    fn pass(&mut self, direction: Direction, mut bytes: Vec<u8>, is_ethernet: bool) {
        let length = bytes.len();
        self.edge.on_packet(
            self.now,
            PortPacket {
                interface: 1,
                direction,
                bytes: &mut bytes,
                is_ethernet,
                checksum: Checksum::Complete,
            },
        );
        assert_eq!(bytes.len(), length);
        self.poll();
    }

    fn poll(&mut self) {
        let mut count = 0;
        while let Some(outgoing) = self.edge.poll_transmit(self.now) {
            let packet = match outgoing.is_ethernet {
                true => Packet::parse_ethernet(&outgoing.bytes),
                false => Packet::parse_ip(&outgoing.bytes),
            };
            assert!(packet.is_ok_and(|packet| packet.has_valid_checksums()));
            count += 1;
            assert!(count < 100_000, "no end of packets");
        }
        assert!(self.edge.held().1 <= BUFFERS.max_bytes);
    }

    fn wait(&mut self, ms: u64) {
        let until = self.now.plus_nanos(ms * 1_000_000);
        let mut count = 0;
        while let Some(at) = self.edge.next_timer().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.edge.on_timer(self.now);
            self.poll();
            count += 1;
            assert!(count < 100_000, "no end of timers");
        }
        self.now = until;
    }
}

/// A packet of one connection: sequence and acknowledgement numbers, flags, window and urgent pointer, in this order.
fn write(
    direction: Direction,
    (seq, ack, flags, window, urgent): (u32, u32, TcpFlags, u16, u16),
    options: &[TcpOption<'_>],
    payload: &[u8],
) -> Vec<u8> {
    let (guest, peer) = (([10, 0, 0, 1], 4_000), ([192, 0, 2, 1], 443));
    let (from, to) = match direction {
        Direction::FromGuest => (guest, peer),
        Direction::ToGuest => (peer, guest),
    };
    let tcp = compose::Tcp {
        source_port: from.1,
        destination_port: to.1,
        seq: Seq(seq),
        ack: Seq(ack),
        flags,
        window,
        urgent,
    };
    let ip = compose::Ip::new(from.0.into(), to.0.into());
    let mut bytes = vec![0; 100 + payload.len()];
    let length = compose::tcp(&ip, &tcp, options, payload, Checksum::Complete, &mut bytes);
    bytes.truncate(length.unwrap_or(0));
    bytes
}

/// The packets that open the connection; data begins at 1 both ways.
fn open(plane: &mut Plane) {
    let options = [
        TcpOption::Mss(1000),
        TcpOption::WindowScale(7),
        TcpOption::SackPermitted,
    ];
    let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
    for (direction, seq, acked, flags, options) in [
        (Direction::FromGuest, 0, 0, syn, &options[..]),
        (
            Direction::ToGuest,
            0,
            1,
            syn | ack | TcpFlags::ECE,
            &options,
        ),
        (Direction::FromGuest, 1, 1, ack, &[]),
    ] {
        let fields = (seq, acked, flags, 60_000, 0);
        plane.pass(direction, write(direction, fields, options, &[]), false);
        plane.serve(true);
    }
}

/// A packet whose numbers are near those that its ends expect.
fn packet(input: &mut Input<'_>, direction: Direction, flags: TcpFlags) -> Vec<u8> {
    let mut near = || match input.u8() {
        255 => u32::from_le_bytes(input.take()),
        low => 1 + u32::from(low % 64) * 500,
    };
    let (seq, ack, blocks) = (near(), near(), [(near(), near()), (near(), near())]);
    let (window, urgent) = (u16::from_le_bytes(input.take()), u16::from(input.u8()));
    let kinds = input.u8();
    let blocks = blocks.map(|(start, end)| {
        let (start, end) = (Seq(start), Seq(end));
        SackBlock { start, end }.to_bytes()
    });
    let mut options = Vec::new();
    if flags.contains(TcpFlags::SYN) {
        options.extend([TcpOption::Mss(1000), TcpOption::WindowScale(kinds % 16)]);
        options.push(TcpOption::SackPermitted);
    } else if kinds & 1 != 0 {
        options.extend(SackBlocks::new(&blocks).map(TcpOption::Sack));
    }
    if kinds & 2 != 0 {
        let (value, echo) = (u32::from(input.u8()), u32::from(input.u8()));
        options.push(TcpOption::Timestamps { value, echo });
    }
    let length = usize::from(input.u8()) * 10 * usize::from(kinds & 4 != 0);
    let fields = (seq, ack, flags, window, urgent);
    write(direction, fields, &options, &vec![kinds; length])
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let mode = match input.u8() % 2 {
        0 => Mode::Window,
        _ => Mode::Buffer,
    };
    let mut plane = Plane::new(mode);
    open(&mut plane);
    while !input.0.is_empty() {
        let (step, later) = (input.u8(), input.u8());
        plane.wait(u64::from(later % 64));
        let direction = match step & 1 {
            0 => Direction::FromGuest,
            _ => Direction::ToGuest,
        };
        let (bytes, is_ethernet) = match step >> 1 & 3 {
            0 => (input.bytes(), step & 8 != 0),
            1 => {
                let flags = TcpFlags::from_bits(u16::from_le_bytes(input.take()));
                (packet(&mut input, direction, flags), false)
            }
            _ => {
                let last = if step & 64 != 0 {
                    TcpFlags::FIN
                } else {
                    TcpFlags::PSH
                };
                (packet(&mut input, direction, TcpFlags::ACK | last), false)
            }
        };
        plane.pass(direction, bytes, is_ethernet);
        plane.serve(step & 48 != 0);
    }
});
