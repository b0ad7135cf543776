//! The model of vCC's appendix A: a Reno guest, the translation layer's ECN sender, and what the guest is told.
//!
//! Both senders see the same events (assumption 1) and follow the same rules (assumption 2), but for ECN, which
//! only the translation layer has. Windows are whole bytes, data is whole segments, and the guest sends what it
//! may after each event while its application has data.

use std::collections::HashMap;

/// Bytes of a segment.
pub(crate) const MSS: u64 = 1_000;
/// W_init of equation 11, and the first window.
const INITIAL: u64 = 3 * MSS;
/// Slow-start threshold of a connection that begins (RFC 5681 §3.1: arbitrarily high).
const NO_THRESHOLD: u64 = 1 << 40;

/// An event of both state machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    /// One segment is acknowledged; with ECE or without.
    Ack { ece: bool },
    /// All segments that are out are acknowledged at once.
    AckAll { ece: bool },
    /// A duplicate ACK.
    Duplicate { ece: bool },
    /// The retransmission timer runs out.
    Timeout,
    /// The application has no more data.
    Stop,
    /// The application has data again, within an RTO.
    Go,
    /// The application has data again, after an RTO with nothing out.
    GoAfterIdle,
}

pub(crate) const EVENTS: [Event; 10] = [
    Event::Ack { ece: false },
    Event::Ack { ece: true },
    Event::AckAll { ece: false },
    Event::AckAll { ece: true },
    Event::Duplicate { ece: false },
    Event::Duplicate { ece: true },
    Event::Timeout,
    Event::Stop,
    Event::Go,
    Event::GoAfterIdle,
];

/// What the translation layer does at the first ECE of a window of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Response {
    /// Equations 6 and 7, as a loss (appendix A.2).
    Ecn,
    /// Equation 13 with α in eighths; the threshold stays.
    Dctcp(u64),
}

/// The rules, one by one as printed or repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) response: Response,
    /// Equation 7 adds three segments at an ECE; else W is ssthresh at most.
    pub(crate) adds_three: bool,
    /// ECE is answered in fast recovery too.
    pub(crate) in_recovery: bool,
    /// Both restart after an idle time (equations 11 and 12).
    pub(crate) restarts: bool,
    /// Equations 3 and 4 count all that a cumulative ACK acknowledges; else one segment at most, as RFC 5681 §3.1.
    pub(crate) counts_all: bool,
    /// Equation 6 takes half of fs at an ECE; else of fs or W, which is less.
    pub(crate) halves_flight: bool,
    /// Equation 13 leaves ssthresh as it is and W may become less than two segments; else ssthresh is W at
    /// most, so that slow start ends, and W two segments at least.
    pub(crate) keeps_threshold: bool,
    /// A sender grows only while its own window limits it, as Linux does (appendix A.4, after the proof of lemma 1).
    pub(crate) validates: bool,
    /// An ECE may raise ssthresh (equation 6); else it is the old one at most.
    pub(crate) raises_threshold: bool,
}

impl Rules {
    /// Equations 2 to 18 as printed.
    pub(crate) const PRINTED: Self = Self {
        response: Response::Ecn,
        adds_three: true,
        in_recovery: true,
        restarts: true,
        counts_all: true,
        keeps_threshold: true,
        validates: false,
        halves_flight: true,
        raises_threshold: true,
    };

    /// RFC 3168's sender, as far as a guest can follow it exactly.
    pub(crate) const REPAIRED: Self = Self {
        adds_three: false,
        in_recovery: false,
        restarts: false,
        counts_all: false,
        keeps_threshold: false,
        halves_flight: false,
        ..Self::PRINTED
    };

    /// With a restart after idle times, in exchange for a threshold that no ECE raises; then ECE may be answered in
    /// recovery, and by half of what is out.
    pub(crate) const RESTARTING: Self = Self {
        adds_three: false,
        counts_all: false,
        raises_threshold: false,
        ..Self::PRINTED
    };

    /// Theorem 2 as printed.
    pub(crate) const fn dctcp(alpha: u64) -> Self {
        Self {
            response: Response::Dctcp(alpha),
            ..Self::PRINTED
        }
    }

    /// DCTCP, as far as a guest can follow it exactly.
    pub(crate) const fn repaired_dctcp(alpha: u64) -> Self {
        Self {
            counts_all: false,
            keeps_threshold: false,
            ..Self::dctcp(alpha)
        }
    }
}

/// A sender's congestion control (RFC 5681, RFC 6582).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Sender {
    /// W_c, bytes.
    pub(crate) cwnd: u64,
    pub(crate) ssthresh: u64,
    pub(crate) is_recovering: bool,
    /// R: fast recovery lasts until it is acknowledged; in segments, as una.
    recover: i64,
    /// What was out when an ECE was answered last; the next answer is above it.
    answered: i64,
}

impl Sender {
    /// With an initial window, bytes.
    pub(crate) const fn new(cwnd: u64) -> Self {
        Self {
            cwnd,
            ssthresh: NO_THRESHOLD,
            is_recovering: false,
            recover: 0,
            answered: 0,
        }
    }

    /// Equations 3 and 4: `acked` bytes are new.
    fn grow(&mut self, acked: u64, rules: &Rules) {
        let acked = if rules.counts_all {
            acked
        } else {
            acked.min(MSS)
        };
        if self.cwnd < self.ssthresh {
            self.cwnd += acked;
        } else {
            self.cwnd += acked * MSS / self.cwnd;
        }
    }

    /// Equations 6 and 10.
    fn lower_threshold(&mut self, flight: u64) {
        self.ssthresh = (flight / 2).max(2 * MSS);
    }

    /// An ACK of new data; una is after it.
    pub(crate) fn on_ack(&mut self, acked: u64, una: i64, rules: &Rules) {
        if !self.is_recovering {
            self.grow(acked, rules);
        } else if una >= self.recover {
            // Equation 8, at a full acknowledgment.
            self.is_recovering = false;
            self.cwnd = self.ssthresh;
        } else {
            // Equation 5: upon any acknowledgment.
            self.cwnd += MSS;
        }
    }

    fn on_duplicate(&mut self, count: u32, flight: u64, (una, nxt): (i64, i64)) {
        if self.is_recovering {
            self.cwnd += MSS;
        } else if count == 3 && una > self.recover {
            self.recover = nxt;
            self.is_recovering = true;
            self.lower_threshold(flight);
            self.cwnd = self.ssthresh + 3 * MSS;
        }
    }

    fn on_timeout(&mut self, flight: u64, nxt: i64) {
        self.lower_threshold(flight);
        self.cwnd = MSS;
        self.is_recovering = false;
        self.recover = nxt;
    }

    /// An ACK with ECE: no growth, and one answer in a window of data; whether this is it.
    pub(crate) fn on_ece(&mut self, flight: u64, (una, nxt): (i64, i64), rules: &Rules) -> bool {
        if una <= self.answered {
            return false;
        }
        self.answered = nxt;
        match rules.response {
            Response::Dctcp(alpha) => {
                let reduced = self.cwnd - self.cwnd * alpha / 16;
                if rules.keeps_threshold {
                    self.cwnd = reduced.max(MSS);
                } else {
                    self.cwnd = reduced.max(self.cwnd.min(2 * MSS));
                    self.ssthresh = self.ssthresh.min(self.cwnd.max(2 * MSS));
                }
            }
            Response::Ecn => {
                let old = self.ssthresh;
                let flight = if rules.halves_flight {
                    flight
                } else {
                    flight.min(self.cwnd)
                };
                self.lower_threshold(flight);
                let target = self.ssthresh;
                if !rules.raises_threshold {
                    self.ssthresh = target.min(old);
                }
                self.cwnd = if rules.adds_three {
                    target + 3 * MSS
                } else {
                    self.cwnd.min(target)
                };
            }
        }
        true
    }

    /// Equation 2 without a receive window.
    pub(crate) fn allowed(&self, flight: u64) -> u64 {
        self.cwnd.saturating_sub(flight)
    }
}

/// Guest, translation layer, and what is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) guest: Sender,
    pub(crate) vcc: Sender,
    /// In segments; the first has number 1.
    una: i64,
    nxt: i64,
    duplicates: u32,
    has_data: bool,
}

/// What does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Broken {
    /// Equation 16: the guest may send what the translation layer may.
    Emulation,
    /// Equation 16 in whole segments: less than one is not sent.
    Segments,
    /// Equation 19: W of the translation layer is the guest's at most.
    Window,
    /// Equation 19 but for less than a segment.
    NearWindow,
    /// Equation 20: the same of ssthresh.
    Threshold,
    /// In place of equation 20: where ssthresh is above the guest's, the translation layer is in congestion avoidance.
    RepairedThreshold,
    /// Equation 37: both have the same R.
    Recover,
}

impl State {
    pub(crate) fn new() -> Self {
        let mut state = Self {
            guest: Sender::new(INITIAL),
            vcc: Sender::new(INITIAL),
            una: 1,
            nxt: 1,
            duplicates: 0,
            has_data: true,
        };
        state.send();
        state
    }

    /// fs, bytes.
    pub(crate) fn flight(&self) -> u64 {
        (self.nxt - self.una).unsigned_abs() * MSS
    }

    fn is_enabled(&self, event: Event, rules: &Rules) -> bool {
        let out = self.nxt - self.una;
        match event {
            Event::Ack { .. } | Event::Timeout => out > 0,
            Event::AckAll { .. } => out > 1,
            Event::Duplicate { .. } => i64::from(self.duplicates) + 1 < out,
            Event::Stop => self.has_data,
            Event::Go => !self.has_data,
            Event::GoAfterIdle => !self.has_data && out == 0 && rules.restarts,
        }
    }

    /// The event happens; the guest has not sent yet what it may send now.
    fn apply(&mut self, event: Event, rules: &Rules) {
        let flight = self.flight();
        let answers = !self.vcc.is_recovering || rules.in_recovery;
        let window = |state: &Self| (state.una, state.nxt);
        match event {
            Event::Ack { ece } | Event::AckAll { ece } => {
                let acked = match event {
                    Event::Ack { .. } => MSS,
                    _ => flight,
                };
                self.una += i64::try_from(acked / MSS).unwrap_or(0);
                self.duplicates = 0;
                let grows = |sender: &Sender| {
                    !rules.validates || sender.is_recovering || flight + MSS > sender.cwnd
                };
                if grows(&self.guest) {
                    self.guest.on_ack(acked, self.una, rules);
                }
                // An echo does not change the state: fast recovery ends with or without one.
                let ends = self.vcc.is_recovering && self.una >= self.vcc.recover;
                if ends || !ece && grows(&self.vcc) {
                    self.vcc.on_ack(acked, self.una, rules);
                }
                if ece && answers {
                    self.vcc.on_ece(flight, window(self), rules);
                }
            }
            Event::Duplicate { ece } => {
                self.duplicates += 1;
                let count = self.duplicates;
                self.guest.on_duplicate(count, flight, window(self));
                if !ece || !self.vcc.is_recovering {
                    self.vcc.on_duplicate(count, flight, window(self));
                }
                if ece && answers {
                    self.vcc.on_ece(flight, window(self), rules);
                }
            }
            Event::Timeout => {
                self.duplicates = 0;
                self.guest.on_timeout(flight, self.nxt);
                self.vcc.on_timeout(flight, self.nxt);
            }
            Event::Stop => self.has_data = false,
            Event::Go => self.has_data = true,
            Event::GoAfterIdle => {
                self.has_data = true;
                for sender in [&mut self.guest, &mut self.vcc] {
                    sender.cwnd = sender.cwnd.min(INITIAL);
                }
            }
        }
    }

    /// Equation 17, and equation 2 with it: what the guest may send.
    fn guest_allowed(&self) -> u64 {
        let flight = self.flight();
        let told = flight + self.vcc.allowed(flight);
        self.guest.cwnd.min(told).saturating_sub(flight)
    }

    fn send(&mut self) {
        if self.has_data {
            let segments = self.guest_allowed() / MSS;
            self.nxt += i64::try_from(segments).unwrap_or(0);
        }
    }

    pub(crate) fn holds(&self, claim: Broken) -> bool {
        let (guest, vcc) = (&self.guest, &self.vcc);
        match claim {
            Broken::Emulation => self.guest_allowed() == vcc.allowed(self.flight()),
            Broken::Segments => self.guest_allowed() / MSS == vcc.allowed(self.flight()) / MSS,
            Broken::Window => vcc.cwnd <= guest.cwnd,
            Broken::NearWindow => vcc.cwnd < guest.cwnd + MSS,
            Broken::Threshold => vcc.ssthresh <= guest.ssthresh,
            Broken::RepairedThreshold => vcc.ssthresh <= guest.ssthresh || vcc.cwnd >= vcc.ssthresh,
            Broken::Recover => {
                (vcc.recover, vcc.is_recovering) == (guest.recover, guest.is_recovering)
            }
        }
    }

    /// The state after an event, before and after the guest sends; `None` if the event cannot be now.
    pub(crate) fn after(&self, event: Event, rules: &Rules) -> Option<(Self, Self)> {
        if !self.is_enabled(event, rules) {
            return None;
        }
        let mut before = *self;
        before.apply(event, rules);
        let mut sent = before;
        sent.send();
        Some((before, sent))
    }

    /// The same with numbers from una on: what was acknowledged long ago makes no difference.
    fn normalised(mut self) -> Self {
        let una = self.una;
        for number in [
            &mut self.guest.recover,
            &mut self.guest.answered,
            &mut self.vcc.recover,
            &mut self.vcc.answered,
        ] {
            *number = (*number - una).max(-1) + 1;
        }
        self.una = 1;
        self.nxt += 1 - una;
        self
    }
}

/// A sequence of events after which a claim does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counterexample {
    pub(crate) events: Vec<Event>,
    pub(crate) claim: Broken,
    pub(crate) state: State,
}

impl std::fmt::Display for Counterexample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mss = |bytes: u64| bytes as f64 / MSS as f64;
        let (vcc, guest) = (&self.state.vcc, &self.state.guest);
        for event in &self.events {
            write!(f, "{event:?}, ")?;
        }
        write!(
            f,
            "breaks {:?}: W {:.2} against {:.2}, ssthresh {:.2} against {:.2}",
            self.claim,
            mss(vcc.cwnd),
            mss(guest.cwnd),
            mss(vcc.ssthresh),
            mss(guest.ssthresh)
        )
    }
}

/// What a search has found.
pub(crate) struct Search {
    pub(crate) shortest: Option<Counterexample>,
    /// States that were seen, each once.
    pub(crate) states: usize,
}

/// All sequences of these events up to a length, the shortest first; ends with the first after which a claim does
/// not hold. Sequences that lead to the same state are followed once.
pub(crate) fn search(rules: &Rules, events: &[Event], claims: &[Broken], depth: usize) -> Search {
    let first = State::new();
    let mut parents: HashMap<State, Option<(State, Event)>> = HashMap::new();
    parents.insert(first, None);
    let mut level = vec![first];
    for _ in 0..depth {
        let mut next = Vec::new();
        for state in &level {
            for &event in events {
                let Some((before, sent)) = state.after(event, rules) else {
                    continue;
                };
                if let Some(&claim) = claims.iter().find(|claim| !before.holds(**claim)) {
                    let mut path = vec![event];
                    let mut at = *state;
                    while let Some(Some((parent, event))) = parents.get(&at) {
                        path.push(*event);
                        at = *parent;
                    }
                    path.reverse();
                    let shortest = Some(Counterexample {
                        events: path,
                        claim,
                        state: before,
                    });
                    let states = parents.len();
                    return Search { shortest, states };
                }
                let sent = sent.normalised();
                if let std::collections::hash_map::Entry::Vacant(place) = parents.entry(sent) {
                    place.insert(Some((*state, event)));
                    next.push(sent);
                }
            }
        }
        level = next;
    }
    Search {
        shortest: None,
        states: parents.len(),
    }
}

/// The first claim that a sequence breaks, if all of its events can be.
pub(crate) fn replay(rules: &Rules, events: &[Event], claims: &[Broken]) -> Option<Counterexample> {
    let mut state = State::new();
    for (index, &event) in events.iter().enumerate() {
        let (before, sent) = state.after(event, rules)?;
        if let Some(&claim) = claims.iter().find(|claim| !before.holds(**claim)) {
            return Some(Counterexample {
                events: events[..=index].to_vec(),
                claim,
                state: before,
            });
        }
        state = sent;
    }
    None
}
