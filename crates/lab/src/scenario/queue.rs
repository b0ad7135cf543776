//! The discipline of a queue: `queue = "droptail"`.

use fairwater_net::Limit;

use super::diagnostic::{Diagnostic, Sink, nearest};
use super::tree::{Node, Value};

/// A queue discipline with its parameters; how much it holds is the link's buffer.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Queue {
    #[default]
    DropTail,
}

/// The names of disciplines.
const KNOWN: [&str; 1] = ["droptail"];

pub(super) fn read(node: &Node, sink: &Sink) -> Option<Queue> {
    let Value::Text(name) = &node.value else {
        if !node.is_unknown() {
            let message = format!("`queue`: expected a discipline, found {}", node.kind());
            sink.push(Diagnostic::new(node.span.clone(), message));
        }
        return None;
    };
    match name.as_str() {
        "droptail" => Some(Queue::DropTail),
        other => {
            let message = format!("no queue discipline is called `{other}`");
            let help = match nearest(other, KNOWN) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", KNOWN.join(", ")),
            };
            sink.push(Diagnostic::new(node.span.clone(), message).help(help));
            None
        }
    }
}

impl Queue {
    /// The limit that a queue has whose link says nothing of its buffer; `None` is one BDP.
    pub(super) fn usual_limit(&self) -> Option<Limit> {
        match self {
            Queue::DropTail => None,
        }
    }
}
