//! Echo of marks packet by packet (RFC 8257 §3.2, vCC appendix A.7).

use std::collections::VecDeque;

use fairwater_wire::Seq;

/// Most runs of equally marked data that are kept apart.
const MAX_RUNS: usize = 64;

/// An acknowledgement with its echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EchoedAck {
    /// The acknowledgement number.
    pub ack: Seq,
    /// Whether ECE is set.
    pub ece: bool,
}

/// Echoes marks for a guest that has no ECN, so that the ECE of each ACK is the mark of all that it acknowledges.
///
/// A receiver with DCTCP.CE sends an ACK of what waits when the mark changes (RFC 8257 §3.2), which a box would have to
/// make of data that the guest has not acknowledged, and may yet drop. So the box divides the guest's own ACK where the
/// mark changes: the peer counts the same bytes, at most a delayed ACK later, and nothing is acknowledged early.
#[derive(Debug, Clone)]
pub struct MarkEcho {
    /// End and mark of what has arrived and is not acknowledged, ascending.
    runs: VecDeque<(Seq, bool)>,
    /// The end of what has arrived.
    received: Seq,
    acked: Seq,
    /// DCTCP.CE: the mark of the packet that came last.
    state: bool,
    /// Data that came again was marked, and that is not echoed yet.
    is_late: bool,
}

impl MarkEcho {
    /// Of a guest that has acknowledged all up to `acked`.
    #[must_use]
    pub const fn new(acked: Seq) -> Self {
        Self {
            runs: VecDeque::new(),
            received: acked,
            acked,
            state: false,
            is_late: false,
        }
    }

    /// The peer's data from `start` to `end` has arrived, marked or not.
    pub fn on_data(&mut self, start: Seq, end: Seq, is_marked: bool) {
        if start == end {
            return;
        }
        self.state = is_marked;
        if !end.is_after(self.received) {
            self.is_late |= is_marked;
            return;
        }
        if start.is_after(self.received) {
            // What is missing comes again.
            self.push(start, false);
        }
        self.push(end, is_marked);
    }

    fn push(&mut self, end: Seq, is_marked: bool) {
        self.received = end;
        let is_full = self.runs.len() >= MAX_RUNS;
        match self.runs.back_mut() {
            Some(last) if last.1 == is_marked || is_full => {
                *last = (end, last.1 | is_marked);
            }
            _ => self.runs.push_back((end, is_marked)),
        }
    }

    /// The guest acknowledges all up to `ack`: the acknowledgements that the peer is to get, in this order. The last has
    /// that number, or the first is a duplicate.
    pub fn on_ack(&mut self, ack: Seq) -> Vec<EchoedAck> {
        let is_late = std::mem::take(&mut self.is_late);
        let mut echoed: Vec<EchoedAck> = Vec::new();
        while ack.is_after(self.acked) {
            let (end, ece) = match self.runs.front().copied() {
                Some((end, ece)) if end.is_after(ack) => (ack, ece),
                Some(run) => {
                    self.runs.pop_front();
                    run
                }
                // Data that the box has not seen.
                None => (ack, self.state),
            };
            if end.is_after(self.acked) {
                self.acked = end;
                match echoed.last_mut() {
                    Some(last) if last.ece == ece => last.ack = end,
                    _ => echoed.push(EchoedAck { ack: end, ece }),
                }
            }
        }
        self.received = self.received.max(self.acked);
        if echoed.is_empty() {
            let ece = self.state;
            echoed.push(EchoedAck { ack, ece });
        }
        if let Some(first) = echoed.first_mut() {
            first.ece |= is_late;
        }
        echoed
    }
}
