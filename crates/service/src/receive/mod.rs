//! Handling of a peer's messages, one module per subject.

mod flows;
mod introduction;
mod refusals;
mod reports;

use std::collections::VecDeque;

use fairwater_proto::{DecodeError, Dialect, Refusal, RefusalReason, ToPlane};

use reports::Stamp;

use super::command_queue::{CommandQueue, Outcome};
use super::deferred_commands::UnaskedHandOver;
use super::peer::Peer;
use super::service::Shared;
use fairwater_plane::{Command, CommandSink, Event, FlowId};

/// How and when a message came.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    dialect: Dialect,
    /// By the plane's clock.
    now_us: u64,
}

/// Why a message is refused.
struct Refused {
    reason: RefusalReason,
    flow: Option<FlowId>,
    program: u32,
}

impl Refused {
    fn flow(reason: RefusalReason, flow: FlowId) -> Self {
        Self {
            reason,
            flow: Some(flow),
            program: 0,
        }
    }

    fn program(reason: RefusalReason, flow: FlowId, program: u32) -> Self {
        Self {
            reason,
            flow: Some(flow),
            program,
        }
    }
}

impl Shared {
    /// Every message of a packet, the good ones among bad ones too.
    pub(super) fn packet(&mut self, peer: &mut Peer, packet: &[u8], now_us: u64) {
        self.statistics.packets += 1;
        peer.last_packet_us = now_us;
        if peer.dialect == Some(Dialect::Own) && is_of_libccp(packet) {
            // Said before the Welcome came, and then again in our dialect: see `Shared::our_hello`.
            return;
        }
        self.our_hello(peer, packet);
        let dialect = match (&peer.introduction, peer.dialect) {
            (Some(_), Some(dialect)) => dialect,
            _ => match Dialect::of(packet) {
                Some(dialect) => *peer.dialect.insert(dialect),
                None => return self.statistics.refuse(RefusalReason::Malformed),
            },
        };
        let arrival = Arrival { dialect, now_us };
        for message in dialect.to_plane(packet) {
            match message {
                Ok(ToPlane::Hello(_)) if !is_whole(dialect, packet) => {
                    self.statistics.refuse(RefusalReason::Malformed);
                }
                Ok(message) => self.message(peer, arrival, &message),
                Err(error) => self.malformed(peer, error),
            }
        }
    }

    fn malformed(&mut self, peer: &mut Peer, error: DecodeError) {
        self.refuse(
            peer,
            error.message,
            &Refused {
                reason: error.reason(),
                flow: None,
                program: 0,
            },
        );
    }

    fn refuse(&mut self, peer: &mut Peer, message: u8, refused: &Refused) {
        self.statistics.refuse(refused.reason);
        if peer.dialect == Some(Dialect::Own) {
            let refusal = Refusal {
                message,
                reason: refused.reason,
                flow: refused.flow,
                program: refused.program,
            };
            peer.outgoing.refuse(refusal, &mut self.statistics);
        }
    }

    fn message(&mut self, peer: &mut Peer, arrival: Arrival, message: &ToPlane<'_>) {
        let done = match *message {
            ToPlane::Reported {
                flow,
                program,
                time_us,
                cwnd,
                rate,
                fields,
            } => {
                let stamp = Stamp {
                    time_us: time_us.unwrap_or(arrival.now_us),
                    cwnd,
                    rate,
                };
                self.reported(peer, arrival, (flow, program), stamp, fields)
            }
            ToPlane::Hello(hello) => {
                self.hello(peer, arrival, &hello, false);
                Ok(())
            }
            ToPlane::Created {
                flow,
                algorithm,
                ref info,
            } => self.created(peer, arrival, flow, algorithm, info),
            ToPlane::Resumed {
                flow,
                algorithm,
                ref info,
            } => self.resumed(peer, arrival, flow, algorithm, info),
            ToPlane::MssChanged { flow, mss } => self.mss_changed(peer, arrival, flow, mss),
            ToPlane::Faulted { flow, fault } => self.faulted(peer, arrival, flow, fault),
            ToPlane::Closed { flow } => self.closed(peer, flow),
            ToPlane::Refused(refusal) => {
                self.refused(peer, &refusal);
                Ok(())
            }
        };
        if let Err(refused) = done {
            self.refuse(peer, message.kind(), &refused);
        }
    }

    /// Hands the plane an event of the slot's flow and does what comes of it.
    pub(super) fn deliver(
        &mut self,
        peer: &mut Peer,
        dialect: Dialect,
        slot: u32,
        event: Event<'_>,
    ) {
        let outcome = self.outcome(peer, dialect, slot, event);
        self.conclude(peer, dialect, outcome);
    }

    /// Hands the plane an event of the slot's flow; returns what is left to do.
    fn outcome(
        &mut self,
        peer: &mut Peer,
        dialect: Dialect,
        slot: u32,
        event: Event<'_>,
    ) -> Outcome {
        let flow = event.flow();
        if let (Event::Created { .. } | Event::Resumed { .. }, Some(introduction)) =
            (&event, &peer.introduction)
        {
            self.plane.set_datapath(&introduction.capabilities);
        }
        let mut commands = CommandQueue::new(
            (&self.catalogue, &self.slots),
            &mut self.statistics,
            &mut self.deferred,
            peer,
            dialect,
            (flow, slot),
        );
        self.plane.on_event(event, &mut commands);
        commands.into_outcome()
    }

    /// Does what the commands of an event have left to do.
    #[inline]
    fn conclude(&mut self, peer: &mut Peer, dialect: Dialect, outcome: Outcome) {
        if !outcome.errors.is_empty() || !outcome.hand_overs.is_empty() {
            self.conclude_all(peer, dialect, outcome);
        }
    }

    /// An error ends its flow's control, which may lead to errors of other members of an aggregate;
    /// each flow ends at most once. Hand-overs wait for `Service::carry_out_deferred`.
    #[cold]
    fn conclude_all(&mut self, peer: &mut Peer, dialect: Dialect, outcome: Outcome) {
        let mut errors = VecDeque::from(outcome.errors);
        let mut hand_overs = outcome.hand_overs;
        while let Some((slot, error)) = errors.pop_front() {
            let outcome = self.command_error(peer, dialect, slot, error);
            errors.extend(outcome.errors);
            hand_overs.extend(outcome.hand_overs);
        }
        for (slot, algorithm) in hand_overs {
            let record = peer.slots.get(slot as usize);
            if let Some(peer_flow) = record.and_then(|record| record.peer_flow) {
                self.unasked_hand_overs.push_back(UnaskedHandOver {
                    peer: peer.id,
                    slot,
                    flow: peer_flow.flow,
                    algorithm,
                });
            }
        }
    }

    /// Carries out a command that the event of another peer's flow brought about.
    pub(super) fn deferred_command(
        &mut self,
        peer: &mut Peer,
        slot: u32,
        flow: FlowId,
        command: &Command,
    ) {
        let peer_flow = peer
            .slots
            .get(slot as usize)
            .and_then(|slot_record| slot_record.peer_flow);
        let (Some(peer_flow), Some(dialect)) = (peer_flow, peer.dialect) else {
            return;
        };
        if peer_flow.flow != flow {
            return;
        }
        let mut commands = CommandQueue::new(
            (&self.catalogue, &self.slots),
            &mut self.statistics,
            &mut self.deferred,
            peer,
            dialect,
            (flow, slot),
        );
        commands.command(flow, command);
        let outcome = commands.into_outcome();
        self.conclude(peer, dialect, outcome);
    }
}

/// Whether a packet is messages in libccp's dialect.
fn is_of_libccp(packet: &[u8]) -> bool {
    Dialect::of(packet) == Some(Dialect::Ccp)
        && Dialect::Ccp.to_plane(packet).all(|message| message.is_ok())
}

/// Whether a packet with a Hello is messages from beginning to end. A Hello ends all flows of a
/// libccp, whose READY has nothing to be recognized by but its type and length: what follows it
/// tells whether it is one.
fn is_whole(dialect: Dialect, packet: &[u8]) -> bool {
    dialect == Dialect::Own || dialect.to_plane(packet).all(|message| message.is_ok())
}
