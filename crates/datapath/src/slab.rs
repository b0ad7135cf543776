//! All flows, by slot.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use fairwater_exec::invocation::Registers;
use fairwater_lang::Signal;
use fairwater_proto::{Fallback, FlowId, FlowInfo};

use crate::Config;
use crate::fallback::Controller;
use crate::flow::{Cold, FlowState, Hot, Links, NO_PEER, PendingAnnouncements};

/// Flows by slot. What each ACK touches lies apart from the rest.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    pub(crate) hot: Vec<Hot>,
    pub(crate) cold: Vec<Cold>,
    /// Slots without a flow, the longest free first, so that names are given out again late.
    free: VecDeque<u32>,
    open: u32,
}

impl Flows {
    /// How many there are.
    pub(crate) const fn len(&self) -> u32 {
        self.open
    }

    /// How many slots there are, those without a flow included.
    pub(crate) fn slots(&self) -> u32 {
        u32::try_from(self.hot.len()).unwrap_or(u32::MAX)
    }

    /// The slot of a flow that is open.
    pub(crate) fn slot(&self, flow: FlowId) -> Option<usize> {
        let slot = flow.slot as usize;
        let same = self.hot.get(slot)?.generation == flow.generation;
        (same && self.cold.get(slot)?.is_open).then_some(slot)
    }

    /// The name of the slot's flow.
    pub(crate) fn name(&self, slot: usize) -> FlowId {
        FlowId {
            slot: u32::try_from(slot).unwrap_or(u32::MAX),
            generation: self.hot[slot].generation,
        }
    }

    /// A slot for a flow of that peer, among at most `config.max_flows` slots. Its `peer` and `announcements` are still
    /// those of the slot's former flow.
    pub(crate) fn open(
        &mut self,
        config: &Config,
        peer: u32,
        algorithm: Arc<str>,
        info: &FlowInfo,
    ) -> Option<usize> {
        let slot = self.vacant(config.max_flows, peer, &algorithm, info)?;
        let hot = &mut self.hot[slot];
        hot.registers = Registers {
            cwnd: info.cwnd,
            rate: 0,
            timer_zero: info.now_us,
        };
        hot.attention = true;
        // Without the signal of losses nobody knows.
        hot.is_lossless = config.signals.present().contains(Signal::LostPkts);
        hot.is_after_timeout = false;
        let cold = &mut self.cold[slot];
        cold.state = FlowState::Waiting;
        cold.algorithm = algorithm;
        cold.info = info.clone();
        cold.enforced = None;
        cold.fallback = match config.fallback {
            Fallback::Release => None,
            fallback => Some(Controller::new(fallback, info.ssthresh)),
        };
        cold.is_open = true;
        self.open += 1;
        Some(slot)
    }

    /// Prefers slots without a pending announcement that the former flow closed.
    fn vacant(
        &mut self,
        max: u32,
        peer: u32,
        algorithm: &Arc<str>,
        info: &FlowInfo,
    ) -> Option<usize> {
        for _ in 0..self.free.len().min(8) {
            let slot = *self.free.front()? as usize;
            if self.cold[slot].announcements.closed.is_none() || self.hot[slot].peer == peer {
                self.free.pop_front();
                return Some(slot);
            }
            self.free.rotate_left(1);
        }
        if self.slots() < max {
            self.grow(algorithm, info);
            return Some(self.hot.len() - 1);
        }
        self.free.pop_front().map(|slot| slot as usize)
    }

    /// By an eighth at a time: doubling would leave up to half of the memory unused.
    fn grow(&mut self, algorithm: &Arc<str>, info: &FlowInfo) {
        if self.hot.len() == self.hot.capacity() {
            let more = (self.hot.len() / 8).max(16);
            self.hot.reserve_exact(more);
            self.cold.reserve_exact(more);
        }
        self.hot.push(Hot {
            registers: Registers::default(),
            program: None,
            variables: Box::default(),
            generation: 0,
            peer: NO_PEER,
            attention: true,
            is_lossless: false,
            is_after_timeout: false,
        });
        self.cold.push(Cold {
            state: FlowState::Waiting,
            stage: None,
            number: 0,
            algorithm: Arc::clone(algorithm),
            info: info.clone(),
            enforced: None,
            fallback: None,
            timeout_ssthresh: 0,
            is_open: false,
            is_observed: false,
            announcements: PendingAnnouncements::default(),
            links: Links::default(),
        });
    }

    /// The slot has no flow any more. Its program must have been dropped.
    pub(crate) fn close(&mut self, slot: usize) {
        let hot = &mut self.hot[slot];
        hot.attention = true;
        hot.generation = hot.generation.wrapping_add(1);
        hot.variables = Box::default();
        self.cold[slot].is_open = false;
        self.open -= 1;
        self.free.extend(u32::try_from(slot));
    }

    /// Drops the flow's program and what was staged for it; it goes on under the fallback.
    pub(crate) fn drop_program(&mut self, slot: usize, state: FlowState) {
        let hot = &mut self.hot[slot];
        hot.attention = true;
        let cold = &mut self.cold[slot];
        cold.state = state;
        cold.stage = None;
        if hot.program.take().is_some() {
            hot.variables = Box::default();
        }
    }
}
