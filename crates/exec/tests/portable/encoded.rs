//! What is encoded means what it meant, and what does not fit is named.

use fairwater_exec::portable::{self, Append, Encoded, Inexpressible};
use fairwater_lang::arbitrary::source_reading;
use fairwater_lang::{
    Binary, Event, Expr, Program, Scope, Signal, SignalSet, Signals, Stmt, Type, VarId, compile,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::lockstep::{Flow, acks, agree};

fn program(source: &str) -> Program {
    compile("encoded.ccp", source)
        .unwrap_or_else(|errors| panic!("{errors}\n{source}"))
        .program
}

/// Rewrites every expression, from the leaves up.
fn rewritten(program: &Program, rewrite: &impl Fn(Expr) -> Expr) -> Program {
    fn expr(e: &Expr, rewrite: &impl Fn(Expr) -> Expr) -> Expr {
        let go = |e: &Expr| Box::new(expr(e, rewrite));
        rewrite(match e {
            Expr::Const(..) | Expr::Place(_) | Expr::Signal(_) => e.clone(),
            Expr::Scale { value, num, den } => Expr::Scale {
                value: go(value),
                num: *num,
                den: *den,
            },
            Expr::Not(a) => Expr::Not(go(a)),
            Expr::Binary(op, a, b) => Expr::Binary(*op, go(a), go(b)),
            Expr::Compare(op, a, b) => Expr::Compare(*op, go(a), go(b)),
            Expr::And(a, b) => Expr::And(go(a), go(b)),
            Expr::Or(a, b) => Expr::Or(go(a), go(b)),
            Expr::Ewma { weight, old, new } => Expr::Ewma {
                weight: go(weight),
                old: go(old),
                new: go(new),
            },
            Expr::If {
                condition,
                then,
                otherwise,
            } => Expr::If {
                condition: go(condition),
                then: go(then),
                otherwise: go(otherwise),
            },
        })
    }
    fn statements(list: &[Stmt], rewrite: &impl Fn(Expr) -> Expr) -> Vec<Stmt> {
        let statement = |statement: &Stmt| match statement {
            Stmt::Assign(place, value) => Stmt::Assign(*place, expr(value, rewrite)),
            Stmt::If {
                condition,
                then,
                otherwise,
            } => Stmt::If {
                condition: expr(condition, rewrite),
                then: statements(then, rewrite),
                otherwise: statements(otherwise, rewrite),
            },
            other => other.clone(),
        };
        list.iter().map(statement).collect()
    }
    let event = |event: &Event| Event {
        prelude: statements(&event.prelude, rewrite),
        condition: expr(&event.condition, rewrite),
        body: statements(&event.body, rewrite),
    };
    Program {
        variables: program.variables.clone(),
        events: program.events.iter().map(event).collect(),
        signals: program.signals,
    }
}

/// The program with constants that libccp can express.
fn small(mut program: Program) -> Program {
    let fits = |value: u64| match value {
        u64::MAX => value,
        value => value % 1_000_000_007,
    };
    for variable in &mut program.variables {
        variable.init = fits(variable.init);
    }
    rewritten(&program, &|e| match e {
        Expr::Const(value, ty) => Expr::Const(fits(value), ty),
        other => other,
    })
}

/// The program with scales as the operations that they are encoded as: products saturate at 64 bits
/// before they are divided.
fn with_saturating_products(program: &Program) -> Program {
    let binary = |op, left, right| Box::new(Expr::Binary(op, left, right));
    let number = |n| Box::new(Expr::Const(n, Type::Num));
    rewritten(program, &|e| match e {
        Expr::Scale { value, num, den } => {
            let product = binary(Binary::Mul, value, number(num.into()));
            *binary(Binary::Div, product, number(den.into()))
        }
        other => other,
    })
}

/// The report and control variables of a program, those of the decoded one beside them.
fn pairs(program: &Program, encoded: &Encoded) -> (Program, Vec<(VarId, VarId)>) {
    let decoded = portable::decode(&encoded.body).unwrap_or_else(|e| panic!("{e}\n{program}"));
    let ids = (0..).zip(&program.variables);
    let pairs = ids.filter_map(|(at, variable)| match variable.scope {
        Scope::Report => Some((VarId(at), VarId(at))),
        Scope::Control => {
            let register = encoded.controls.get(&VarId(at))?;
            Some((VarId(at), decoded.controls[register]))
        }
        Scope::Hidden => None,
    });
    let pairs = pairs.collect();
    let mut program = decoded.program;
    for (register, value) in &encoded.presets {
        program.variables[usize::from(decoded.controls[register].0)].init = *value;
    }
    (program, pairs)
}

/// Whether it fits libccp; panics if it does not for another reason than size.
fn encoded(program: &Program, append: Append) -> Option<Encoded> {
    match portable::encode(program, append) {
        Ok(encoded) => Some(encoded),
        Err(Inexpressible::Instructions(_) | Inexpressible::Scratch) => None,
        Err(other) => panic!("{other}\n{program}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_programs_mean_the_same(source in source_reading(SignalSet::CCP), acks in acks()) {
        let program = small(program(&source));
        if let Some(encoded) = encoded(&program, Append::Nothing) {
            let (decoded, pairs) = pairs(&program, &encoded);
            agree(&with_saturating_products(&program), &decoded, &pairs, &acks);
        }
    }

    #[test]
    fn the_flow_is_appended_as_it_is(source in source_reading(SignalSet::CCP), acks in acks()) {
        let program = small(program(&source));
        let encoded = encoded(&program, Append::Flow);
        if let Some(encoded) = encoded.filter(|encoded| encoded.appended) {
            let (decoded, _) = pairs(&program, &encoded);
            let mut flow = Flow::new(&decoded);
            for ack in acks {
                let outcome = flow.ack(&ack);
                if let Some(report) = outcome.report {
                    let appended = [flow.now_us(), outcome.cwnd, outcome.rate];
                    prop_assert!(report.ends_with(&appended), "{report:?} {appended:?}");
                }
            }
        }
    }
}

#[test]
fn most_random_programs_fit() {
    let mut runner = TestRunner::deterministic();
    let strategy = source_reading(SignalSet::CCP);
    let fit = (0..200).filter(|_| {
        let source = strategy.new_tree(&mut runner).unwrap().current();
        encoded(&small(program(&source)), Append::Flow).is_some()
    });
    let fit = fit.count();
    assert!(fit > 100, "{fit} of 200");
}

#[test]
fn signals_that_libccp_lacks_are_named() {
    for (name, signal) in [
        ("Flow.app_limited", Signal::AppLimited),
        ("Ack.undo", Signal::Undo),
    ] {
        let program = program(&format!("(when {name} (report))"));
        let refused = portable::encode(&program, Append::Nothing).unwrap_err();
        assert_eq!(refused, Inexpressible::Signal(signal));
        assert!(refused.to_string().contains(name), "{refused}");
    }
}

#[test]
fn bounds_are_met_and_named() {
    let encode = |source: &str| portable::encode(&program(source), Append::Flow);
    let refused = |source: &str| encode(source).unwrap_err();
    let many = |n: usize, report: bool| {
        let declared: String = (0..n).map(|i| format!("(v{i} 0)")).collect();
        let declared = if report {
            format!("(Report {declared})")
        } else {
            declared
        };
        format!("(def {declared}) (when true (report))")
    };
    assert!(encode(&many(107, true)).unwrap().appended);
    assert!(!encode(&many(108, true)).unwrap().appended);
    assert!(encode(&many(110, true)).is_ok());
    assert_eq!(refused(&many(111, true)), Inexpressible::Reports(111));
    assert!(encode(&many(110, false)).is_ok());
    assert_eq!(refused(&many(111, false)), Inexpressible::Controls(111));
    // An event takes one instruction to hold; the three fields are defined and written.
    let long = |n: usize| format!("(when true {} (report))", "(:= Cwnd 1)".repeat(n - 2));
    assert!(encode(&long(249)).unwrap().appended);
    assert!(!encode(&long(250)).unwrap().appended);
    assert!(encode(&long(255)).is_ok());
    assert_eq!(refused(&long(256)), Inexpressible::Instructions(256));
    let set = |value: u64| format!("(when true (:= Cwnd (+ Cwnd {value})))");
    let initially = |value: u64| format!("(def (v {value})) (when true (:= v 1))");
    for program in [set, initially] as [fn(u64) -> String; 2] {
        assert!(encode(&program((1 << 32) - 2)).is_ok());
        assert!(encode(&program(u64::MAX)).is_ok());
    }
    // What no immediate can be is computed; a message sets what no definition can.
    let reported = |value: u64| format!("(def (volatile v {value})) (when true (:= v 1))");
    for value in [0x3fff_ffff, (1 << 32) - 1, 1 << 32, 1_000_000_000_000] {
        assert!(encode(&set(value)).is_ok());
        let presets = encode(&initially(value)).unwrap().presets;
        assert_eq!(presets, [(0, value)]);
        let initial = Inexpressible::Initial("v".to_owned(), value);
        assert_eq!(refused(&reported(value)), initial);
    }
    assert!(encode(&set(((1 << 32) - 2) * ((1 << 32) - 2))).is_ok());
    assert_eq!(
        refused(&set(u64::MAX - 1)),
        Inexpressible::Constant(u64::MAX - 1)
    );
    // A control variable that does not fit otherwise is set by the message too, a hidden one as well.
    let defined = |n: usize| {
        let sets = "(:= Cwnd 1)".repeat(n - 3);
        format!("(def (a 3) (b 4)) (when true (:= a b) {sets} (report))")
    };
    assert_eq!(encode(&defined(253)).unwrap().presets, []);
    assert_eq!(encode(&defined(255)).unwrap().presets, [(0, 3), (1, 4)]);
    // A balanced tree needs a register for each level; each branch holds one.
    let tree = |levels: usize| {
        (0..levels).fold("Cwnd".to_owned(), |inner, _| format!("(+ {inner} {inner})"))
    };
    assert!(encode(&format!("(when true (:= Cwnd {}))", tree(6))).is_ok());
    let nested = |levels: usize| {
        let (open, close) = ("(when (> Cwnd 5)".repeat(levels), ")".repeat(levels));
        format!("(when true {open} (:= Cwnd (+ Cwnd (- Rate 1))) {close})")
    };
    assert!(encode(&nested(14)).is_ok());
    assert_eq!(refused(&nested(17)), Inexpressible::Scratch);
}

#[test]
fn control_registers_are_told() {
    let program =
        program("(def (a 1) (Report (r 0)) (volatile b 2)) (when (> (ewma 3 a) b) (report))");
    let encoded = portable::encode(&program, Append::Nothing).unwrap();
    let registers: Vec<_> = encoded.controls.iter().map(|(id, at)| (*id, *at)).collect();
    assert_eq!(registers, [(VarId(1), 0), (VarId(2), 1)]);
    let decoded = portable::decode(&encoded.body).unwrap();
    let found = decoded.controls[&1];
    let found = &decoded.program.variables[usize::from(found.0)];
    assert_eq!((found.init, found.volatile), (2, true));
}

/// What libccp's limit of instructions is too dear for, and how few of them do.
#[test]
fn forms_take_as_few_instructions_as_they_can() {
    let taken = |statement: &str| {
        let source = format!("(def (Report (r 0)) (a 5) (b true)) (when true {statement})");
        let encoded = portable::encode(&program(&source), Append::Nothing).unwrap();
        let [.., count] = [0, 4].map(|at| {
            let bytes = encoded.body[at..at + 4].try_into().unwrap();
            u32::from_le_bytes(bytes)
        });
        // Three definitions, and the flag of the event.
        count - 4
    };
    for (statement, expected) in [
        ("(:= Report.r (- a Cwnd))", 2),
        ("(:= a (- a Cwnd))", 2),
        ("(:= a (- a (min a Cwnd)))", 2),
        ("(:= a (/ a 2))", 1),
        ("(:= a (* 0.5 a))", 1),
        ("(:= a (* Cwnd (/ a Cwnd)))", 4),
        ("(:= a (/ Rate (max Cwnd 1)))", 2),
        ("(:= a (if (> Cwnd 5) Rate))", 2),
        ("(:= a (if (>= Cwnd 5) Rate 0))", 2),
        ("(:= a (if b 0 1))", 1),
        ("(:= Report.r (if b 1 0))", 1),
        ("(:= b (&& (> Cwnd 1) (> Rate 1)))", 2),
        ("(:= b (|| (> Cwnd 1) (>= Rate 2)))", 3),
        ("(:= b (&& b (! (== Cwnd 5))))", 2),
        ("(when (!= Cwnd 5) (:= a 1))", 2),
        ("(if (!= Cwnd 5) (:= a 1) (:= a 2))", 3),
        ("(when b (when (<= Cwnd Rate) (:= a 1)))", 3),
        ("(:= a (ewma 8 Rate))", 1),
        ("(:= a (ewma 11 Rate))", 1),
        ("(:= a (ewma Cwnd Rate))", 2),
        ("(:= a (min 1000000000000 Rate))", 2),
    ] {
        assert_eq!(taken(statement), expected, "{statement}");
    }
}

/// The weight of an average is at most 10, also if it is known only when the program runs; the average
/// is exact however large the numbers are.
#[test]
fn averages_with_a_variable_weight_stay_exact() {
    let source = "(def (Report (r 0) (s 0)) (weight 0) (old 0))
    (when true
      (:= weight Ack.packets_acked)
      (:= Report.r (ewma weight Ack.bytes_acked))
      (:= Micros (ewma Micros Ack.bytes_acked))
      (:= old (ewma old old))
      (:= old Ack.bytes_acked)
      (:= Report.s (+ 1 (ewma (- weight 1) (ewma Ack.packets_acked Ack.bytes_misordered))))
      (report))";
    let program = program(source);
    let encoded = portable::encode(&program, Append::Nothing).unwrap();
    let (decoded, pairs) = pairs(&program, &encoded);
    let mut acks = Vec::new();
    for weight in [0, 1, 9, 10, 11, u64::MAX] {
        for value in [0, 1, u64::MAX / 10, u64::MAX / 10 + 1, u64::MAX] {
            acks.push(Signals::from_iter([
                (Signal::PacketsAcked, weight),
                (Signal::BytesAcked, value),
                (Signal::BytesMisordered, !value),
                (Signal::Now, 7),
            ]));
        }
    }
    agree(&program, &decoded, &pairs, &acks);
}

#[test]
fn a_branch_is_decided_before_it_writes() {
    let source = "(def (Report (r 0)) (n 10) (armed true))
    (when true
      (if armed (:= armed false) (:= n (+ n 1)))
      (if (> n 10) (:= n 5) (when (< n 10) (:= n (+ n 2)) (:= Report.r (/ n (- 7 n)))))
      (report))";
    let program = program(source);
    let (decoded, pairs) = pairs(
        &program,
        &portable::encode(&program, Append::Nothing).unwrap(),
    );
    agree(&program, &decoded, &pairs, &[Signals::default(); 30]);
}

/// Setting the timer bounds what it reads, even to what it read before.
#[test]
fn a_timer_that_is_set_to_itself_is_set() {
    let set = [
        "(:= Micros Micros)",
        "(:= Micros (if (> Ack.bytes_acked 0) Ack.bytes_acked Micros))",
    ];
    for set in set {
        let source = format!(
            "(def (Report (r 0)))
            (when true {set} (:= Report.r Micros) (report))"
        );
        let program = program(&source);
        let encoded = portable::encode(&program, Append::Nothing).unwrap();
        let (decoded, pairs) = pairs(&program, &encoded);
        let acks = [(1 << 63) + 100, 7, 7].map(|now| Signals::from_iter([(Signal::Now, now)]));
        agree(&program, &decoded, &pairs, &acks);
    }
}
