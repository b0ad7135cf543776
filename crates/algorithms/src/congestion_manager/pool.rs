//! The members of an aggregate as one sender: what they report is summed up into the signals of
//! the inner algorithm's flow, and what that allows is divided among them.

use std::sync::Arc;

use fairwater_plane::{Claim, FlowInfo, NestedFlow, Reason, Signal, divide};

use super::collect::Sample;
use super::orders::Order;
use super::{CongestionManagerConfig, Share};

/// Invocations of the inner program for one report, at most: how it sees the ACKs that the report
/// sums up.
const MOST_STEPS: u64 = 8;

/// A member that was silent for two round trips and this long is idle, µs.
const IDLE_US: u64 = 10_000;

/// Segments that an idle member may begin again with (RFC 6928 §2).
const RESTART_SEGMENTS: u64 = 10;

/// Clocks that differ by more are different clocks, µs.
const SAME_CLOCK_US: u64 = 1_000_000;

/// The most that a tag weighs.
const MOST_WEIGHT: u32 = 1000;

/// What one member has of a sum at most, bytes, packets or bytes/s: so the sum of as many members
/// as there can be is a number.
const MOST_PART: u64 = 1 << 43;

/// Signals of which the sum over the members counts.
const SUMMED: [Signal; 5] = [
    Signal::BytesInFlight,
    Signal::BytesPending,
    Signal::PacketsInFlight,
    Signal::RateIncoming,
    Signal::RateOutgoing,
];

/// One member.
#[derive(Debug)]
struct Seat {
    weight: u32,
    /// What its clock lacks to the pool's, µs, wrapping.
    skew_us: u64,
    /// When it last reported or joined, by the pool's clock, µs.
    heard_us: u64,
    /// Its part of each sum.
    parts: [u64; SUMMED.len()],
    /// Bytes that were acknowledged out of order and not yet in order.
    sacked: u64,
    /// The most bytes that it recently had in flight; it fades.
    peak: u64,
    idle: bool,
    /// It has not reported since it joined others: what it sends first is spread over a round
    /// trip, in which the others make room.
    fresh: bool,
    due: Order,
    told: Order,
}

/// All members.
#[derive(Debug)]
pub(super) struct Pool {
    config: Arc<CongestionManagerConfig>,
    inner: NestedFlow,
    /// Bytes.
    mss: u64,
    /// By the members' index.
    seats: Vec<Option<Seat>>,
    sums: [u64; SUMMED.len()],
    now_us: u64,
    srtt_us: u64,
    /// When it is next looked who is idle.
    look_us: u64,
    /// Whose turn it is to have what does not divide evenly.
    turn: usize,
    /// What was divided last: segments, bytes/s.
    divided: Option<(u64, u64)>,
    /// Kept for their memory.
    claims: Vec<Claim>,
    shares: Vec<u64>,
}

impl Pool {
    pub(super) fn new(
        config: Arc<CongestionManagerConfig>,
        inner: NestedFlow,
        info: &FlowInfo,
    ) -> Self {
        Self {
            config,
            inner,
            mss: u64::from(info.mss.max(1)),
            seats: Vec::new(),
            sums: [0; SUMMED.len()],
            now_us: info.now_us,
            srtt_us: info.srtt_us,
            look_us: 0,
            turn: 0,
            divided: None,
            claims: Vec::new(),
            shares: Vec::new(),
        }
    }

    /// A member joins, and has its share at once.
    pub(super) fn join(&mut self, at: usize, info: &FlowInfo) {
        let others = self.seats.iter().flatten().any(|seat| !seat.idle);
        let skew_us = self.skew(info.now_us, 0);
        self.now_us = self.now_us.max(info.now_us.wrapping_add(skew_us));
        let seat = Seat {
            weight: info.tag.clamp(1, MOST_WEIGHT),
            skew_us,
            heard_us: self.now_us,
            parts: [0; SUMMED.len()],
            sacked: 0,
            peak: 0,
            idle: false,
            fresh: others,
            due: Order::default(),
            told: Order::default(),
        };
        if at >= self.seats.len() {
            self.seats.resize_with(at + 1, || None);
        }
        self.seats[at] = Some(seat);
        self.divided = None;
    }

    /// A member leaves; the others have what it had.
    pub(super) fn leave(&mut self, at: usize) {
        if let Some(seat) = self.seats.get_mut(at).and_then(Option::take) {
            let mut parts = seat.parts;
            exchange(&mut self.sums, &mut parts, [0; SUMMED.len()]);
            self.divided = None;
        }
    }

    /// The last member has left.
    pub(super) fn close(&mut self) {
        self.inner.close();
    }

    /// What a clock that reads this lacks to the pool's, given what it lacked before.
    fn skew(&self, clock_us: u64, before: u64) -> u64 {
        let seen_us = clock_us.wrapping_add(before);
        if seen_us.saturating_add(SAME_CLOCK_US) < self.now_us {
            self.now_us.wrapping_sub(clock_us)
        } else {
            before
        }
    }

    /// A member reported.
    pub(super) fn report(&mut self, at: usize, sample: &Sample) -> Result<(), Reason> {
        let Some(mut seat) = self.seats.get_mut(at).and_then(Option::take) else {
            return Ok(());
        };
        let clock_us = sample.of(Signal::Now);
        seat.skew_us = self.skew(clock_us, seat.skew_us);
        let now_us = self.now_us.max(clock_us.wrapping_add(seat.skew_us));
        let done = self.replay(&mut seat, sample, now_us);
        self.now_us = now_us;
        let rtt_us = sample.of(Signal::RttSampleUs);
        if rtt_us != u64::MAX {
            self.srtt_us = match self.srtt_us {
                0 => rtt_us,
                srtt_us => srtt_us - srtt_us / 8 + rtt_us / 8,
            };
        }
        let mut parts = SUMMED.map(|signal| sample.of(signal).min(MOST_PART));
        parts[0] = sample.out.min(MOST_PART);
        exchange(&mut self.sums, &mut seat.parts, parts);
        seat.heard_us = now_us;
        seat.peak = seat.peak.max(sample.of(Signal::BytesInFlight));
        if seat.idle || seat.fresh {
            seat.idle = false;
            seat.fresh = false;
            self.divided = None;
        }
        seat.told = Order {
            cwnd: sample.cwnd,
            rate: sample.rate,
        };
        self.seats[at] = Some(seat);
        if now_us >= self.look_us {
            self.look();
        }
        done
    }

    /// Shows the inner program what the report sums up, as if it had come ACK by ACK.
    ///
    /// What the member sent meanwhile is taken as sent after it: the program is to see each time
    /// what is in flight before anything is sent in answer, as it does at a single ACK.
    fn replay(&mut self, seat: &mut Seat, sample: &Sample, now_us: u64) -> Result<(), Reason> {
        let silence_us = self.silence_us();
        let mut others = self.seats.iter().flatten();
        let is_live = |other: &Seat| now_us.saturating_sub(other.heard_us) <= silence_us;
        let mut lost = sample.of(Signal::LostPkts);
        let mut timeout = sample.of(Signal::WasTimeout) != 0;
        // The path carries others' packets: this member lost some, and no more is known.
        if timeout && others.any(is_live) {
            timeout = false;
            lost = lost.max(1);
        }
        let acked = sample.of(Signal::BytesAcked);
        let misordered = sample.of(Signal::BytesMisordered);
        let before = seat.parts[0];
        let others = self.sums[0] - before;
        let left = misordered.saturating_add(acked.saturating_sub(seat.sacked));
        seat.sacked = seat.sacked.saturating_sub(acked).saturating_add(misordered);

        let steps = sample.acks.clamp(1, MOST_STEPS);
        let since_us = self.now_us.max(seat.heard_us).min(now_us);
        for step in 1..=steps {
            let upto = |total: u64, step: u64| {
                (u128::from(total) * u128::from(step) / u128::from(steps)) as u64
            };
            let part = |total: u64| upto(total, step) - upto(total, step - 1);
            let last = step == steps;
            // What is told at its own ACK needs no guess.
            let own = if last && (sample.acks <= 1 || lost > 0 || timeout) {
                sample.of(Signal::BytesInFlight)
            } else {
                before.saturating_sub(upto(left, step))
            };
            let in_flight = others.saturating_add(own);
            let mut signals = [0; Signal::ALL.len()];
            let mut set = |signal: Signal, value| signals[signal as usize] = value;
            for counted in [
                Signal::BytesAcked,
                Signal::BytesMisordered,
                Signal::EcnBytes,
                Signal::EcnPackets,
                Signal::PacketsAcked,
                Signal::PacketsMisordered,
            ] {
                set(counted, part(sample.of(counted)));
            }
            for (at, signal) in SUMMED.into_iter().enumerate() {
                let own = sample.of(signal).min(MOST_PART);
                set(signal, self.sums[at] - seat.parts[at] + own);
            }
            set(Signal::BytesInFlight, in_flight);
            set(Signal::PacketsInFlight, in_flight.div_ceil(self.mss));
            set(Signal::Now, since_us + upto(now_us - since_us, step));
            let rtt_us = if last {
                sample.of(Signal::RttSampleUs)
            } else {
                sample.min_rtt_us
            };
            set(Signal::RttSampleUs, rtt_us);
            if last {
                set(Signal::LostPkts, lost);
                set(Signal::WasTimeout, u64::from(timeout));
            }
            self.inner.invoke(&signals)?;
        }
        Ok(())
    }

    /// How long a member that is not idle may be silent, µs.
    fn silence_us(&self) -> u64 {
        self.srtt_us.saturating_mul(2).saturating_add(IDLE_US)
    }

    /// Now and then: who is idle, whose turn it is.
    fn look(&mut self) {
        let silence_us = self.silence_us();
        for seat in self.seats.iter_mut().flatten() {
            seat.idle = self.now_us.saturating_sub(seat.heard_us) > silence_us;
            if seat.idle {
                exchange(&mut self.sums, &mut seat.parts, [0; SUMMED.len()]);
            }
            seat.peak -= seat.peak / 8;
        }
        self.turn = self.turn.wrapping_add(1);
        self.look_us = self.now_us.saturating_add(self.srtt_us.max(1_000));
        self.divided = None;
    }

    /// Hands out what has changed for members since they were told.
    pub(super) fn orders(&mut self, mut tell: impl FnMut(usize, Order)) {
        let whole = (self.inner.cwnd() / self.mss, self.inner.rate());
        if self.divided != Some(whole) {
            self.divide();
            self.divided = Some(whole);
        }
        for (at, seat) in self.seats.iter_mut().enumerate() {
            if let Some(seat) = seat
                && seat.told != seat.due
            {
                seat.told = seat.due;
                tell(at, seat.due);
            }
        }
    }

    /// Divides window and rate among those who use theirs. The others keep what a new connection
    /// would begin with, which is not counted: they send nothing.
    fn divide(&mut self) {
        let (window, rate) = (self.inner.cwnd(), self.inner.rate());
        let all_idle = self.seats.iter().flatten().all(|seat| seat.idle);
        let takes_part = |seat: &Seat| all_idle || !seat.idle;
        self.claims.clear();
        for seat in self.seats.iter().flatten().filter(|seat| takes_part(seat)) {
            self.claims.push(self.config.share.claim(seat, self.mss));
        }
        let count = self.claims.len() as u64;
        let segments = window / self.mss;
        let (unit, total) = if segments >= count {
            (self.mss, segments)
        } else {
            self.claims
                .iter_mut()
                .for_each(|claim| claim.most = u64::MAX);
            (1, window)
        };
        divide(total, &self.claims, self.turn, &mut self.shares);
        one_at_least(&mut self.shares);
        let given: u64 = self.shares.iter().sum();
        let idle_segments = (segments / (count + 1)).clamp(1, RESTART_SEGMENTS);
        let of_rate = |cwnd: u64| match rate {
            0 => 0,
            _ => {
                let whole = u128::from(given.max(1)) * u128::from(unit);
                let part = u128::from(rate) * u128::from(cwnd) / whole;
                u64::try_from(part).unwrap_or(rate).clamp(1, rate)
            }
        };
        let mut shares = self.shares.iter();
        for seat in self.seats.iter_mut().flatten() {
            let cwnd = match takes_part(seat) {
                true => shares.next().map_or(1, |share| share * unit),
                false => idle_segments * self.mss,
            };
            let spread = match (rate, self.srtt_us) {
                (0, 1..) if seat.fresh => {
                    let per_s = u128::from(cwnd) * 1_000_000 / u128::from(self.srtt_us);
                    u64::try_from(per_s).unwrap_or(u64::MAX).max(1)
                }
                _ => of_rate(cwnd),
            };
            seat.due = Order { cwnd, rate: spread };
        }
    }
}

impl Share {
    fn claim(self, seat: &Seat, mss: u64) -> Claim {
        let most = match self {
            // With nothing left to be sent, twice what was recently in flight leaves room to grow.
            Self::Demand if seat.parts[1] == 0 && !seat.fresh && seat.peak > 0 => {
                (seat.peak / mss).saturating_mul(2).saturating_add(2)
            }
            _ => u64::MAX,
        };
        Claim {
            weight: match self {
                Self::Weighted => seat.weight,
                Self::Equal | Self::Demand => 1,
            },
            most,
        }
    }
}

/// One member's parts of the sums are others from now on.
fn exchange(
    sums: &mut [u64; SUMMED.len()],
    parts: &mut [u64; SUMMED.len()],
    new: [u64; SUMMED.len()],
) {
    for ((sum, part), new) in sums.iter_mut().zip(parts).zip(new) {
        *sum -= *part;
        *part = new;
        *sum += *part;
    }
}

/// Nobody is to have nothing, as that is no window: those with the most give.
fn one_at_least(shares: &mut [u64]) {
    for at in 0..shares.len() {
        if shares[at] > 0 {
            continue;
        }
        shares[at] = 1;
        if let Some(most) = shares.iter_mut().max()
            && *most > 1
        {
            *most -= 1;
        }
    }
}
