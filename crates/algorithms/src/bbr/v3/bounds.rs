//! What congestion says of the path: bounds for the cycle at hand, and one for longer.

/// The greatest delivery rate of the last two cycles of probing (draft-ietf-ccwg-bbr, "BBR.max_bw
/// Max Filter"), bytes/s.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MaxBw {
    before: u64,
    now: u64,
}

impl MaxBw {
    pub(super) fn get(self) -> u64 {
        self.before.max(self.now)
    }

    pub(super) fn take(&mut self, rate: u64) {
        self.now = self.now.max(rate);
    }

    /// A cycle is over; one that had no samples is not counted.
    pub(super) fn advance(&mut self) {
        if self.now > 0 {
            *self = Self {
                before: self.now,
                now: 0,
            };
        }
    }
}

/// In thousandths: a reduction of a round trip keeps at least this (BBR.Beta).
const BETA: u64 = 700;
/// Share of inflight_longterm left to other flows, in thousandths (BBR.Headroom).
const HEADROOM: u64 = 150;

fn thousandths(of: u64, share: u64) -> u64 {
    u64::try_from(u128::from(of) * u128::from(share) / 1_000).unwrap_or(u64::MAX)
}

/// What is safe in this cycle (draft-ietf-ccwg-bbr, "When not Probing for Bandwidth"); `None` is
/// no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ShortTerm {
    /// bw_shortterm, bytes/s.
    pub(super) bw: Option<u64>,
    /// inflight_shortterm, bytes.
    pub(super) inflight: Option<u64>,
}

/// What a round trip delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Latest {
    /// bw_latest, bytes/s.
    pub(super) bw: u64,
    /// inflight_latest, bytes.
    pub(super) inflight: u64,
}

impl ShortTerm {
    /// A round trip with losses ended: down to what it delivered, but no further than β.
    ///
    /// What was delivered is told generously, by `tolerance` in thousandths. A flow that paces 1 %
    /// below its model and loses less than is tolerated delivers a little less than the model, and
    /// would otherwise fall by as much in each round trip.
    pub(super) fn reduce(&mut self, latest: Latest, max_bw: u64, cwnd: u64, tolerance: u64) {
        let lower = |present: u64, delivered: u64| {
            let delivered = thousandths(delivered, tolerance);
            thousandths(present, BETA).max(delivered).min(present)
        };
        self.bw = Some(lower(self.bw.unwrap_or(max_bw), latest.bw));
        self.inflight = Some(lower(self.inflight.unwrap_or(cwnd), latest.inflight));
    }

    /// The less strict of both, each by itself.
    pub(super) fn at_least(&mut self, other: Self) {
        let greater = |a: Option<u64>, b: Option<u64>| Some(a?.max(b?));
        self.bw = greater(self.bw, other.bw);
        self.inflight = greater(self.inflight, other.inflight);
    }
}

/// inflight_longterm: the most in flight that did not lose too much, bytes; `None` is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LongTerm(pub(super) Option<u64>);

impl LongTerm {
    /// Lowers the bound after `inflight` proved too much (draft-ietf-ccwg-bbr, HandleInflightTooHigh);
    /// `target` was the aim.
    pub(super) fn lower_to(&mut self, inflight: u64, target: u64) {
        self.0 = Some(inflight.max(thousandths(target, BETA)));
    }

    pub(super) fn raise_by(&mut self, bytes: u64) {
        self.0 = self.0.map(|inflight| inflight.saturating_add(bytes));
    }

    /// The less strict of both.
    pub(super) fn at_least(&mut self, other: Self) {
        self.0 = self.0.zip(other.0).map(|(a, b)| a.max(b));
    }

    /// InflightWithHeadroom: leaves a part to others.
    pub(super) fn with_headroom(self, mss: u64) -> Option<u64> {
        let inflight = self.0?;
        let headroom = thousandths(inflight, HEADROOM).max(mss);
        Some(inflight.saturating_sub(headroom).max(4 * mss))
    }
}
