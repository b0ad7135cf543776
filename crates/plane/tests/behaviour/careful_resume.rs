//! Careful Resume (RFC 9959): what is remembered, and the phases of a flow that begins with it. The
//! programs run here as a datapath runs them.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairwater_exec::interp;
use fairwater_exec::invocation::{Registers, control_fault, initial, reset_volatile};
use fairwater_exec::portable::{self, Append};
use fairwater_plane::*;
use proptest::prelude::*;

use crate::support::{Commands, id};

const MSS: u64 = 1_000;
const INITIAL: u64 = 10 * MSS;
const RTT_US: u64 = 100_000;

/// Slow start, and a report an ACK.
const PROGRAM: &str = "
(def (Report (volatile acked 0)) (gain 1))
(when true
  (:= Report.acked (+ Report.acked Ack.bytes_acked))
  (:= Cwnd (+ Cwnd (* gain Ack.bytes_acked)))
  (report))";

/// What each flow was told as it began.
type Begun = Arc<Mutex<Vec<FlowInfo>>>;

struct Plain(Begun, Var);

impl Algorithm for Plain {
    fn name(&self) -> &str {
        "plain"
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control<'_>) -> Box<dyn Flow> {
        self.0.lock().unwrap().push(info.clone());
        control.update(self.1, 0_u64);
        Box::new(PlainFlow)
    }
}

struct PlainFlow;

impl Flow for PlainFlow {
    fn on_report(&mut self, _: &Report<'_>, _: &mut Control<'_>) {}
}

/// A plane with one algorithm, and its flows.
struct Bed {
    plane: Plane,
    begun: Begun,
    now_us: u64,
}

/// A flow in the datapath.
struct Driven {
    flow: FlowId,
    index: u32,
    registers: Registers,
    variables: Vec<u64>,
}

fn config() -> CarefulResumeConfig {
    CarefulResumeConfig {
        max_jump: 1 << 30,
        ..CarefulResumeConfig::default()
    }
}

impl Bed {
    fn new(config: CarefulResumeConfig) -> Self {
        let begun = Begun::default();
        let mut plane = Plane::new();
        plane.resume_carefully(config).unwrap();
        let known = Arc::clone(&begun);
        plane
            .add(|programs| {
                let program = programs.add("plain", PROGRAM)?;
                Ok(Plain(known, program.variable("gain")?))
            })
            .unwrap();
        Self {
            plane,
            begun,
            now_us: 1_000_000,
        }
    }

    fn status(&self) -> CarefulResumeStatus {
        self.plane.careful_resume().unwrap()
    }

    /// Time passes in the plane and in the datapath.
    fn pass(&mut self, us: u64) {
        self.now_us += us;
        self.plane.set_time(self.now_us);
    }

    fn start(&mut self, slot: u32, remote: &str) -> Driven {
        let info = FlowInfo {
            local: "192.0.2.1:443".parse().unwrap(),
            remote: SocketAddr::new(remote.parse::<IpAddr>().unwrap(), 50_000),
            mss: MSS as u32,
            cwnd: INITIAL,
            now_us: self.now_us,
            ..FlowInfo::default()
        };
        let mut driven = Driven {
            flow: id(slot, self.begun.lock().unwrap().len() as u32 + 1),
            index: 0,
            registers: Registers {
                cwnd: INITIAL,
                ..Registers::default()
            },
            variables: Vec::new(),
        };
        let event = Event::Created {
            flow: driven.flow,
            algorithm: 0,
            info: &info,
        };
        self.deliver(&mut driven, event);
        driven
    }

    fn deliver(&mut self, driven: &mut Driven, event: Event<'_>) {
        let mut sink = Commands::default();
        self.plane.on_event(event, &mut sink);
        for (_, command) in sink.0 {
            assert!(!command.withdraw, "{:?}", self.plane.drain_notices().next());
            if let Some(to) = command.switch {
                driven.index = to.index();
                let program = self.plane.algorithms()[0].programs()[to.index() as usize].program();
                driven.variables = initial(program);
                driven.registers.timer_zero = self.now_us;
            }
            driven.registers.cwnd = command.cwnd.unwrap_or(driven.registers.cwnd);
            driven.registers.rate = command.rate.unwrap_or(driven.registers.rate);
            for (variable, value) in command.updates {
                driven.variables[usize::from(variable)] = value;
            }
        }
    }

    /// An invocation with these signals; what it reports goes to the plane.
    fn invoke(&mut self, driven: &mut Driven, signals: &[(Signal, u64)]) {
        let loaded = &self.plane.algorithms()[0].programs()[driven.index as usize];
        let program = loaded.shared();
        let mut all: Signals = signals.iter().copied().collect();
        all[Signal::Now] = self.now_us;
        let before = (driven.registers.cwnd, driven.registers.rate);
        let reported = interp::run(&program, &mut driven.registers, &mut driven.variables, &all);
        assert_eq!(control_fault(before, &driven.registers), None);
        if reported {
            let fields = driven.variables[..program.report_len()].to_vec();
            reset_volatile(&program, &mut driven.variables);
            let report = RawReport {
                program: ProgramId::new(0, driven.index),
                time_us: self.now_us,
                cwnd: driven.registers.cwnd,
                rate: driven.registers.rate,
                fields: &fields,
            };
            let flow = driven.flow;
            self.deliver(driven, Event::Reported { flow, report });
        }
    }

    /// So much is acknowledged, and so much is in flight then.
    fn ack(&mut self, driven: &mut Driven, acked: u64, in_flight: u64, rtt_us: u64) {
        let signals = [
            (Signal::BytesAcked, acked),
            (Signal::PacketsAcked, acked / MSS),
            (Signal::BytesInFlight, in_flight),
            (Signal::RttSampleUs, rtt_us),
        ];
        self.invoke(driven, &signals);
    }

    fn lose(&mut self, driven: &mut Driven, in_flight: u64) {
        let signals = [
            (Signal::LostPkts, 1),
            (Signal::BytesInFlight, in_flight),
            (Signal::RttSampleUs, RTT_US),
        ];
        self.invoke(driven, &signals);
    }

    fn close(&mut self, mut driven: Driven) {
        let flow = driven.flow;
        self.deliver(&mut driven, Event::Closed { flow });
    }

    /// A flow that delivers `cwnd` bytes a round trip, and ends.
    fn observe(&mut self, slot: u32, remote: &str, cwnd: u64) {
        let mut flow = self.start(slot, remote);
        self.deliver_evenly(&mut flow, cwnd, 40);
        self.close(flow);
    }

    fn deliver_evenly(&mut self, flow: &mut Driven, cwnd: u64, rounds: u64) {
        flow.registers.cwnd = cwnd;
        for _ in 0..20 * rounds {
            self.pass(RTT_US / 20);
            self.ack(flow, cwnd / 20, cwnd, RTT_US);
        }
    }

    /// The initial window is acknowledged in packets.
    fn reconnoitre(&mut self, flow: &mut Driven, rtt_us: u64) {
        self.pass(rtt_us);
        for packet in 1..=10 {
            // Slow start: two packets go out for each.
            self.ack(flow, MSS, INITIAL + packet * MSS, rtt_us);
        }
    }
}

const HOST: &str = "198.51.100.7";

/// The program of the algorithm, and that of Careful Resume.
const PLAIN: u32 = 0;
const RESUME: u32 = 1;

/// A flow that has validated half of `saved` bytes, and what is acknowledged of its flight.
fn validated(bed: &mut Bed, saved: u64) -> Driven {
    bed.observe(0, HOST, saved);
    assert_eq!(bed.status().sets, 1);
    let mut flow = bed.start(1, HOST);
    assert_eq!((flow.index, flow.registers.cwnd), (RESUME, INITIAL));
    // Reconnaissance: slow start, until the initial data is acknowledged.
    bed.reconnoitre(&mut flow, RTT_US);
    // Unvalidated: half of what was saved, paced by the RTT.
    let jump = flow.registers.cwnd;
    assert!((saved / 2 - 10 * MSS..=saved / 2).contains(&jump), "{jump}");
    assert_eq!(flow.registers.rate, jump * 1_000_000 / RTT_US);
    assert_eq!(bed.status().jumped, 1);
    // A round trip later the window is out, and what was sent before it is acknowledged.
    bed.pass(RTT_US);
    for packet in 1..=20 {
        bed.ack(&mut flow, MSS, jump - packet, RTT_US);
    }
    assert_eq!(flow.registers.rate, 0);
    // Validating: what is in flight, and slow start, until all of that is acknowledged.
    let mut left = jump;
    while flow.registers.cwnd < 2 * jump - 30 * MSS {
        assert_eq!((flow.index, bed.status().validated), (RESUME, 0));
        bed.pass(RTT_US / 100);
        bed.ack(&mut flow, 2 * MSS, jump, RTT_US);
        assert!(left >= 2 * MSS, "slow start");
        left -= 2 * MSS;
    }
    flow
}

#[test]
fn a_flow_begins_with_half_of_what_another_delivered() {
    let mut bed = Bed::new(config());
    let mut flow = validated(&mut bed, 300 * MSS);
    while flow.index == RESUME {
        bed.ack(&mut flow, 2 * MSS, 150 * MSS, RTT_US);
        assert!(flow.registers.cwnd <= 330 * MSS);
    }
    assert_eq!(bed.status().validated, 1);
    let begun = bed.begun.lock().unwrap().pop().unwrap();
    assert_eq!((begun.cwnd, begun.ssthresh), (flow.registers.cwnd, None));
    assert_eq!(begun.srtt_us, RTT_US);
}

#[test]
fn a_large_window_grows_slowly_until_the_path_has_told_whether_it_is_full() {
    // The RTT grows by a quarter with the queue, or does not.
    for (rtt_us, full) in [(RTT_US * 5 / 4, true), (RTT_US, false)] {
        let mut bed = Bed::new(config());
        let mut flow = validated(&mut bed, 1_000 * MSS);
        let mut acked = 0;
        while flow.index == RESUME {
            bed.ack(&mut flow, 2 * MSS, 900 * MSS, rtt_us);
            acked += 2 * MSS;
            assert!(acked <= 2_100 * MSS, "two round trips at most");
        }
        assert_eq!(bed.status().validated, 1);
        let cwnd = flow.registers.cwnd;
        let begun = bed.begun.lock().unwrap().pop().unwrap();
        assert_eq!(begun.ssthresh, full.then_some(cwnd));
        assert!(cwnd <= 1_500 * MSS, "{cwnd}");
    }
}

#[test]
fn congestion_among_unvalidated_packets_leads_to_safe_retreat() {
    let mut bed = Bed::new(config());
    bed.observe(0, HOST, 400 * MSS);
    let mut flow = bed.start(1, HOST);
    bed.reconnoitre(&mut flow, RTT_US);
    let jump = flow.registers.cwnd;
    bed.pass(RTT_US);
    for packet in 1..=20 {
        bed.ack(&mut flow, MSS, jump - packet, RTT_US);
    }
    // 20 packets were in flight before the jump, and 30 are acknowledged since: PipeSize is 50 packets.
    for _ in 0..10 {
        bed.ack(&mut flow, MSS, jump, RTT_US);
    }
    bed.lose(&mut flow, 150 * MSS);
    let retreated = flow.registers.cwnd;
    assert!((20 * MSS..=25 * MSS).contains(&retreated), "{retreated}");
    assert_eq!((bed.status().retreated, bed.status().sets), (1, 0));
    // The window stands still until what was in flight is acknowledged.
    for _ in 0..75 {
        assert_eq!(flow.index, RESUME);
        bed.ack(&mut flow, 2 * MSS, 30 * MSS, RTT_US);
    }
    assert_eq!((flow.index, flow.registers.cwnd), (PLAIN, retreated));
    let begun = bed.begun.lock().unwrap().pop().unwrap();
    // PipeSize is 200 packets then.
    let ssthresh = begun.ssthresh.unwrap();
    assert!((95 * MSS..=100 * MSS).contains(&ssthresh), "{ssthresh}");
}

#[test]
fn a_timeout_after_the_jump_ends_it_and_deletes_the_set() {
    let mut bed = Bed::new(config());
    bed.observe(0, HOST, 400 * MSS);
    let mut flow = bed.start(1, HOST);
    bed.reconnoitre(&mut flow, RTT_US);
    bed.pass(10 * RTT_US);
    let timeout = [(Signal::WasTimeout, 1), (Signal::BytesInFlight, 50 * MSS)];
    bed.invoke(&mut flow, &timeout);
    assert_eq!((flow.index, flow.registers.cwnd), (PLAIN, MSS));
    assert_eq!((bed.status().retreated, bed.status().sets), (1, 0));
    let begun = bed.begun.lock().unwrap().pop().unwrap();
    assert_eq!(begun.ssthresh, Some(25 * MSS));
}

#[test]
fn reconnaissance_ends_it_where_the_path_is_another() {
    // An eighth more is a queue.
    for (rtt_us, jumps) in [(50_000, 0), (51_000, 1), (112_000, 1), (113_000, 0)] {
        let mut bed = Bed::new(config());
        bed.observe(0, HOST, 400 * MSS);
        let mut flow = bed.start(1, HOST);
        bed.reconnoitre(&mut flow, rtt_us);
        assert_eq!(bed.status().jumped, jumps, "{rtt_us}");
        let index = if jumps == 1 { RESUME } else { PLAIN };
        assert_eq!(flow.index, index, "{rtt_us}");
        // The set is good for the next.
        assert_eq!(bed.status().sets, 1);
    }
    // A loss of the initial data: the normal response.
    let mut bed = Bed::new(config());
    bed.observe(0, HOST, 400 * MSS);
    let mut flow = bed.start(1, HOST);
    bed.pass(RTT_US);
    bed.lose(&mut flow, 9 * MSS);
    assert_eq!((flow.index, flow.registers.cwnd), (PLAIN, 5 * MSS));
    assert_eq!((bed.status().jumped, bed.status().sets), (0, 1));
}

#[test]
fn a_sender_with_little_to_send_does_not_jump_and_one_that_has_no_more_returns_to_what_it_used() {
    let mut bed = Bed::new(config());
    bed.observe(0, HOST, 400 * MSS);
    let mut flow = bed.start(1, HOST);
    for _ in 0..40 {
        bed.pass(RTT_US);
        bed.ack(&mut flow, MSS, 0, RTT_US);
    }
    assert_eq!(bed.status().jumped, 0);
    bed.reconnoitre(&mut flow, RTT_US);
    assert_eq!(bed.status().jumped, 1);
    // Nothing is sent any more: PipeSize.
    bed.pass(2 * RTT_US);
    bed.ack(&mut flow, MSS, 5 * MSS, RTT_US);
    assert_eq!(flow.index, PLAIN);
    let pipe = flow.registers.cwnd;
    assert!((INITIAL..=30 * MSS).contains(&pipe), "{pipe}");
    assert_eq!(bed.status().validated, 0);
}

#[test]
fn one_flow_at_a_time_uses_a_set() {
    let mut bed = Bed::new(config());
    bed.observe(0, HOST, 400 * MSS);
    let first = bed.start(1, HOST);
    let second = bed.start(2, HOST);
    assert_eq!((first.index, second.index), (RESUME, PLAIN));
    bed.close(first);
    let third = bed.start(3, HOST);
    assert_eq!(third.index, RESUME);
    assert_eq!(bed.status().started, 2);
    // What others observe meanwhile does not free it.
    let mut second = second;
    bed.deliver_evenly(&mut second, 500 * MSS, 60);
    assert_eq!(bed.start(4, HOST).index, PLAIN);
}

#[test]
fn a_set_is_forgotten_at_the_end_of_its_lifetime() {
    let mut bed = Bed::new(config());
    bed.observe(0, HOST, 400 * MSS);
    bed.pass(599_000_000);
    assert_eq!(bed.status().sets, 1);
    bed.pass(1_000_000);
    assert_eq!((bed.status().sets, bed.status().expired), (0, 1));
    let flow = bed.start(1, HOST);
    assert_eq!(flow.index, PLAIN);
}

#[test]
fn a_later_observation_replaces_the_former() {
    let mut bed = Bed::new(config());
    bed.observe(0, HOST, 400 * MSS);
    // Too short to lower what is known, long enough, and less than is worth saving.
    let mut flow = bed.start(1, "198.51.100.8");
    bed.deliver_evenly(&mut flow, 100 * MSS, 3);
    bed.close(flow);
    bed.observe(2, "198.51.100.8", 80 * MSS);
    bed.observe(3, "198.51.100.9", 39 * MSS);
    assert_eq!(bed.status().sets, 2);
    let mut flow = bed.start(4, "198.51.100.8");
    bed.reconnoitre(&mut flow, RTT_US);
    let jump = flow.registers.cwnd;
    assert!((38 * MSS..=40 * MSS).contains(&jump), "{jump}");
}

#[test]
fn memory_is_bounded_and_paths_are_told_apart_by_prefix() {
    let mut bed = Bed::new(CarefulResumeConfig {
        max_paths: 4,
        ipv4_prefix: 24,
        ..config()
    });
    for network in 0..10 {
        bed.observe(0, &format!("10.0.{network}.1"), 400 * MSS);
    }
    assert_eq!((bed.status().sets, bed.status().evicted), (4, 6));
    assert_eq!(bed.start(1, "10.0.9.200").index, RESUME);
    assert_eq!(bed.start(2, "10.0.5.1").index, PLAIN);
    // IPv6 networks of 64 bits.
    bed.observe(0, "2001:db8::1", 400 * MSS);
    assert_eq!(bed.start(3, "2001:db8::2").index, RESUME);
    assert_eq!(bed.start(4, "2001:db8:0:1::1").index, PLAIN);
}

#[test]
fn a_flow_without_addresses_or_a_datapath_without_pacing_begins_as_ever() {
    let mut bed = Bed::new(config());
    bed.observe(0, HOST, 400 * MSS);
    bed.observe(0, "0.0.0.0", 400 * MSS);
    assert_eq!(bed.status().sets, 1);
    let mut capabilities = Capabilities::ALL;
    capabilities.abilities.rate = false;
    bed.plane.set_datapath(&capabilities);
    assert_eq!(bed.start(1, HOST).index, PLAIN);
    capabilities.abilities.rate = true;
    bed.plane.set_datapath(&capabilities);
    assert_eq!(bed.start(2, HOST).index, RESUME);
}

/// Flows of libccp's datapaths resume, too.
#[test]
fn libccp_can_run_the_program() {
    let bed = Bed::new(config());
    let loaded = &bed.plane.algorithms()[0].programs()[RESUME as usize];
    assert_eq!(loaded.name(), "careful_resume");
    let encoded = portable::encode(loaded.program(), Append::Flow).unwrap();
    println!("{} instructions", encoded.longest_path());
}

#[test]
fn a_configuration_that_makes_no_sense_is_refused() {
    let mut plane = Plane::new();
    let refused = |plane: &mut Plane, config| plane.resume_carefully(config).unwrap_err();
    let prefix = CarefulResumeConfig {
        ipv4_prefix: 33,
        ..config()
    };
    assert_eq!(refused(&mut plane, prefix), InvalidCarefulResume::Prefix);
    let lifetime = CarefulResumeConfig {
        lifetime: Duration::ZERO,
        ..config()
    };
    assert_eq!(
        refused(&mut plane, lifetime),
        InvalidCarefulResume::Lifetime
    );
    assert!(plane.careful_resume().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the datapath measures, the window is at most what slow start or the jump allows, there
    /// is no fault, and after the flow nothing holds its set.
    #[test]
    fn whatever_is_measured_the_window_is_bounded(
        acks in prop::collection::vec((0..40_u64, 0..500_u64, 1..400_000_u64, 0..12_u8), 1..300)
    ) {
        let mut bed = Bed::new(config());
        bed.observe(0, HOST, 400 * MSS);
        let mut flow = bed.start(1, HOST);
        let mut delivered = 0;
        for (acked, in_flight, rtt_us, event) in acks {
            bed.pass(rtt_us / 3);
            let acked = acked * MSS;
            delivered += acked;
            let signals = [
                (Signal::BytesAcked, acked),
                (Signal::BytesMisordered, u64::from(event == 1) * MSS),
                (Signal::BytesInFlight, in_flight * MSS),
                (Signal::RttSampleUs, rtt_us),
                (Signal::LostPkts, u64::from(event == 2)),
                (Signal::EcnPackets, u64::from(event == 3)),
                (Signal::WasTimeout, u64::from(event == 4)),
            ];
            bed.invoke(&mut flow, &signals);
            if flow.index == PLAIN {
                break;
            }
            let bound = (INITIAL + delivered + 300 * MSS).max(200 * MSS + delivered);
            prop_assert!(flow.registers.cwnd <= bound, "{} > {}", flow.registers.cwnd, bound);
            prop_assert!(flow.registers.cwnd >= MSS);
        }
        bed.close(flow);
        let sets = bed.status().sets;
        let next = bed.start(2, HOST);
        prop_assert_eq!(next.index == RESUME, sets == 1);
    }
}
