//! Hand-written programs whose behaviour is known, in both backends.

use crate::agree::agree;
use crate::harness::gate;
use fairwater_exec::interp::{Input, Stage};
use fairwater_lang::{
    Binary, Comparison, Event, Expr, Place, Program, Scope, Signal, SignalSet, Stmt, Type, VarId,
    Variable,
};

fn figure_2() -> Program {
    let variable = |name: &str| Variable {
        name: name.into(),
        scope: Scope::Report,
        volatile: true,
        ty: Type::Num,
        init: 0,
    };
    let add = |i, signal| {
        let place = Place::Var(VarId(i));
        Stmt::Assign(
            place,
            Expr::Binary(
                Binary::Add,
                Box::new(Expr::Place(place)),
                Box::new(Expr::Signal(signal)),
            ),
        )
    };
    Program {
        variables: vec![variable("acked"), variable("lost")],
        events: vec![
            Event {
                prelude: vec![],
                condition: Expr::Const(1, Type::Bool),
                body: vec![
                    add(0, Signal::BytesAcked),
                    add(1, Signal::LostPkts),
                    Stmt::Fallthrough,
                ],
            },
            Event {
                prelude: vec![],
                condition: Expr::Compare(
                    Comparison::Gt,
                    Box::new(Expr::Place(Place::Var(VarId(1)))),
                    Box::new(Expr::Const(0, Type::Num)),
                ),
                body: vec![Stmt::Report],
            },
        ],
        signals: SignalSet::ALL,
    }
}

#[test]
fn figure_2_counts_and_reports_on_loss() {
    if gate().is_none() {
        return;
    }
    let program = figure_2();
    let start = Stage {
        switch: Some(&program),
        ..Stage::default()
    };
    let stream: Vec<_> = (0..20_u64)
        .map(|i| {
            let mut signals = [0; Signal::ALL.len()];
            signals[Signal::BytesAcked as usize] = 1448 * i;
            signals[Signal::LostPkts as usize] = u64::from(i % 7 == 3);
            signals[Signal::Now as usize] = 1000 + i;
            Input {
                signals,
                cwnd: 14480,
                rate: 0,
                stage: (i == 0).then_some(&start),
            }
        })
        .collect();
    agree(&[&program], &stream).unwrap();
}
