//! Signals of a known packet history: as written here, and as a simulated sender with the same history has them.

use std::time::Duration;

use fairwater_datapath::Signal;
use fairwater_net::Time;
use fairwater_tcp::{Block, Controls, Invocation, Segment, Sender, TcpConfig};
use fairwater_utcp::{Config, Connection, Numbers};
use fairwater_wire::{Checksum, Packet, SackBlock, SackBlocks, Seq, TcpFlags, TcpOption, compose};

use super::network::{client, server};

const MSS: u64 = 1448;
const ISN: u32 = u32::MAX - 3000;
const PEER_ISN: u32 = 77;

/// When the connection is open and the first segments leave: the last nanosecond of a tick of TSval, so that echoes of
/// what left then are exact.
const OPEN_NS: u64 = (7000 << 14) | 0x3fff;

/// A connection on the wire, and a bare sender beside it that is told the same.
struct Pair {
    now: Time,
    wire: Connection,
    simulated: Sender,
    /// TSval of the peer's next segment.
    clock: u32,
    /// TSval by offset of the segments that were sent, the latest transmission last.
    sent: Vec<(u64, u32, Time)>,
}

/// What the peer says of the stream, in segments.
#[derive(Debug, Clone, Copy, Default)]
struct Ack<'a> {
    upto: u64,
    blocks: &'a [(u64, u64)],
    ece: bool,
    /// Number of the segment whose clock is echoed, and of its transmission.
    echo: (u64, usize),
}

impl Pair {
    fn open(write: u64) -> Self {
        let config = Config {
            tcp: TcpConfig {
                ecn: fairwater_tcp::Ecn::Classic,
                nagle: false,
                ..TcpConfig::default()
            },
            ..Config::default()
        };
        let now = Time::from_nanos(OPEN_NS) - Duration::from_millis(10);
        let numbers = Numbers {
            isn: Seq(ISN),
            timestamp_offset: 0,
        };
        let tcp = TcpConfig {
            mss: MSS as u32,
            ..config.tcp.clone()
        };
        let mut pair = Self {
            now,
            wire: Connection::connect(config, (client(), server()), numbers),
            simulated: Sender::new(&tcp, now),
            clock: 5000,
            sent: Vec::new(),
        };
        let mut bytes = [0; 1500];
        let syn = pair.wire.poll_transmit(now, &mut bytes).unwrap();
        let syn = Packet::parse_ip(&bytes[..syn]).unwrap();
        let (clock, _) = syn
            .tcp()
            .unwrap()
            .option_summary()
            .unwrap()
            .timestamps
            .unwrap();
        pair.simulated.poll_transmit(now).unwrap();
        pair.wait(10_000);
        let answer = TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE;
        let options = [
            TcpOption::Mss(1460),
            TcpOption::SackPermitted,
            TcpOption::Timestamps {
                value: 4999,
                echo: clock,
            },
            TcpOption::WindowScale(10),
        ];
        pair.arrive(answer, Seq(PEER_ISN), Seq(ISN + 1), &options);
        pair.simulated.on_segment(
            pair.now,
            &Segment {
                syn: true,
                ece: true,
                window: 60_000,
                timestamp: now,
                ..Segment::default()
            },
        );
        assert_eq!(
            pair.wire.write(&vec![1; write as usize]),
            Ok(write as usize)
        );
        pair.simulated.write(write);
        pair.send();
        pair
    }

    fn wait(&mut self, us: u64) {
        self.now = self.now + Duration::from_micros(us);
    }

    fn arrive(&mut self, flags: TcpFlags, seq: Seq, ack: Seq, options: &[TcpOption<'_>]) {
        let ip = compose::Ip::new(server().ip(), client().ip());
        let tcp = compose::Tcp {
            source_port: server().port(),
            destination_port: client().port(),
            seq,
            ack,
            flags,
            window: 60_000,
            urgent: 0,
        };
        let mut bytes = [0; 200];
        let length = compose::tcp(&ip, &tcp, options, &[], Checksum::Complete, &mut bytes).unwrap();
        let packet = Packet::parse_ip(&bytes[..length]).unwrap();
        self.wire.on_segment(self.now, &packet);
    }

    /// An ACK arrives, `us` after the last event; the invocation, which both have alike.
    fn ack(&mut self, us: u64, ack: Ack<'_>) -> Invocation {
        self.wait(us);
        let seq = |segment: u64| Seq(ISN).plus(1).plus((segment * MSS) as u32);
        let (segment, transmission) = ack.echo;
        let mut of_segment = self.sent.iter().filter(|sent| sent.0 == segment * MSS);
        let &(_, echo, echoed_at) = of_segment.nth(transmission).unwrap();
        let raw: Vec<_> = ack
            .blocks
            .iter()
            .map(|&(start, end)| {
                let (start, end) = (seq(start), seq(end));
                SackBlock { start, end }.to_bytes()
            })
            .collect();
        let value = self.clock;
        self.clock += 1;
        let mut options = vec![TcpOption::Timestamps { value, echo }];
        options.extend(SackBlocks::new(&raw).map(TcpOption::Sack));
        let flags = match ack.ece {
            true => TcpFlags::ACK | TcpFlags::ECE,
            false => TcpFlags::ACK,
        };
        self.arrive(flags, Seq(PEER_ISN + 1), seq(ack.upto), &options);
        self.simulated.on_segment(
            self.now,
            &Segment {
                ack: ack.upto * MSS,
                sack: ack
                    .blocks
                    .iter()
                    .map(|&(start, end)| Block {
                        start: start * MSS,
                        end: end * MSS,
                    })
                    .collect(),
                window: 60_000 << 10,
                timestamp: echoed_at,
                ece: ack.ece,
                ..Segment::default()
            },
        );
        self.invoked()
    }

    fn invoked(&mut self) -> Invocation {
        let on_wire = self.wire.poll_invocation().expect("an event");
        let mut simulated = self.simulated.poll_invocation().expect("an event");
        // The RTT of what was sent again comes from a clock on the wire whose ticks are 16.4 µs.
        let ticks = on_wire.rtt_ns.zip(simulated.rtt_ns);
        if ticks.is_some_and(|(wire, simulated)| simulated - wire < 1 << 14) {
            simulated.rtt_ns = on_wire.rtt_ns;
            simulated.signals[Signal::RttSampleUs] = on_wire.signal(Signal::RttSampleUs);
        }
        assert_eq!(on_wire, simulated);
        let controls = Controls {
            cwnd: 10 * MSS,
            rate: 0,
        };
        self.wire.set_controls(controls);
        self.simulated.set_controls(controls);
        self.send();
        on_wire
    }

    /// Sends what both may; it is the same.
    fn send(&mut self) {
        let mut bytes = [0; 1500];
        while let Some(length) = self.wire.poll_transmit(self.now, &mut bytes) {
            let packet = Packet::parse_ip(&bytes[..length]).unwrap();
            let tcp = packet.tcp().unwrap();
            if tcp.payload().is_empty() {
                continue;
            }
            let segment = self
                .simulated
                .poll_transmit(self.now)
                .expect("it sends too");
            let offset = tcp.seq().0.wrapping_sub(ISN + 1);
            assert_eq!(
                (u64::from(offset), tcp.payload().len()),
                (segment.seq, segment.len as usize)
            );
            let (value, _) = tcp.option_summary().unwrap().timestamps.unwrap();
            self.sent.push((segment.seq, value, self.now));
        }
        assert_eq!(self.simulated.poll_transmit(self.now), None);
    }

    fn time_out(&mut self) -> Invocation {
        loop {
            let next = self.wire.next_timeout().expect("a timer");
            assert_eq!(Some(next), self.simulated.next_timer());
            self.now = self.now.max(next);
            self.wire.on_timer(self.now);
            self.simulated.on_timer(self.now);
            let before = self.simulated.counters().timeouts;
            if before > 0 {
                return self.invoked();
            }
            self.send();
        }
    }
}

#[test]
fn all_signals_of_a_known_history() {
    use Signal::{
        AppLimited, BytesAcked, BytesInFlight, BytesMisordered, BytesPending, EcnBytes, EcnPackets,
        LostPkts, Now, PacketsAcked, PacketsInFlight, PacketsMisordered, RateIncoming,
        RateOutgoing, RttSampleUs, Undo, WasTimeout,
    };
    // Segments 0 to 9 leave.
    let mut pair = Pair::open(24 * MSS);
    let check = |invocation: &Invocation, expected: &[(Signal, u64)]| {
        for &(signal, value) in expected {
            assert_eq!(invocation.signal(signal), value, "{signal:?}");
        }
    };

    // Two in order: 10 and 11 leave.
    let told = pair.ack(
        12_000,
        Ack {
            upto: 2,
            echo: (1, 0),
            ..Ack::default()
        },
    );
    check(
        &told,
        &[
            (Now, OPEN_NS / 1000 + 12_000),
            (BytesAcked, 2 * MSS),
            (PacketsAcked, 2),
            (BytesMisordered, 0),
            (PacketsMisordered, 0),
            (EcnBytes, 0),
            (EcnPackets, 0),
            (LostPkts, 0),
            (PacketsInFlight, 8),
            (BytesInFlight, 8 * MSS),
            (BytesPending, 14 * MSS),
            (RttSampleUs, 12_000),
            (WasTimeout, 0),
            (AppLimited, 0),
            (Undo, 0),
            // Two segments in 12 ms.
            (RateIncoming, 2 * MSS * 1_000_000 / 12_000),
        ],
    );

    // 3 without 2.
    let told = pair.ack(
        1_000,
        Ack {
            upto: 2,
            blocks: &[(3, 4)],
            echo: (1, 0),
            ..Ack::default()
        },
    );
    check(
        &told,
        &[
            (Now, OPEN_NS / 1000 + 13_000),
            (BytesAcked, 0),
            (PacketsAcked, 0),
            (BytesMisordered, MSS),
            (PacketsMisordered, 1),
            (LostPkts, 0),
            (PacketsInFlight, 9),
            (RttSampleUs, 13_000),
        ],
    );

    // 4 and 5 too: 2 is lost, and sent again.
    let told = pair.ack(
        1_000,
        Ack {
            upto: 2,
            blocks: &[(3, 6)],
            echo: (1, 0),
            ..Ack::default()
        },
    );
    check(
        &told,
        &[
            (PacketsMisordered, 2),
            (BytesMisordered, 2 * MSS),
            (LostPkts, 1),
            (PacketsInFlight, 7),
            (BytesInFlight, 7 * MSS),
            (Undo, 0),
        ],
    );

    // The original of 2 arrives after all, as the echoed clock tells: the reduction was spurious.
    let told = pair.ack(
        1_000,
        Ack {
            upto: 6,
            echo: (2, 0),
            ..Ack::default()
        },
    );
    check(
        &told,
        &[
            (BytesAcked, 4 * MSS),
            (PacketsAcked, 4),
            (PacketsMisordered, 0),
            (LostPkts, 0),
            (Undo, 1),
        ],
    );

    // A mark was echoed.
    let told = pair.ack(
        1_000,
        Ack {
            upto: 8,
            ece: true,
            echo: (7, 0),
            ..Ack::default()
        },
    );
    check(
        &told,
        &[
            (EcnPackets, 2),
            (EcnBytes, 2 * MSS),
            (BytesAcked, 2 * MSS),
            (Undo, 0),
            (WasTimeout, 0),
        ],
    );

    // Nothing more arrives.
    let told = pair.time_out();
    check(
        &told,
        &[
            (WasTimeout, 1),
            (BytesAcked, 0),
            (PacketsAcked, 0),
            (EcnPackets, 0),
            (AppLimited, 0),
        ],
    );
    assert!(told.signal(LostPkts) >= 9, "{}", told.signal(LostPkts));
    assert!(told.signal(RateOutgoing) > 0);

    // All arrives: what was sent last was limited by the application.
    for upto in [12, 18, 24] {
        let last = upto - 1;
        let sent = pair.sent.iter().filter(|sent| sent.0 == last * MSS).count();
        let told = pair.ack(
            20_000,
            Ack {
                upto,
                echo: (last, sent - 1),
                ..Ack::default()
            },
        );
        assert_eq!(told.signal(WasTimeout), 0);
    }
    // One more segment, sent while there was nothing else to send.
    assert_eq!(pair.wire.write(&[1; MSS as usize]), Ok(MSS as usize));
    pair.simulated.write(MSS);
    pair.send();
    let told = pair.ack(
        20_000,
        Ack {
            upto: 25,
            echo: (24, 0),
            ..Ack::default()
        },
    );
    check(
        &told,
        &[
            (AppLimited, 1),
            (BytesPending, 0),
            (PacketsInFlight, 0),
            (BytesInFlight, 0),
            (BytesAcked, MSS),
        ],
    );
    assert_eq!(pair.wire.acknowledged(), 25 * MSS);
}
