//! Direct datapaths: a toy one in a server's loop, and several kinds in one aggregate.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use fairwater_plane::*;
use fairwater_proto::ToPlane;
use fairwater_service::{Config, DirectDatapath, Endpoints, FlowMeasures, Port, Server, Service};

use crate::support::*;

/// Takes commands by flow.
#[derive(Debug, Default)]
pub(crate) struct Commands(pub(crate) Vec<(FlowId, Command)>);

impl CommandSink for Commands {
    fn command(&mut self, flow: FlowId, command: &Command) {
        self.0.push((flow, command.clone()));
    }
}

/// A datapath whose flows each acknowledge 500 bytes more at each turn.
#[derive(Debug, Default)]
pub(crate) struct Toy {
    flows: HashMap<FlowId, ToyFlow>,
    hand_overs: Vec<(FlowId, usize)>,
}

#[derive(Debug, Default)]
struct ToyFlow {
    cwnd: u64,
    program: Option<ProgramId>,
    acked: u64,
}

impl CommandSink for Toy {
    fn command(&mut self, flow: FlowId, command: &Command) {
        let state = self.flows.entry(flow).or_default();
        state.program = command.switch.or(state.program);
        state.cwnd = command.cwnd.unwrap_or(state.cwnd);
        let to = command.hand_over.map(|to| (flow, to as usize));
        self.hand_overs.extend(to);
    }
}

impl DirectDatapath for Toy {
    fn name(&self) -> &str {
        "toy"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn heartbeat(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn measure(&self, flow: FlowId) -> Option<FlowMeasures> {
        let state = self.flows.get(&flow)?;
        let info = info(state.cwnd);
        Some(FlowMeasures {
            local: info.local,
            remote: info.remote,
            tag: info.tag,
            cgroup: None,
            cwnd_bytes: state.cwnd,
            rate_bytes_per_s: 0,
            srtt_us: info.srtt_us,
            fallback: false,
            counts: None,
        })
    }

    fn turn(&mut self, port: &mut Port<'_>) {
        if self.flows.is_empty() {
            let (flow, info) = (id(4, 9), info(10_000));
            port.event(
                Event::Created {
                    flow,
                    algorithm: 0,
                    info: &info,
                },
                self,
            );
        }
        for (flow, algorithm) in std::mem::take(&mut self.hand_overs) {
            let info = info(self.flows[&flow].cwnd);
            port.event(
                Event::Resumed {
                    flow,
                    algorithm,
                    info: &info,
                },
                self,
            );
        }
        let flows: Vec<_> = self.flows.keys().copied().collect();
        for flow in flows {
            let Some(state) = self.flows.get_mut(&flow) else {
                continue;
            };
            state.acked += 500;
            let Some(program) = state.program else {
                continue;
            };
            let (cwnd, fields) = (state.cwnd, [state.acked]);
            let report = RawReport {
                program,
                time_us: 1,
                cwnd,
                rate: 0,
                fields: &fields,
            };
            port.event(Event::Reported { flow, report }, self);
        }
    }

    fn command(&mut self, flow: FlowId, command: &Command) {
        CommandSink::command(self, flow, command);
    }
}

#[test]
fn a_toy_datapath_registers_and_is_driven() {
    let mut plane = Plane::new();
    plane.add(Echo::build("echo")).unwrap();
    plane.add(Echo::build("second")).unwrap();
    let nowhere = Endpoints::default();
    let mut server = Server::bind(plane, Config::default(), &nowhere).unwrap();
    let (toy, refused) = server.add(Toy::default()).unwrap();
    assert_eq!(refused, []);
    let until = |server: &mut Server, what: &dyn Fn(&Toy) -> bool| {
        for _ in 0..10_000 {
            if what(server.datapath(toy).unwrap()) {
                return;
            }
            server.turn(Duration::from_millis(5)).unwrap();
        }
        panic!("it never came");
    };
    // `echo` sets the window to what was acknowledged.
    until(&mut server, &|toy| {
        toy.flows.values().any(|flow| flow.cwnd == 2_000)
    });
    let flow = server.service().flows().next().unwrap();
    server.service_mut().hand_over(flow, 1).unwrap();
    until(&mut server, &|toy| {
        let second = |flow: &ToyFlow| flow.program == Some(ProgramId::new(1, 0));
        toy.flows
            .values()
            .any(|flow| second(flow) && flow.cwnd > 4_000)
    });
    let algorithms = server.service().plane().algorithms();
    assert!(algorithms[1].statistics().reports > 0);
    assert_eq!(server.service().datapaths().next().unwrap().flows, 1);
}

/// Flows of two direct datapaths and of a peer share one aggregate.
#[test]
fn flows_of_all_kinds_of_datapaths_share_an_aggregate() {
    let mut service: Service = crate::aggregates::service();
    let peer = introduced_peer(&mut service);
    let (a, _) = service.register("a", Capabilities::ALL);
    let (b, _) = service.register("b", Capabilities::ALL);
    let begin = |service: &mut Service, datapath| {
        let mut commands = Commands::default();
        let info = info(10_000);
        let event = Event::Created {
            flow: id(0, 1),
            algorithm: 0,
            info: &info,
        };
        service.on_event(datapath, event, &mut commands);
        commands
            .0
            .iter()
            .filter_map(|(_, c)| c.cwnd)
            .collect::<Vec<_>>()
    };
    let waiting = |service: &mut Service, datapath| {
        let commands = std::iter::from_fn(|| service.poll_command(datapath));
        commands.filter_map(|(_, c)| c.cwnd).collect::<Vec<_>>()
    };
    assert_eq!(begin(&mut service, a), [60_000]);
    service.say(peer, &created(id(0, 1), "shared"));
    assert_eq!(waiting(&mut service, a), [30_000]);
    assert_eq!(begin(&mut service, b), [20_000]);
    assert_eq!(waiting(&mut service, a), [20_000]);
    let windows = crate::aggregates::windows(&mut service);
    assert_eq!(windows.last(), Some(&(peer, 0, 20_000)));

    service.unregister(b);
    assert_eq!(waiting(&mut service, a), [30_000]);
    service.say(peer, &ToPlane::Closed { flow: id(0, 1) });
    assert_eq!(waiting(&mut service, a), [60_000]);
    service.unregister(a);
    assert_eq!(service.plane().aggregates().count(), 0);
    assert_eq!(service.statistics().flows, 0);
    assert_eq!(service.plane().statistics(), PlaneStatistics::default());
}
