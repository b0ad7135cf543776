//! Takes the plane's commands and queues them for the datapaths of their flows.

use fairwater_proto::Dialect;

use super::aside::Aside;
use super::catalogue::Catalogue;
use super::peer::{Installed, Peer};
use super::statistics::Statistics;
use crate::{Command, CommandSink, FlowId};

/// The flow in one slot of one peer, for as long as the plane handles one event of it, and the
/// other members of its aggregate.
pub(super) struct Desk<'a> {
    catalogue: &'a Catalogue,
    statistics: &'a mut Statistics,
    aside: &'a mut Aside,
    peer: &'a mut Peer,
    dialect: Dialect,
    /// The event's.
    flow: FlowId,
    /// That of the flow which is being told something.
    slot: u32,
    troubles: Vec<(u32, Trouble)>,
}

/// A flow cannot have what its algorithm wants.
#[derive(Debug)]
pub(super) struct Trouble {
    /// Where in the catalogue the program is that the peer turned out not to be able to run, if
    /// nobody was told of it before.
    pub(super) program: Option<u32>,
    /// As one clause.
    pub(super) why: String,
}

impl<'a> Desk<'a> {
    #[inline]
    pub(super) fn new(
        catalogue: &'a Catalogue,
        statistics: &'a mut Statistics,
        aside: &'a mut Aside,
        peer: &'a mut Peer,
        dialect: Dialect,
        (flow, slot): (FlowId, u32),
    ) -> Self {
        Self {
            catalogue,
            statistics,
            aside,
            peer,
            dialect,
            flow,
            slot,
            troubles: Vec::new(),
        }
    }

    /// The slots of flows that cannot have what was asked for, each once.
    #[inline]
    pub(super) fn into_troubles(self) -> Vec<(u32, Trouble)> {
        self.troubles
    }

    fn trouble(&mut self, trouble: Trouble) {
        if self.troubles.iter().all(|(slot, _)| *slot != self.slot) {
            self.troubles.push((self.slot, trouble));
        }
    }

    /// Sees that the peer has the program. `Err` says why it cannot.
    fn install(&mut self, place: u32) -> Result<(), String> {
        let refused = || "the datapath cannot run its program".to_owned();
        let state = self.peer.programs.get(place as usize).copied();
        match state {
            Some(Installed::Yes) => return Ok(()),
            Some(Installed::No) => {}
            Some(Installed::Refused) | None => return Err(refused()),
        }
        let why = self.obstacle(place);
        let Some(state) = self.peer.programs.get_mut(place as usize) else {
            return Err(refused());
        };
        if let Some(why) = why {
            *state = Installed::Refused;
            self.trouble(Trouble {
                program: Some(place),
                why: why.clone(),
            });
            return Err(why);
        }
        *state = Installed::Yes;
        self.peer.outgoing.installs.push_back(place);
        Ok(())
    }

    /// What keeps the peer from having the program.
    fn obstacle(&self, place: u32) -> Option<String> {
        let entry = self.catalogue.entry(place)?;
        let met = self.peer.met.as_ref()?;
        if let Err(missing) = entry.program().require(met.signals, &met.name) {
            return Some(missing.to_string());
        }
        if let Some(bound) = entry.inexpressible(self.dialect) {
            return Some(bound.to_owned());
        }
        let is_fallback = |place| self.catalogue.fallback().is_some_and(|f| f.place == place);
        let keeps = match self.dialect {
            Dialect::Own => met.max_programs,
            // libccp 1.2 never uses the last entry of its table; one is for the fallback.
            Dialect::Ccp if is_fallback(place) => met.max_programs - 1,
            Dialect::Ccp => met.max_programs.saturating_sub(2),
        };
        (self.peer.installed() >= keeps as usize)
            .then(|| format!("it keeps no more than {keeps} programs of algorithms"))
    }

    /// Puts the flow under the datapath's fallback, or what stands for one in libccp's dialect.
    pub(super) fn withdraw(&mut self) {
        let fallback = match self.dialect {
            Dialect::Own => None,
            Dialect::Ccp => self.catalogue.fallback(),
        };
        let ready = fallback.filter(|fallback| self.install(fallback.place).is_ok());
        let Some(seat) = self.peer.seats.get_mut(self.slot as usize) else {
            return;
        };
        let mut mss = 0;
        if let (Some(fallback), Some(tenant)) = (ready, &mut seat.tenant) {
            tenant.program = fallback.place;
            mss = tenant.mss;
        }
        let pending = self.peer.outgoing.pending(self.slot, seat, self.statistics);
        pending.withdraw();
        if let Some(fallback) = ready {
            pending.withdraw = false;
            pending.switch(fallback.place);
            if let (Some(segment), 1..) = (fallback.segment, mss) {
                pending.update(segment, mss.into());
            }
        }
    }

    fn queue(&mut self, command: &Command) {
        let Some(seat) = self.peer.seats.get_mut(self.slot as usize) else {
            return;
        };
        let Some(tenant) = &mut seat.tenant else {
            return;
        };
        if let Some(index) = command.switch {
            tenant.program = self.catalogue.place(tenant.algorithm, index);
        }
        let place = tenant.program;
        let pending = self.peer.outgoing.pending(self.slot, seat, self.statistics);
        if command.switch.is_some() {
            pending.switch(place);
        }
        // libccp's registers of cwnd and rate are of 32 bits.
        let clamp = |value: u64| match self.dialect {
            Dialect::Own => value,
            Dialect::Ccp => value.min(u32::MAX.into()),
        };
        pending.cwnd = command.cwnd.map(clamp).or(pending.cwnd);
        pending.rate = command.rate.map(clamp).or(pending.rate);
        if let Some(entry) = self.catalogue.entry(place) {
            for (variable, value) in &command.updates {
                if let Some(variable) = entry.variable(self.dialect, *variable) {
                    pending.update(variable, *value);
                }
            }
        }
    }
}

impl CommandSink for Desk<'_> {
    #[inline]
    fn command(&mut self, flow: FlowId, command: &Command) {
        if flow == self.flow {
            return self.carry_out(command);
        }
        match self.aside.seat(flow) {
            Some((peer, slot)) if peer == self.peer.id => {
                let own = std::mem::replace(&mut self.slot, slot);
                self.carry_out(command);
                self.slot = own;
            }
            Some(_) => self.aside.push(flow, command),
            None => {}
        }
    }
}

impl Desk<'_> {
    #[inline]
    fn carry_out(&mut self, command: &Command) {
        if command.withdraw {
            return self.withdraw();
        }
        if let Some(index) = command.switch {
            let seat = self.peer.seats.get(self.slot as usize);
            let Some(tenant) = seat.and_then(|seat| seat.tenant) else {
                return;
            };
            let place = self.catalogue.place(tenant.algorithm, index);
            if let Err(why) = self.install(place) {
                self.trouble(Trouble { program: None, why });
                return;
            }
        }
        self.queue(command);
    }
}
