//! What a reload changes, in sentences.

use super::Mode;
use super::rule::{Action, EdgePolicy, Rule};

impl EdgePolicy {
    /// What changes from the old policy to the new one; empty if nothing does. Rules are compared by what
    /// they match and do, not by the lines where they stand.
    #[must_use]
    pub fn difference(old: &Self, new: &Self) -> Vec<String> {
        let mut sentences = Vec::new();
        let same = |a: &Rule, b: &Rule| matches_alike(a, b) && acts_alike(a, b);
        let kept = common(&old.rules, &new.rules, same);
        let is_kept_old = |index| kept.iter().any(|(old, _)| *old == index);
        let is_kept_new = |index| kept.iter().any(|(_, new)| *new == index);
        let mut replaced = vec![false; new.rules.len()];
        for (index, rule) in old.rules.iter().enumerate() {
            if is_kept_old(index) {
                continue;
            }
            let successor = (0..new.rules.len()).find(|at| {
                !is_kept_new(*at) && !replaced[*at] && matches_alike(rule, &new.rules[*at])
            });
            match successor {
                Some(at) if acts_alike(rule, &new.rules[at]) => {
                    replaced[at] = true;
                    sentences.push(format!("rule {} is rule {} now: {rule}", index + 1, at + 1));
                }
                Some(at) => {
                    replaced[at] = true;
                    let (before, after) = (acts(rule), acts(&new.rules[at]));
                    sentences.push(format!("{rule}: from {before} to {after}"));
                }
                None => sentences.push(format!("rule removed: {rule}: {}", acts(rule))),
            }
        }
        for (index, rule) in new.rules.iter().enumerate() {
            if !is_kept_new(index) && !replaced[index] {
                let acts = acts(rule);
                sentences.push(format!("rule {} added: {rule}: {acts}", index + 1));
            }
        }
        sentences.extend(tenants(old, new));
        sentences.extend(selectors(old, new));
        sentences.extend(defaults(old, new));
        sentences
    }
}

fn matches_alike(a: &Rule, b: &Rule) -> bool {
    let name = |rule: &Rule| rule.tenant.as_ref().map(|(name, _)| name.clone());
    (name(a), &a.conditions) == (name(b), &b.conditions)
}

fn acts_alike(a: &Rule, b: &Rule) -> bool {
    acts(a) == acts(b)
}

/// The longest common subsequence, as pairs of indices.
fn common(old: &[Rule], new: &[Rule], same: impl Fn(&Rule, &Rule) -> bool) -> Vec<(usize, usize)> {
    let mut lengths = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            lengths[i][j] = if same(&old[i], &new[j]) {
                lengths[i + 1][j + 1] + 1
            } else {
                lengths[i + 1][j].max(lengths[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut pairs = Vec::new();
    while i < old.len() && j < new.len() {
        if same(&old[i], &new[j]) {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if lengths[i + 1][j] >= lengths[i][j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

/// What a rule does, in few words.
fn acts(rule: &Rule) -> String {
    let mut words = match &rule.action {
        Action::Pass => vec!["pass".to_owned()],
        Action::Control(treatment) => {
            let mut words = vec![match &treatment.selector {
                None => format!("algorithm `{}`", treatment.algorithm),
                Some(selector) => format!("selector `{}`", selector.name),
            }];
            words.extend((treatment.mode == Mode::Buffer).then(|| "buffered".to_owned()));
            words.extend(treatment.ecn.then(|| "ECN".to_owned()));
            words.extend(treatment.police.then(|| "policed".to_owned()));
            words.extend(treatment.max_scale.map(|scale| format!("scale ≤ {scale}")));
            words.extend(treatment.share.as_ref().map(|share| {
                let weight = format!("weight {}", share.weight);
                if share.group.is_empty() {
                    weight
                } else {
                    format!("{weight} in `{}`", share.group)
                }
            }));
            words
        }
    };
    words.extend(rule.when_starved.map(|when| match when {
        super::WhenStarved::Propose => "proposed when starved".to_owned(),
        super::WhenStarved::Control => "only when starved".to_owned(),
    }));
    words.join(", ")
}

/// Tenants of both that are others now.
fn tenants(old: &EdgePolicy, new: &EdgePolicy) -> Vec<String> {
    let mut sentences = Vec::new();
    for (name, before) in old.rules.iter().filter_map(|rule| rule.tenant.as_ref()) {
        let mut of_new = new.rules.iter().filter_map(|rule| rule.tenant.as_ref());
        if let Some((_, after)) = of_new.find(|(other, _)| other == name)
            && after != before
        {
            let sentence = format!("tenant `{name}`: from {before} to {after}");
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        }
    }
    sentences
}

fn selectors(old: &EdgePolicy, new: &EdgePolicy) -> Vec<String> {
    let gone = old
        .selectors
        .iter()
        .filter_map(|each| match new.selector(&each.name) {
            None => Some(format!("selector `{}` removed", each.name)),
            Some(other) if other != each => Some(format!("selector `{}` changed", each.name)),
            Some(_) => None,
        });
    let come = new.selectors.iter();
    let come = come.filter(|each| old.selector(&each.name).is_none());
    let come = come.map(|each| format!("selector `{}` added", each.name));
    gone.chain(come).collect()
}

fn defaults(old: &EdgePolicy, new: &EdgePolicy) -> Vec<String> {
    let (old, new) = (&old.defaults, &new.defaults);
    let (a, b) = (&old.table, &new.table);
    let values = [
        (
            "grace",
            format!("{:?}", old.grace),
            format!("{:?}", new.grace),
        ),
        (
            "on_plane_loss",
            old.on_plane_loss.name().to_owned(),
            new.on_plane_loss.name().to_owned(),
        ),
        ("propose", old.propose.to_string(), new.propose.to_string()),
        (
            "max_flows",
            a.max_flows.to_string(),
            b.max_flows.to_string(),
        ),
        (
            "max_flows_per_port",
            a.max_flows_per_interface.to_string(),
            b.max_flows_per_interface.to_string(),
        ),
        (
            "max_half_open",
            a.max_half_open.to_string(),
            b.max_half_open.to_string(),
        ),
        (
            "max_buffer_per_flow",
            old.buffers.max_flow_bytes.to_string(),
            new.buffers.max_flow_bytes.to_string(),
        ),
        (
            "max_buffers",
            old.buffers.max_bytes.to_string(),
            new.buffers.max_bytes.to_string(),
        ),
        ("idle", format!("{:?}", a.idle), format!("{:?}", b.idle)),
        (
            "closing",
            format!("{:?}", a.closing),
            format!("{:?}", b.closing),
        ),
        (
            "half_open",
            format!("{:?}", a.half_open),
            format!("{:?}", b.half_open),
        ),
    ];
    let changed = values.into_iter().filter(|(_, old, new)| old != new);
    let sentence =
        |(key, old, new): (&str, String, String)| format!("`{key}`: from {old} to {new}");
    changed.map(sentence).collect()
}
