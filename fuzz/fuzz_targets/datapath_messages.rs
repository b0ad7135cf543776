//! Whatever one peer says, in whatever order, another peer's flow goes on as if the first were
//! not there: a twin of the datapath, which has the good peer alone, is asked the same.
//!
//! The first byte chooses the bad peer's dialect; then each step is one byte and its arguments.

#![no_main]

use std::sync::LazyLock;

use fairwater_datapath::{Backend, Config, Datapath, PeerId, Signal, Signals};
use fairwater_fuzz::Input;
use fairwater_lang::{binary, compile};
use fairwater_proto::{Dialect, FlowId, FlowInfo, ToDatapath, Update, Welcome};
use libfuzzer_sys::fuzz_target;

static PROGRAMS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let sources = [
        "(def (Report (volatile acked 0)) (step 1)) (when true
            (:= Report.acked (+ Report.acked Ack.bytes_acked))
            (:= Cwnd (+ Cwnd step)) (report))",
        "(def (Report (n 0)) (volatile c 1)) (when Flow.was_timeout (:= Cwnd 0))
            (when (> Micros 100) (:= Rate (* c Ack.bytes_acked)) (report) (reset))",
    ];
    let programs = sources.map(|source| compile("fuzz.ccp", source).unwrap().program);
    programs.iter().map(binary::encode).collect()
});

fn signals(input: &mut Input<'_>, now_us: u64) -> Signals {
    let mut signals = Signals::default();
    for _ in 0..input.u8() % 4 {
        signals[Signal::ALL[usize::from(input.u8()) % Signal::COUNT]] = input.number();
    }
    signals[Signal::Now] = now_us;
    for signal in [Signal::WasTimeout, Signal::AppLimited, Signal::Undo] {
        signals[signal] %= 2;
    }
    signals
}

fn config() -> Config {
    Config {
        backend: Backend::Interpreter,
        silence_us: 10_000,
        max_flows: 8,
        max_programs: 4,
        queue_bytes: 2048,
        ..Config::default()
    }
}

fn info() -> FlowInfo {
    FlowInfo {
        local: ([10, 0, 0, 1], 1).into(),
        remote: ([10, 0, 0, 2], 2).into(),
        mss: 1000,
        cwnd: 10_000,
        srtt_us: 0,
        now_us: 0,
        tag: 0, ..FlowInfo::default() }
}

fn send(datapath: &mut Datapath, peer: PeerId, message: &ToDatapath<'_>, now_us: u64) {
    let mut packet = Vec::new();
    if Dialect::Own
        .encode_to_datapath(message, &mut packet)
        .is_ok()
    {
        datapath.on_message(peer, &packet, now_us);
    }
}

/// A datapath with the good peer and its flow, which runs a program.
fn good() -> (Datapath, PeerId, FlowId) {
    let mut datapath = Datapath::new(config());
    let peer = datapath.add_peer(Dialect::Own, 0);
    welcome(&mut datapath, peer, 0);
    let install = ToDatapath::Install { idle_restart: true,
        program: 1,
        body: &PROGRAMS[0],
    };
    send(&mut datapath, peer, &install, 0);
    let flow = datapath.start(peer, "good", &info()).unwrap();
    while datapath.poll_transmit(1400).is_some() {}
    send(&mut datapath, peer, &command(flow, Some(1), &[]), 0);
    (datapath, peer, flow)
}

fn welcome(datapath: &mut Datapath, peer: PeerId, now_us: u64) {
    let welcome = Welcome {
        instance: 1,
        alive_us: 1000,
    };
    send(datapath, peer, &ToDatapath::Welcome(welcome), now_us);
}

fn command(flow: FlowId, switch: Option<u32>, updates: &[Update]) -> ToDatapath<'_> {
    ToDatapath::Command {
        flow,
        switch,
        cwnd: None,
        rate: None,
        updates: updates.into(),
        withdraw: false,
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let dialect = match input.u8() % 2 {
        0 => Dialect::Own,
        _ => Dialect::Ccp,
    };
    let (mut alone, peer, flow) = good();
    let (mut shared, _, _) = good();
    let mut bad = shared.add_peer(dialect, 0);
    let mut now_us = 0;
    let mut flows = Vec::new();
    while !input.0.is_empty() {
        match input.u8() % 12 {
            // Anything.
            0 | 1 => {
                let n = usize::from(input.u8()).min(input.0.len());
                let (packet, rest) = input.0.split_at(n);
                shared.on_message(bad, packet, now_us);
                input.0 = rest;
            }
            // Something that means more.
            2 => {
                let message = ToDatapath::Install { idle_restart: true,
                    program: u32::from(input.u8() % 8),
                    body: &PROGRAMS[usize::from(input.u8()) % PROGRAMS.len()],
                };
                send(&mut shared, bad, &message, now_us);
            }
            3 => {
                let flow = FlowId {
                    slot: u32::from(input.u8() % 10),
                    generation: u32::from(input.u8() % 4),
                };
                let updates = [Update {
                    variable: u16::from(input.u8() % 5),
                    value: input.number(),
                }];
                let message = ToDatapath::Command {
                    flow,
                    switch: input.option().map(|number| number as u32),
                    cwnd: input.option(),
                    rate: input.option(),
                    updates: updates[..usize::from(input.u8() % 2)].into(),
                    withdraw: input.u8() == 1,
                };
                let mut packet = Vec::new();
                if dialect.encode_to_datapath(&message, &mut packet).is_ok() {
                    shared.on_message(bad, &packet, now_us);
                }
            }
            4 => {
                let message = match input.u8() % 2 {
                    0 => ToDatapath::Uninstall {
                        program: u32::from(input.u8() % 8),
                    },
                    _ => ToDatapath::Welcome(Welcome {
                        instance: u64::from(input.u8() % 4),
                        alive_us: input.number() as u32,
                    }),
                };
                send(&mut shared, bad, &message, now_us);
            }
            5 => flows.extend(shared.start(bad, "bad", &info())),
            6 if !flows.is_empty() => {
                let at = usize::from(input.u8()) % flows.len();
                assert!(shared.close(flows.swap_remove(at)).is_ok());
            }
            7 if !flows.is_empty() => {
                let flow = flows[usize::from(input.u8()) % flows.len()];
                let controls = shared.invoke(flow, &signals(&mut input, now_us)).unwrap();
                assert!(controls.is_none_or(|controls| controls.cwnd > 0));
            }
            8 => {
                now_us += input.number() % 20_000;
                alone.tick(now_us);
                shared.tick(now_us);
            }
            9 => {
                while let Some((to, packet)) = shared.poll_transmit(4096) {
                    let spoken = if to == bad { dialect } else { Dialect::Own };
                    assert!(spoken.to_plane(packet).all(|message| message.is_ok()));
                }
                while alone.poll_transmit(4096).is_some() {}
            }
            10 => match input.u8() % 4 {
                0 => {
                    shared.remove_peer(bad);
                    bad = shared.add_peer(dialect, now_us);
                }
                1 => shared.reset_peer(bad, now_us),
                _ => {
                    welcome(&mut alone, peer, now_us);
                    welcome(&mut shared, peer, now_us);
                }
            },
            // The good flow.
            11 => {
                let signals = signals(&mut input, now_us);
                let updates = [Update {
                    variable: 1,
                    value: input.number(),
                }];
                for datapath in [&mut alone, &mut shared] {
                    send(datapath, peer, &command(flow, None, &updates), now_us);
                }
                assert_eq!(alone.invoke(flow, &signals), shared.invoke(flow, &signals));
            }
            _ => {}
        }
        assert_eq!(alone.flow(flow), shared.flow(flow));
    }
});
