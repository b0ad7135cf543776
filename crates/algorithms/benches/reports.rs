//! Reports a second through a plane, and what each allocates: one report of each of 64 flows.

#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use divan::counter::ItemsCount;
use fairwater_plane::{
    Algorithm, AlgorithmError, Command, CommandSink, Control, Event, Field, Flow, FlowId, FlowInfo,
    Plane, ProgramId, Programs, RawReport, Report,
};

#[global_allocator]
static ALLOCATIONS: divan::AllocProfiler = divan::AllocProfiler::system();

fn main() {
    divan::main();
}

const FLOWS: u32 = 64;

struct Count(u64);

impl CommandSink for Count {
    fn command(&mut self, _: FlowId, command: &Command) {
        self.0 += divan::black_box(command).updates.len() as u64;
    }
}

/// Answers each report with a window.
#[derive(Clone, Copy)]
struct Trivial {
    acked: Field,
}

impl Trivial {
    fn new(programs: &mut Programs) -> Result<Self, AlgorithmError> {
        let program = programs.add(
            "trivial",
            "(def (Report (volatile acked 0)))
             (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (report))",
        )?;
        Ok(Self {
            acked: program.field("acked")?,
        })
    }
}

impl Algorithm for Trivial {
    fn name(&self) -> &str {
        "trivial"
    }

    fn new_flow(&self, _: &FlowInfo, _: &mut Control) -> Box<dyn Flow> {
        Box::new(*self)
    }
}

impl Flow for Trivial {
    fn on_report(&mut self, report: &Report, control: &mut Control) {
        control.set_cwnd(10_000 + report[self.acked]);
    }
}

/// A plane with one algorithm and its flows.
fn hosted(plane: &mut Plane) -> Count {
    let info = FlowInfo {
        local: "192.0.2.1:1".parse().unwrap(),
        remote: "192.0.2.2:2".parse().unwrap(),
        mss: 1_448,
        cwnd: 14_480,
        srtt_us: 0,
        now_us: 0,
        tag: 0,
        ..FlowInfo::default()
    };
    let mut sink = Count(0);
    for slot in 0..FLOWS {
        let flow = FlowId {
            slot,
            generation: 0,
        };
        plane.on_event(
            Event::Created {
                flow,
                algorithm: 0,
                info: &info,
            },
            &mut sink,
        );
    }
    sink
}

/// A report of a flow in congestion avoidance, whatever fields the program has.
fn fields(plane: &Plane) -> Vec<u64> {
    let program = &plane.algorithms()[0].programs()[0];
    program.program().variables[..program.report_len()]
        .iter()
        .map(|v| match v.name.as_str() {
            "acked" | "delivered" => 144_800,
            "before" | "ssthresh" => 100_000,
            "in_flight" => 144_800,
            "rtt_us" | "min_rtt_us" | "least_us" | "greatest_us" | "srtt_us" => 20_000,
            _ => 0,
        })
        .collect()
}

fn reports(bencher: divan::Bencher<'_, '_>, mut plane: Plane, each_us: u64) {
    let mut sink = hosted(&mut plane);
    let fields = fields(&plane);
    let mut time_us = 0;
    bencher.counter(ItemsCount::new(FLOWS)).bench_local(|| {
        time_us += each_us;
        for slot in 0..FLOWS {
            let report = RawReport {
                program: ProgramId::new(0, 0),
                time_us,
                cwnd: 144_800 + u64::from(slot),
                rate: 0,
                fields: &fields,
            };
            plane.on_event(
                Event::Reported {
                    flow: FlowId {
                        slot,
                        generation: 0,
                    },
                    report,
                },
                &mut sink,
            );
        }
    });
    assert_eq!(plane.drain_notices().count(), 0);
}

#[divan::bench]
fn trivial(bencher: divan::Bencher<'_, '_>) {
    let mut plane = Plane::new();
    plane.add(Trivial::new).unwrap();
    reports(bencher, plane, 20_000);
}

#[divan::bench(args = [
    "constant", "copa", "cubic", "ledbatpp", "nimbus", "reno", "sprout", "vivace",
])]
fn algorithm(bencher: divan::Bencher<'_, '_>, spec: &str) {
    let mut plane = Plane::new();
    let choice = fairwater_algorithms::by_spec(spec).unwrap();
    plane.add(|programs| choice.build(programs)).unwrap();
    reports(bencher, plane, 20_000);
}

/// A round is 10 ms of 64 flows, so its mean over 10 ms is the share of one core that the algorithm
/// takes. Nimbus computes 64 spectra in each tenth round.
#[divan::bench(args = ["nimbus", "nimbus:delay=copa"], sample_count = 3000, sample_size = 1)]
fn flows_at_10_ms(bencher: divan::Bencher<'_, '_>, spec: &str) {
    let mut plane = Plane::new();
    let choice = fairwater_algorithms::by_spec(spec).unwrap();
    plane.add(|programs| choice.build(programs)).unwrap();
    reports(bencher, plane, 10_000);
}
