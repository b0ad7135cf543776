//! The commands of one flow that wait to be sent, merged into one.

use fairwater_proto::{FlowId, ToDatapath, Update, Updates};

/// The commands of one flow that wait, merged into one: the latest of each kind counts.
#[derive(Debug, Default)]
pub(super) struct MergedCommand {
    /// Switch to the program of this position in the catalogue.
    pub(super) switch: Option<u32>,
    pub(super) cwnd: Option<u64>,
    pub(super) rate: Option<u64>,
    /// Control variables, as the dialect numbers them.
    pub(super) updates: Vec<Update>,
    pub(super) withdraw: bool,
    /// Index of the algorithm that the flow is handed over to.
    pub(super) hand_over: Option<u32>,
}

impl MergedCommand {
    pub(super) fn clear(&mut self) {
        self.switch = None;
        self.cwnd = None;
        self.rate = None;
        self.updates.clear();
        self.withdraw = false;
        self.hand_over = None;
    }

    /// What was staged for the program before is of no use to the next.
    pub(super) fn switch(&mut self, to: u32) {
        self.switch = Some(to);
        self.updates.clear();
    }

    pub(super) fn withdraw(&mut self) {
        self.clear();
        self.withdraw = true;
    }

    pub(super) fn update(&mut self, variable: u16, value: u64) {
        match self.updates.iter_mut().find(|u| u.variable == variable) {
            Some(update) => update.value = value,
            None => self.updates.push(Update { variable, value }),
        }
    }

    /// Whether there is nothing but a hand-over in it.
    pub(super) fn is_hand_over_alone(&self) -> bool {
        self.hand_over.is_some()
            && !self.withdraw
            && self.switch.is_none()
            && self.cwnd.is_none()
            && self.rate.is_none()
            && self.updates.is_empty()
    }

    /// As a message; `number` numbers positions in the catalogue.
    pub(super) fn message(&self, flow: FlowId, number: impl Fn(u32) -> u32) -> ToDatapath<'_> {
        ToDatapath::Command {
            flow,
            switch: self.switch.map(number),
            cwnd: self.cwnd,
            rate: self.rate,
            updates: Updates::from(self.updates.as_slice()),
            withdraw: self.withdraw,
        }
    }
}
