//! Refusals that a peer sends, and commands that a datapath cannot carry out.

use fairwater_proto::{Dialect, Refusal, RefusalReason};

use crate::command_queue::{CommandError, CommandQueue, Outcome};
use crate::notice::ServiceNotice;
use crate::peer::{Installed, Peer};
use crate::service::Shared;
use fairwater_plane::Event;

impl Shared {
    /// The peer refused something of ours. It is never answered.
    pub(super) fn refused(&mut self, peer: &mut Peer, refusal: &Refusal) {
        let Some(dialect) = peer.dialect.filter(|_| peer.introduction.is_some()) else {
            return;
        };
        match refusal.flow {
            None => {
                let Some((position, _)) = self.catalogue.numbered(refusal.program) else {
                    return;
                };
                if let Some(state @ Installed::Yes) = peer.programs.get_mut(position as usize) {
                    *state = Installed::Refused;
                    let why = format!("it says {:?}", refusal.reason);
                    self.program_refused(peer.name(), position, why);
                }
            }
            // It ended meanwhile, and its end is on the link.
            Some(_) if refusal.reason == RefusalReason::UnknownFlow => {}
            // It went under the fallback meanwhile, because this plane was silent: it resumes.
            Some(_) if refusal.reason == RefusalReason::OutOfOrder => {}
            Some(flow) if peer.peer_flow(flow).is_some() => {
                let why = format!("it refused a command: {:?}", refusal.reason);
                let error = CommandError { program: None, why };
                let outcome = Outcome {
                    errors: vec![(flow.slot, error)],
                    ..Outcome::default()
                };
                self.conclude(peer, dialect, outcome);
            }
            Some(_) => {}
        }
    }

    /// Puts a flow whose command cannot be carried out under the datapath's fallback; returns what
    /// is left to do then.
    pub(super) fn command_error(
        &mut self,
        peer: &mut Peer,
        dialect: Dialect,
        slot: u32,
        command_error: CommandError,
    ) -> Outcome {
        let CommandError { program, why } = command_error;
        if let Some(position) = program {
            self.program_refused(peer.name(), position, why.clone());
        }
        let peer_flow = peer
            .slots
            .get(slot as usize)
            .and_then(|slot_record| slot_record.peer_flow);
        let Some(peer_flow) = peer_flow else {
            return Outcome::default();
        };
        let event = Event::Faulted {
            flow: peer_flow.flow,
            reason: &why,
        };
        let mut commands = CommandQueue::new(
            (&self.catalogue, &self.slots),
            &mut self.statistics,
            &mut self.deferred,
            peer,
            dialect,
            (peer_flow.flow, slot),
        );
        commands.withdraw();
        self.outcome(peer, dialect, slot, event)
    }

    fn program_refused(&mut self, peer: &str, position: u32, why: String) {
        let Some(entry) = self.catalogue.entry(position) else {
            return;
        };
        let algorithm = self.plane.algorithms().get(entry.algorithm as usize);
        let notice = ServiceNotice::ProgramRefused {
            peer: peer.to_owned(),
            algorithm: algorithm.map_or("the service", |a| a.name()).to_owned(),
            program: entry.name().to_owned(),
            why,
        };
        self.notice(notice);
    }
}
