//! Programs as libccp runs them.

use fairwater_lang::{Event, Expr, Place, Program, Scope, Signal, Stmt, Type, VarId, Variable};

/// Values that each report of libccp's carries behind the program's own: the time, cwnd and the
/// rate, which libccp's encoding has no place for.
pub(super) const APPENDED: usize = 3;

/// What a flow is switched to when it is withdrawn: libccp has no fallback of its own for a flow
/// whose agent is there. Reno's growth, one cut per 100 ms of losses, and no report.
pub(super) const FALLBACK: &str = "
(def (segment 1460))
(when Flow.was_timeout
  (:= Cwnd (* 2 segment))
  (reset))
(when (&& (> Ack.lost_pkts_sample 0) (> Micros 100000))
  (:= Cwnd (max (* 2 segment) (/ Cwnd 2)))
  (reset))
(when (> Ack.bytes_acked 0)
  (:= Cwnd (+ Cwnd (/ (* segment Ack.bytes_acked) Cwnd))))";

/// The program with [`APPENDED`] more report variables, assigned at the end of every body.
pub(super) fn appended(program: &Program) -> Program {
    let first = program.report_len();
    let shift = |VarId(at): VarId| {
        let beyond = if usize::from(at) < first {
            0
        } else {
            APPENDED as u16
        };
        VarId(at.saturating_add(beyond))
    };
    let mut variables = program.variables.clone();
    for (at, name) in ["fw_time", "fw_cwnd", "fw_rate"].into_iter().enumerate() {
        let variable = Variable {
            name: name.to_owned(),
            scope: Scope::Report,
            volatile: false,
            ty: Type::Num,
            init: 0,
        };
        variables.insert(first + at, variable);
    }
    let at = |offset: usize| Place::Var(VarId(u16::try_from(first + offset).unwrap_or(u16::MAX)));
    let finish = [
        Stmt::Assign(at(0), Expr::Signal(Signal::Now)),
        Stmt::Assign(at(1), Expr::Place(Place::Cwnd)),
        Stmt::Assign(at(2), Expr::Place(Place::Rate)),
    ];
    let events = program.events.iter().map(|event| {
        let mut body = statements(&event.body, &shift);
        body.extend(finish.iter().cloned());
        Event {
            prelude: statements(&event.prelude, &shift),
            condition: expression(&event.condition, &shift),
            body,
        }
    });
    let events = events.collect();
    let mut signals = program.signals;
    signals.insert(Signal::Now);
    Program {
        variables,
        events,
        signals,
    }
}

fn statements(all: &[Stmt], shift: &impl Fn(VarId) -> VarId) -> Vec<Stmt> {
    let moved = all.iter().map(|statement| match statement {
        Stmt::Assign(to, value) => Stmt::Assign(place(*to, shift), expression(value, shift)),
        Stmt::If {
            condition,
            then,
            otherwise,
        } => Stmt::If {
            condition: expression(condition, shift),
            then: statements(then, shift),
            otherwise: statements(otherwise, shift),
        },
        Stmt::Report => Stmt::Report,
        Stmt::Fallthrough => Stmt::Fallthrough,
    });
    moved.collect()
}

fn place(of: Place, shift: &impl Fn(VarId) -> VarId) -> Place {
    match of {
        Place::Var(variable) => Place::Var(shift(variable)),
        other => other,
    }
}

fn expression(of: &Expr, shift: &impl Fn(VarId) -> VarId) -> Expr {
    let inner = |e: &Expr| Box::new(expression(e, shift));
    match of {
        Expr::Const(..) | Expr::Signal(_) => of.clone(),
        Expr::Place(at) => Expr::Place(place(*at, shift)),
        Expr::Binary(op, a, b) => Expr::Binary(*op, inner(a), inner(b)),
        Expr::Scale { value, num, den } => Expr::Scale {
            value: inner(value),
            num: *num,
            den: *den,
        },
        Expr::Ewma { weight, old, new } => Expr::Ewma {
            weight: inner(weight),
            old: inner(old),
            new: inner(new),
        },
        Expr::Compare(op, a, b) => Expr::Compare(*op, inner(a), inner(b)),
        Expr::And(a, b) => Expr::And(inner(a), inner(b)),
        Expr::Or(a, b) => Expr::Or(inner(a), inner(b)),
        Expr::Not(a) => Expr::Not(inner(a)),
        Expr::If {
            condition,
            then,
            otherwise,
        } => Expr::If {
            condition: inner(condition),
            then: inner(then),
            otherwise: inner(otherwise),
        },
    }
}

/// A program in libccp's encoding.
#[derive(Debug)]
pub(super) struct Portable {
    /// What INSTALL carries from its counts on.
    pub(super) body: Vec<u8>,
    /// The control register of each variable of the program as it was, if it has one.
    controls: Vec<Option<u16>>,
}

impl Portable {
    pub(super) fn of(program: &Program) -> Result<Self, String> {
        let _ = appended(program);
        Err("not yet".to_owned())
    }

    #[inline]
    pub(super) fn control(&self, variable: u16) -> Option<u16> {
        self.controls.get(usize::from(variable)).copied().flatten()
    }
}
