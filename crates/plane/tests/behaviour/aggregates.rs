//! Flows that share one controller: who is in which aggregate, and what each is told.

use fairwater_plane::ProgramId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use fairwater_plane::*;
use proptest::prelude::*;

use crate::support::{Commands, id, info};

/// What each aggregate divides, bytes.
const WINDOW: u64 = 120_000;

/// Tags with a meaning; any other is a key.
const NO_KEY: u32 = 0;
const KEY_PANICS: u32 = 100;
const AGGREGATE_PANICS: u32 = 101;
const AGGREGATE_REFUSED: u32 = 102;
const JOINING_PANICS: u32 = 103;

/// Reported values with a meaning.
const PANIC: u64 = 1;
const MISTAKE: u64 = 2;
const MISTAKE_OF_ALL: u64 = 3;
const FOREIGN_FIELD: u64 = 4;
const GIVE_UP: u64 = 5;
const SWITCH: u64 = 6;

#[derive(Clone)]
struct Sharing {
    value: Field,
    other: Field,
    second: ProgramId,
    /// Aggregates that there are.
    alive: Arc<AtomicI64>,
}

impl Sharing {
    fn build(alive: Arc<AtomicI64>) -> impl FnOnce(&mut Programs) -> Result<Self, AlgorithmError> {
        move |programs| {
            let source = "(def (Report (value 0))) (when true (report))";
            let first = programs.add("first", source)?;
            let second = programs.add("second", source)?;
            Ok(Self {
                value: first.field("value")?,
                other: second.field("value")?,
                second: second.id(),
                alive,
            })
        }
    }
}

impl Algorithm for Sharing {
    fn name(&self) -> &str {
        "sharing"
    }

    fn new_flow(&self, _: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        control.set_cwnd(1);
        Box::new(SingleFlow)
    }

    fn aggregate_by(&self, info: &FlowInfo) -> Option<Key> {
        assert_ne!(info.tag, KEY_PANICS, "no key for this one");
        By::Tag.key(info)
    }

    fn new_aggregate(&self, key: &Key, _: &FlowInfo) -> Option<Box<dyn Aggregate>> {
        assert_ne!(*key, Key::Tag(AGGREGATE_PANICS));
        if *key == Key::Tag(AGGREGATE_REFUSED) {
            return None;
        }
        self.alive.fetch_add(1, Ordering::Relaxed);
        Some(Box::new(SharedWindow {
            algorithm: self.clone(),
            members: BTreeSet::new(),
        }))
    }
}

struct SingleFlow;

impl Flow for SingleFlow {
    fn on_report(&mut self, _: &Report, control: &mut Control) {
        control.set_cwnd(2);
    }
}

struct SharedWindow {
    algorithm: Sharing,
    members: BTreeSet<Member>,
}

impl SharedWindow {
    fn divide(&self, group: &mut Group) {
        assert!(group.members().eq(self.members.iter().copied()));
        let share = WINDOW / (group.len() as u64).max(1);
        group.each(|_, control| control.set_cwnd(share));
    }
}

impl Aggregate for SharedWindow {
    fn create_subflow(&mut self, member: Member, info: &FlowInfo, group: &mut Group) {
        assert_ne!(info.tag, JOINING_PANICS);
        assert!(self.members.insert(member), "it joined twice");
        self.divide(group);
    }

    fn on_report(&mut self, member: Member, report: &Report, group: &mut Group) {
        let value = if report.program() == self.algorithm.second {
            report[self.algorithm.other]
        } else {
            report[self.algorithm.value]
        };
        match value {
            PANIC => panic!("a report that it did not like"),
            MISTAKE => group.control(member).unwrap().set_cwnd(0),
            MISTAKE_OF_ALL => group.each(|_, control| control.set_rate(u64::MAX)),
            FOREIGN_FIELD => {
                let _ = report[self.algorithm.value] + report[self.algorithm.other];
            }
            GIVE_UP => group.withdraw("enough".to_owned()),
            SWITCH => group.each(|_, control| control.switch(self.algorithm.second)),
            _ => {}
        }
    }

    fn on_close(&mut self, member: Member, group: &mut Group) {
        assert!(self.members.remove(&member), "it had not joined");
        self.divide(group);
    }
}

impl Drop for SharedWindow {
    fn drop(&mut self) {
        self.algorithm.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A plane, and what its datapath was told of each flow.
struct Fixture {
    plane: Plane,
    alive: Arc<AtomicI64>,
    cwnd: BTreeMap<FlowId, u64>,
    withdrawn: BTreeSet<FlowId>,
    last: Commands,
}

impl Fixture {
    fn new() -> Self {
        let alive = Arc::new(AtomicI64::new(0));
        let mut plane = Plane::new();
        plane.add(Sharing::build(Arc::clone(&alive))).unwrap();
        Self {
            plane,
            alive,
            cwnd: BTreeMap::new(),
            withdrawn: BTreeSet::new(),
            last: Commands::default(),
        }
    }

    fn tell(&mut self, event: Event<'_>) {
        if let Event::Created { flow, .. } = event {
            // Its slot had a flow that is gone.
            self.cwnd.retain(|other, _| other.slot != flow.slot);
            self.withdrawn.retain(|other| other.slot != flow.slot);
        }
        let mut commands = Commands::default();
        self.plane.on_event(event, &mut commands);
        if let Event::Closed { flow } = event {
            self.cwnd.remove(&flow);
            self.withdrawn.remove(&flow);
        }
        for (flow, command) in &commands.0 {
            assert!(!self.withdrawn.contains(flow), "{flow:?} was withdrawn");
            assert!(self.plane.flow(*flow).is_some(), "{flow:?} is gone");
            if command.withdraw {
                self.withdrawn.insert(*flow);
                self.cwnd.remove(flow);
            } else if let Some(cwnd) = command.cwnd {
                self.cwnd.insert(*flow, cwnd);
            }
        }
        self.last = commands;
    }

    fn create(&mut self, flow: FlowId, tag: u32) {
        let info = FlowInfo { tag, ..info() };
        self.tell(Event::Created {
            flow,
            algorithm: 0,
            info: &info,
        });
    }

    fn report(&mut self, flow: FlowId, value: u64) {
        let program = self.plane.flow(flow).map_or(0, |view| view.program);
        let report = RawReport {
            program: ProgramId::new(0, program),
            time_us: 1,
            cwnd: 1,
            rate: 0,
            fields: &[value],
        };
        self.tell(Event::Reported { flow, report });
    }

    /// The aggregates by key, each with its members' windows.
    fn windows(&self) -> BTreeMap<Key, Vec<u64>> {
        let mut windows: BTreeMap<Key, Vec<u64>> = BTreeMap::new();
        for (flow, cwnd) in &self.cwnd {
            let view = self.plane.flow(*flow).unwrap();
            if let Some(aggregate) = view.aggregate {
                let key = aggregate.key.clone();
                windows.entry(key).or_default().push(*cwnd);
            }
        }
        windows
    }

    fn check(&self) {
        let windows = self.windows();
        let seen: BTreeMap<Key, usize> = self
            .plane
            .aggregates()
            .map(|view| (view.key.clone(), view.members))
            .collect();
        let expected: BTreeMap<Key, usize> = windows
            .iter()
            .map(|(key, windows)| (key.clone(), windows.len()))
            .collect();
        assert_eq!(seen, expected);
        for (key, windows) in &windows {
            let share = WINDOW / windows.len() as u64;
            assert!(windows.iter().all(|w| *w == share), "{key}: {windows:?}");
        }
        assert_eq!(self.alive.load(Ordering::Relaxed), windows.len() as i64);
        let statistics = self.plane.algorithms()[0].statistics();
        assert_eq!(statistics.flows, self.cwnd.len() as u64);
        assert_eq!(self.plane.statistics().malformed, 0);
    }
}

#[test]
fn one_flows_event_brings_commands_for_all() {
    let mut fixture = Fixture::new();
    for slot in 0..3 {
        fixture.create(id(slot, 1), 7);
        fixture.check();
    }
    let told: Vec<_> = fixture
        .last
        .0
        .iter()
        .map(|(flow, c)| (flow.slot, c.cwnd))
        .collect();
    let third = Some(WINDOW / 3);
    assert_eq!(told, [(2, third), (0, third), (1, third)]);
    fixture.tell(Event::Closed { flow: id(1, 1) });
    let told: Vec<_> = fixture
        .last
        .0
        .iter()
        .map(|(flow, c)| (flow.slot, c.cwnd))
        .collect();
    assert_eq!(told, [(0, Some(WINDOW / 2)), (2, Some(WINDOW / 2))]);
    fixture.create(id(5, 1), 8);
    assert_eq!(fixture.plane.aggregates().count(), 2);
    for slot in [0, 2, 5] {
        fixture.tell(Event::Closed { flow: id(slot, 1) });
        fixture.check();
    }
    assert_eq!(fixture.plane.aggregates().count(), 0);
}

#[test]
fn a_flow_without_a_key_runs_alone() {
    let mut fixture = Fixture::new();
    fixture.create(id(0, 1), NO_KEY);
    fixture.create(id(1, 1), AGGREGATE_REFUSED);
    for slot in [0, 1] {
        let view = fixture.plane.flow(id(slot, 1)).unwrap();
        assert_eq!(
            (view.controller, view.aggregate),
            (Controller::Algorithm, None)
        );
        fixture.report(id(slot, 1), 0);
        assert_eq!(fixture.last.0[0].1.cwnd, Some(2));
    }
    assert_eq!(fixture.plane.drain_notices().count(), 0);
}

#[test]
fn a_key_function_that_panics_leaves_the_flow_alone_and_says_so_once() {
    let mut fixture = Fixture::new();
    fixture.create(id(0, 1), 7);
    fixture.create(id(1, 1), KEY_PANICS);
    let view = fixture.plane.flow(id(1, 1)).unwrap();
    assert_eq!(
        (view.controller, view.aggregate),
        (Controller::Algorithm, None)
    );
    fixture.report(id(1, 1), 0);
    assert_eq!(fixture.last.0[0].1.cwnd, Some(2));
    let notices: Vec<_> = fixture.plane.drain_notices().collect();
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].flow, id(1, 1));
    let text = notices[0].to_string();
    assert!(
        text.contains("runs alone") && text.contains("no key for this one"),
        "{text}"
    );
}

#[test]
fn a_panic_withdraws_the_members_and_nobody_else() {
    for cause in [PANIC, GIVE_UP] {
        let mut fixture = Fixture::new();
        for (slot, tag) in [(0, 7), (1, 7), (2, 8), (3, NO_KEY)] {
            fixture.create(id(slot, 1), tag);
        }
        fixture.report(id(0, 1), cause);
        let told: Vec<_> = fixture
            .last
            .0
            .iter()
            .map(|(f, c)| (f.slot, c.withdraw))
            .collect();
        assert_eq!(told, [(0, true), (1, true)]);
        assert_eq!(fixture.plane.drain_notices().count(), 2);
        fixture.check();
        // A new flow of that key begins a new aggregate; those withdrawn stay so.
        fixture.create(id(4, 1), 7);
        fixture.check();
        assert_eq!(fixture.windows()[&Key::Tag(7)], [WINDOW]);
        fixture.tell(Event::Resumed {
            flow: id(0, 1),
            algorithm: 0,
            info: &info(),
        });
        assert_eq!(fixture.last.0, []);
    }
}

#[test]
fn a_mistake_withdraws_the_member_that_it_was_about() {
    for cause in [MISTAKE, FOREIGN_FIELD] {
        let mut fixture = Fixture::new();
        for slot in 0..3 {
            fixture.create(id(slot, 1), 7);
        }
        fixture.report(id(1, 1), cause);
        let told: Vec<_> = fixture
            .last
            .0
            .iter()
            .map(|(f, c)| (f.slot, c.withdraw))
            .collect();
        assert_eq!(told, [(1, true), (0, false), (2, false)]);
        assert_eq!(fixture.plane.drain_notices().count(), 1);
        fixture.check();
    }
    let mut fixture = Fixture::new();
    for slot in 0..3 {
        fixture.create(id(slot, 1), 7);
    }
    fixture.report(id(1, 1), MISTAKE_OF_ALL);
    assert_eq!(fixture.withdrawn.len(), 3);
    fixture.check();
}

#[test]
fn a_program_that_a_member_is_switched_to_is_the_one_that_is_heard() {
    let mut fixture = Fixture::new();
    for slot in 0..2 {
        fixture.create(id(slot, 1), 7);
    }
    fixture.report(id(0, 1), SWITCH);
    assert!(
        fixture
            .last
            .0
            .iter()
            .all(|(_, c)| c.switch == Some(ProgramId::new(0, 1)))
    );
    for slot in 0..2 {
        assert_eq!(fixture.plane.flow(id(slot, 1)).unwrap().program, 1);
    }
    let late = RawReport {
        program: ProgramId::new(0, 0),
        time_us: 2,
        cwnd: 1,
        rate: 0,
        fields: &[PANIC],
    };
    fixture.tell(Event::Reported {
        flow: id(1, 1),
        report: late,
    });
    assert_eq!(fixture.plane.algorithms()[0].statistics().superseded, 1);
    fixture.check();
}

#[test]
fn keys_are_what_the_flows_have_in_common() {
    let flow = |local: &str, remote: &str, tag| FlowInfo {
        local: local.parse().unwrap(),
        remote: remote.parse().unwrap(),
        tag,
        ..info()
    };
    let a = flow("10.0.0.1:1", "192.0.2.77:80", 3);
    let mapped = flow("10.0.0.9:2", "[::ffff:192.0.2.77]:443", 0);
    let v6 = flow("[2001:db8::1]:1", "[2001:db8:ffff::1]:80", 0);
    let unknown = flow("0.0.0.0:0", "0.0.0.0:0", 0);
    assert_eq!(By::Host.key(&a), By::Host.key(&mapped));
    assert_ne!(By::Interface.key(&a), By::Interface.key(&mapped));
    assert_ne!(By::Connection.key(&a), By::Connection.key(&mapped));
    let prefix = By::Prefix { v4: 26, v6: 48 };
    let text = |info| prefix.key(info).map(|key: Key| key.to_string());
    assert_eq!(text(&a).as_deref(), Some("to 192.0.2.64/26"));
    assert_eq!(text(&v6).as_deref(), Some("to 2001:db8:ffff::/48"));
    let all = By::Prefix { v4: 0, v6: 200 };
    assert_eq!(all.key(&a).unwrap().to_string(), "to 0.0.0.0/0");
    assert_eq!(all.key(&v6).unwrap().to_string(), "to 2001:db8:ffff::1/128");
    assert_eq!(By::Tag.key(&a), Some(Key::Tag(3)));
    for by in [By::Host, prefix, By::Interface, By::Connection, By::Tag] {
        assert_eq!(by.key(&unknown), None, "{by:?}");
    }
    assert_eq!(By::All.key(&unknown), Some(Key::All));
}

#[derive(Debug, Clone)]
enum Step {
    Create(FlowId, u32),
    Report(FlowId, u64),
    Resume(FlowId, u32),
    Fault(FlowId),
    Close(FlowId),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let flow = || (0_u32..8, 0_u32..2).prop_map(|(slot, generation)| id(slot, generation));
    let tag = || prop_oneof![6 => 0_u32..4, 1 => KEY_PANICS..=JOINING_PANICS];
    let step = prop_oneof![
        6 => (flow(), tag()).prop_map(|(flow, tag)| Step::Create(flow, tag)),
        12 => (flow(), 0_u64..20).prop_map(|(flow, value)| Step::Report(flow, value)),
        3 => (flow(), tag()).prop_map(|(flow, tag)| Step::Resume(flow, tag)),
        1 => flow().prop_map(Step::Fault),
        3 => flow().prop_map(Step::Close),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    /// Whatever happens, members have equal shares of their aggregate's window, commands go to
    /// flows that are there and not withdrawn, and no aggregate outlives its members.
    #[test]
    fn members_stay_consistent(steps in steps()) {
        let mut fixture = Fixture::new();
        for step in steps {
            match step {
                Step::Create(flow, tag) => fixture.create(flow, tag),
                Step::Report(flow, value) => fixture.report(flow, value),
                Step::Resume(flow, tag) => {
                    let info = FlowInfo { tag, ..info() };
                    fixture.tell(Event::Resumed { flow, algorithm: 0, info: &info });
                }
                Step::Fault(flow) => {
                    // The datapath says so of itself: no command does.
                    if fixture.plane.flow(flow).is_some() {
                        fixture.cwnd.remove(&flow);
                        fixture.withdrawn.insert(flow);
                    }
                    fixture.tell(Event::Faulted { flow, reason: "a test" });
                }
                Step::Close(flow) => fixture.tell(Event::Closed { flow }),
            }
            fixture.check();
        }
    }

    /// Shares are weighted max-min fair, and whole.
    #[test]
    fn what_is_divided_is_divided_fairly(
        total in prop_oneof![0_u64..200, any::<u64>()],
        claims in prop::collection::vec(
            (0_u32..9, prop_oneof![0_u64..60, any::<u64>()]), 0..12),
        turn in 0_usize..30,
    ) {
        let claims: Vec<_> = claims
            .into_iter()
            .map(|(weight, most)| Claim { weight, most })
            .collect();
        let mut shares = Vec::new();
        divide(total, &claims, turn, &mut shares);
        let sum = shares.iter().map(|s| u128::from(*s)).sum::<u128>();
        let asked = claims.iter().map(|c| u128::from(c.most)).sum::<u128>();
        prop_assert_eq!(sum, asked.min(total.into()));
        let level = |at: usize, extra: i128| {
            (shares[at] as i128 + extra) as f64 / f64::from(claims[at].weight.max(1))
        };
        for (a, claim) in claims.iter().enumerate() {
            prop_assert!(shares[a] <= claim.most);
            if shares[a] < claim.most {
                // Nobody has relatively more, but for one unit of rounding.
                for b in 0..claims.len() {
                    let slack = 1e-9 * level(b, 0);
                    prop_assert!(level(b, -1) <= level(a, 1) + slack, "{:?} {:?}", claims, shares);
                }
            }
        }
    }
}
