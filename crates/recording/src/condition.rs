//! Breakpoints: conditions in the language of programs.

use std::fmt::Write;

use fairwater_exec::interp;
use fairwater_exec::invocation::Registers;
use fairwater_lang::{Expr, Program, Scope, Signals, Stmt, Type, Variable, compile};
use thiserror::Error;

/// Why a text is no condition over a program's variables.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is no condition of program `{program}`: {why}")]
pub struct ConditionError {
    /// The text.
    pub text: String,
    /// The program's name.
    pub program: String,
    /// The first mistake.
    pub why: String,
}

/// A condition over the variables of one program, the signals, `Cwnd`, `Rate` and `Micros`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition(Expr);

impl Condition {
    /// Parses `(> Report.lost 0)`, or `Report.lost > 0`. `name` is the program's, for errors.
    ///
    /// # Errors
    /// The text is no boolean expression over what the program has, or has a state of its own (`ewma`).
    pub fn parse(text: &str, name: &str, program: &Program) -> Result<Self, ConditionError> {
        let error = |why: &str| ConditionError {
            text: text.to_owned(),
            program: name.to_owned(),
            why: why.to_owned(),
        };
        let source = format!(
            "{}(when {}\n(report))\n",
            declarations(program),
            prefix(text)
        );
        let compiled = compile("condition", &source).map_err(|diagnostics| {
            let first = diagnostics.iter().next();
            error(first.map_or("it does not compile", |first| &first.message))
        })?;
        let told = |program: &Program| {
            let variables = program.variables.iter();
            let told = variables.filter(|v| v.scope != Scope::Hidden);
            told.map(|v| (v.name.clone(), v.scope)).collect::<Vec<_>>()
        };
        let found = &compiled.program;
        match found.events.as_slice() {
            // A parenthesis too many ends the clause early.
            [event] if event.body != [Stmt::Report] => Err(error("it is more than one expression")),
            [event] if event.prelude.is_empty() && told(found) == told(program) => {
                Ok(Self(event.condition.clone()))
            }
            [_] => Err(error("an average has a state, which a condition has not")),
            _ => Err(error("it is more than one expression")),
        }
    }

    /// Whether the condition holds.
    #[must_use]
    pub fn holds(&self, registers: &Registers, variables: &[u64], signals: &Signals) -> bool {
        interp::evaluate(&self.0, registers, variables, signals) != 0
    }
}

/// `a op b` as `(op a b)`; anything else as it is.
fn prefix(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    match *words {
        [left, operator, right] if !text.contains(['(', ')']) => {
            format!("({operator} {left} {right})")
        }
        _ => text.to_owned(),
    }
}

/// Declares a program's variables in their order, but for hidden ones, which come last.
fn declarations(program: &Program) -> String {
    let of = |scope: Scope| {
        let variables = program.variables.iter();
        let declared = variables.filter(move |variable| variable.scope == scope);
        declared.fold(String::new(), |mut text, variable| {
            let (name, value) = (&variable.name, initial(variable));
            // Writing to a `String` does not fail.
            let _ = match variable.volatile {
                true => write!(text, " (volatile {name} {value})"),
                false => write!(text, " ({name} {value})"),
            };
            text
        })
    };
    let (report, control) = (of(Scope::Report), of(Scope::Control));
    match (report.is_empty(), control.is_empty()) {
        (true, true) => String::new(),
        (true, false) => format!("(def{control})\n"),
        (false, _) => format!("(def (Report{report}){control})\n"),
    }
}

fn initial(variable: &Variable) -> String {
    match (variable.ty, variable.init) {
        (Type::Bool, 0) => "false".to_owned(),
        (Type::Bool, _) => "true".to_owned(),
        (Type::Num, u64::MAX) => "+infinity".to_owned(),
        (Type::Num, value) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use fairwater_lang::Signal;

    use super::*;

    fn program() -> Program {
        let source = "(def (Report (volatile acked 0) (lost 0) (flag false)) (limit +infinity))
            (when true
              (:= Report.acked (+ Report.acked Ack.bytes_acked))
              (:= Report.lost (max Report.lost Ack.lost_pkts_sample))
              (:= limit (min limit 7))
              (:= Report.flag (> limit 3))
              (report))";
        compile("test", source).unwrap().program
    }

    fn holds(text: &str) -> bool {
        let condition = Condition::parse(text, "test", &program()).unwrap();
        let registers = Registers {
            cwnd: 14_480,
            rate: 0,
            timer_zero: 100,
        };
        let mut signals = Signals::default();
        signals[Signal::Now] = 150;
        signals[Signal::BytesAcked] = 1448;
        condition.holds(&registers, &[10, 2, 1, 5], &signals)
    }

    #[test]
    fn conditions_read_variables_signals_controls_and_the_timer() {
        assert!(holds("Report.lost > 0"));
        assert!(!holds("Report.lost > 2"));
        assert!(holds("(&& (> Cwnd 14000) (== Micros 50))"));
        assert!(holds("(== Ack.bytes_acked 1448)"));
        assert!(holds("Report.flag"));
        assert!(holds("limit == 5"));
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for text in [
            "Report.losd > 0",
            "Cwnd",
            "",
            "(",
            "true) (when true",
            "(> (ewma 8 Cwnd) 3)",
            "true (:= Cwnd 0)",
        ] {
            let refused = Condition::parse(text, "test", &program());
            assert!(refused.is_err(), "{text}: {refused:?}");
        }
    }
}
