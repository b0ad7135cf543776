//! The members of an aggregate as one sender: what they report is summed up into the signals of
//! the inner algorithm's flow, and what that allows is divided among them.

use std::sync::Arc;

use fairwater_plane::{Claim, FlowInfo, NestedFlow, Reason, Signal, Signals, divide};

use super::collect::Sample;
use super::controls::Controls;
use super::{CongestionManagerConfig, Share};

/// Maximum invocations of the inner program for one report, which sums up several ACKs.
const MAX_STEPS: u64 = 8;

/// A member is idle after a silence of two round trips and this time, µs.
const IDLE_US: u64 = 10_000;

/// Window of a member that resumes after idleness, segments (RFC 6928 §2).
const RESTART_SEGMENTS: u64 = 10;

/// Clocks that differ by more than this are unrelated, µs.
const SAME_CLOCK_US: u64 = 1_000_000;

/// Maximum weight of a tag.
const MAX_WEIGHT: u32 = 1000;

/// Maximum part of one member in a sum (bytes, packets or bytes/s), so that the sum over all members
/// fits 64 bits.
const MAX_PART: u64 = 1 << 43;

/// Signals that are summed over the members.
const SUMMED: [Signal; 5] = [
    Signal::BytesInFlight,
    Signal::BytesPending,
    Signal::PacketsInFlight,
    Signal::RateIncoming,
    Signal::RateOutgoing,
];

/// One member of the pool.
#[derive(Debug)]
struct PoolMember {
    weight: u32,
    /// Pool's clock minus the member's, µs, wrapping.
    skew_us: u64,
    /// Time of the last report, or of joining, by the pool's clock, µs.
    last_report_us: u64,
    /// The member's part of each sum.
    parts: [u64; SUMMED.len()],
    /// Bytes that were acknowledged out of order and not yet in order.
    sacked: u64,
    /// Recent maximum of bytes in flight; decays.
    peak: u64,
    idle: bool,
    /// The member has not reported since it joined others. What it sends first is paced over a round
    /// trip, during which the others make room.
    fresh: bool,
    /// Controls that the member is to have, and those that it was sent last.
    due: Controls,
    sent: Controls,
}

/// All members.
#[derive(Debug)]
pub(super) struct Pool {
    config: Arc<CongestionManagerConfig>,
    inner: NestedFlow,
    /// Bytes.
    mss: u64,
    /// Members by index.
    members: Vec<Option<PoolMember>>,
    sums: [u64; SUMMED.len()],
    now_us: u64,
    srtt_us: u64,
    /// Time of the next review of idle members, µs.
    next_review_us: u64,
    /// Member that has the remainder of an uneven division.
    turn: usize,
    /// Window (segments) and rate (bytes/s) that were divided last.
    divided: Option<(u64, u64)>,
    /// Reused between divisions.
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
            members: Vec::new(),
            sums: [0; SUMMED.len()],
            now_us: info.now_us,
            srtt_us: info.srtt_us,
            next_review_us: 0,
            turn: 0,
            divided: None,
            claims: Vec::new(),
            shares: Vec::new(),
        }
    }

    /// A member joins, and has its share at once.
    pub(super) fn join(&mut self, at: usize, info: &FlowInfo) {
        let others = self.members.iter().flatten().any(|member| !member.idle);
        let skew_us = self.skew(info.now_us, 0);
        self.now_us = self.now_us.max(info.now_us.wrapping_add(skew_us));
        let member = PoolMember {
            weight: info.tag.clamp(1, MAX_WEIGHT),
            skew_us,
            last_report_us: self.now_us,
            parts: [0; SUMMED.len()],
            sacked: 0,
            peak: 0,
            idle: false,
            fresh: others,
            due: Controls::default(),
            sent: Controls::default(),
        };
        if at >= self.members.len() {
            self.members.resize_with(at + 1, || None);
        }
        self.members[at] = Some(member);
        self.divided = None;
    }

    /// A member leaves; the others have what it had.
    pub(super) fn leave(&mut self, at: usize) {
        if let Some(member) = self.members.get_mut(at).and_then(Option::take) {
            let mut parts = member.parts;
            exchange(&mut self.sums, &mut parts, [0; SUMMED.len()]);
            self.divided = None;
        }
    }

    /// A member's segments have another size: the pool's have it too, as those of one path do.
    pub(super) fn set_mss(&mut self, mss: u32) -> Result<(), Reason> {
        let new = u64::from(mss.max(1));
        if new == self.mss {
            return Ok(());
        }
        self.mss = new;
        self.divided = None;
        self.inner.set_mss(mss, self.now_us)
    }

    /// The last member has left.
    pub(super) fn close(&mut self) {
        self.inner.close();
    }

    /// Pool's clock minus a member's clock, given the difference before.
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
        let Some(mut member) = self.members.get_mut(at).and_then(Option::take) else {
            return Ok(());
        };
        let clock_us = sample.of(Signal::Now);
        member.skew_us = self.skew(clock_us, member.skew_us);
        let now_us = self.now_us.max(clock_us.wrapping_add(member.skew_us));
        let done = self.replay(&mut member, sample, now_us);
        self.now_us = now_us;
        let rtt_us = sample.of(Signal::RttSampleUs);
        if rtt_us != u64::MAX {
            self.srtt_us = match self.srtt_us {
                0 => rtt_us,
                srtt_us => srtt_us - srtt_us / 8 + rtt_us / 8,
            };
        }
        let mut parts = SUMMED.map(|signal| sample.of(signal).min(MAX_PART));
        parts[0] = sample.out.min(MAX_PART);
        exchange(&mut self.sums, &mut member.parts, parts);
        member.last_report_us = now_us;
        member.peak = member.peak.max(sample.of(Signal::BytesInFlight));
        if member.idle || member.fresh {
            member.idle = false;
            member.fresh = false;
            self.divided = None;
        }
        member.sent = Controls {
            cwnd: sample.cwnd,
            rate: sample.rate,
        };
        self.members[at] = Some(member);
        if now_us >= self.next_review_us {
            self.review();
        }
        done
    }

    /// Shows the inner program what the report sums up, as if it had come ACK by ACK.
    ///
    /// What the member sent meanwhile is taken as sent after it: the program is to see each time
    /// what is in flight before anything is sent in answer, as it does at a single ACK.
    fn replay(
        &mut self,
        member: &mut PoolMember,
        sample: &Sample,
        now_us: u64,
    ) -> Result<(), Reason> {
        let silence_us = self.silence_us();
        let mut others = self.members.iter().flatten();
        let is_live =
            |other: &PoolMember| now_us.saturating_sub(other.last_report_us) <= silence_us;
        let mut lost = sample.of(Signal::LostPkts);
        let mut timeout = sample.of(Signal::WasTimeout) != 0;
        // The path carries others' packets: this member lost some, and no more is known.
        if timeout && others.any(is_live) {
            timeout = false;
            lost = lost.max(1);
        }
        let acked = sample.of(Signal::BytesAcked);
        let misordered = sample.of(Signal::BytesMisordered);
        let before = member.parts[0];
        let others = self.sums[0] - before;
        let left = misordered.saturating_add(acked.saturating_sub(member.sacked));
        member.sacked = member
            .sacked
            .saturating_sub(acked)
            .saturating_add(misordered);

        let steps = sample.acks.clamp(1, MAX_STEPS);
        let since_us = self.now_us.max(member.last_report_us).min(now_us);
        for step in 1..=steps {
            let upto = |total: u64, step: u64| {
                (u128::from(total) * u128::from(step) / u128::from(steps)) as u64
            };
            let part = |total: u64| upto(total, step) - upto(total, step - 1);
            let last = step == steps;
            // A report of a single ACK needs no interpolation.
            let own = if last && (sample.acks <= 1 || lost > 0 || timeout) {
                sample.of(Signal::BytesInFlight)
            } else {
                before.saturating_sub(upto(left, step))
            };
            let in_flight = others.saturating_add(own);
            let mut signals = Signals::default();
            let mut set = |signal: Signal, value| signals[signal] = value;
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
                let own = sample.of(signal).min(MAX_PART);
                set(signal, self.sums[at] - member.parts[at] + own);
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
            set(Signal::AppLimited, sample.of(Signal::AppLimited));
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

    /// Marks idle members, and moves the remainder to the next member.
    fn review(&mut self) {
        let silence_us = self.silence_us();
        for member in self.members.iter_mut().flatten() {
            member.idle = self.now_us.saturating_sub(member.last_report_us) > silence_us;
            if member.idle {
                exchange(&mut self.sums, &mut member.parts, [0; SUMMED.len()]);
            }
            member.peak -= member.peak / 8;
        }
        self.turn = self.turn.wrapping_add(1);
        self.next_review_us = self.now_us.saturating_add(self.srtt_us.max(1_000));
        self.divided = None;
    }

    /// Applies the controls that changed since members were sent theirs.
    pub(super) fn changed_controls(&mut self, mut apply: impl FnMut(usize, Controls)) {
        let whole = (self.inner.cwnd() / self.mss, self.inner.rate());
        if self.divided != Some(whole) {
            self.divide();
            self.divided = Some(whole);
        }
        for (at, member) in self.members.iter_mut().enumerate() {
            if let Some(member) = member
                && member.sent != member.due
            {
                member.sent = member.due;
                apply(at, member.due);
            }
        }
    }

    /// Divides window and rate among those who use theirs. The others keep what a new connection
    /// would begin with, which is not counted: they send nothing.
    fn divide(&mut self) {
        let (window, rate) = (self.inner.cwnd(), self.inner.rate());
        let all_idle = self.members.iter().flatten().all(|member| member.idle);
        let is_active = |member: &PoolMember| all_idle || !member.idle;
        self.claims.clear();
        for member in self
            .members
            .iter()
            .flatten()
            .filter(|member| is_active(member))
        {
            self.claims.push(self.config.share.claim(member, self.mss));
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
        for member in self.members.iter_mut().flatten() {
            let cwnd = match is_active(member) {
                true => shares.next().map_or(1, |share| share * unit),
                false => idle_segments * self.mss,
            };
            let spread = match (rate, self.srtt_us) {
                (0, 1..) if member.fresh => {
                    let per_s = u128::from(cwnd) * 1_000_000 / u128::from(self.srtt_us);
                    u64::try_from(per_s).unwrap_or(u64::MAX).max(1)
                }
                _ => of_rate(cwnd),
            };
            member.due = Controls { cwnd, rate: spread };
        }
    }
}

impl Share {
    fn claim(self, member: &PoolMember, mss: u64) -> Claim {
        let most = match self {
            // With nothing left to be sent, twice what was recently in flight leaves room to grow.
            Self::Demand if member.parts[1] == 0 && !member.fresh && member.peak > 0 => {
                (member.peak / mss).saturating_mul(2).saturating_add(2)
            }
            _ => u64::MAX,
        };
        Claim {
            weight: match self {
                Self::Weighted => member.weight,
                Self::Equal | Self::Demand => 1,
            },
            most,
        }
    }
}

/// Replaces one member's parts of the sums.
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

/// Gives each share at least 1, at the cost of the largest: a window of 0 is none.
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
