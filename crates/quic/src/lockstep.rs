//! A plane within the calls of the controllers: for virtual time.

use fairwater_datapath::{Config, Controls, Datapath, PeerId, Signal, Signals, StartError};
use fairwater_plane::Plane;
use fairwater_proto::link::MAX_PACKET;
use fairwater_proto::{Dialect, FlowId, FlowInfo};
use fairwater_service::Service;

/// A datapath and its plane, which take no time: what an invocation reports is answered before it
/// returns, and the answer is in force at the next ACK. The same calls give the same controls.
#[derive(Debug)]
pub(crate) struct Lockstep {
    datapath: Datapath,
    plane: PeerId,
    service: Service,
    /// `None` would be a service without a place for its only peer.
    peer: Option<fairwater_service::PeerId>,
}

impl Lockstep {
    pub(crate) fn new(config: Config, plane: Plane) -> Self {
        let mut datapath = Datapath::new(Config {
            instance: 1,
            ..config
        });
        let peer = datapath.add_peer(Dialect::Own, 0);
        let mut service = Service::new(plane, fairwater_service::Config::default());
        let mut lockstep = Self {
            datapath,
            plane: peer,
            peer: service.connect(0).ok(),
            service,
        };
        lockstep.exchange(0);
        lockstep
    }

    pub(crate) const fn datapath(&self) -> &Datapath {
        &self.datapath
    }

    pub(crate) const fn datapath_mut(&mut self) -> &mut Datapath {
        &mut self.datapath
    }

    pub(crate) fn start(&mut self, algorithm: &str, info: &FlowInfo) -> Result<FlowId, StartError> {
        self.pass_time(info.now_us);
        let flow = self.datapath.start(self.plane, algorithm, info);
        self.exchange(info.now_us);
        flow
    }

    pub(crate) fn invoke(&mut self, flow: FlowId, signals: &Signals) -> Option<Controls> {
        let now_us = signals[Signal::Now];
        self.pass_time(now_us);
        // The flow ends with its controller.
        let changed = self.datapath.invoke(flow, signals).ok().flatten();
        self.exchange(now_us);
        changed
    }

    pub(crate) fn close(&mut self, flow: FlowId) {
        let _ = self.datapath.close(flow);
        self.exchange(0);
    }

    /// The plane gives its sign of life, however long no ACK came.
    fn pass_time(&mut self, now_us: u64) {
        self.service.tick(now_us);
        self.exchange(now_us);
        self.datapath.tick(now_us);
    }

    fn exchange(&mut self, now_us: u64) {
        let Some(peer) = self.peer else {
            return;
        };
        loop {
            while let Some((_, packet)) = self.datapath.poll_transmit(MAX_PACKET) {
                self.service.on_packet(peer, packet, now_us);
            }
            let mut is_answered = false;
            while let Some((_, packet)) = self.service.poll_transmit() {
                self.datapath.on_message(self.plane, packet, now_us);
                is_answered = true;
            }
            if !is_answered {
                return;
            }
        }
    }
}
