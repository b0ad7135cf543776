//! What an idle flow costs, bytes: everything that is allocated for 100,000 flows that run a
//! program, divided by their number.
//!
//! ```sh
//! cargo run --release -p fairwater-datapath --example memory
//! ```

#![expect(clippy::print_stdout, reason = "what it is for")]

mod counting;

use std::error::Error;

use fairwater_datapath::{Config, Datapath, Signal, Signals};
use fairwater_lang::{binary, compile};
use fairwater_proto::{Dialect, FlowInfo, ToDatapath, Updates, Welcome};

use counting::allocated;

const FLOWS: u32 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let source = include_str!("../../../exec/benches/programs/bbr.ccp");
    let program = compile("bbr.ccp", source)?.program;
    let before = allocated();

    let mut datapath = Datapath::new(Config::default());
    let plane = datapath.add_peer(Dialect::Own, 0);
    let mut packet = Vec::new();
    let welcome = Welcome {
        instance: 1,
        alive_us: 1_000_000,
    };
    Dialect::Own.encode_to_datapath(&ToDatapath::Welcome(welcome), &mut packet)?;
    let body = binary::encode(&program);
    let install = ToDatapath::Install {
        idle_restart: true,
        program: 1,
        body: &body,
    };
    Dialect::Own.encode_to_datapath(&install, &mut packet)?;
    datapath.on_message(plane, &packet, 0);

    let info = FlowInfo {
        local: "[2001:db8::1]:443".parse()?,
        remote: "[2001:db8::2]:4242".parse()?,
        mss: 1448,
        cwnd: 14_480,
        srtt_us: 0,
        now_us: 0,
        tag: 0,
        ..FlowInfo::default()
    };
    for _ in 0..FLOWS {
        datapath.start(plane, "bbr", &info)?;
    }
    while datapath.poll_transmit(1 << 14).is_some() {}
    let flows: Vec<_> = datapath.flows().collect();
    let mut signals = Signals::default();
    signals[Signal::BytesAcked] = 2896;
    signals[Signal::RttSampleUs] = 20_000;
    for flow in flows {
        packet.clear();
        let switch = ToDatapath::Command {
            flow,
            switch: Some(1),
            cwnd: None,
            rate: None,
            updates: Updates::NONE,
            withdraw: false,
        };
        Dialect::Own.encode_to_datapath(&switch, &mut packet)?;
        datapath.on_message(plane, &packet, 0);
        datapath.invoke(flow, &signals)?;
    }
    while datapath.poll_transmit(1 << 14).is_some() {}

    let allocated = allocated() - before;
    let variables = program.variables.len();
    println!(
        "{FLOWS} flows, {variables} variables each: {} bytes a flow",
        allocated / FLOWS as usize
    );
    Ok(())
}
