//! What is encoded for libccp does there what our interpreter says, ACK by ACK.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use fairwater_exec::interp::{Input, Machine};
use fairwater_exec::portable::{self, Append};
use fairwater_lang::{Signal, SignalSet, compile};
use libccp::{DatapathBuilder, DatapathOps, Primitives};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::support::start;

/// Programs without time, whose values stay small: each has what libccp would give up at, or has no
/// instruction for.
const SOURCES: [&str; 5] = [
    "(def (Report (ratio 0) (left 0) (ever 0)))
    (when true
      (:= Report.ratio (/ Ack.bytes_acked (- Ack.packets_acked 2)))
      (:= Report.left (- (* 2 Ack.packets_acked) (+ Report.left Ack.ecn_packets)))
      (:= Report.ever (+ Report.ever (/ 100 Report.left)))
      (report))",
    "(def (Report (volatile n 0) (state 0)) (armed true) (limit 40000))
    (when true
      (:= Report.n (+ Report.n Ack.bytes_acked))
      (if (&& armed (> Ack.lost_pkts_sample 3))
        (:= armed false)
        (when (<= Ack.lost_pkts_sample 3)
          (:= Cwnd (min limit (+ Cwnd (* 0.75 Ack.bytes_acked))))
          (if (>= Cwnd limit) (:= Cwnd 15000) (:= Report.state (+ Report.state 1)))))
      (!if armed (:= Rate (+ 1 (* 1.25 Report.n))))
      (fallthrough))
    (when (|| Flow.was_timeout (! armed)) (:= armed (!= Report.n 7)) (report))",
    "(def (Report (srtt 0) (other 0)) (weight 3))
    (when (> (ewma 8 Flow.rtt_sample_us) 30000)
      (:= Report.srtt (ewma 8 Flow.rtt_sample_us))
      (:= Report.other (+ (ewma weight Report.srtt) (ewma 13 Ack.bytes_acked)))
      (:= weight (if (> weight 12) 0 (+ weight 1)))
      (report))
    (when (== Ack.packets_acked 5) (:= Report.other 0) (fallthrough))
    (when true (report))",
    "(def (volatile Report.a 5) (Report.b 9) (volatile c 100))
    (when Flow.was_timeout (fallthrough))
    (when (< Ack.bytes_acked 700)
      (:= c (- c Ack.packets_acked))
      (:= Report.a (if (> c 50) (/ c (- Report.a 4)) (max Report.b (- 60 c)))))
    (when true
      (:= Report.b (wrapped_max (+ 1 Report.a) (+ 1 Ack.bytes_acked)))
      (report))",
    "(def (Report (x 0) (y 0)))
    (when (ne (- Ack.bytes_acked Flow.bytes_pending) (/ Flow.bytes_in_flight Ack.ecn_bytes))
      (if (> Ack.packets_acked 4)
        (if (> Ack.ecn_packets 4) (:= Report.x 1) (:= Report.x 2))
        (if (> Ack.ecn_packets 4) (:= Report.x 3) (:= Report.x 4)))
      (:= Report.y (+ (/ Report.x Ack.lost_pkts_sample) (- Report.x Report.y)))
      (report))",
];

type SentMessages = Arc<Mutex<Vec<Vec<u8>>>>;

struct Reports(SentMessages);

impl DatapathOps for Reports {
    fn send_msg(&mut self, message: &[u8]) {
        self.0.lock().unwrap().push(message.to_vec());
    }
}

/// A message of libccp's with its header.
fn message(kind: u16, flow: u32, body: &[u8]) -> Vec<u8> {
    let length = 8 + body.len() as u16;
    let header = [
        &kind.to_le_bytes()[..],
        &length.to_le_bytes(),
        &flow.to_le_bytes(),
    ];
    [&header.concat(), body].concat()
}

fn word(value: u32) -> [u8; 4] {
    value.to_le_bytes()
}

/// The number of the flow of which libccp said last that it began.
fn created(said: &SentMessages) -> u32 {
    let messages = said.lock().unwrap();
    let create = messages.iter().rev().find(|m| m[0] == 0).unwrap();
    u32::from_le_bytes(create[4..8].try_into().unwrap())
}

/// The fields of the measurements that were sent; nothing of other messages.
fn measured(said: &SentMessages) -> Vec<Vec<u64>> {
    let messages = std::mem::take(&mut *said.lock().unwrap());
    let measures = messages.iter().filter(|m| m[0] == 1);
    let fields = measures.map(|m| m[16..].chunks_exact(8));
    fields
        .map(|f| {
            f.map(|f| u64::from_le_bytes(f.try_into().unwrap()))
                .collect()
        })
        .collect()
}

fn signals() -> impl Strategy<Value = [u32; 15]> {
    let number = prop_oneof![1 => Just(0), 2 => 0..8_u32, 1 => 0..1500_u32];
    (prop::array::uniform15(number), 1..60_000_u32, any::<bool>()).prop_map(
        |(mut signals, rtt, timeout)| {
            signals[Signal::RttSampleUs as usize] = rtt;
            signals[Signal::WasTimeout as usize] = timeout.into();
            signals
        },
    )
}

fn primitives(signals: &[u32; 15], cwnd: u32, rate: u32) -> Primitives {
    let of = |signal: Signal| signals[signal as usize];
    Primitives::default()
        .with_bytes_acked(of(Signal::BytesAcked))
        .with_packets_acked(of(Signal::PacketsAcked))
        .with_bytes_misordered(of(Signal::BytesMisordered))
        .with_packets_misordered(of(Signal::PacketsMisordered))
        .with_ecn_bytes(of(Signal::EcnBytes))
        .with_ecn_packets(of(Signal::EcnPackets))
        .with_lost_pkts_sample(of(Signal::LostPkts))
        .with_was_timeout(of(Signal::WasTimeout) == 1)
        .with_rtt_sample_us(of(Signal::RttSampleUs).into())
        .with_bytes_in_flight(of(Signal::BytesInFlight))
        .with_bytes_pending(of(Signal::BytesPending))
        .with_snd_cwnd(cwnd)
        .with_snd_rate(rate.into())
}

#[test]
fn do_there_what_they_do_here() {
    // One flow for all: the crate leaves the memory of others' uninitialized.
    let said = SentMessages::default();
    let datapath = DatapathBuilder::default()
        .with_ops(Reports(Arc::clone(&said)))
        .with_id(3)
        .init()
        .unwrap();
    let theirs = RefCell::new(start(&datapath, "any"));
    let flow = created(&said);
    let acks = prop::collection::vec(signals(), 1..60);
    let cases = (prop::sample::select(SOURCES.to_vec()), acks);
    let run = |(source, acks): (&str, Vec<[u32; 15]>)| {
        let program = compile("libccp.ccp", source).unwrap().program;
        let encoded = portable::encode(&program, Append::Nothing).unwrap();
        // Number 1 wipes those before it.
        let mut install = message(2, 0, &[&word(1)[..], &encoded.body].concat());
        datapath.recv_msg(&mut install).unwrap();
        let mut switch = message(4, flow, &[word(1), word(0)].concat());
        datapath.recv_msg(&mut switch).unwrap();
        measured(&said);

        let mut theirs = theirs.borrow_mut();
        let mut ours = Machine::new(&program, 0);
        let (mut cwnd, mut rate) = (14_600, 0);
        (theirs.cwnd, theirs.rate) = (14_600, 0);
        for ack in &acks {
            let outcome = ours.invoke(&Input {
                signals: SignalSet::CCP.iter().zip(ack.map(u64::from)).collect(),
                cwnd,
                rate,
                stage: None,
            });
            (cwnd, rate) = (outcome.cwnd, outcome.rate);
            let before = primitives(ack, theirs.cwnd, theirs.rate);
            theirs.load_primitives(before);
            theirs.invoke().unwrap();
            let expected: Vec<_> = outcome.report.into_iter().collect();
            prop_assert_eq!(measured(&said), expected);
            prop_assert_eq!((theirs.cwnd.into(), theirs.rate.into()), (cwnd, rate));
        }
        Ok(())
    };
    if let Err(error) = TestRunner::default().run(&cases, run) {
        panic!("{error}");
    }
}
