//! A plane of few words.

use fairwater_algorithms::{Copa, CopaConfig, CopaMode};
use fairwater_bundle::datapath_config;
use fairwater_datapath::{Config, Datapath, PeerId};
use fairwater_lang::{binary, compile};
use fairwater_proto::{Dialect, FlowInfo, ToDatapath, ToPlane, Updates, Welcome};
use fairwater_service::Service;

const ALIVE_US: u32 = 100_000;

/// A rate that stands still, bytes/s, with a window that does not matter.
pub(crate) fn constant_rate(rate: u64) -> String {
    format!(
        "(def (Report (volatile acked 0)) (r {rate}))
        (when true (:= Rate r) (:= Cwnd 1000000000) (fallthrough)) (when false (report))"
    )
}

/// A window that stands still, bytes.
pub(crate) fn constant_window(window: u64) -> String {
    format!(
        "(def (Report (volatile acked 0)) (w {window}))
        (when true (:= Cwnd w) (fallthrough)) (when false (report))"
    )
}

/// Starts where the flow is, and holds the queue of the path at about 3 ms: the window is what was received in the
/// minimum RTT and 3 ms.
pub(crate) const SHORT_QUEUE: &str = "(def (Report (volatile acked 0)) (low +infinity))
    (when (< Flow.rtt_sample_us low) (:= low Flow.rtt_sample_us) (fallthrough))
    (when (> Flow.rate_incoming 0)
      (:= Cwnd (+ 3000 (/ (* Flow.rate_incoming (+ low 3000)) 1000000))) (fallthrough))
    (when false (report))";

pub(crate) struct Plane {
    pub(crate) peer: PeerId,
    /// Whether it answers to new flows.
    pub(crate) is_alive: bool,
    pub(crate) flows: u64,
    /// What was told of new flows.
    pub(crate) started: Vec<FlowInfo>,
    /// Fields of the reports.
    pub(crate) reports: Vec<Vec<u64>>,
    /// A real plane instead, which runs an algorithm.
    service: Option<(Service, fairwater_service::PeerId)>,
}

impl Plane {
    pub(crate) fn new(program: &str) -> (Self, Datapath) {
        let mut datapath = Datapath::new(Config {
            silence_us: 10 * u64::from(ALIVE_US),
            ..datapath_config()
        });
        let peer = datapath.add_peer(Dialect::Own, 0);
        let body = binary::encode(&compile("test", program).unwrap().program);
        for message in [
            welcome(),
            ToDatapath::Install {
                idle_restart: true,
                program: 1,
                body: &body,
            },
        ] {
            tell(&mut datapath, peer, 0, &message);
        }
        assert_eq!(
            datapath.statistics().programs,
            1,
            "{:?}",
            datapath.statistics()
        );
        let plane = Self {
            peer,
            is_alive: true,
            flows: 0,
            started: Vec::new(),
            reports: Vec::new(),
            service: None,
        };
        (plane, datapath)
    }

    /// The plane itself, with Copa in its default mode.
    pub(crate) fn copa() -> (Self, Datapath) {
        let mut hosted = fairwater_plane::Plane::new();
        let config = CopaConfig {
            mode: CopaMode::Default,
            ..CopaConfig::default()
        };
        hosted.add(|programs| Copa::new(programs, config)).unwrap();
        let config = fairwater_service::Config {
            alive_us: ALIVE_US,
            ..fairwater_service::Config::default()
        };
        let mut service = Service::new(hosted, config);
        let at_service = service.connect(0).unwrap();
        let mut datapath = Datapath::new(datapath_config());
        let plane = Self {
            peer: datapath.add_peer(Dialect::Own, 0),
            is_alive: true,
            flows: 0,
            started: Vec::new(),
            reports: Vec::new(),
            service: Some((service, at_service)),
        };
        (plane, datapath)
    }

    pub(crate) fn serve(&mut self, datapath: &mut Datapath, now_us: u64) {
        if let Some((service, peer)) = &mut self.service {
            while let Some((_, packet)) = datapath.poll_transmit(1 << 16) {
                service.on_packet(*peer, packet, now_us);
            }
            service.tick(now_us);
            while let Some((_, packet)) = service.poll_transmit() {
                datapath.on_message(self.peer, packet, now_us);
            }
            return;
        }
        let mut begun = Vec::new();
        while let Some((_, packet)) = datapath.poll_transmit(1400) {
            for message in Dialect::Own.to_plane(packet) {
                match message.unwrap() {
                    ToPlane::Created { flow, info, .. } => {
                        begun.push(flow);
                        self.started.push(info);
                    }
                    ToPlane::Resumed { flow, .. } => begun.push(flow),
                    ToPlane::Reported { fields, .. } => {
                        self.reports.push(fields.iter().collect());
                    }
                    _ => {}
                }
            }
        }
        self.flows += begun.len() as u64;
        if !self.is_alive {
            return;
        }
        tell(datapath, self.peer, now_us, &welcome());
        for flow in begun {
            let command = ToDatapath::Command {
                flow,
                switch: Some(1),
                cwnd: None,
                rate: None,
                updates: Updates::NONE,
                withdraw: false,
            };
            tell(datapath, self.peer, now_us, &command);
        }
    }
}

fn welcome() -> ToDatapath<'static> {
    ToDatapath::Welcome(Welcome {
        instance: 1,
        alive_us: ALIVE_US,
    })
}

fn tell(datapath: &mut Datapath, peer: PeerId, now_us: u64, message: &ToDatapath<'_>) {
    let mut packet = Vec::new();
    Dialect::Own
        .encode_to_datapath(message, &mut packet)
        .unwrap();
    datapath.on_message(peer, &packet, now_us);
}
