//! The Observing of RFC 9959 §3.1: programs that count what they deliver, and the capacity that
//! follows.

use fairwater_exec::portable::{self, Append};
use fairwater_lang::{Binary, Event, Expr, Place, Program, Scope, Stmt, Type, VarId, Variable};

use super::Set;
use crate::{Report, Signal};

/// Report fields that [`counting`] adds: bytes acknowledged, and the least RTT in µs, since the flow was
/// switched to the program.
const ADDED: [(&str, u64); 2] = [("resume.acked", 0), ("resume.min_rtt_us", u64::MAX)];

/// Window of the capacity's maximum filter, µs: an observation counts for half of it at least.
const WINDOW_US: u64 = 10_000_000;

/// Round trips after which an observation may lower what is remembered.
const CONVERGED_ROUNDS: u32 = 20;

/// The program, with what it delivered as the last two fields of its reports. It does what it did.
/// `None` where that would exceed a bound that the program keeps.
pub(crate) fn counting(program: &Program) -> Option<Program> {
    let fields = program.report_len();
    let shift = |id: &mut VarId| {
        if usize::from(id.0) >= fields {
            // Bounded by `MAX_VARIABLES`.
            id.0 = id.0.saturating_add(2);
        }
    };
    let mut events = program.events.clone();
    for event in &mut events {
        each_variable(event, &shift);
    }
    let mut variables = program.variables.clone();
    variables.splice(fields..fields, added(Scope::Report, ""));
    let first_field = u16::try_from(fields).ok()?;
    let first = events.first_mut()?;
    if first.condition == Expr::Const(1, Type::Bool) {
        // Its body runs at each invocation.
        first.body.splice(0..0, folds(first_field));
    } else {
        // Its prelude does, which assigns to hidden variables alone: they are copied at each report.
        let first_hidden = u16::try_from(variables.len()).ok()?;
        variables.extend(added(Scope::Hidden, "__"));
        first.prelude.extend(folds(first_hidden));
        let copies = [0, 1].map(|at| {
            let value = Expr::Place(place(first_hidden + at));
            Stmt::Assign(place(first_field + at), value)
        });
        for event in &mut events {
            before_reports(&mut event.body, &copies);
        }
    }
    let counting = Program::new(variables, events).ok()?;
    let is_portable = |program| portable::encode(program, Append::Flow).is_ok();
    // libccp's bounds are the narrowest: what it could run, it still can.
    (is_portable(&counting) || !is_portable(program)).then_some(counting)
}

fn added(scope: Scope, prefix: &str) -> [Variable; 2] {
    ADDED.map(|(name, init)| Variable {
        name: format!("{prefix}{name}"),
        scope,
        volatile: false,
        ty: Type::Num,
        init,
    })
}

const fn place(id: u16) -> Place {
    Place::Var(VarId(id))
}

/// What an invocation adds to the counters, the first of which is variable `id`.
fn folds(id: u16) -> [Stmt; 2] {
    let fold = |at: u16, op, signal| {
        let (old, new) = (Expr::Place(place(at)), Expr::Signal(signal));
        Stmt::Assign(place(at), Expr::Binary(op, Box::new(old), Box::new(new)))
    };
    [
        fold(id, Binary::Add, Signal::BytesAcked),
        fold(id + 1, Binary::Min, Signal::RttSampleUs),
    ]
}

fn before_reports(body: &mut Vec<Stmt>, copies: &[Stmt; 2]) {
    let mut at = 0;
    while at < body.len() {
        match &mut body[at] {
            Stmt::Report => {
                body.splice(at..at, copies.iter().cloned());
                at += copies.len();
            }
            Stmt::If {
                then, otherwise, ..
            } => {
                before_reports(then, copies);
                before_reports(otherwise, copies);
            }
            Stmt::Assign(..) | Stmt::Fallthrough => {}
        }
        at += 1;
    }
}

fn each_variable(event: &mut Event, change: &impl Fn(&mut VarId)) {
    in_statements(&mut event.prelude, change);
    in_expression(&mut event.condition, change);
    in_statements(&mut event.body, change);
}

fn in_statements(statements: &mut [Stmt], change: &impl Fn(&mut VarId)) {
    for statement in statements {
        match statement {
            Stmt::Assign(place, value) => {
                in_place(place, change);
                in_expression(value, change);
            }
            Stmt::If {
                condition,
                then,
                otherwise,
            } => {
                in_expression(condition, change);
                in_statements(then, change);
                in_statements(otherwise, change);
            }
            Stmt::Report | Stmt::Fallthrough => {}
        }
    }
}

fn in_place(place: &mut Place, change: &impl Fn(&mut VarId)) {
    if let Place::Var(id) = place {
        change(id);
    }
}

fn in_expression(expression: &mut Expr, change: &impl Fn(&mut VarId)) {
    match expression {
        Expr::Const(..) | Expr::Signal(_) => {}
        Expr::Place(place) => in_place(place, change),
        Expr::Scale { value, .. } | Expr::Not(value) => in_expression(value, change),
        Expr::Binary(_, a, b) | Expr::Compare(_, a, b) | Expr::And(a, b) | Expr::Or(a, b) => {
            in_expression(a, change);
            in_expression(b, change);
        }
        Expr::Ewma {
            weight: a,
            old: b,
            new: c,
        }
        | Expr::If {
            condition: a,
            then: b,
            otherwise: c,
        } => {
            in_expression(a, change);
            in_expression(b, change);
            in_expression(c, change);
        }
    }
}

/// What a flow observes of its path, from the reports of its programs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Observation {
    /// When the round that is measured began, µs, and what was delivered in it, bytes.
    since_us: u64,
    acked: u64,
    /// The count of the last report.
    last: u64,
    /// Greatest window of the round, bytes.
    cwnd: u64,
    min_rtt_us: u64,
    /// Greatest capacity of the present and of the former half of the window, bytes.
    present: u64,
    former: u64,
    half_since_us: u64,
    rounds: u32,
    /// The capacity that was worth saving last, bytes.
    saved: u64,
}

/// Whether what was observed is to be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    No,
    /// The capacity is greater by a quarter than what was saved last: the flow may soon be idle.
    Grown,
    /// A half of the window is over.
    Half,
}

impl Observation {
    pub(crate) const fn new(now_us: u64) -> Self {
        Self {
            since_us: now_us,
            acked: 0,
            last: 0,
            cwnd: 0,
            min_rtt_us: u64::MAX,
            present: 0,
            former: 0,
            half_since_us: now_us,
            rounds: 0,
            saved: 0,
        }
    }

    /// Takes in a report of a counting program.
    pub(crate) fn on_report(&mut self, report: &Report<'_>) -> Due {
        let Some([count, min_rtt_us]) = report.last_fields() else {
            return Due::No;
        };
        self.on_count(report.time_us(), report.cwnd(), count, min_rtt_us)
    }

    fn on_count(&mut self, now_us: u64, cwnd: u64, count: u64, min_rtt_us: u64) -> Due {
        self.cwnd = self.cwnd.max(cwnd);
        // The counts begin anew with each switch of program.
        let newly = count.checked_sub(self.last).unwrap_or(count);
        self.last = count;
        self.acked = self.acked.saturating_add(newly);
        self.min_rtt_us = self.min_rtt_us.min(min_rtt_us);
        let elapsed_us = now_us.saturating_sub(self.since_us);
        if self.min_rtt_us == u64::MAX || elapsed_us < self.min_rtt_us.max(1_000) {
            return Due::No;
        }
        // What is delivered in the least RTT, without what waits in queues: u128 for the product.
        let product = u128::from(self.acked) * u128::from(self.min_rtt_us);
        let capacity = u64::try_from(product / u128::from(elapsed_us)).unwrap_or(u64::MAX);
        // An ACK that fills a hole acknowledges what arrived in the round before, too.
        let capacity = capacity.min(self.cwnd);
        self.present = self.present.max(capacity);
        self.rounds = self.rounds.saturating_add(1);
        (self.since_us, self.acked, self.cwnd) = (now_us, 0, cwnd);
        if now_us.saturating_sub(self.half_since_us) < WINDOW_US / 2 {
            if capacity <= self.saved.saturating_add(self.saved / 4) {
                return Due::No;
            }
            self.saved = capacity;
            return Due::Grown;
        }
        (self.former, self.present) = (self.present, 0);
        (self.half_since_us, self.saved) = (now_us, self.former);
        Due::Half
    }

    /// What is to be remembered, and whether it may lower what is; `None` where resuming would not gain
    /// anything: less than four initial windows of `initial` bytes (RFC 9959 §3.1).
    pub(crate) fn outcome(&self, initial: u64) -> Option<(Set, bool)> {
        let cwnd = self.present.max(self.former);
        if cwnd < initial.saturating_mul(4) || self.min_rtt_us == u64::MAX {
            return None;
        }
        let set = Set {
            cwnd,
            rtt_us: self.min_rtt_us,
        };
        Some((set, self.rounds >= CONVERGED_ROUNDS))
    }
}
