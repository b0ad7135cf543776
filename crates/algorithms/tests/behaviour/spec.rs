//! Algorithms as text, and several in one plane.

use fairwater_algorithms::{Cubic, CubicConfig, Period, all, by_spec};
use fairwater_plane::{
    AlgorithmError, Command, CommandSink, Event, FlowId, FlowInfo, Plane, PlaneError, ProgramId,
    Signal,
};
use proptest::prelude::*;

fn faults(spec: &str) -> Vec<String> {
    by_spec(spec).unwrap_err().faults().to_vec()
}

#[test]
fn every_algorithm_builds_with_its_defaults_and_each_documented_value() {
    for entry in all() {
        assert!(!entry.summary.is_empty());
        let mut specs = vec![entry.name.to_owned(), format!("{}:", entry.name)];
        for p in entry.parameters() {
            assert!(!p.meaning.is_empty() && !p.default.is_empty());
            let values = p.accepted.iter();
            specs.extend(values.map(|v| format!("{}:{}={v}", entry.name, p.key)));
        }
        for spec in specs {
            let choice = by_spec(&spec).unwrap();
            assert_eq!(choice.name(), entry.name);
            let mut plane = Plane::new();
            plane.add(|programs| choice.build(programs)).unwrap();
            assert_eq!(plane.algorithms()[0].name(), entry.name);
        }
    }
}

/// What is beyond the ends of a range is refused, in the words of the range.
#[test]
fn values_beyond_a_range_are_refused() {
    let mut seen = 0;
    for entry in all() {
        for p in entry.parameters() {
            for value in &p.refused {
                let found = faults(&format!("{}:{}={value}", entry.name, p.key));
                let refusal = format!("`{0}={value}`: {0} must be {1}", p.key, p.range);
                assert!(found == [refusal] || p.key == "algorithm", "{found:?}");
                seen += 1;
            }
        }
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn the_examples_of_the_documentation_are_accepted() {
    by_spec("cubic:slow_start=program-cwnd,hystart=true,report=10ms").unwrap();
    by_spec(" reno : report = ack , ecn = off ").unwrap();
    by_spec("constant:cwnd=1000000,rate=1.5gbit").unwrap();
}

#[test]
fn an_unknown_name_brings_the_nearest() {
    assert_eq!(
        faults("cubik"),
        ["there is no algorithm `cubik`; did you mean `cubic`?"]
    );
    let names: Vec<_> = all().iter().map(|entry| entry.name).collect();
    assert!(names.is_sorted());
    assert_eq!(
        faults(""),
        [format!(
            "there is no algorithm ``; there are {}",
            names.join(", ")
        )]
    );
}

#[test]
fn every_fault_is_named_with_its_range() {
    let found = faults("cubic:reprot=10ms,report=5us,hystart=maybe,ecn,report=rtt,ecn=true");
    assert_eq!(
        found,
        [
            "cubic has no parameter `reprot`; did you mean `report`?",
            "`ecn` is not of the form key=value",
            "`report` is set twice",
            "`hystart=maybe`: hystart must be `off`, `classic` or `plusplus`",
            "`report=5us`: report must be `rtt`, `ack` or a duration from 10us to 10s",
        ]
    );
    for spec in [
        "constant:cwnd=0",
        "constant:cwnd=1000001",
        "constant:rate=0mbit",
        "constant:rate=9000gbit",
    ] {
        assert_eq!(faults(spec).len(), 1, "{spec}");
    }
    for value in [
        "nan", "1e3ms", "-1ms", "ms", "10", "inf s", "10 ms", "1..5ms",
    ] {
        assert_eq!(faults(&format!("reno:report={value}")).len(), 1, "{value}");
    }
}

/// A duration is taken in the unit it is written in, and to the µs at both ends of its range.
#[test]
fn durations_are_read_in_their_units() {
    for value in ["10us", "0.01ms", "1.5ms", "0.000010s", "10s", "10000ms"] {
        by_spec(&format!("reno:report={value}")).unwrap();
    }
    for value in ["9us", "9.9us", "0.009ms", "10.1s", "10001ms", "5min", "s"] {
        assert_eq!(faults(&format!("reno:report={value}")).len(), 1, "{value}");
    }
}

#[test]
fn a_config_out_of_range_is_refused() {
    let config = CubicConfig {
        report: Period::Micros(9),
        ..CubicConfig::default()
    };
    let mut plane = Plane::new();
    let error = plane.add(|p| Cubic::new(p, config)).unwrap_err();
    assert!(matches!(
        error,
        PlaneError::Algorithm(AlgorithmError::OutOfRange {
            parameter: "report",
            ..
        })
    ));
}

#[test]
fn without_ecn_no_signal_of_it_is_read() {
    let reads = |spec| {
        let mut plane = Plane::new();
        let choice = by_spec(spec).unwrap();
        plane.add(|p| choice.build(p)).unwrap();
        let signals = plane.algorithms()[0].requirements().signals;
        let ecn = [Signal::EcnPackets, Signal::EcnBytes];
        ecn.into_iter().any(|signal| signals.contains(signal))
    };
    assert!(reads("cubic"));
    assert!(!reads("cubic:ecn=false"));
}

#[derive(Default)]
struct Last(Option<(FlowId, Command)>);

impl CommandSink for Last {
    fn command(&mut self, flow: FlowId, command: &Command) {
        self.0 = Some((flow, command.clone()));
    }
}

#[test]
fn several_algorithms_share_a_plane() {
    let mut plane = Plane::new();
    for spec in ["constant:cwnd=7", "reno", "cubic", "cubic:slow_start=plane"] {
        let choice = by_spec(spec).unwrap();
        plane.add(|p| choice.build(p)).unwrap();
    }
    let info = FlowInfo {
        local: "[::1]:1".parse().unwrap(),
        remote: "[::1]:2".parse().unwrap(),
        mss: 1_440,
        cwnd: 14_400,
        srtt_us: 0,
        now_us: 0,
        tag: 0,
        ..FlowInfo::default()
    };
    let mut cwnds = Vec::new();
    for algorithm in 0..4 {
        let flow = FlowId {
            slot: algorithm as u32,
            generation: 0,
        };
        let mut last = Last::default();
        plane.on_event(
            Event::Created {
                flow,
                algorithm,
                info: &info,
            },
            &mut last,
        );
        let (to, command) = last.0.unwrap();
        assert_eq!(to, flow);
        assert!(!command.withdraw && command.switch.map(ProgramId::index) == Some(0));
        cwnds.push(command.cwnd);
    }
    assert_eq!(cwnds, [Some(7 * 1_440), None, None, None]);
}

proptest! {
    /// Text from anywhere is either understood or explained.
    #[test]
    fn no_text_panics(spec in "(cubic|reno|constant|x)?[:=,a-z_0-9.µ -]{0,40}") {
        if let Err(error) = by_spec(&spec) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
