//! One algorithm for many flows: who is told what, whatever happens to the members.

use std::collections::BTreeMap;

use fairwater_algorithms::by_spec;
use fairwater_plane::{Command, CommandSink, Event, FlowId, FlowInfo, Plane, ProgramId, RawReport};
use proptest::prelude::*;

const MSS: u64 = 1000;

fn id(slot: u32) -> FlowId {
    FlowId {
        slot,
        generation: 1,
    }
}

fn info(slot: u32, now_us: u64, tag: u32) -> FlowInfo {
    FlowInfo {
        local: "192.0.2.1:1".parse().unwrap(),
        // Two hosts.
        remote: format!("192.0.2.{}:2", 10 + slot / 4).parse().unwrap(),
        mss: MSS as u32,
        cwnd: 10 * MSS,
        srtt_us: 20_000,
        now_us,
        tag,
        ..FlowInfo::default()
    }
}

/// The window of each member, by the last command.
#[derive(Default)]
struct CommandedWindows(BTreeMap<FlowId, u64>);

impl CommandSink for CommandedWindows {
    fn command(&mut self, flow: FlowId, command: &Command) {
        if command.withdraw {
            self.0.remove(&flow);
        } else if let Some(cwnd) = command.cwnd {
            assert!(cwnd > 0);
            self.0.insert(flow, cwnd);
        }
    }
}

struct Fixture {
    plane: Plane,
    windows: CommandedWindows,
    now_us: u64,
}

impl Fixture {
    fn new(spec: &str) -> Self {
        let choice = by_spec(spec).unwrap();
        let mut plane = Plane::new();
        plane.add(|programs| choice.build(programs)).unwrap();
        Self {
            plane,
            windows: CommandedWindows::default(),
            now_us: 1_000_000,
        }
    }

    fn create(&mut self, slot: u32, tag: u32) {
        let info = info(slot, self.now_us, tag);
        self.windows.0.remove(&id(slot));
        let event = Event::Created {
            flow: id(slot),
            algorithm: 0,
            info: &info,
        };
        self.plane.on_event(event, &mut self.windows);
    }

    /// A report with these values for the fields of these names; all else is 0.
    fn report(&mut self, slot: u32, values: &[(&str, u64)]) {
        let program = &self.plane.algorithms()[0].programs()[0];
        let variables = program.program().variables.iter();
        let value = |name: &str| values.iter().find(|(n, _)| *n == name).map_or(0, |v| v.1);
        let fields: Vec<u64> = variables
            .take(program.report_len())
            .map(|v| value(&v.name))
            .collect();
        let report = RawReport {
            program: ProgramId::new(0, 0),
            time_us: self.now_us,
            cwnd: self.windows.0.get(&id(slot)).copied().unwrap_or(1),
            rate: 0,
            fields: &fields,
        };
        let flow = id(slot);
        self.plane
            .on_event(Event::Reported { flow, report }, &mut self.windows);
    }

    fn close(&mut self, slot: u32) {
        self.windows.0.remove(&id(slot));
        let flow = id(slot);
        self.plane
            .on_event(Event::Closed { flow }, &mut self.windows);
    }

    /// The members' windows of one of the two hosts.
    fn windows(&self, host: u32) -> Vec<u64> {
        let of_host = self.windows.0.iter().filter(|(f, _)| f.slot / 4 == host);
        of_host.map(|(_, cwnd)| *cwnd).collect()
    }
}

/// An acknowledgement of so many bytes, with more to send.
fn acked(bytes: u64, in_flight: u64) -> [(&'static str, u64); 8] {
    [
        ("out", in_flight),
        ("bytes_acked", bytes),
        ("packets_acked", bytes / MSS),
        ("acks", bytes / MSS),
        ("bytes_in_flight", in_flight),
        ("bytes_pending", 1_000_000),
        ("rtt_sample_us", 20_000),
        ("min_rtt_us", 20_000),
    ]
}

#[test]
fn a_window_is_divided_at_once_and_to_the_segment() {
    let mut fixture = Fixture::new("congestion_manager:algorithm=constant:cwnd=100");
    let mut expected = vec![100 * MSS];
    for slot in 0..4 {
        fixture.create(slot, 0);
        assert_eq!(fixture.windows(0), expected);
        let count = u64::from(slot) + 2;
        expected = (0..count)
            .map(|at| (100 / count + u64::from(at < 100 % count)) * MSS)
            .collect();
    }
    fixture.create(4, 0);
    assert_eq!(fixture.windows(1), [100 * MSS], "another host");
    fixture.close(1);
    let total: u64 = fixture.windows(0).iter().sum();
    assert_eq!(total, 100 * MSS);
}

#[test]
fn a_loss_of_one_halves_the_window_of_all_once() {
    let mut fixture = Fixture::new("congestion_manager:algorithm=reno");
    for slot in 0..4 {
        fixture.create(slot, 0);
    }
    let mut grown = 0;
    for _ in 0..6 {
        fixture.now_us += 20_000;
        for slot in 0..4 {
            let window = fixture.windows(0)[slot as usize];
            fixture.report(slot, &acked(window, window));
        }
        grown = fixture.windows(0).iter().sum::<u64>();
    }
    assert!(grown > 100 * MSS, "slow start: {grown}");
    // Each loses a packet of the same window.
    for round in 0..2 {
        fixture.now_us += 10_000;
        for slot in 0..4 {
            let window = fixture.windows(0)[slot as usize];
            let mut values = acked(window / 2, window / 2).to_vec();
            if round == 0 {
                values.push(("lost_pkts_sample", 1));
            }
            fixture.report(slot, &values);
        }
    }
    for _ in 0..2 {
        fixture.now_us += 20_000;
        for slot in 0..4 {
            let window = fixture.windows(0)[slot as usize];
            fixture.report(slot, &acked(window, window));
        }
    }
    let halved: u64 = fixture.windows(0).iter().sum();
    let ratio = halved as f64 / grown as f64;
    assert!((0.4..0.65).contains(&ratio), "{grown} to {halved}");
}

#[test]
fn a_timeout_of_one_among_others_is_a_loss_and_of_all_a_timeout() {
    let timeout = [("was_timeout", 1), ("rtt_sample_us", 20_000), ("acks", 1)];
    let mut reno = Fixture::new("congestion_manager:algorithm=reno");
    for slot in 0..2 {
        reno.create(slot, 0);
    }
    reno.now_us += 20_000;
    for slot in 0..2 {
        reno.report(slot, &acked(5 * MSS, 5 * MSS));
    }
    let before: u64 = reno.windows(0).iter().sum();
    reno.now_us += 30_000;
    reno.report(0, &acked(5 * MSS, 5 * MSS));
    reno.report(1, &timeout);
    let among: u64 = reno.windows(0).iter().sum();
    assert!(among >= before / 3, "{before} to {among}");
    // Nobody is heard of for long.
    reno.now_us += 1_000_000;
    reno.report(0, &timeout);
    assert_eq!(reno.windows(0)[0], MSS);
}

#[test]
fn a_silent_members_part_is_the_others() {
    let mut fixture = Fixture::new("congestion_manager:algorithm=constant:cwnd=100");
    for slot in 0..2 {
        fixture.create(slot, 0);
        fixture.report(slot, &acked(MSS, 10 * MSS));
    }
    for _ in 0..10 {
        fixture.now_us += 20_000;
        fixture.report(0, &acked(50 * MSS, 50 * MSS));
    }
    // What is left to the other is what a new connection begins with.
    assert_eq!(fixture.windows(0), [100 * MSS, 10 * MSS]);
    fixture.report(1, &acked(10 * MSS, 10 * MSS));
    assert_eq!(fixture.windows(0), [50 * MSS, 50 * MSS]);
}

#[test]
fn an_algorithm_with_parameters_of_its_own_comes_last() {
    by_spec(
        "congestion_manager:by=prefix,prefix4=20,share=demand,algorithm=cubic:report=10ms,ecn=off",
    )
    .unwrap();
    by_spec("congestion_manager:algorithm=reno,by=tag,reports=8").unwrap();
    let faults = |spec: &str| by_spec(spec).unwrap_err().faults().to_vec();
    assert_eq!(
        faults("congestion_manager:algorithm=cubik,by=hots,algorithm=reno"),
        [
            "`algorithm` is set twice",
            "`by=hots`: by must be `host`, `prefix`, `interface`, `connection`, `tag` or `all`",
            "`algorithm`: there is no algorithm `cubik`; did you mean `cubic`?",
        ]
    );
    assert_eq!(
        faults("congestion_manager:algorithm=congestion_manager:by=tag"),
        ["`algorithm`: not congestion_manager again"]
    );
    assert_eq!(
        faults("congestion_manager:algorithm=reno:report=5us,by=tag"),
        [
            "`algorithm`: reno has no parameter `by`; it has slow_start, hystart, ecn, growth, prr, report",
            "`algorithm`: `report=5us`: report must be `rtt`, `ack` or a duration from 10us to 10s",
        ]
    );
}

#[derive(Debug, Clone)]
enum Step {
    Create(u32, u32),
    Report(u32, Vec<u64>),
    Close(u32),
    Resume(u32),
    Fault(u32),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let slot = || 0_u32..8;
    let number = prop_oneof![3 => 0_u64..30, 4 => 0_u64..200_000, 1 => any::<u64>()];
    let step = prop_oneof![
        3 => (slot(), 0_u32..5).prop_map(|(slot, tag)| Step::Create(slot, tag)),
        12 => (slot(), prop::collection::vec(number, 16))
            .prop_map(|(slot, values)| Step::Report(slot, values)),
        1 => slot().prop_map(Step::Close),
        1 => slot().prop_map(Step::Resume),
        1 => slot().prop_map(Step::Fault),
        4 => (0_u64..100_000).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 0..120)
}

const FIELDS: [&str; 16] = [
    "bytes_acked",
    "bytes_misordered",
    "ecn_bytes",
    "ecn_packets",
    "lost_pkts_sample",
    "packets_acked",
    "packets_misordered",
    "bytes_in_flight",
    "bytes_pending",
    "packets_in_flight",
    "rate_incoming",
    "rate_outgoing",
    "rtt_sample_us",
    "was_timeout",
    "acks",
    "min_rtt_us",
];

proptest! {
    /// Whatever the members say and however they come and go, nothing panics, everybody has a
    /// window, and those who use theirs have no more than the whole together.
    #[test]
    fn the_parts_are_no_more_than_the_whole(
        steps in steps(),
        share in prop::sample::select(vec!["equal", "weighted", "demand"]),
        segments in 1_u64..60,
    ) {
        let spec = format!(
            "congestion_manager:share={share},algorithm=constant:cwnd={segments}"
        );
        let mut fixture = Fixture::new(&spec);
        for step in steps {
            match step {
                Step::Create(slot, tag) => fixture.create(slot, tag),
                Step::Report(slot, values) => {
                    let values: Vec<_> = FIELDS.into_iter().zip(values).collect();
                    fixture.report(slot, &values);
                }
                Step::Close(slot) => fixture.close(slot),
                Step::Resume(slot) => {
                    let info = info(slot, fixture.now_us, 0);
                    let event = Event::Resumed { flow: id(slot), algorithm: 0, info: &info };
                    fixture.plane.on_event(event, &mut fixture.windows);
                }
                Step::Fault(slot) => {
                    fixture.windows.0.remove(&id(slot));
                    let event = Event::Faulted { flow: id(slot), reason: "a test" };
                    fixture.plane.on_event(event, &mut fixture.windows);
                }
                Step::Pass(us) => fixture.now_us += us,
            }
            prop_assert_eq!(fixture.plane.drain_notices().filter(|n| {
                !n.to_string().contains("a test")
            }).count(), 0);
            for view in fixture.plane.aggregates() {
                prop_assert!(view.members > 0);
            }
            for host in 0..2 {
                let windows = fixture.windows(host);
                // Those that are idle are not told from the others here: they have at most what
                // a new connection begins with.
                let restart = 10 * MSS * windows.len() as u64;
                let sum: u64 = windows.iter().sum();
                prop_assert!(sum <= segments * MSS + restart, "{:?}", windows);
                prop_assert!(windows.iter().all(|w| *w <= segments.max(10) * MSS));
            }
        }
    }

    /// The inner algorithms of the registry bear whatever sums there are.
    #[test]
    fn no_inner_algorithm_fails(
        steps in steps(),
        inner in prop::sample::select(
            fairwater_algorithms::all()
                .iter()
                .map(|e| e.name)
                .filter(|n| *n != "congestion_manager")
                .collect::<Vec<_>>()
        ),
    ) {
        let mut fixture = Fixture::new(&format!("congestion_manager:algorithm={inner}"));
        for step in steps {
            match step {
                Step::Create(slot, tag) => fixture.create(slot, tag),
                Step::Report(slot, values) => {
                    let values: Vec<_> = FIELDS.into_iter().zip(values).collect();
                    fixture.report(slot, &values);
                }
                Step::Close(slot) | Step::Resume(slot) | Step::Fault(slot) => fixture.close(slot),
                Step::Pass(us) => fixture.now_us += us,
            }
            prop_assert_eq!(fixture.plane.drain_notices().count(), 0, "{}", inner);
        }
    }
}
