//! A budget for what one invocation may cost, and the part of a program that costs most of it.

use std::fmt;

use fairwater_lang::{Event, Expr, Program, Stmt, Type};

/// The most eBPF instructions of one invocation unless something else is asked for.
pub const DEFAULT_BUDGET: usize = 4096;

/// A program whose worst case exceeds the budget.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "takes up to {cost} eBPF instructions for an ACK, and the budget is {budget}; {clause}{statement}",
    statement = .statement.as_ref().map(|part| format!(", and of it {part}")).unwrap_or_default()
)]
pub struct OverBudget {
    /// The most eBPF instructions of one invocation.
    pub cost: usize,
    /// The budget.
    pub budget: usize,
    /// The `when` clause that costs most.
    pub clause: Part,
    /// The index of the event that the clause is.
    pub event: usize,
    /// The statement of its body that costs most.
    pub statement: Option<Part>,
}

/// A part of a program, and what it costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The beginning of its text, as `fairwater check` prints the typed program.
    pub text: String,
    /// The most eBPF instructions that it adds to an invocation.
    pub cost: usize,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` takes {}", self.text, self.cost)
    }
}

/// Whether a program's worst case is within a budget of eBPF instructions. A program that exceeds a
/// bound of eBPF has no such cost, and is for whoever generates its code to refuse.
///
/// # Errors
/// What costs most.
pub fn within(program: &Program, budget: usize) -> Result<(), Box<OverBudget>> {
    match super::ebpf(program) {
        Ok(cost) if cost > budget => Err(Box::new(over_budget(program, cost, budget))),
        _ => Ok(()),
    }
}

fn over_budget(program: &Program, cost: usize, budget: usize) -> OverBudget {
    let alone = |event: Event| {
        let alone = Program {
            events: vec![event],
            ..program.clone()
        };
        super::ebpf(&alone).unwrap_or(0)
    };
    let body = |body: &[Stmt]| {
        alone(Event {
            prelude: Vec::new(),
            condition: Expr::Const(1, Type::Bool),
            body: body.to_vec(),
        })
    };
    let nothing = body(&[]);
    let events = program.events.iter().enumerate();
    let costs = events.map(|(at, event)| (alone(event.clone()).saturating_sub(nothing), at));
    let (clause_cost, event) = costs.max().unwrap_or_default();
    let costliest = program.events.get(event);
    let statements = costliest.map_or(&[][..], |event| &event.body);
    let costs = statements.iter().map(|statement| {
        let cost = body(std::slice::from_ref(statement)).saturating_sub(nothing);
        (cost, statement)
    });
    let statement = costs.max_by_key(|(cost, _)| *cost);
    OverBudget {
        cost,
        budget,
        clause: Part {
            text: costliest.map_or_else(String::new, |event| {
                shortened(&format!("when {}", program.condition_text(event)))
            }),
            cost: clause_cost,
        },
        event,
        statement: statement.map(|(cost, statement)| Part {
            text: shortened(&program.statement_text(statement)),
            cost,
        }),
    }
}

/// The first words of a text, up to about a line.
fn shortened(text: &str) -> String {
    const LINE: usize = 72;
    let line = text.lines().next().unwrap_or_default().trim();
    match line.char_indices().nth(LINE) {
        None => line.to_owned(),
        Some((end, _)) => format!("{} …", line[..end].trim_end()),
    }
}
