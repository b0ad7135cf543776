//! Suggests a known name for a name that is not known.

use crate::bounds::MAX_NAME;

/// The candidate nearest to `wrong`, if any is near enough to be what was meant: it is nearly
/// spelt so, whatever the case of its letters, or its last part, behind a dot, is the same or
/// begins so.
pub fn nearest<'c>(wrong: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    // The distance is quadratic in length; longer names are no typos of known ones.
    let longest = MAX_NAME + "Report.".len();
    if wrong.len() > longest {
        return None;
    }
    let last = |name: &str| name.rsplit('.').next().unwrap_or("").to_ascii_lowercase();
    let wrong_last = last(wrong);
    let scored = candidates
        .into_iter()
        .filter(|c| c.len() <= longest)
        .filter_map(|candidate| {
            if candidate.eq_ignore_ascii_case(wrong) || last(candidate) == wrong_last {
                return Some((0, candidate));
            }
            let allowed = (wrong.len().max(candidate.len()) / 3).max(1);
            let distance =
                strsim::osa_distance(&wrong.to_ascii_lowercase(), &candidate.to_ascii_lowercase());
            // Where nothing is near, the beginning will do: `Ack.rtt` for `Flow.rtt_sample_us`.
            let begins = wrong_last.len() >= 3 && last(candidate).starts_with(&wrong_last);
            match distance {
                near if near <= allowed => Some((near, candidate)),
                _ => begins.then_some((usize::MAX, candidate)),
            }
        });
    scored
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The end of a message about an unknown name: `; did you mean …?`, else `; there are …`.
pub fn did_you_mean<'c>(wrong: &str, candidates: impl IntoIterator<Item = &'c str>) -> String {
    let candidates: Vec<_> = candidates.into_iter().collect();
    match nearest(wrong, candidates.iter().copied()) {
        Some(name) => format!("; did you mean `{name}`?"),
        None if candidates.is_empty() => "; it has none".to_owned(),
        None => format!("; there are {}", candidates.join(", ")),
    }
}
