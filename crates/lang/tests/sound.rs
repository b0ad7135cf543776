//! What compiles is sound: names resolved, types agreeing, bounds held, signals listed, so that a
//! backend needs no error path. Checked over random programs, by rules of its own.

#![expect(clippy::panic, reason = "a test may fail by panicking")]

use std::collections::BTreeSet;

use fairwater_lang::{
    Comparison, Expr, Place, Program, Scope, SignalSet, Stmt, Type, bounds, compile,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

struct Verifier<'p> {
    program: &'p Program,
    signals: SignalSet,
    nodes: usize,
    /// What occurs, by name.
    seen: BTreeSet<String>,
}

impl<'p> Verifier<'p> {
    fn of(program: &'p Program) -> Self {
        let mut verifier = Self {
            program,
            signals: SignalSet::EMPTY,
            nodes: 0,
            seen: BTreeSet::new(),
        };
        let order = |scope| match scope {
            Scope::Report => 0,
            Scope::Control => 1,
            Scope::Hidden => 2,
        };
        assert!(program.variables.is_sorted_by_key(|v| order(v.scope)));
        assert!(program.variables.len() <= bounds::MAX_VARIABLES);
        for variable in &program.variables {
            assert!(variable.ty == Type::Num || variable.init <= 1);
            let hidden = variable.scope == Scope::Hidden;
            assert_eq!(variable.name.starts_with("__"), hidden);
            assert!(!hidden || !variable.volatile);
        }
        assert!(!program.events.is_empty());
        for event in &program.events {
            verifier.nodes += 1;
            for statement in &event.prelude {
                match statement {
                    Stmt::Assign(Place::Var(id), _) => {
                        assert_eq!(program.variables[usize::from(id.0)].scope, Scope::Hidden);
                    }
                    other => panic!("{other:?} in a prelude"),
                }
            }
            verifier.statements(&event.prelude);
            verifier.is(&event.condition, Type::Bool);
            assert!(!event.body.is_empty());
            verifier.statements(&event.body);
        }
        assert!(verifier.nodes <= bounds::MAX_NODES);
        assert_eq!(verifier.signals, program.signals);
        verifier
    }

    fn see(&mut self, what: impl ToString) {
        self.seen.insert(what.to_string());
    }

    fn statements(&mut self, statements: &[Stmt]) {
        for statement in statements {
            self.nodes += 1;
            match statement {
                Stmt::Assign(place, value) => {
                    let ty = self.place(*place);
                    self.is(value, ty);
                }
                Stmt::If {
                    condition,
                    then,
                    otherwise,
                } => {
                    self.see(if otherwise.is_empty() {
                        "statement if"
                    } else {
                        "statement if else"
                    });
                    self.is(condition, Type::Bool);
                    self.statements(then);
                    self.statements(otherwise);
                }
                Stmt::Report => self.see("report"),
                Stmt::Fallthrough => self.see("fallthrough"),
            }
        }
    }

    fn place(&mut self, place: Place) -> Type {
        match place {
            Place::Var(id) => {
                let variable = &self.program.variables[usize::from(id.0)];
                self.see(format!("{:?} {:?}", variable.scope, variable.ty));
                variable.ty
            }
            other => {
                self.see(format!("{other:?}"));
                Type::Num
            }
        }
    }

    fn is(&mut self, expr: &Expr, ty: Type) {
        assert_eq!(self.expr(expr, 1), ty, "{expr:?}");
    }

    fn numbers(&mut self, expressions: &[&Expr], depth: usize) {
        for expr in expressions {
            assert_eq!(self.expr(expr, depth + 1), Type::Num, "{expr:?}");
        }
    }

    fn booleans(&mut self, expressions: &[&Expr], depth: usize) {
        for expr in expressions {
            assert_eq!(self.expr(expr, depth + 1), Type::Bool, "{expr:?}");
        }
    }

    fn expr(&mut self, expr: &Expr, depth: usize) -> Type {
        assert!(depth <= bounds::MAX_DEPTH);
        self.nodes += 1;
        match expr {
            Expr::Const(value, ty) => {
                assert!(*ty == Type::Num || *value <= 1);
                self.see(if *value == u64::MAX {
                    "+infinity"
                } else {
                    "constant"
                });
                *ty
            }
            Expr::Place(place) => self.place(*place),
            Expr::Signal(signal) => {
                self.signals.insert(*signal);
                self.see(signal.name());
                signal.ty()
            }
            Expr::Binary(op, a, b) => {
                self.see(format!("{op:?}"));
                self.numbers(&[a, b], depth);
                Type::Num
            }
            Expr::Scale { value, num, den } => {
                self.see("scale");
                assert!(*den >= 1 && gcd(*num, *den) == 1, "{num}/{den}");
                self.numbers(&[value], depth);
                Type::Num
            }
            Expr::Ewma { weight, old, new } => {
                self.see("ewma");
                assert!(matches!(**old, Expr::Place(_)));
                self.numbers(&[weight, old, new], depth);
                Type::Num
            }
            Expr::Compare(op, a, b) => {
                self.see(format!("{op:?}"));
                let ty = self.expr(a, depth + 1);
                assert_eq!(self.expr(b, depth + 1), ty);
                assert!(ty == Type::Num || matches!(op, Comparison::Eq | Comparison::Ne));
                Type::Bool
            }
            Expr::And(a, b) => {
                self.see("and");
                self.booleans(&[a, b], depth);
                Type::Bool
            }
            Expr::Or(a, b) => {
                self.see("or");
                self.booleans(&[a, b], depth);
                Type::Bool
            }
            Expr::Not(a) => {
                self.see("not");
                self.booleans(&[a], depth);
                Type::Bool
            }
            Expr::If {
                condition,
                then,
                otherwise,
            } => {
                self.see("if");
                self.booleans(&[condition], depth);
                let ty = self.expr(then, depth + 1);
                assert_eq!(self.expr(otherwise, depth + 1), ty);
                ty
            }
        }
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

proptest! {
    #[test]
    fn random_programs_are_sound(source in fairwater_lang::arbitrary::source()) {
        match compile("random.ccp", &source) {
            Ok(compiled) => drop(Verifier::of(&compiled.program)),
            Err(errors) => panic!("{errors}\n{source}"),
        }
    }
}

/// The strategy that other crates rely on leaves out nothing.
#[test]
fn random_programs_have_everything() {
    let mut runner = TestRunner::deterministic();
    let strategy = fairwater_lang::arbitrary::source();
    let mut seen = BTreeSet::new();
    for _ in 0..200 {
        let source = strategy.new_tree(&mut runner).unwrap().current();
        let program = compile("random.ccp", &source).unwrap().program;
        seen.append(&mut Verifier::of(&program).seen);
    }
    let mut expected: BTreeSet<String> = fairwater_lang::Signal::ALL
        .iter()
        .map(|s| s.name().to_owned())
        .collect();
    let others = [
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Min",
        "Max",
        "WrappedMax",
        "Eq",
        "Ne",
        "Lt",
        "Le",
        "Gt",
        "Ge",
        "and",
        "or",
        "not",
        "if",
        "ewma",
        "scale",
        "constant",
        "+infinity",
        "Cwnd",
        "Rate",
        "Micros",
        "Report Num",
        "Report Bool",
        "Control Num",
        "Control Bool",
        "Hidden Num",
        "report",
        "fallthrough",
        "statement if",
        "statement if else",
    ];
    expected.extend(others.map(str::to_owned));
    let missing: Vec<_> = expected.difference(&seen).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
