//! How a window is divided among those who share it.

/// What one member asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Its part, relative to the others' weights; 0 counts as 1.
    pub weight: u32,
    /// The most that it can use; what it leaves is the others'.
    pub most: u64,
}

/// Divides `total` units so that each has what its weight entitles it to, or less where it can use
/// no more, and nobody could have more without another who has relatively less having less
/// (weighted max-min fairness, by filling up from the least). Units are whole: who gets those that
/// are left over is told by `turn`, which moves them on by one claim when it grows by one.
///
/// The shares are written to `shares`; their sum is at most `total`, and it is `total` unless
/// all have the most that they can use.
pub fn divide(total: u64, claims: &[Claim], turn: usize, shares: &mut Vec<u64>) {
    shares.clear();
    shares.resize(claims.len(), 0);
    let weight = |claim: &Claim| u128::from(claim.weight.max(1));
    let mut order: Vec<usize> = (0..claims.len()).collect();
    // Who is satisfied first: the least `most` for its weight.
    order.sort_by(|&a, &b| {
        let (a, b) = (&claims[a], &claims[b]);
        (u128::from(a.most) * weight(b)).cmp(&(u128::from(b.most) * weight(a)))
    });
    let mut left = u128::from(total);
    let mut weights: u128 = claims.iter().map(weight).sum();
    let mut filled = 0;
    for &at in &order {
        let claim = &claims[at];
        if u128::from(claim.most) * weights > left * weight(claim) {
            break;
        }
        shares[at] = claim.most;
        left -= u128::from(claim.most);
        weights -= weight(claim);
        filled += 1;
    }
    let mut unsatisfied = order.split_off(filled);
    if unsatisfied.is_empty() {
        return;
    }
    let rest = left;
    for &at in &unsatisfied {
        // Below `most`, and so within `u64`.
        let share = rest * weight(&claims[at]) / weights;
        shares[at] = u64::try_from(share).unwrap_or(u64::MAX);
        left -= share;
    }
    unsatisfied.sort_unstable();
    let count = unsatisfied.len();
    for step in 0..count {
        let at = unsatisfied[(turn + step) % count];
        if left == 0 {
            break;
        }
        if shares[at] < claims[at].most {
            shares[at] += 1;
            left -= 1;
        }
    }
}
