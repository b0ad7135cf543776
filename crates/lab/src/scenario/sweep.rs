//! The grid of a scenario: `[sweep]` and the seeds.

use super::MAX_POINTS;
use super::diagnostic::{Diagnostic, Sink};
use super::fields::refuse;
use super::quantity;
use super::tree::{Key, Node, Value, Variable, is_name};

/// Variables with their values, and seeds. The first variable changes slowest, the seed fastest.
#[derive(Debug)]
pub(super) struct Sweep {
    variables: Vec<(Key, Vec<Node>)>,
    pub(super) seeds: Vec<u64>,
}

impl Sweep {
    pub(super) fn read(root: &Node, sink: &Sink) -> Self {
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
        let mut sweep = Self {
            variables,
            seeds: if seeds.is_empty() { vec![1] } else { seeds },
        };
        if sweep
            .checked_points()
            .is_none_or(|points| points > MAX_POINTS)
        {
            let span = entry("sweep")
                .or(entry("seeds"))
                .map_or(0..0, |(key, _)| key.span.clone());
            let message = format!("the grid has more than {MAX_POINTS} points");
            sink.push(Diagnostic::new(span, message));
            sweep.variables.clear();
            sweep.seeds.truncate(1);
        }
        sweep
    }

    fn checked_points(&self) -> Option<usize> {
        self.variables
            .iter()
            .try_fold(self.seeds.len(), |points, (_, values)| {
                points.checked_mul(values.len())
            })
    }

    /// How many points there are, seeds included.
    pub(super) fn points(&self) -> usize {
        self.checked_points().unwrap_or(usize::MAX)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|(key, _)| key.name.as_str())
    }

    /// The values of a variable, as results name them.
    pub(super) fn labels(&self, variable: &str) -> Vec<String> {
        let found = self.variables.iter().find(|(key, _)| key.name == variable);
        found.map_or_else(Vec::new, |(_, values)| {
            values.iter().map(Node::label).collect()
        })
    }

    /// That no variable was used yet.
    pub(super) fn unused(&self) -> Vec<bool> {
        vec![false; self.variables.len()]
    }

    /// The variables' values and the seed at a point.
    pub(super) fn at(&self, index: usize) -> (Vec<Variable<'_>>, u64) {
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

    pub(super) fn name_unused(&self, used: &[bool], sink: &Sink) {
        for ((key, _), _) in self.variables.iter().zip(used).filter(|(_, used)| !**used) {
            let message = format!("the variable `{}` is nowhere used", key.name);
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
            let message = format!("`{}` cannot be a variable's name", key.name);
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
                let message = format!("`seeds`: at most {MAX_POINTS} can be had");
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
