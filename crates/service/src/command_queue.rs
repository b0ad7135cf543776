//! Takes the plane's commands and queues them for the datapaths of their flows.

use fairwater_proto::Dialect;

use super::catalogue::Catalogue;
use super::deferred_commands::DeferredCommands;
use super::matching::programs_kept;
use super::peer::{Installed, Peer};
use super::service::join;
use super::slots::{Location, PlaneSlots};
use super::statistics::ServiceStatistics;
use fairwater_plane::{Command, CommandSink, FlowId};

/// Where the plane's commands go while it handles one event of one peer's flow.
pub(super) struct CommandQueue<'a> {
    catalogue: &'a Catalogue,
    statistics: &'a mut ServiceStatistics,
    plane_slots: &'a PlaneSlots,
    deferred: &'a mut DeferredCommands,
    peer: &'a mut Peer,
    dialect: Dialect,
    /// The flow that the event is about.
    flow: FlowId,
    /// The peer's slot of the flow that the present command is for.
    slot: u32,
    outcome: Outcome,
}

/// What is left to do when the plane has handled an event, by slot of the peer.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Flows whose commands cannot be carried out, each once.
    pub(super) errors: Vec<(u32, CommandError)>,
    /// Flows to be handed over to the algorithm of that index, where the dialect has no message for
    /// it.
    pub(super) hand_overs: Vec<(u32, u32)>,
}

/// Why a command for a flow cannot be carried out.
#[derive(Debug)]
pub(super) struct CommandError {
    /// Place in the catalogue of the program that the peer cannot run, the first time that this
    /// turns out.
    pub(super) program: Option<u32>,
    /// The reason, as one clause.
    pub(super) why: String,
}

impl<'a> CommandQueue<'a> {
    #[inline]
    pub(super) fn new(
        (catalogue, plane_slots): (&'a Catalogue, &'a PlaneSlots),
        statistics: &'a mut ServiceStatistics,
        deferred: &'a mut DeferredCommands,
        peer: &'a mut Peer,
        dialect: Dialect,
        (flow, slot): (FlowId, u32),
    ) -> Self {
        Self {
            catalogue,
            statistics,
            plane_slots,
            deferred,
            peer,
            dialect,
            flow,
            slot,
            outcome: Outcome::default(),
        }
    }

    /// What is left to do.
    #[inline]
    pub(super) fn into_outcome(self) -> Outcome {
        self.outcome
    }

    fn command_error(&mut self, command_error: CommandError) {
        let errors = &mut self.outcome.errors;
        if errors.iter().all(|(slot, _)| *slot != self.slot) {
            errors.push((self.slot, command_error));
        }
    }

    /// Queues the program's Install unless the peer has it. `Err` says why the peer cannot run it.
    fn install(&mut self, position: u32) -> Result<(), String> {
        let refused = || "the datapath cannot run its program".to_owned();
        let state = self.peer.programs.get(position as usize).copied();
        match state {
            Some(Installed::Yes) => return Ok(()),
            Some(Installed::No) => {}
            Some(Installed::Refused) | None => return Err(refused()),
        }
        let why = self.obstacle(position);
        let Some(state) = self.peer.programs.get_mut(position as usize) else {
            return Err(refused());
        };
        if let Some(why) = why {
            *state = Installed::Refused;
            self.command_error(CommandError {
                program: Some(position),
                why: why.clone(),
            });
            return Err(why);
        }
        *state = Installed::Yes;
        self.peer.outgoing.installs.push_back(position);
        Ok(())
    }

    /// Why the peer cannot run the program.
    fn obstacle(&self, position: u32) -> Option<String> {
        let entry = self.catalogue.entry(position)?;
        let introduction = self.peer.introduction.as_ref()?;
        let capabilities = &introduction.capabilities;
        let unmet = entry.requirements().unmet(capabilities);
        if !unmet.is_empty() {
            return Some(join(&unmet));
        }
        if let Some(bound) = entry.inexpressible(self.dialect) {
            return Some(bound.to_owned());
        }
        let is_fallback = |position| {
            self.catalogue
                .fallback()
                .is_some_and(|f| f.position == position)
        };
        let mut keeps = programs_kept(capabilities, self.dialect);
        if is_fallback(position) {
            keeps += 1; // the entry that is reserved for the fallback
        }
        (self.peer.installed() >= keeps as usize)
            .then(|| format!("it keeps no more than {keeps} programs of algorithms"))
    }

    /// Puts the flow under the datapath's fallback; in libccp's dialect, under the program that
    /// stands for a fallback.
    pub(super) fn withdraw(&mut self) {
        let fallback = match self.dialect {
            Dialect::Own => None,
            Dialect::Ccp => self.catalogue.fallback(),
        };
        let ready = fallback.filter(|fallback| self.install(fallback.position).is_ok());
        let Some(slot_record) = self.peer.slots.get_mut(self.slot as usize) else {
            return;
        };
        let mut mss = 0;
        if let (Some(fallback), Some(peer_flow)) = (ready, &mut slot_record.peer_flow) {
            peer_flow.program = fallback.position;
            mss = peer_flow.mss;
        }
        let pending = self
            .peer
            .outgoing
            .pending(self.slot, slot_record, self.statistics);
        pending.withdraw();
        if let Some(fallback) = ready {
            pending.withdraw = false;
            pending.switch(fallback.position);
            if let (Some(segment), 1..) = (fallback.segment, mss) {
                pending.update(segment, mss.into());
            }
        }
    }

    fn queue(&mut self, command: &Command) {
        let Some(slot_record) = self.peer.slots.get_mut(self.slot as usize) else {
            return;
        };
        let Some(peer_flow) = &mut slot_record.peer_flow else {
            return;
        };
        if let Some(index) = command.switch {
            peer_flow.program = self.catalogue.position(index.algorithm(), index.index());
        }
        let position = peer_flow.program;
        let pending = self
            .peer
            .outgoing
            .pending(self.slot, slot_record, self.statistics);
        if command.switch.is_some() {
            pending.switch(position);
            let entry = self.catalogue.entry(position);
            for (variable, value) in entry.map_or(&[][..], |e| e.presets(self.dialect)) {
                pending.update(*variable, *value);
            }
        }
        // libccp's registers of cwnd and rate are of 32 bits.
        let clamp = |value: u64| match self.dialect {
            Dialect::Own => value,
            Dialect::Ccp => value.min(u32::MAX.into()),
        };
        match (command.hand_over, self.dialect) {
            (None, _) => {}
            (to, Dialect::Own) => pending.hand_over = to,
            (Some(to), Dialect::Ccp) => self.outcome.hand_overs.push((self.slot, to)),
        }
        pending.cwnd = command.cwnd.map(clamp).or(pending.cwnd);
        pending.rate = command.rate.map(clamp).or(pending.rate);
        if let Some(entry) = self.catalogue.entry(position) {
            for (variable, value) in &command.updates {
                if let Some(variable) = entry.variable(self.dialect, *variable) {
                    pending.update(variable, *value);
                }
            }
        }
    }
}

impl CommandSink for CommandQueue<'_> {
    #[inline]
    fn command(&mut self, flow: FlowId, command: &Command) {
        if flow == self.flow {
            return self.carry_out(command);
        }
        match self.plane_slots.location(flow) {
            Some(Location::Peer { peer, slot }) if peer == self.peer.id => {
                let own = std::mem::replace(&mut self.slot, slot);
                self.carry_out(command);
                self.slot = own;
            }
            Some(_) => self.deferred.push(flow, command),
            None => {}
        }
    }
}

impl CommandQueue<'_> {
    #[inline]
    fn carry_out(&mut self, command: &Command) {
        if command.withdraw {
            return self.withdraw();
        }
        if let Some(index) = command.switch {
            let slot_record = self.peer.slots.get(self.slot as usize);
            if slot_record.is_none_or(|slot_record| slot_record.peer_flow.is_none()) {
                return;
            }
            let position = self.catalogue.position(index.algorithm(), index.index());
            if let Err(why) = self.install(position) {
                self.command_error(CommandError { program: None, why });
                return;
            }
        }
        self.queue(command);
    }
}
