//! A service with one algorithm, and a peer's side of the conversation.

use fairwater_plane::{
    Algorithm, AlgorithmError, Control, Field, Flow, FlowId, FlowInfo, Plane, Programs, Report, Var,
};
use fairwater_proto::{Capabilities, Dialect, Hello, ToDatapath, ToPlane};
use fairwater_service::{Config, PeerId, Service};

pub(crate) const INSTANCE: u64 = 77;

const PROGRAM: &str = "
(def (Report (volatile acked 0)) (gain 1))
(when true
  (:= Report.acked (+ Report.acked (* gain Ack.bytes_acked)))
  (report))";

const NEEDS_LOSS: &str = "
(def (Report (lost 0)))
(when true (:= Report.lost Ack.lost_pkts_sample) (report))";

/// Answers a report of `n` bytes with a window of `n` bytes and a gain of `n`; says nothing to
/// a report of 0.
pub(crate) struct Echo {
    name: &'static str,
    acked: Field,
    gain: Var,
}

impl Echo {
    pub(crate) fn build(
        name: &'static str,
    ) -> impl FnOnce(&mut Programs) -> Result<Self, AlgorithmError> {
        move |programs| {
            let program = programs.add("count", PROGRAM)?;
            Ok(Self {
                name,
                acked: program.field("acked")?,
                gain: program.variable("gain")?,
            })
        }
    }
}

impl Echo {
    pub(crate) fn acked(&self) -> Field {
        self.acked
    }
}

impl Algorithm for Echo {
    fn name(&self) -> &str {
        self.name
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        control.set_cwnd(info.cwnd);
        Box::new(EchoFlow(self.acked, self.gain))
    }
}

struct EchoFlow(Field, Var);

impl Flow for EchoFlow {
    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let acked = report[self.0];
        if acked > 0 {
            control.set_cwnd(acked);
            control.update(self.1, acked);
        }
    }
}

/// An algorithm whose program reads a signal that not everybody has.
struct Lossy;

impl Algorithm for Lossy {
    fn name(&self) -> &str {
        "lossy"
    }

    fn new_flow(&self, _: &FlowInfo, _: &mut Control) -> Box<dyn Flow> {
        Box::new(Silent)
    }
}

struct Silent;

impl Flow for Silent {
    fn on_report(&mut self, _: &Report, _: &mut Control) {}
}

/// A service that hosts `echo`, `second` and `lossy`.
pub(crate) fn service(config: Config) -> Service {
    let mut plane = Plane::new();
    plane.add(Echo::build("echo")).unwrap();
    plane.add(Echo::build("second")).unwrap();
    plane
        .add(|programs| {
            programs.add("needs_loss", NEEDS_LOSS)?;
            Ok(Lossy)
        })
        .unwrap();
    let config = Config {
        instance: INSTANCE,
        ..config
    };
    Service::new(plane, config)
}

pub(crate) fn hello(instance: u64) -> ToPlane<'static> {
    ToPlane::Hello(Hello {
        name: "test",
        instance,
        capabilities: Capabilities {
            max_programs: 8,
            ..Capabilities::ALL
        },
    })
}

pub(crate) fn info(cwnd: u64) -> FlowInfo {
    FlowInfo {
        local: "[2001:db8::1]:5000".parse().unwrap(),
        remote: "192.0.2.1:80".parse().unwrap(),
        mss: 1000,
        cwnd,
        srtt_us: 0,
        now_us: 7,
        tag: 0,
        ..FlowInfo::default()
    }
}

pub(crate) fn created(flow: FlowId, algorithm: &str) -> ToPlane<'_> {
    ToPlane::Created {
        flow,
        algorithm,
        info: info(10_000),
    }
}

pub(crate) fn reported(flow: FlowId, program: u32, fields: &[u64]) -> ToPlane<'_> {
    ToPlane::Reported {
        flow,
        program,
        time_us: Some(1_000),
        cwnd: 10_000,
        rate: 0,
        fields: fields.into(),
    }
}

pub(crate) fn id(slot: u32, generation: u32) -> FlowId {
    FlowId { slot, generation }
}

pub(crate) fn bytes(message: &ToPlane<'_>) -> Vec<u8> {
    let mut packet = Vec::new();
    Dialect::Own.encode_to_plane(message, &mut packet).unwrap();
    packet
}

/// What a peer was sent, without what cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Received {
    Welcome,
    Install(u32),
    Command {
        flow: FlowId,
        switch: Option<u32>,
        cwnd: Option<u64>,
        updates: Vec<(u16, u64)>,
        withdraw: bool,
    },
    HandOver {
        flow: FlowId,
        algorithm: String,
    },
    Refused(fairwater_proto::Refusal),
}

pub(crate) trait Drive {
    fn say(&mut self, peer: PeerId, message: &ToPlane<'_>);
    /// All that is to be sent, with whom to.
    fn receive(&mut self) -> Vec<(PeerId, Received)>;
}

impl Drive for Service {
    fn say(&mut self, peer: PeerId, message: &ToPlane<'_>) {
        self.on_packet(peer, &bytes(message), 1);
    }

    fn receive(&mut self) -> Vec<(PeerId, Received)> {
        let mut all = Vec::new();
        while let Some((peer, packet)) = self.poll_transmit() {
            for message in Dialect::Own.to_datapath(packet) {
                all.push((peer, received(&message.unwrap())));
            }
        }
        all
    }
}

fn received(message: &ToDatapath<'_>) -> Received {
    match *message {
        ToDatapath::Welcome(welcome) => {
            assert_eq!(welcome.instance, INSTANCE);
            Received::Welcome
        }
        ToDatapath::Install { program, body, .. } => {
            fairwater_lang::binary::decode(body).unwrap();
            Received::Install(program)
        }
        ToDatapath::Command {
            flow,
            switch,
            cwnd,
            updates,
            withdraw,
            ..
        } => Received::Command {
            flow,
            switch,
            cwnd,
            updates: updates.iter().map(|u| (u.variable, u.value)).collect(),
            withdraw,
        },
        ToDatapath::HandOver { flow, algorithm } => Received::HandOver {
            flow,
            algorithm: algorithm.to_owned(),
        },
        ToDatapath::Refused(refusal) => Received::Refused(refusal),
        ToDatapath::Uninstall { .. } => panic!("nothing is uninstalled"),
    }
}

/// A peer that said Hello and received the Welcome.
pub(crate) fn introduced_peer(service: &mut Service) -> PeerId {
    let peer = service.connect(0).unwrap();
    service.say(peer, &hello(1));
    assert_eq!(service.receive(), [(peer, Received::Welcome)]);
    peer
}

/// Starts a flow, and returns the number of its program.
pub(crate) fn start(service: &mut Service, peer: PeerId, flow: FlowId, algorithm: &str) -> u32 {
    service.say(peer, &created(flow, algorithm));
    let received = service.receive();
    let switch = received.iter().find_map(|(to, message)| match message {
        Received::Command {
            flow: of, switch, ..
        } if *to == peer && *of == flow => *switch,
        _ => None,
    });
    switch.unwrap()
}
