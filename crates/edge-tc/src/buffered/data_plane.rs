//! The box at work: frames in, frames out, and its messages with the plane.

use std::sync::Arc;

use fairwater_datapath::{Datapath, PeerId};
use fairwater_edge::policy::EdgePolicy;
use fairwater_edge::{Edge, Policy, PortPacket, Verdict};
use fairwater_net::Time;
use fairwater_proto::Dialect;
use fairwater_proto::link::in_process::InProcess;
use fairwater_proto::link::{Link, LinkError, MAX_PACKET};

use super::PortSets;
use super::frame::FrameInfo;

/// Packets from the plane that are received in one turn.
const RECEIVE: usize = 256;
/// The bound on packets to the plane, bytes.
const SEND: usize = 1 << 14;

/// The box with its link to the plane.
#[derive(Debug)]
pub(crate) struct DataPlane {
    pub(crate) edge: Edge,
    peer: PeerId,
    /// `None` when the plane is gone.
    pub(crate) link: Option<InProcess>,
    /// A packet for which the link had no room.
    held: Vec<u8>,
    buffer: Vec<u8>,
}

/// What a box does by a policy.
pub(crate) fn policy_of(policy: &Arc<EdgePolicy>, sets: &PortSets) -> Policy {
    let (policy, sets) = (Arc::clone(policy), Arc::clone(sets));
    Box::new(move |key| {
        let sets = sets.read().ok()?.get(&key.interface).copied()?;
        let (_, treatment) = policy.treatment(key, sets)?;
        Some(treatment.clone())
    })
}

impl DataPlane {
    pub(crate) fn new(
        policy: &Arc<EdgePolicy>,
        sets: &PortSets,
        link: InProcess,
        now: Time,
    ) -> Self {
        let config = fairwater_datapath::Config {
            name: super::NAME.to_owned(),
            instance: now.as_nanos(),
            ..Edge::buffering_datapath_config()
        };
        let mut datapath = Datapath::new(config);
        let peer = datapath.add_peer(Dialect::Own, micros(now));
        let defaults = policy.defaults();
        let mut edge = Edge::new(defaults.table, datapath, peer, policy_of(policy, sets))
            .with_buffers(defaults.buffers);
        edge.set_grace(defaults.grace);
        Self {
            edge,
            peer,
            link: Some(link),
            held: Vec::new(),
            buffer: vec![0; MAX_PACKET],
        }
    }

    /// Takes another policy.
    pub(crate) fn set_policy(&mut self, now: Time, policy: &Arc<EdgePolicy>, sets: &PortSets) {
        self.edge.set_grace(policy.defaults().grace);
        self.edge.set_buffers(policy.defaults().buffers);
        self.edge.set_policy(now, policy_of(policy, sets));
    }

    /// A frame has come; whether it goes on.
    pub(crate) fn on_frame(&mut self, now: Time, info: &FrameInfo, frame: &mut [u8]) -> bool {
        let verdict = self.edge.on_packet(
            now,
            PortPacket {
                interface: info.interface,
                direction: info.direction,
                bytes: frame,
                is_ethernet: true,
                checksum: info.checksum(),
            },
        );
        verdict == Verdict::Pass
    }

    /// Exchanges messages with the plane.
    pub(crate) fn exchange(&mut self, now: Time) {
        if let Err(LinkError::Gone | LinkError::Broken) = self.receive(now) {
            self.link = None;
        }
        self.edge.datapath_mut().tick(micros(now));
        if let Err(LinkError::Gone | LinkError::Broken) = self.send() {
            self.link = None;
        }
    }

    fn receive(&mut self, now: Time) -> Result<(), LinkError> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        for _ in 0..RECEIVE {
            match link.receive(&mut self.buffer) {
                Ok(length) => {
                    let packet = self.buffer.get(..length).unwrap_or_default();
                    let datapath = self.edge.datapath_mut();
                    datapath.on_message(self.peer, packet, micros(now));
                }
                Err(LinkError::TooLong) => {}
                Err(LinkError::WouldBlock) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), LinkError> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        if !self.held.is_empty() {
            match link.send(&self.held) {
                Ok(()) | Err(LinkError::TooLong) => self.held.clear(),
                Err(LinkError::WouldBlock) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        let datapath = self.edge.datapath_mut();
        while let Some(packet) = datapath.poll_transmit_to(self.peer, SEND) {
            match link.send(packet) {
                Ok(()) | Err(LinkError::TooLong) => {}
                Err(LinkError::WouldBlock) => {
                    self.held.extend_from_slice(packet);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether to wait: nothing has come from the plane meanwhile.
    pub(crate) fn prepare_to_wait(&mut self) -> bool {
        let link = self.link.as_mut();
        link.is_none_or(Link::prepare_to_wait)
    }

    /// When the box or its datapath has something to do by itself.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        let datapath = self.edge.datapath().next_timeout();
        let datapath = datapath.map(|us| Time::from_nanos(us.saturating_mul(1_000)));
        self.edge.next_timer().into_iter().chain(datapath).min()
    }
}

const fn micros(time: Time) -> u64 {
    time.as_nanos() / 1_000
}
