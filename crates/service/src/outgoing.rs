//! The messages that wait to be sent to one peer.

use std::collections::VecDeque;

use fairwater_plane::HostedAlgorithm;
use fairwater_proto::{Dialect, Refusal, ToDatapath, Welcome};

use super::catalogue::Catalogue;
use super::merged_command::MergedCommand;
use super::slots::PeerSlot;
use super::statistics::ServiceStatistics;

/// A packet that holds several messages is not begun on another beyond this, bytes.
const PACKET_BYTES: usize = 4096;

/// Refusals that wait for a peer; it is not told of more.
const MAX_REFUSALS: usize = 64;

/// Commands of which a peer keeps the memory for the next.
const SPARE: usize = 64;

/// Bounded by the number of the peer's slots and programs, whatever it reads.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pub(super) welcome: bool,
    /// Places in the catalogue, each once.
    pub(super) installs: VecDeque<u32>,
    refusals: VecDeque<Refusal>,
    /// Slots with a pending command, each once.
    slots: VecDeque<u32>,
    /// Messages that are encoded; those before `from` are sent.
    packet: Vec<u8>,
    from: usize,
    /// The end of the packet that was handed out last.
    to: usize,
    /// Whether the peer is in the service's queue of peers with something to send.
    pub(super) queued: bool,
    /// The link had no room.
    pub(super) blocked: bool,
    #[expect(
        clippy::vec_box,
        reason = "the boxes themselves are what is kept for reuse"
    )]
    spare: Vec<Box<MergedCommand>>,
}

/// What messages are made of.
pub(super) struct Context<'a> {
    pub(super) catalogue: &'a Catalogue,
    pub(super) algorithms: &'a [HostedAlgorithm],
    pub(super) welcome: Welcome,
    pub(super) statistics: &'a mut ServiceStatistics,
}

impl Outgoing {
    /// Whether anything is to be sent.
    pub(super) fn is_due(&self) -> bool {
        self.welcome
            || self.to < self.packet.len()
            || !self.installs.is_empty()
            || !self.refusals.is_empty()
            || !self.slots.is_empty()
    }

    pub(super) fn refuse(&mut self, refusal: Refusal, statistics: &mut ServiceStatistics) {
        if self.refusals.len() < MAX_REFUSALS {
            self.refusals.push_back(refusal);
        } else {
            statistics.untold += 1;
        }
    }

    /// The pending command of the slot's flow, to be merged into.
    #[inline]
    pub(super) fn pending<'a>(
        &mut self,
        slot: u32,
        slot_record: &'a mut PeerSlot,
        statistics: &mut ServiceStatistics,
    ) -> &'a mut MergedCommand {
        if slot_record.pending.is_some() {
            statistics.merged += 1;
        } else if !slot_record.queued {
            slot_record.queued = true;
            self.slots.push_back(slot);
        }
        slot_record
            .pending
            .get_or_insert_with(|| self.spare.pop().unwrap_or_default())
    }

    /// Drops the pending command of a slot whose flow ended.
    pub(super) fn forget(&mut self, slot_record: &mut PeerSlot) {
        if let Some(pending) = slot_record.pending.take() {
            self.keep(pending);
        }
    }

    fn keep(&mut self, mut pending: Box<MergedCommand>) {
        if self.spare.len() < SPARE {
            pending.clear();
            self.spare.push(pending);
        }
    }

    /// Drops everything: the peer was restarted.
    pub(super) fn reset(&mut self) {
        self.welcome = false;
        self.installs.clear();
        self.refusals.clear();
        self.packet.clear();
        self.from = 0;
        self.to = 0;
    }

    /// The next packet, which counts as sent unless [`Outgoing::retry`] follows.
    pub(super) fn next(
        &mut self,
        dialect: Dialect,
        slots: &mut [PeerSlot],
        context: &mut Context<'_>,
    ) -> bool {
        self.from = self.to;
        if self.from >= self.packet.len() {
            self.packet.clear();
            self.from = 0;
            self.fill(dialect, slots, context);
        }
        let rest = self.packet.get(self.from..).unwrap_or_default();
        let length = match dialect {
            Dialect::Own => rest.len(),
            // libccp reads the first message of a packet alone.
            Dialect::Ccp => dialect.split(rest).next().map_or(rest.len(), <[u8]>::len),
        };
        self.to = self.from + length;
        length > 0
    }

    pub(super) fn packet(&self) -> &[u8] {
        self.packet.get(self.from..self.to).unwrap_or_default()
    }

    /// The packet that was handed out last could not be sent.
    pub(super) fn retry(&mut self) {
        self.to = self.from;
        self.blocked = true;
    }

    fn fill(&mut self, dialect: Dialect, slots: &mut [PeerSlot], context: &mut Context<'_>) {
        let packet = &mut self.packet;
        // What a dialect cannot say is left out: libccp's has no Welcome and no Refused.
        if std::mem::take(&mut self.welcome) {
            let _ = dialect.encode_to_datapath(&ToDatapath::Welcome(context.welcome), packet);
        }
        while let Some(position) = self.installs.front().copied() {
            if packet.len() >= PACKET_BYTES {
                return;
            }
            self.installs.pop_front();
            let entry = context.catalogue.entry(position);
            let install = ToDatapath::Install {
                idle_restart: entry.is_none_or(|entry| entry.requirements().idle_restart),
                program: context.catalogue.number(position),
                body: context.catalogue.body(position, dialect),
            };
            let _ = dialect.encode_to_datapath(&install, packet);
        }
        while packet.len() < PACKET_BYTES {
            let Some(refusal) = self.refusals.pop_front() else {
                break;
            };
            if dialect
                .encode_to_datapath(&ToDatapath::Refused(refusal), packet)
                .is_err()
            {
                context.statistics.untold += 1;
            }
        }
        while self.packet.len() < PACKET_BYTES {
            let Some(slot) = self.slots.pop_front() else {
                return;
            };
            let Some(slot_record) = slots.get_mut(slot as usize) else {
                continue;
            };
            slot_record.queued = false;
            let (Some(pending), Some(peer_flow)) =
                (slot_record.pending.take(), slot_record.peer_flow)
            else {
                continue;
            };
            let flow = fairwater_proto::FlowId {
                slot,
                generation: peer_flow.generation,
            };
            let command = pending.message(flow, |position| context.catalogue.number(position));
            if !pending.is_hand_over_alone() {
                let _ = dialect.encode_to_datapath(&command, &mut self.packet);
            }
            if let Some(algorithm) = pending
                .hand_over
                .and_then(|to| context.algorithms.get(to as usize))
            {
                let hand_over = ToDatapath::HandOver {
                    flow,
                    algorithm: algorithm.name(),
                };
                let _ = dialect.encode_to_datapath(&hand_over, &mut self.packet);
            }
            self.keep(pending);
        }
    }
}
