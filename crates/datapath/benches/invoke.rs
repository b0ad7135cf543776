//! What an ACK costs: the whole of `Datapath::invoke`, for a flow that runs a program.

use divan::{Bencher, black_box};
use fairwater_datapath::{Backend, Config, Datapath};
use fairwater_lang::{Signal, Signals, binary, compile};
use fairwater_proto::{Dialect, FlowId, FlowInfo, ToDatapath, Updates, Welcome};

/// Programs by name. `fairwater-bench datapath` runs the same ones.
const PROGRAMS: [(&str, &str); 3] = [
    (
        "empty",
        include_str!("../../exec/benches/programs/empty.ccp"),
    ),
    (
        "figure 2",
        include_str!("../../exec/benches/programs/figure_2.ccp"),
    ),
    (
        "BBR-like",
        include_str!("../../exec/benches/programs/bbr.ccp"),
    ),
];
const NAMES: [&str; 3] = [PROGRAMS[0].0, PROGRAMS[1].0, PROGRAMS[2].0];

fn main() {
    divan::main();
}

/// A datapath with so many flows that run the program.
fn running(name: &str, backend: Backend, flows: u32) -> (Datapath, Vec<FlowId>) {
    let source = PROGRAMS.iter().find(|(n, _)| *n == name);
    let source = source.map_or("", |(_, source)| *source);
    let body = match compile("bench.ccp", source) {
        Ok(compiled) => binary::encode(&compiled.program),
        Err(errors) => panic!("{}", errors.render(false)),
    };
    let mut datapath = Datapath::new(Config {
        backend,
        silence_us: u64::MAX,
        ..Config::default()
    });
    let peer = datapath.add_peer(Dialect::Own, 0);
    let send = |datapath: &mut Datapath, message: &ToDatapath<'_>| {
        let mut packet = Vec::new();
        if let Err(error) = Dialect::Own.encode_to_datapath(message, &mut packet) {
            panic!("{error}");
        }
        datapath.on_message(peer, &packet, 0);
    };
    let welcome = Welcome {
        instance: 1,
        alive_us: 0,
    };
    send(&mut datapath, &ToDatapath::Welcome(welcome));
    let install = ToDatapath::Install {
        idle_restart: true,
        program: 1,
        body: &body,
    };
    send(&mut datapath, &install);
    let info = FlowInfo {
        local: ([10, 0, 0, 1], 1).into(),
        remote: ([10, 0, 0, 2], 443).into(),
        mss: 1448,
        cwnd: 14_480,
        srtt_us: 0,
        now_us: 0,
        tag: 0,
        ..FlowInfo::default()
    };
    let flows = (0..flows)
        .map(|_| match datapath.start(peer, "bench", &info) {
            Ok(flow) => flow,
            Err(error) => panic!("{error}"),
        })
        .collect::<Vec<_>>();
    while datapath.poll_transmit(1 << 16).is_some() {}
    for &flow in &flows {
        let command = ToDatapath::Command {
            flow,
            switch: Some(1),
            cwnd: None,
            rate: None,
            updates: Updates::NONE,
            withdraw: false,
        };
        send(&mut datapath, &command);
    }
    (datapath, flows)
}

/// ACKs of 2 segments, one each 100 µs; one in 1,000 tells of a loss.
struct Acks {
    signals: Signals,
    count: u64,
}

impl Acks {
    fn new() -> Self {
        let mut signals = Signals::default();
        for (signal, value) in [
            (Signal::BytesAcked, 2896),
            (Signal::PacketsAcked, 2),
            (Signal::BytesInFlight, 14_480),
            (Signal::PacketsInFlight, 10),
            (Signal::RateIncoming, 5_900_000),
            (Signal::RateOutgoing, 6_000_000),
            (Signal::RttSampleUs, 20_500),
        ] {
            signals[signal] = value;
        }
        Self { signals, count: 0 }
    }

    #[inline]
    fn next(&mut self) -> &Signals {
        self.count += 1;
        self.signals[Signal::Now] = 100 * self.count;
        self.signals[Signal::LostPkts] = u64::from(self.count.is_multiple_of(1000));
        &self.signals
    }
}

/// So many ACKs are timed at once: one is shorter than a clock can tell.
const BATCH: usize = 10_000;

fn acks(bencher: Bencher, name: &str, backend: Backend, flows: u32) {
    let (mut datapath, flows) = running(name, backend, flows);
    let mut acks = Acks::new();
    let mut at = 0;
    bencher
        .counter(divan::counter::ItemsCount::new(BATCH))
        .bench_local(|| {
            for _ in 0..BATCH {
                let controls = datapath.invoke(flows[at], black_box(acks.next()));
                let _ = black_box(controls);
                at = (at + 1) % flows.len();
            }
            while black_box(datapath.poll_transmit(1 << 16)).is_some() {}
        });
}

#[cfg(feature = "native")]
#[divan::bench(args = NAMES)]
fn native(bencher: Bencher, name: &str) {
    acks(bencher, name, Backend::Native, 1);
}

#[cfg(feature = "native")]
#[divan::bench(args = NAMES)]
fn native_100_000_flows(bencher: Bencher, name: &str) {
    acks(bencher, name, Backend::Native, 100_000);
}

#[divan::bench(args = NAMES)]
fn interpreter(bencher: Bencher, name: &str) {
    acks(bencher, name, Backend::Interpreter, 1);
}
