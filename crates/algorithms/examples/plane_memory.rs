//! What an idle flow costs the plane, bytes: everything that is allocated for 100,000 flows of ten
//! datapaths, each of which has reported and been answered, divided by their number.
//!
//! ```sh
//! cargo run --release -p fairwater-algorithms --example plane_memory
//! ```

#![expect(clippy::print_stdout, reason = "what it is for")]

#[path = "../../datapath/examples/memory/counting.rs"]
mod counting;

use std::error::Error;

use fairwater_algorithms::by_spec;
use fairwater_plane::{FlowId, FlowInfo, Plane};
use fairwater_proto::{Capabilities, Dialect, EncodeError, Hello, ToDatapath, ToPlane};
use fairwater_service::{Config, PeerId, Service};

use counting::allocated;

const PEERS: u32 = 10;
const FLOWS: u32 = 100_000;
const REPORTS: u64 = 4;

fn main() -> Result<(), Box<dyn Error>> {
    for name in ["reno", "cubic"] {
        println!(
            "{FLOWS} flows of {PEERS} datapaths under {name}: {} bytes a flow",
            per_flow(name)?
        );
    }
    Ok(())
}

fn per_flow(name: &str) -> Result<usize, Box<dyn Error>> {
    let algorithm = by_spec(name)?;
    let mut plane = Plane::new();
    plane.add(|programs| algorithm.build(programs))?;
    let before = allocated();

    let mut service = Service::new(plane, Config::default());
    let mut peers = Vec::new();
    for instance in 1..=u64::from(PEERS) {
        let peer = service.connect(0)?;
        let hello = Hello {
            name: "transport",
            instance,
            capabilities: Capabilities {
                max_programs: 8,
                ..Capabilities::ALL
            },
        };
        say(&mut service, peer, &ToPlane::Hello(hello))?;
        peers.push(peer);
    }
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
    let flows = || {
        (0..FLOWS / PEERS).map(|slot| FlowId {
            slot,
            generation: 1,
        })
    };
    for flow in flows() {
        for peer in &peers {
            let created = ToPlane::Created {
                flow,
                algorithm: name,
                info: info.clone(),
            };
            say(&mut service, *peer, &created)?;
        }
    }
    let program = drain(&mut service).ok_or("no program was installed")?;
    for round in 1..=REPORTS {
        let fields = report(&service, round)?;
        for flow in flows() {
            for peer in &peers {
                let reported = ToPlane::Reported {
                    flow,
                    program,
                    time_us: Some(20_000 * round),
                    cwnd: 14_480 * round,
                    rate: 0,
                    fields: fields.as_slice().into(),
                };
                say(&mut service, *peer, &reported)?;
            }
        }
        drain(&mut service);
    }

    let allocated = allocated() - before;
    let [hosted] = service.plane().algorithms() else {
        return Err("not one algorithm".into());
    };
    let counts = hosted.statistics();
    let all = u64::from(FLOWS);
    if (counts.flows, counts.reports) != (all, all * REPORTS) {
        return Err(format!("flows were lost: {counts:?}").into());
    }
    Ok(allocated / FLOWS as usize)
}

/// A report of a flow that grows, with a loss in every other one.
fn report(service: &Service, round: u64) -> Result<Vec<u64>, Box<dyn Error>> {
    let hosted = service.plane().algorithms().first().ok_or("none")?;
    let program = hosted.programs().first().ok_or("no program")?;
    let variables = program
        .program()
        .variables
        .iter()
        .take(program.report_len());
    let value = |name: &str| match name {
        "acked" => 14_480,
        "congested" => round % 2,
        "before" | "ssthresh" => 14_480 * round,
        "rtt_us" | "min_rtt_us" => 20_000,
        _ => 0,
    };
    Ok(variables.map(|v| value(&v.name)).collect())
}

fn say(service: &mut Service, peer: PeerId, message: &ToPlane<'_>) -> Result<(), EncodeError> {
    let mut packet = Vec::new();
    Dialect::Own.encode_to_plane(message, &mut packet)?;
    service.on_packet(peer, &packet, 0);
    Ok(())
}

/// Takes all that is to be sent; yields the number of a program that was installed.
fn drain(service: &mut Service) -> Option<u32> {
    let mut installed = None;
    while let Some((_, packet)) = service.poll_transmit() {
        for message in Dialect::Own.to_datapath(packet) {
            if let Ok(ToDatapath::Install { program, .. }) = message {
                installed = Some(program);
            }
        }
    }
    installed
}
