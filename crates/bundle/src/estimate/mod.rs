//! What a sendbox knows of its bundle's path, from marks and feedback (Bundler §4.5): the estimates over one RTT.

mod history;
mod loss;
mod min_rtt;
mod order;
mod window;

pub use history::History;
pub use loss::LossMonitor;
pub use min_rtt::MinRtt;
pub use order::OrderMonitor;

use std::time::Duration;

use fairwater_net::Time;

use self::window::{Match, Window};
use crate::marks::{Mark, Marks, Matching};
use crate::{Boundary, EpochSize, Feedback, IdentityFields, ReceiveCounters};

/// What is known of the path, over the last RTT. Rates are in bytes/s.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Estimates {
    /// The latest RTT sample.
    pub rtt: Option<Duration>,
    /// Mean RTT.
    pub mean_rtt: Option<Duration>,
    /// Minimum of the last 20 to 30 s.
    pub min_rtt: Option<Duration>,
    /// Rate at which the bundle left the sendbox.
    pub send_rate: Option<f64>,
    /// Rate at which it came to the receivebox, divided by the coverage.
    pub receive_rate: Option<f64>,
    /// Share of the latest boundary packets that arrived out of order, 0 to 1.
    pub out_of_order: Option<f64>,
    /// Share of the latest marks that feedback matched, without those of lost packets, 0 to 1.
    pub match_ratio: Option<f64>,
    /// Share of the packets that pass the receivebox, 0 to 1.
    pub coverage: f64,
}

/// What happened since the last invocation of the bundle's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// What was received, newly.
    pub received: ReceiveCounters,
    /// Packets lost.
    pub lost: u64,
}

/// The estimator of one bundle.
#[derive(Debug)]
pub struct Estimator {
    marks: Marks,
    window: Window,
    min_rtt: MinRtt,
    order: OrderMonitor,
    resolved: History,
    /// Marks of lost packets that have not gone unmatched yet, as many as so many losses have on average.
    lost_marks: f64,
    /// Marks that went unmatched, by the fields of their packets.
    unmatched: [u64; IdentityFields::ALL.len()],
    loss: LossMonitor,
    /// Bytes and packets sent.
    sent: (u64, u64),
    /// Bytes and packets sent up to the newest mark that was matched.
    arrived: (u64, u64),
    /// Order of that mark.
    newest: Option<u64>,
    is_app_limited: bool,
    /// The latest RTT sample.
    rtt: Option<Duration>,
    /// When the latest feedback was matched.
    matched_at: Option<Time>,
    /// The receivebox's counters, and number of the feedback that told them.
    counters: Option<(u64, ReceiveCounters)>,
    progress: Progress,
    /// Packets sent when the present receivebox was heard of first.
    unheard: u64,
    /// Packets sent when the losses were told last.
    loss_told_at: u64,
    /// When the present round trip began.
    round_began: Time,
    receivebox_epoch: EpochSize,
    /// When the first mark after the latest match was made.
    waiting_since: Option<Time>,
    /// Mean time between matches.
    interval: Option<Duration>,
    packets_since_mark: u64,
    /// Marks that so many packets should have had.
    epochs_since_mark: f64,
    matches: u64,
    surplus: u64,
}

impl Default for Estimator {
    fn default() -> Self {
        Self {
            marks: Marks::default(),
            window: Window::default(),
            min_rtt: MinRtt::default(),
            order: OrderMonitor::default(),
            resolved: History::default(),
            lost_marks: 0.0,
            unmatched: [0; IdentityFields::ALL.len()],
            loss: LossMonitor::default(),
            sent: (0, 0),
            arrived: (0, 0),
            newest: None,
            is_app_limited: false,
            rtt: None,
            matched_at: None,
            counters: None,
            progress: Progress::default(),
            unheard: 0,
            loss_told_at: 0,
            round_began: Time::ZERO,
            receivebox_epoch: EpochSize::INITIAL,
            waiting_since: None,
            interval: None,
            packets_since_mark: 0,
            epochs_since_mark: 0.0,
            matches: 0,
            surplus: 0,
        }
    }
}

impl Estimator {
    /// A packet left the sendbox: its total length, and its hash and fields unless it has no identity.
    /// `is_app_limited` says that no packet waited behind it.
    pub fn on_sent(
        &mut self,
        now: Time,
        ip_bytes: u32,
        boundary: Option<(Boundary, IdentityFields)>,
        epoch: EpochSize,
        is_app_limited: bool,
    ) {
        self.advance((u64::from(ip_bytes), 1), epoch);
        let Some((boundary, fields)) = boundary.filter(|(hash, _)| epoch.begins_at(*hash)) else {
            return;
        };
        self.on_boundary(Mark {
            boundary,
            fields,
            sent_at: now,
            bytes: self.sent.0,
            packets: self.sent.1,
            is_app_limited,
        });
    }

    /// Bytes and packets that were sent so far, where another counts them; whether that is more than before. A total
    /// that is less says nothing new.
    pub fn on_sent_total(&mut self, (bytes, packets): (u64, u64), epoch: EpochSize) -> bool {
        let more = (
            bytes.saturating_sub(self.sent.0),
            packets.saturating_sub(self.sent.1),
        );
        self.advance(more, epoch);
        more != (0, 0)
    }

    /// A boundary packet left. Its totals are no more than those that were told.
    pub fn on_boundary(&mut self, mark: Mark) {
        let inserted = self.marks.insert(mark);
        if let Some(unmatched) = inserted.unmatched {
            self.count_unmatched(&unmatched);
        }
        if inserted.is_outstanding {
            self.packets_since_mark = self.sent.1.saturating_sub(mark.packets);
            self.epochs_since_mark = 0.0;
            self.waiting_since.get_or_insert(mark.sent_at);
        }
    }

    fn advance(&mut self, (bytes, packets): (u64, u64), epoch: EpochSize) {
        self.sent.0 += bytes;
        self.sent.1 += packets;
        self.packets_since_mark += packets;
        self.epochs_since_mark += packets as f64 / epoch.packets() as f64;
    }

    /// A feedback came at `at`, with this number of the receivebox's. Whether it was matched with a mark.
    pub fn on_feedback(&mut self, at: Time, number: u64, feedback: &Feedback) -> bool {
        self.receivebox_epoch = feedback.epoch;
        self.on_counters(number, feedback.counters);
        let (mark, order) = match self.marks.take(feedback.boundary) {
            // A time before the mark's is of another clock.
            Matching::Matched { mark, order } if at >= mark.sent_at => (mark, order),
            Matching::Matched { .. } => return false,
            Matching::Duplicate | Matching::Ambiguous | Matching::Surplus => {
                self.surplus += 1;
                return false;
            }
        };
        let new = Match {
            order,
            sent_at: mark.sent_at,
            bytes_sent: mark.bytes,
            packets_sent: mark.packets,
            received_at: feedback.received_at,
            counters: feedback.counters,
            fed_back_at: at,
        };
        self.matches += 1;
        self.resolved.push(true);
        self.order.on_match(order, number);
        self.min_rtt.on_sample(at, new.rtt());
        self.window.insert(new);
        self.on_match(at, order, &mark, new.rtt());
        self.update_loss(at, new.rtt());
        true
    }

    /// Whether counters that came with this number contradict those that came before.
    #[must_use]
    pub fn is_contradiction(&self, number: u64, counters: ReceiveCounters) -> bool {
        self.counters.is_some_and(|(latest, before)| {
            let (old, new) = if number > latest {
                (before, counters)
            } else {
                (counters, before)
            };
            let falls = |of: fn(&ReceiveCounters) -> u64| of(&new) < of(&old);
            falls(|c| c.bytes)
                || falls(|c| c.packets)
                || falls(|c| c.ce_bytes)
                || falls(|c| c.ce_packets)
        })
    }

    /// The receivebox has another instance: its counters begin again, which is no loss, and marks from before it are no
    /// sign of a path that changes packets.
    pub fn on_receivebox_restart(&mut self) {
        self.resolved = History::default();
        self.lost_marks = 0.0;
        self.unheard = self.sent.1;
        self.counters = None;
        self.window.clear();
        self.order.restart();
        self.loss.restart();
        self.loss_told_at = self.sent.1;
    }

    /// Forgets what depends on times: the clock has jumped, or the box stood still.
    pub fn on_clock_jump(&mut self, now: Time) {
        self.marks.clear();
        self.window.clear();
        self.loss.restart();
        self.loss_told_at = self.sent.1;
        self.waiting_since = None;
        self.interval = None;
        self.arrived = self.sent;
        self.matched_at = None;
        self.round_began = now;
        self.packets_since_mark = 0;
        self.epochs_since_mark = 0.0;
    }

    /// Gives up on marks that are too old to be matched. Call now and then.
    pub fn expire(&mut self, now: Time) {
        let rtt = self.rtt.unwrap_or(Duration::from_secs(1));
        let age = rtt * 4 + Duration::from_secs(1);
        while let Some(expired) = self.marks.expire(now, age) {
            if let Some(mark) = expired {
                self.count_unmatched(&mark);
            }
        }
    }

    /// The estimates now.
    #[must_use]
    pub fn estimates(&self) -> Estimates {
        let coverage = self.loss.coverage();
        let received = self.window.receive_rate();
        Estimates {
            rtt: self.rtt,
            mean_rtt: self.window.mean_rtt(),
            min_rtt: self.min_rtt.get(),
            send_rate: self.window.send_rate(),
            receive_rate: received.map(|rate| rate / coverage.max(MIN_COVERAGE)),
            out_of_order: self.order.out_of_order(),
            match_ratio: self.resolved.share(),
            coverage,
        }
    }

    /// Takes what happened since this was called last; the received bytes divided by the coverage.
    pub fn take_progress(&mut self) -> Progress {
        let mut progress = std::mem::take(&mut self.progress);
        let coverage = self.loss.coverage().max(MIN_COVERAGE);
        if coverage < 1.0 {
            let scale = |value: &mut u64| *value = (*value as f64 / coverage) as u64;
            scale(&mut progress.received.bytes);
            scale(&mut progress.received.packets);
        }
        progress
    }

    /// Bytes and packets in flight: sent since the newest mark that was matched, less what has come out since at the
    /// rate of the last RTT. Feedback comes once an epoch and epochs are of random lengths, so what was sent since the
    /// mark alone would exceed the truth by an epoch on average, and by several now and then; but no more than
    /// four epochs are taken for received without feedback. All that was sent before the first match.
    #[must_use]
    pub fn in_flight(&self, now: Time, epoch: EpochSize, receive_rate: Option<f64>) -> (u64, u64) {
        let (bytes, packets) = (self.sent.0 - self.arrived.0, self.sent.1 - self.arrived.1);
        let (Some(rate), Some(matched_at)) = (receive_rate, self.matched_at) else {
            return (bytes, packets);
        };
        if bytes == 0 {
            return (0, 0);
        }
        let mean_bytes = bytes as f64 / packets.max(1) as f64;
        let most = MAX_UNTOLD_EPOCHS * epoch.packets() as f64 * mean_bytes;
        let untold = (rate * now.since(matched_at).as_secs_f64()).min(most);
        let left = (bytes as f64 - untold).max(0.0);
        (left as u64, (left / mean_bytes).ceil() as u64)
    }

    /// Bytes and packets sent so far.
    #[must_use]
    pub const fn sent(&self) -> (u64, u64) {
        self.sent
    }

    /// Whether no packet waited behind the latest packet that is known to have arrived.
    #[must_use]
    pub const fn is_app_limited(&self) -> bool {
        self.is_app_limited
    }

    /// Marks that were matched so far.
    #[must_use]
    pub const fn matches(&self) -> u64 {
        self.matches
    }

    /// Feedback without a mark so far: surplus marks, duplicates, and ambiguous ones.
    #[must_use]
    pub const fn surplus(&self) -> u64 {
        self.surplus
    }

    /// How long a boundary packet has waited for its feedback while no feedback came; `None` if none waits.
    #[must_use]
    pub fn silent_for(&self, now: Time) -> Option<Duration> {
        self.waiting_since.map(|since| now.since(since))
    }

    /// How long ago the latest match was, and the mean time between matches.
    #[must_use]
    pub fn match_times(&self, now: Time) -> Option<(Duration, Duration)> {
        Some((now.since(self.matched_at?), self.interval?))
    }

    /// Packets sent since the last mark that is not ambiguous, and how many marks as many packets have on average.
    #[must_use]
    pub const fn since_mark(&self) -> (u64, f64) {
        (self.packets_since_mark, self.epochs_since_mark)
    }

    /// The fields of the packets whose marks went unmatched most often.
    #[must_use]
    pub fn worst_fields(&self) -> IdentityFields {
        let most = |fields: &IdentityFields| self.unmatched[fields.index()];
        let worst = IdentityFields::ALL.into_iter().max_by_key(most);
        worst.unwrap_or(IdentityFields::TcpV4)
    }

    fn count_unmatched(&mut self, mark: &Mark) {
        // Nobody was there to answer.
        if mark.packets <= self.unheard {
            return;
        }
        // The receivebox has never told of boundaries that are none under its own N.
        if self.receivebox_epoch.begins_at(mark.boundary) {
            if self.lost_marks >= 1.0 {
                self.lost_marks -= 1.0;
                return;
            }
            self.resolved.push(false);
            self.unmatched[mark.fields.index()] += 1;
        }
    }

    fn on_counters(&mut self, number: u64, counters: ReceiveCounters) {
        let Some((latest, before)) = self.counters else {
            self.counters = Some((number, counters));
            return;
        };
        if number <= latest {
            return;
        }
        let received = &mut self.progress.received;
        for (total, now, then) in [
            (&mut received.bytes, counters.bytes, before.bytes),
            (&mut received.packets, counters.packets, before.packets),
            (&mut received.ce_bytes, counters.ce_bytes, before.ce_bytes),
            (
                &mut received.ce_packets,
                counters.ce_packets,
                before.ce_packets,
            ),
        ] {
            *total = total.saturating_add(now.saturating_sub(then));
        }
        self.counters = Some((number, counters));
    }

    fn on_match(&mut self, at: Time, order: u64, mark: &Mark, rtt: Duration) {
        if let Some(before) = self.matched_at {
            let gap = at.since(before);
            self.interval = Some(self.interval.map_or(gap, |mean| (mean * 3 + gap) / 4));
        }
        self.matched_at = Some(self.matched_at.map_or(at, |before| before.max(at)));
        self.rtt = Some(rtt);
        if self.newest.is_some_and(|newest| order < newest) {
            // Whether later marks wait does not change; that they waited in silence does.
            self.waiting_since = self.waiting_since.map(|_| at);
            return;
        }
        self.newest = Some(order);
        self.arrived = (mark.bytes, mark.packets);
        self.is_app_limited = mark.is_app_limited;
        let has_later_mark = self.packets_since_mark < self.sent.1 - mark.packets;
        self.waiting_since = has_later_mark.then_some(at);
    }

    fn update_loss(&mut self, at: Time, rtt: Duration) {
        let has_passed = at.since(self.round_began) >= rtt;
        if has_passed {
            self.round_began = at;
            self.loss.on_round_trip();
        }
        let Some(gaps) = self.window.gaps() else {
            return;
        };
        let (_, packets) = self.arrived;
        let sent = packets.saturating_sub(self.loss_told_at);
        self.loss_told_at = self.loss_told_at.max(packets);
        let lost = self.loss.update(gaps, sent);
        self.progress.lost = self.progress.lost.saturating_add(lost);
        // One packet in N is a boundary, so one lost packet in N leaves a mark unmatched, some round trips later.
        let marks = lost as f64 / self.receivebox_epoch.packets() as f64;
        self.lost_marks = (self.lost_marks + marks).min(MAX_LOST_MARKS);
    }
}

/// Epochs that are taken for received while their feedback is awaited: longer ones are one in 50.
const MAX_UNTOLD_EPOCHS: f64 = 4.0;

/// Most marks of lost packets that are waited for.
const MAX_LOST_MARKS: f64 = 1_024.0;

/// The least coverage that rates are corrected by.
const MIN_COVERAGE: f64 = 0.5;
