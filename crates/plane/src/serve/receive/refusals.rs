//! What cannot be had: refusals of a peer's, and flows whose algorithm wants what their datapath
//! cannot do.

use fairwater_proto::{Dialect, Refusal, RefusalReason};

use crate::Event;
use crate::serve::desk::{Desk, Trouble};
use crate::serve::notice::Notice;
use crate::serve::peer::{Installed, Peer};
use crate::serve::service::Shared;

impl Shared {
    /// The peer refused something of ours. It is never answered.
    pub(super) fn refused(&mut self, peer: &mut Peer, refusal: &Refusal) {
        let Some(dialect) = peer.dialect.filter(|_| peer.met.is_some()) else {
            return;
        };
        match refusal.flow {
            None => {
                let Some((place, _)) = self.catalogue.numbered(refusal.program) else {
                    return;
                };
                if let Some(state @ Installed::Yes) = peer.programs.get_mut(place as usize) {
                    *state = Installed::Refused;
                    let why = format!("it says {:?}", refusal.reason);
                    self.program_refused(peer.name(), place, why);
                }
            }
            // It ended meanwhile, and its end is on the way.
            Some(_) if refusal.reason == RefusalReason::UnknownFlow => {}
            // It went under the fallback meanwhile, because this plane was silent: it resumes.
            Some(_) if refusal.reason == RefusalReason::OutOfOrder => {}
            Some(flow) if peer.tenant(flow).is_some() => {
                let why = format!("it refused a command: {:?}", refusal.reason);
                self.trouble(peer, dialect, flow.slot, Trouble { program: None, why });
            }
            Some(_) => {}
        }
    }

    /// The flow cannot have what its algorithm wants: it goes under the datapath's fallback.
    pub(super) fn trouble(
        &mut self,
        peer: &mut Peer,
        dialect: Dialect,
        slot: u32,
        trouble: Trouble,
    ) {
        let Trouble { program, why } = trouble;
        if let Some(place) = program {
            self.program_refused(peer.name(), place, why.clone());
        }
        let tenant = peer.seats.get(slot as usize).and_then(|seat| seat.tenant);
        let Some(tenant) = tenant else {
            return;
        };
        let event = Event::Faulted {
            flow: tenant.flow,
            reason: &why,
        };
        let mut desk = Desk::new(
            &self.catalogue,
            &mut self.statistics,
            &mut self.aside,
            peer,
            dialect,
            (tenant.flow, slot),
        );
        desk.withdraw();
        self.tell(peer, dialect, slot, event);
    }

    fn program_refused(&mut self, peer: &str, place: u32, why: String) {
        let Some(entry) = self.catalogue.entry(place) else {
            return;
        };
        let algorithm = self.plane.algorithms().get(entry.algorithm as usize);
        let notice = Notice::ProgramRefused {
            peer: peer.to_owned(),
            algorithm: algorithm.map_or("the service", |a| a.name()).to_owned(),
            program: entry.name().to_owned(),
            why,
        };
        self.notice(notice);
    }
}
