//! A program that breaks a promise is refused by the name of the promise.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail by panicking"
)]

use fairwater_lang::{
    Binary, Comparison, EventError, Expr, Invalid, InvalidName, Place, Program, Signal, SignalSet,
    Stmt, Type, VarId, bounds, compile,
};

const SOURCE: &str = "(def (Report (volatile acked 0) (lost false)) (limit 10) (armed true))
(when (> (ewma 8 Flow.rtt_sample_us) limit)
  (:= Report.acked (+ Report.acked (* 1.5 Ack.bytes_acked)))
  (:= limit (ewma 5 Report.acked))
  (if (&& armed Flow.was_timeout) (:= Report.lost true) (report)))";

fn program() -> Program {
    compile("verify.ccp", SOURCE).unwrap().program
}

/// What is said of the program after a change.
fn refused(change: impl FnOnce(&mut Program)) -> Invalid {
    let mut program = program();
    assert_eq!(program.verify(), Ok(()));
    change(&mut program);
    program.verify().unwrap_err()
}

/// What is said of the event when it begins with a statement.
fn flawed(statement: Stmt) -> EventError {
    match refused(|p| p.events[0].body.insert(0, statement)) {
        Invalid::Event { event: 0, error } => error,
        other => panic!("{other}"),
    }
}

fn number(value: u64) -> Box<Expr> {
    Box::new(Expr::Const(value, Type::Num))
}

fn truth() -> Box<Expr> {
    Box::new(Expr::Const(1, Type::Bool))
}

fn cwnd(value: Expr) -> Stmt {
    Stmt::Assign(Place::Cwnd, value)
}

#[test]
fn variables() {
    let renamed = |at: usize, name: &str| {
        let name = name.to_owned();
        match refused(|p| p.variables[at].name = name) {
            Invalid::Name(found, why) if found == at => why,
            other => panic!("{other}"),
        }
    };
    assert_eq!(refused(|p| p.variables.swap(0, 2)), Invalid::Order(1));
    assert_eq!(refused(|p| p.variables.swap(3, 4)), Invalid::Order(4));
    assert_eq!(renamed(0, ""), InvalidName::Missing);
    assert_eq!(renamed(1, "a b"), InvalidName::Character);
    assert_eq!(renamed(1, "é"), InvalidName::Character);
    assert_eq!(renamed(2, &"n".repeat(65)), InvalidName::TooLong);
    assert_eq!(renamed(2, "__limit"), InvalidName::Compiler);
    assert_eq!(renamed(2, "1limit"), InvalidName::Digit);
    assert_eq!(renamed(2, "Cwnd"), InvalidName::BuiltIn("Cwnd".to_owned()));
    assert_eq!(renamed(2, "Ack.seq"), InvalidName::Datapath);
    assert_eq!(renamed(2, "When"), InvalidName::Word("When".to_owned()));
    assert_eq!(renamed(4, "average"), InvalidName::Hidden);
    let renamed = refused(|p| p.variables[3].name = "limit".to_owned());
    assert_eq!(renamed, Invalid::Duplicate(3));
    assert_eq!(refused(|p| p.variables[1].init = 2), Invalid::Initial(1));
    assert_eq!(
        refused(|p| p.variables[4].volatile = true),
        Invalid::Volatile(4)
    );
    let crowded = refused(|p| {
        let spare = p.variables[4].clone();
        p.variables.resize(bounds::MAX_VARIABLES + 1, spare);
    });
    assert_eq!(crowded, Invalid::TooManyVariables(513));
    assert!(crowded.to_string().contains("512"), "{crowded}");
}

#[test]
fn events() {
    assert_eq!(refused(|p| p.events.clear()), Invalid::NoEvent);
    for statement in [
        Stmt::Report,
        cwnd(*number(1)),
        Stmt::Assign(Place::Var(VarId(2)), *number(1)),
    ] {
        let prelude = refused(|p| p.events[0].prelude.push(statement));
        let error = EventError::Prelude;
        assert_eq!(prelude, Invalid::Event { event: 0, error });
    }
    let extra = refused(|p| p.signals = SignalSet::ALL);
    assert_eq!(extra, Invalid::Signals);
    let missing = refused(|p| p.signals = [Signal::BytesAcked].into_iter().collect());
    assert_eq!(missing, Invalid::Signals);
    let crowded = refused(|p| p.events[0].body.resize(bounds::MAX_NODES, Stmt::Report));
    assert!(matches!(crowded, Invalid::TooLarge(_)), "{crowded}");
    assert!(crowded.to_string().contains("4096"), "{crowded}");
}

#[test]
fn expressions() {
    let boolean = EventError::Type {
        wanted: Type::Num,
        found: Type::Bool,
    };
    let numeric = EventError::Type {
        wanted: Type::Bool,
        found: Type::Num,
    };
    assert_eq!(flawed(cwnd(*truth())), boolean);
    assert_eq!(
        flawed(Stmt::Assign(Place::Var(VarId(1)), *number(1))),
        numeric
    );
    assert_eq!(
        flawed(Stmt::Assign(Place::Var(VarId(5)), *number(1))),
        EventError::UnknownVariable(VarId(5))
    );
    assert_eq!(
        flawed(cwnd(Expr::Place(Place::Var(VarId(9))))),
        EventError::UnknownVariable(VarId(9))
    );
    assert_eq!(
        flawed(cwnd(Expr::Binary(Binary::Max, number(1), truth()))),
        boolean
    );
    assert_eq!(
        flawed(cwnd(Expr::Compare(Comparison::Eq, number(1), number(1)))),
        boolean
    );
    let compared = Expr::Compare(Comparison::Eq, truth(), number(1));
    assert_eq!(flawed(cwnd(compared)), numeric);
    let ordered = Expr::Compare(Comparison::Lt, truth(), truth());
    assert_eq!(flawed(cwnd(ordered)), EventError::Unordered);
    assert_eq!(flawed(cwnd(Expr::Not(number(1)))), numeric);
    assert_eq!(flawed(cwnd(Expr::And(truth(), number(1)))), numeric);
    assert_eq!(
        flawed(cwnd(Expr::Const(2, Type::Bool))),
        EventError::Boolean(2)
    );
    for (num, den) in [(1, 0), (2, 4), (0, 2)] {
        let scale = Expr::Scale {
            value: number(1),
            num,
            den,
        };
        assert_eq!(flawed(cwnd(scale)), EventError::Ratio { num, den });
    }
    let ewma = Expr::Ewma {
        weight: number(1),
        old: number(2),
        new: number(3),
    };
    assert_eq!(flawed(cwnd(ewma)), EventError::EwmaState);
    let choice = Expr::If {
        condition: number(1),
        then: number(1),
        otherwise: number(1),
    };
    assert_eq!(flawed(cwnd(choice)), numeric);
    let choice = Expr::If {
        condition: truth(),
        then: number(1),
        otherwise: truth(),
    };
    assert_eq!(flawed(cwnd(choice)), boolean);
    let condition = Stmt::If {
        condition: *number(1),
        then: vec![],
        otherwise: vec![],
    };
    assert_eq!(flawed(condition), numeric);
}

#[test]
fn depth() {
    let deep = |levels: usize| (1..levels).fold(*truth(), |inner, _| Expr::Not(Box::new(inner)));
    let set = |levels| Stmt::Assign(Place::Var(VarId(1)), deep(levels));
    let mut deepest = program();
    deepest.events[0].body.push(set(bounds::MAX_DEPTH));
    assert_eq!(deepest.verify(), Ok(()));
    assert_eq!(flawed(set(bounds::MAX_DEPTH + 1)), EventError::TooDeep);
    let nested = |levels: usize| {
        (0..levels).fold(Stmt::Report, |inner, _| Stmt::If {
            condition: *truth(),
            then: vec![],
            otherwise: vec![inner],
        })
    };
    let mut deepest = program();
    deepest.events[0].body.push(nested(bounds::MAX_DEPTH - 1));
    assert_eq!(deepest.verify(), Ok(()));
    assert_eq!(flawed(nested(bounds::MAX_DEPTH)), EventError::TooDeep);
}
