//! Each bound is met exactly, and its error names it; hostile sizes are refused in time and
//! without exhausting the stack.

use fairwater_lang::{Program, Signal, SignalSet, bounds, compile};

fn compiled(source: &str) -> Program {
    match compile("bounds.ccp", source) {
        Ok(compiled) => compiled.program,
        Err(errors) => panic!("{errors}"),
    }
}

/// The codes and messages of all errors.
fn refused(source: &str) -> Vec<(&'static str, String)> {
    match compile("bounds.ccp", source) {
        Ok(_) => panic!("it compiles"),
        Err(errors) => {
            assert!(!errors.to_string().is_empty());
            errors
                .iter()
                .map(|e| (e.code.unwrap_or_default(), e.message.clone()))
                .collect()
        }
    }
}

fn refused_once(source: &str, code: &str, bound: usize) {
    let errors = refused(source);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0].0, code);
    assert!(errors[0].1.contains(&bound.to_string()), "{}", errors[0].1);
}

#[test]
fn source_size() {
    let program = |size: usize| {
        let text = "(when true (report)) #";
        format!("{text}{}", "x".repeat(size - text.len()))
    };
    compiled(&program(bounds::MAX_SOURCE));
    refused_once(
        &program(bounds::MAX_SOURCE + 1),
        "source-too-large",
        bounds::MAX_SOURCE,
    );
}

#[test]
fn variables() {
    let declarations = |n: usize| -> String { (0..n).map(|i| format!("(v{i} 0)")).collect() };
    let program = |n: usize| format!("(def {}) (when true (:= v0 1))", declarations(n));
    assert_eq!(
        compiled(&program(bounds::MAX_VARIABLES)).variables.len(),
        bounds::MAX_VARIABLES
    );
    refused_once(
        &program(bounds::MAX_VARIABLES + 1),
        "too-many-variables",
        bounds::MAX_VARIABLES,
    );
    refused_once(
        &program(50_000),
        "too-many-variables",
        bounds::MAX_VARIABLES,
    );
}

#[test]
fn hidden_variables_count() {
    let program = |n: usize| {
        let declarations: String = (0..n).map(|i| format!("(v{i} 0)")).collect();
        format!("(def {declarations}) (when (> (ewma 5 v0) 1) (report))")
    };
    let full = compiled(&program(bounds::MAX_VARIABLES - 1));
    assert_eq!(full.variables.len(), bounds::MAX_VARIABLES);
    refused_once(
        &program(bounds::MAX_VARIABLES),
        "too-many-variables",
        bounds::MAX_VARIABLES,
    );
}

#[test]
fn names() {
    let program = |n: usize| format!("(def (Report ({} 0))) (when true (report))", "n".repeat(n));
    compiled(&program(bounds::MAX_NAME));
    let errors = refused(&program(bounds::MAX_NAME + 1));
    assert_eq!(errors[0].0, "reserved-name");
}

#[test]
fn depth_of_parentheses() {
    // The `when` and the `:=` around the expression are two levels.
    let program = |n: usize| {
        let levels = n - 2;
        format!(
            "(when true (:= Cwnd {}1{}))",
            "(+ 1 ".repeat(levels),
            ")".repeat(levels)
        )
    };
    compiled(&program(bounds::MAX_DEPTH));
    refused_once(
        &program(bounds::MAX_DEPTH + 1),
        "too-deep",
        bounds::MAX_DEPTH,
    );
    refused_once(&program(100_000), "too-deep", bounds::MAX_DEPTH);
}

#[test]
fn depth_of_expressions() {
    let program = |n: usize| format!("(when true (:= Cwnd (+ {})))", "1 ".repeat(n));
    compiled(&program(bounds::MAX_DEPTH));
    refused_once(
        &program(bounds::MAX_DEPTH + 1),
        "too-deep",
        bounds::MAX_DEPTH,
    );
    refused_once(&program(500_000), "too-deep", bounds::MAX_DEPTH);
    let chain = |inner: &str| format!("(+ {inner} {})", "1 ".repeat(bounds::MAX_DEPTH / 2));
    compiled(&format!("(when true (:= Cwnd {}))", chain("1")));
    refused_once(
        &format!("(when true (:= Cwnd {}))", chain(&chain("1"))),
        "too-deep",
        bounds::MAX_DEPTH,
    );
}

#[test]
fn size() {
    // The event, its condition, and a statement with its value each time.
    let program = |nodes: usize| format!("(when true {})", "(:= Cwnd 1)".repeat((nodes - 2) / 2));
    compiled(&program(bounds::MAX_NODES));
    refused_once(
        &program(bounds::MAX_NODES + 2),
        "too-large",
        bounds::MAX_NODES,
    );
}

#[test]
fn errors() {
    let source = format!("(when true {})", "(:= Cwnd (+ 1))\n".repeat(1000));
    let Err(errors) = compile("bounds.ccp", &source) else {
        panic!("it compiles")
    };
    assert_eq!(errors.len(), bounds::MAX_ERRORS);
    let rest = format!("{} more are not shown", 1000 - bounds::MAX_ERRORS);
    assert!(errors.to_string().contains(&rest));
}

#[test]
fn hostile_sources_are_refused() {
    let megabyte = |unit: &str| unit.repeat(bounds::MAX_SOURCE / unit.len());
    let pieces = [
        "(",
        ")",
        "()",
        "x ",
        "(x",
        "(x ",
        "+",
        "- ",
        "-5 ",
        "1",
        "1 ",
        "1.5 ",
        "1.",
        ".",
        "é",
        "\"",
        ";",
        "//",
        "(when ",
        "(when\n",
        "\n(when",
        "(def ",
        "(def (x 0))",
        "(when true (report))\n",
        "(ewma ",
        "(ewma 1 ",
        "a.b_",
        "\0",
        "\t",
        "\r\n",
    ];
    for piece in pieces {
        for source in [
            megabyte(piece),
            format!(
                "(when true {})",
                megabyte(piece).chars().skip(20).collect::<String>()
            ),
        ] {
            if let Err(errors) = compile("hostile.ccp", &source) {
                assert!(!errors.is_empty() && !errors.to_string().is_empty());
            }
        }
    }
}

#[test]
fn missing_signals_are_named() {
    let program = compiled(
        "(when (> Ack.ecn_bytes 0) (:= Cwnd (- Cwnd Ack.ecn_packets)) (:= Rate Flow.rate_incoming))",
    );
    assert_eq!(program.require(SignalSet::ALL, "linux"), Ok(()));
    let available: SignalSet = [Signal::RateIncoming, Signal::BytesAcked]
        .into_iter()
        .collect();
    let error = program.require(available, "quic").unwrap_err();
    assert_eq!(
        error.missing,
        [Signal::EcnBytes, Signal::EcnPackets].into_iter().collect()
    );
    let text = error.to_string();
    for part in ["Ack.ecn_bytes", "Ack.ecn_packets", "quic"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("rate_incoming"));
}
