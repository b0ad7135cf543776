//! A plane of few words on the other side of a datapath.

use std::net::SocketAddr;

use fairwater_datapath::{Backend, Config, Controls, Datapath, PeerId};
use fairwater_lang::{Signal, Signals, binary, compile};
use fairwater_proto::{Dialect, FlowId, FlowInfo, ToDatapath, ToPlane, Update, Welcome};

pub(crate) const MSS: u64 = 1000;

/// Counts what is acknowledged, grows cwnd by it and reports at each tenth ACK.
pub(crate) const COUNT: &str = "(def (Report (volatile acked 0) (volatile acks 0)) (step 1))
    (when true
      (:= Report.acked (+ Report.acked Ack.bytes_acked))
      (:= Report.acks (+ Report.acks step))
      (:= Cwnd (+ Cwnd Ack.bytes_acked))
      (fallthrough))
    (when (== Report.acks 10) (report))";

pub(crate) fn config() -> Config {
    Config {
        silence_us: 100_000,
        backend: Backend::Interpreter,
        ..Config::default()
    }
}

pub(crate) fn info(n: u16) -> FlowInfo {
    FlowInfo {
        local: SocketAddr::from(([10, 0, 0, 1], n)),
        remote: SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 443)),
        mss: MSS as u32,
        cwnd: 10 * MSS,
        srtt_us: 0,
        now_us: 0,
        tag: 0,
        ..FlowInfo::default()
    }
}

/// The signals of an ACK of `acked` bytes.
pub(crate) fn ack(now_us: u64, acked: u64) -> Signals {
    let mut signals = Signals::default();
    signals[Signal::Now] = now_us;
    signals[Signal::BytesAcked] = acked;
    signals[Signal::PacketsAcked] = acked.div_ceil(MSS);
    signals[Signal::RttSampleUs] = 20_000;
    signals
}

pub(crate) fn cwnd(controls: Option<Controls>) -> Option<u64> {
    controls.map(|c| c.cwnd)
}

/// A datapath with one plane that speaks our dialect.
pub(crate) struct Harness {
    pub(crate) datapath: Datapath,
    pub(crate) peer: PeerId,
    pub(crate) now_us: u64,
}

impl Harness {
    pub(crate) fn new(config: Config) -> Self {
        let mut datapath = Datapath::new(config);
        let peer = datapath.add_peer(Dialect::Own, 0);
        Self {
            datapath,
            peer,
            now_us: 0,
        }
    }

    /// Greeted, with [`COUNT`] as program 1.
    pub(crate) fn with_program() -> Self {
        let mut harness = Self::new(config());
        harness.welcome(7);
        harness.install(1, COUNT);
        harness
    }

    pub(crate) fn send(&mut self, message: &ToDatapath<'_>) {
        let mut packet = Vec::new();
        Dialect::Own
            .encode_to_datapath(message, &mut packet)
            .unwrap();
        self.datapath.on_message(self.peer, &packet, self.now_us);
    }

    pub(crate) fn welcome(&mut self, instance: u64) {
        self.send(&ToDatapath::Welcome(Welcome {
            instance,
            alive_us: 10_000,
        }));
    }

    pub(crate) fn install(&mut self, program: u32, source: &str) {
        let body = binary::encode(&compile("test", source).unwrap().program);
        self.send(&ToDatapath::Install {
            idle_restart: true,
            program,
            body: &body,
        });
    }

    pub(crate) fn command(&mut self, flow: FlowId, switch: Option<u32>, updates: &[(u16, u64)]) {
        let updates: Vec<_> = updates
            .iter()
            .map(|&(variable, value)| Update { variable, value })
            .collect();
        self.send(&ToDatapath::Command {
            flow,
            switch,
            cwnd: None,
            rate: None,
            updates: updates[..].into(),
            withdraw: false,
        });
    }

    pub(crate) fn controls(&mut self, flow: FlowId, cwnd: Option<u64>, rate: Option<u64>) {
        self.send(&ToDatapath::Command {
            flow,
            switch: None,
            cwnd,
            rate,
            updates: (&[]).into(),
            withdraw: false,
        });
    }

    pub(crate) fn start(&mut self) -> FlowId {
        self.datapath.start(self.peer, "reno", &info(1)).unwrap()
    }

    /// A flow that runs program 1.
    pub(crate) fn running(&mut self) -> FlowId {
        let flow = self.start();
        self.drain();
        self.command(flow, Some(1), &[]);
        self.ack(flow, 0);
        flow
    }

    /// An ACK, 10 ms after the last.
    pub(crate) fn ack(&mut self, flow: FlowId, acked: u64) -> Option<Controls> {
        self.now_us += 10;
        self.datapath
            .invoke(flow, &ack(self.now_us, acked))
            .unwrap()
    }

    /// Everything that the datapath has to send, as text.
    pub(crate) fn drain(&mut self) -> Vec<String> {
        let mut messages = Vec::new();
        while let Some((_, packet)) = self.datapath.poll_transmit(1400) {
            assert!(packet.len() <= 1400);
            messages.extend(
                Dialect::Own
                    .to_plane(packet)
                    .map(|message| tell(&message.unwrap())),
            );
        }
        messages
    }
}

/// One message in few words.
pub(crate) fn tell(message: &ToPlane<'_>) -> String {
    let name = |flow: &FlowId| format!("{}.{}", flow.slot, flow.generation);
    match message {
        ToPlane::Hello(hello) => format!("hello {}", hello.name),
        ToPlane::Created {
            flow, algorithm, ..
        } => format!("created {} {algorithm}", name(flow)),
        ToPlane::Resumed {
            flow,
            algorithm,
            info,
        } => format!("resumed {} {algorithm} cwnd={}", name(flow), info.cwnd),
        ToPlane::Reported {
            flow,
            program,
            fields,
            cwnd,
            ..
        } => format!("reported {} {program} {fields:?} cwnd={cwnd}", name(flow)),
        ToPlane::MssChanged { flow, mss } => format!("mss {} {mss}", name(flow)),
        ToPlane::Faulted { flow, fault } => format!("faulted {} {fault}", name(flow)),
        ToPlane::Closed { flow } => format!("closed {}", name(flow)),
        ToPlane::Refused(refusal) => format!("refused {:?}", refusal.reason),
    }
}
