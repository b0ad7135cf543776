//! CUBIC's window over time (RFC 9438 §4), in segments and 1/1024 s, by integers.

/// 1024 × C; RFC 9438 §4.1 gives C = 0.4.
const C_1024: u64 = 410;
/// 8 × 3 × (1 + β) / (1 - β) / 9: delivered segments per segment of Reno's window, in eighths,
/// with β = 717/1024 (RFC 9438 §4.3's alpha, inverted).
const RENO_EIGHTHS: u64 = 15;

/// β_cubic (RFC 9438 §4.6).
pub(super) fn reduced(cwnd: u64) -> u64 {
    (cwnd * 717 / 1024).max(2)
}

/// W_max after a reduction from this cwnd, with fast convergence (RFC 9438 §4.7).
pub(super) fn w_max(cwnd: u64, former: u64) -> u64 {
    if cwnd < former {
        cwnd * (1024 + 717) / 2048
    } else {
        cwnd
    }
}

/// One congestion avoidance stage.
#[derive(Debug, Clone)]
pub(super) struct Epoch {
    start_ns: u64,
    origin: u64,
    /// When the curve reaches its origin, 1/1024 s.
    k: u64,
    reno: u64,
    reno_credit: u64,
}

impl Epoch {
    /// RFC 9438 §4.2: from this cwnd on.
    pub(super) fn new(start_ns: u64, cwnd: u64, w_max: u64) -> Self {
        let origin = w_max.max(cwnd);
        // K³ = (W_max - cwnd) / C, times 1024³.
        let cube = (u128::from(origin - cwnd) << 40) / u128::from(C_1024);
        Self {
            start_ns,
            origin,
            k: cube_root(cube),
            reno: cwnd,
            reno_credit: 0,
        }
    }

    /// Time in which there was nothing to send does not count (RFC 9438 §5.8).
    pub(super) fn skip(&mut self, ns: u64) {
        self.start_ns = self.start_ns.saturating_add(ns);
    }

    /// W_cubic(t + RTT), RFC 9438 §4.2 Figure 1.
    fn target(&self, now_ns: u64, rtt_ns: u64) -> u64 {
        let t_ns = now_ns.saturating_sub(self.start_ns).saturating_add(rtt_ns);
        let t = u128::from(t_ns) * 1024 / 1_000_000_000;
        let off = t.abs_diff(u128::from(self.k)).min(1 << 30);
        let delta = (u128::from(C_1024) * off * off * off) >> 40;
        let delta = u64::try_from(delta).unwrap_or(u64::MAX);
        if t < u128::from(self.k) {
            self.origin.saturating_sub(delta)
        } else {
            self.origin.saturating_add(delta)
        }
    }

    /// After `segments` were delivered: delivered segments for which cwnd grows by one.
    pub(super) fn pace(
        &mut self,
        now_ns: u64,
        rtt_ns: u64,
        cwnd: u64,
        delivered: u64,
        first: bool,
    ) -> u64 {
        let target = self.target(now_ns, rtt_ns);
        let mut per = if target > cwnd {
            cwnd / (target - cwnd)
        } else {
            // RFC 9438 §4.5 lets cwnd grow a little near the plateau.
            100 * cwnd
        };
        if first {
            // Without a plateau, growth is 5 % an RTT at least.
            per = per.min(20);
        }
        // RFC 9438 §4.3: never less than Reno would have.
        self.reno_credit += delivered;
        let needed = (cwnd * RENO_EIGHTHS / 8).max(1);
        self.reno += self.reno_credit / needed;
        self.reno_credit %= needed;
        if self.reno > cwnd {
            per = per.min(cwnd / (self.reno - cwnd));
        }
        // No more than one segment for two (RFC 9438 §4.2 bounds the target at 1.5 × cwnd).
        per.max(2)
    }
}

/// The greatest integer whose cube is at most `x`.
fn cube_root(x: u128) -> u64 {
    let (mut low, mut high) = (0u64, 1u64 << 42);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        let m = u128::from(middle);
        if m * m * m <= x {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cube_root_is_the_floor(x in 0u128..(1 << 120)) {
            let root = u128::from(cube_root(x));
            prop_assert!(root.pow(3) <= x);
            prop_assert!((root + 1).pow(3) > x);
        }
    }

    #[test]
    fn the_curve_comes_back_to_its_plateau_after_k() {
        // RFC 9438 §4.2: K = cbrt((W_max - cwnd) / C); for 100 and 70 that is 4.217 s, to the
        // precision of 410/1024 for C.
        let epoch = Epoch::new(0, 70, 100);
        assert!(epoch.k.abs_diff(4_318) <= 2);
        assert!(epoch.target(0, 0).abs_diff(70) <= 1);
        assert_eq!(epoch.target(4_217_000_000, 0), 100);
        // W_cubic(2 K) is as far above the plateau as the beginning is below it.
        assert!(epoch.target(8_434_000_000, 0).abs_diff(130) <= 1);
    }
}
