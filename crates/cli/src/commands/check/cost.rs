//! What a program costs, as text; and one that costs too much, as a diagnostic at its place.

use fairwater_exec::cost::{Cost, OverBudget};
use fairwater_lang::{Diagnostic, Diagnostics, Label, Severity, Span};

/// The lines that `fairwater check` prints.
pub(super) fn text(cost: &Cost) -> String {
    let rows = [
        (
            "eBPF",
            cost.ebpf.as_ref().map_err(ToString::to_string).copied(),
        ),
        (
            "machine code",
            cost.machine_code
                .ok_or_else(|| "no compiler for this processor".to_owned()),
        ),
        (
            "libccp",
            cost.libccp.as_ref().map_err(ToString::to_string).copied(),
        ),
    ];
    let mut text = "cost, instructions for an ACK at most\n".to_owned();
    for (backend, cost) in rows {
        let cost = cost.map_or_else(|why| format!("none: {why}"), |most| most.to_string());
        text += &format!("  {backend:12}  {cost}\n");
    }
    text
}

/// The error of a program that exceeds its budget, at the clause that costs most.
pub(super) fn diagnostics(
    file: &str,
    source: &str,
    event_spans: &[Span],
    error: &OverBudget,
) -> Diagnostics {
    let OverBudget {
        cost,
        budget,
        clause,
        statement,
        ..
    } = error;
    let whole = Span {
        start: 0,
        end: source.trim_end().len(),
    };
    let statement = statement.as_ref();
    Diagnostics::new(
        file,
        source,
        [Diagnostic {
            severity: Severity::Error,
            code: Some("over-budget"),
            message: format!(
                "the program takes up to {cost} eBPF instructions for an ACK, and the budget is \
                 {budget}"
            ),
            labels: vec![Label {
                span: event_spans.get(error.event).copied().unwrap_or(whole),
                text: format!("this clause costs most, {}", clause.cost),
            }],
            help: statement
                .map(|part| format!("of its statements, {part}"))
                .into_iter()
                .chain(["or allow more by `--max-instructions`".to_owned()])
                .collect(),
        }],
    )
}
