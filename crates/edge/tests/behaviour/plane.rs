//! A box and a plane of few words.

use std::sync::Arc;

use fairwater_datapath::{Backend, Config, Datapath, PeerId};
use fairwater_edge::buffer::BufferConfig;
use fairwater_edge::track::TableConfig;
use fairwater_edge::{
    ControlledFlow, Direction, Edge, Fate, FlowKey, Mode, Policy, PortPacket, Treatment, Verdict,
};
use fairwater_lang::{Program, binary, compile};
use fairwater_net::Time;
use fairwater_proto::{Dialect, Fallback, ToDatapath, ToPlane, Welcome};
use fairwater_wire::{Checksum, Packet};

use crate::support::{Fields, key, ms, syn};

pub(crate) const ALIVE_US: u32 = 100_000;

/// A window that stands still.
pub(crate) fn constant(bytes: u64) -> String {
    format!(
        "(def (Report (volatile acked 0)) (w {bytes})) (when true (:= Cwnd w) (fallthrough)) (when false (report))"
    )
}

/// Halves at marks, 10 segments of 1,000 bytes at first.
pub(crate) const HALVE_AT_MARKS: &str = "(def (Report (volatile marked 0)) (w 10000))
    (when (> Ack.ecn_packets 0) (:= w (/ w 2)) (fallthrough))
    (when true (:= Cwnd w))";

pub(crate) struct Box {
    pub(crate) edge: Edge,
    peer: PeerId,
    pub(crate) now: Time,
    /// Whether the plane answers to new flows.
    pub(crate) is_alive: bool,
    /// The guest's port.
    pub(crate) interface: u32,
}

pub(crate) fn treatment() -> Treatment {
    Treatment {
        algorithm: Arc::from(""),
        ecn: true,
        police: true,
        ..Treatment::default()
    }
}

impl Box {
    pub(crate) fn new(program: &str, treatment: Treatment) -> Self {
        Self::with_fallback(program, treatment, Fallback::Release)
    }

    pub(crate) fn with_fallback(program: &str, treatment: Treatment, fallback: Fallback) -> Self {
        let config = Config {
            fallback,
            ..Edge::datapath_config()
        };
        Self::with(program, treatment, config, None)
    }

    /// A box that holds the data of all connections.
    pub(crate) fn buffering(program: &str, config: BufferConfig) -> Self {
        let treatment = Treatment {
            mode: Mode::Buffer,
            ..treatment()
        };
        let datapath = Edge::buffering_datapath_config();
        Self::with(program, treatment, datapath, Some(config))
    }

    /// A box whose flows get this program.
    #[allow(
        dead_code,
        reason = "for the lockstep with the programs of fairwater-edge-tc"
    )]
    pub(crate) fn with_policy(program: &Program, policy: Policy) -> Self {
        Self::begin(program, policy, Edge::datapath_config(), None)
    }

    fn with(
        program: &str,
        treatment: Treatment,
        config: Config,
        buffers: Option<BufferConfig>,
    ) -> Self {
        let program = compile("test", program).unwrap().program;
        let policy = move |_: &_| Some(treatment.clone());
        Self::begin(&program, std::boxed::Box::new(policy), config, buffers)
    }

    fn begin(
        program: &Program,
        policy: Policy,
        config: Config,
        buffers: Option<BufferConfig>,
    ) -> Self {
        let mut datapath = Datapath::new(Config {
            backend: Backend::Interpreter,
            silence_us: 10 * u64::from(ALIVE_US),
            ..config
        });
        let peer = datapath.add_peer(Dialect::Own, 0);
        let mut edge = Edge::new(TableConfig::default(), datapath, peer, policy);
        if let Some(config) = buffers {
            edge = edge.with_buffers(config);
        }
        let mut this = Self {
            edge,
            peer,
            now: ms(0),
            is_alive: true,
            interface: key().interface,
        };
        this.tell(&ToDatapath::Welcome(Welcome {
            instance: 1,
            alive_us: ALIVE_US,
        }));
        let body = binary::encode(program);
        this.tell(&ToDatapath::Install {
            idle_restart: true,
            program: 1,
            body: &body,
        });
        assert_eq!(
            this.edge.datapath().statistics().programs,
            1,
            "{:?}",
            this.edge.datapath().statistics()
        );
        this
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

    /// The plane hears of new flows, and gives them the program.
    pub(crate) fn serve(&mut self) {
        let mut begun = Vec::new();
        while let Some((_, packet)) = self.edge.datapath_mut().poll_transmit(1400) {
            for message in Dialect::Own.to_plane(packet) {
                if let ToPlane::Created { flow, .. } | ToPlane::Resumed { flow, .. } =
                    message.unwrap()
                {
                    begun.push(flow);
                }
            }
        }
        if self.is_alive {
            self.tell(&ToDatapath::Welcome(Welcome {
                instance: 1,
                alive_us: ALIVE_US,
            }));
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
    }

    /// A packet passes; as it leaves the box, or `None` if it was dropped.
    pub(crate) fn pass(&mut self, direction: Direction, bytes: Vec<u8>) -> Option<Vec<u8>> {
        let (verdict, passed) = self.pass_any(direction, bytes);
        let passed = (verdict == Verdict::Pass).then_some(passed)?;
        assert!(Packet::parse_ip(&passed).is_ok_and(|packet| packet.has_valid_checksums()));
        Some(passed)
    }

    /// A packet passes, whatever it is.
    pub(crate) fn pass_any(
        &mut self,
        direction: Direction,
        mut bytes: Vec<u8>,
    ) -> (Verdict, Vec<u8>) {
        let verdict = self.edge.on_packet(
            self.now,
            PortPacket {
                interface: self.interface,
                direction,
                bytes: &mut bytes,
                is_ethernet: false,
                checksum: Checksum::Complete,
            },
        );
        self.serve();
        (verdict, bytes)
    }

    /// What the box has to send now.
    pub(crate) fn poll(&mut self) -> Vec<(Direction, Vec<u8>)> {
        let mut packets = Vec::new();
        while let Some(outgoing) = self.edge.poll_transmit(self.now) {
            let packet = Packet::parse_ip(&outgoing.bytes);
            assert!(packet.is_ok_and(|packet| packet.has_valid_checksums()));
            assert_eq!(outgoing.interface, key().interface);
            packets.push((outgoing.direction, outgoing.bytes));
            assert!(packets.len() < 100_000, "no end");
        }
        packets
    }

    pub(crate) fn sent(&mut self, fields: &Fields) -> Option<Vec<u8>> {
        self.pass(Direction::FromGuest, fields.packet(Direction::FromGuest))
    }

    pub(crate) fn received(&mut self, fields: &Fields) -> Vec<u8> {
        self.pass(Direction::ToGuest, fields.packet(Direction::ToGuest))
            .unwrap()
    }

    /// Opens a connection whose data begins at 1 both ways; the peer agrees to ECN if it is offered.
    pub(crate) fn open(&mut self) {
        self.open_with(&syn(0, None, true), &syn(0, Some(1), true));
    }

    pub(crate) fn open_with(&mut self, first: &Fields, answer: &Fields) {
        use fairwater_wire::TcpFlags;
        let left = self.sent(first).unwrap();
        let flags = flags(&left);
        let mut answer = answer.clone();
        if flags.contains(TcpFlags::ECE | TcpFlags::CWR) && !flags.contains(TcpFlags::AE) {
            answer.flags = answer.flags | TcpFlags::ECE;
        }
        self.received(&answer);
        self.sent(&Fields {
            seq: 1,
            ack: 1,
            ..Fields::default()
        });
    }

    pub(crate) fn fate(&self) -> Option<&Fate> {
        let key = FlowKey {
            interface: self.interface,
            ..key()
        };
        let id = self.edge.connections().find(&key)?;
        Some(self.edge.connections().get(id)?.2)
    }

    pub(crate) fn controlled(&self) -> &ControlledFlow {
        match self.fate() {
            Some(Fate::Controlled(controlled)) => controlled,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn flags(bytes: &[u8]) -> fairwater_wire::TcpFlags {
    Packet::parse_ip(bytes).unwrap().tcp().unwrap().flags()
}

pub(crate) fn window(bytes: &[u8]) -> u16 {
    Packet::parse_ip(bytes).unwrap().tcp().unwrap().window()
}

pub(crate) fn ecn(bytes: &[u8]) -> fairwater_wire::EcnCodepoint {
    Packet::parse_ip(bytes).unwrap().ecn()
}
