//! The grid of a scenario: `[sweep]` and the seeds.

use crate::MAX_POINTS;
use crate::diagnostic::{Diagnostic, Sink};
use crate::fields::refuse;
use crate::quantity;
use crate::tree::{Key, Node, Value, Variable, is_name};

/// Variables with their values, and seeds. The first variable changes slowest, the seed fastest.
#[derive(Debug)]
pub(crate) struct Sweep {
    variables: Vec<(Key, Vec<Node>)>,
    pub(crate) seeds: Vec<u64>,
}

impl Sweep {
    pub(crate) fn read(root: &Node, sink: &Sink) -> Self {
        let entry = |name: &str| match &root.value {
            Value::Table(entries) => entries.iter().find(|(key, _)| key.name == name),
            _ => None,
        };
        let variables = entry("sweep").map_or_else(Vec::new, |(_, node)| variables(node, sink));
        let seeds = match (entry("seed"), entry("seeds")) {
            (Some(_), Some((key, _))) => {
                let message = "a scenario has a `seed` or `seeds`, and this one has both";
                sink.push(Diagnostic::new(key.span.clone(), message));
                vec![1]
            }
            (Some((_, node)), None) => seed("seed", node, sink).into_iter().collect(),
            (None, Some((_, node))) => seeds(node, sink),
            (None, None) => vec![1],
        };
        let sweep = Self {
            variables,
            seeds: if seeds.is_empty() { vec![1] } else { seeds },
        };
        if sweep.is_too_large() {
            let span = entry("sweep")
                .or(entry("seeds"))
                .map_or(0..0, |(key, _)| key.span.clone());
            let points = sweep
                .variables
                .iter()
                .map(|(_, values)| values.len() as u128);
            let points = points.fold(sweep.seeds.len() as u128, u128::saturating_mul);
            let message = format!("the grid has {points} points; the limit is {MAX_POINTS}");
            sink.push(Diagnostic::new(span, message));
        }
        sweep
    }

    /// Whether there are more points than are read one by one.
    pub(crate) fn is_too_large(&self) -> bool {
        self.checked_points()
            .is_none_or(|points| points > MAX_POINTS)
    }

    fn checked_points(&self) -> Option<usize> {
        self.variables
            .iter()
            .try_fold(self.seeds.len(), |points, (_, values)| {
                points.checked_mul(values.len())
            })
    }

    /// How many points there are, seeds included.
    pub(crate) fn points(&self) -> usize {
        self.checked_points().unwrap_or(usize::MAX)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|(key, _)| key.name.as_str())
    }

    /// The values of a variable, as results name them.
    pub(crate) fn labels(&self, variable: &str) -> Vec<String> {
        let found = self.variables.iter().find(|(key, _)| key.name == variable);
        found.map_or_else(Vec::new, |(_, values)| {
            values.iter().map(Node::label).collect()
        })
    }

    /// That no variable was used yet.
    pub(crate) fn unused(&self) -> Vec<bool> {
        vec![false; self.variables.len()]
    }

    /// The variables' values and the seed at a point.
    pub(crate) fn at(&self, index: usize) -> (Vec<Variable<'_>>, u64) {
        let seed = self.seeds[index % self.seeds.len()];
        let mut rest = index / self.seeds.len();
        let mut variables: Vec<_> = self
            .variables
            .iter()
            .rev()
            .map(|(key, values)| {
                let value = &values[rest % values.len()];
                rest /= values.len();
                Variable {
                    name: &key.name,
                    value,
                }
            })
            .collect();
        variables.reverse();
        (variables, seed)
    }

    pub(crate) fn name_unused(&self, used: &[bool], sink: &Sink) {
        for ((key, _), _) in self.variables.iter().zip(used).filter(|(_, used)| !**used) {
            let message = format!("the variable `{}` is never used", key.name);
            let help = format!("a value elsewhere in the file may be \"${}\"", key.name);
            sink.push(Diagnostic::new(key.span.clone(), message).help(help));
        }
    }
}

fn variables(node: &Node, sink: &Sink) -> Vec<(Key, Vec<Node>)> {
    let Value::Table(entries) = &node.value else {
        let message = "`[sweep]` is a table of variables and their values";
        sink.push(Diagnostic::new(node.span.clone(), message));
        return Vec::new();
    };
    let mut variables = Vec::new();
    for (key, node) in entries {
        if !is_name(&key.name) {
            let message = format!("`{}` is not a valid variable name", key.name);
            sink.push(
                Diagnostic::new(key.span.clone(), message).label("ASCII letters, digits and `_`"),
            );
        }
        let mut values = match &node.value {
            Value::Array(values) => values.clone(),
            _ => vec![node.clone()],
        };
        if values.is_empty() {
            let message = format!("the variable `{}` has no values", key.name);
            sink.push(Diagnostic::new(node.span.clone(), message));
            values.push(Node::no_value(node.span.clone()));
        }
        for (index, value) in values.iter().enumerate() {
            if values[..index]
                .iter()
                .any(|before| before.value == value.value)
            {
                let message = format!("the variable `{}` has this value twice", key.name);
                sink.push(Diagnostic::new(value.span.clone(), message));
            }
        }
        variables.push((key.clone(), values));
    }
    variables.sort_by_key(|(key, _)| key.span.start);
    variables
}

fn seed(key: &str, node: &Node, sink: &Sink) -> Option<u64> {
    quantity::integer(node)
        .map_err(|wrong| refuse(key, node, wrong, sink))
        .ok()
}

/// `seeds = 50` are those from 1 to 50, `seeds = [3, 7]` these.
fn seeds(node: &Node, sink: &Sink) -> Vec<u64> {
    match &node.value {
        Value::Array(seeds) => seeds
            .iter()
            .filter_map(|node| seed("seeds", node, sink))
            .collect(),
        _ => match quantity::count(node) {
            Ok(count) if count <= MAX_POINTS as u64 => (1..=count).collect(),
            Ok(_) => {
                let message = format!("`seeds`: more than the limit of {MAX_POINTS}");
                sink.push(Diagnostic::new(node.span.clone(), message));
                Vec::new()
            }
            Err(wrong) => {
                refuse("seeds", node, wrong, sink);
                Vec::new()
            }
        },
    }
}
