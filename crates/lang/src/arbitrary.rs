//! Random valid programs, for property tests of what consumes programs.
//!
//! Valid by construction: each has a `def` block of numbers and booleans of both scopes, up to
//! four events, and every operator, command, spelling and kind of constant of the language.

use proptest::array::uniform17;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;

use crate::{Signal, SignalSet, Signals, Type};

type Text = BoxedStrategy<String>;

const NUMBERS: [&str; 9] = [
    "Report.r0",
    "Report.r1",
    "Report.r2",
    "c0",
    "c1",
    "c2",
    "Cwnd",
    "Rate",
    "Micros",
];
const BOOLEANS: [&str; 3] = ["Report.q0", "Report.q1", "b0"];

/// Random signals: each of the numbers as `number` has it, booleans 0 or 1.
pub fn signals(number: impl Strategy<Value = u64>) -> impl Strategy<Value = Signals> {
    uniform17(number).prop_map(|values| {
        let mut signals = Signals::from_array(values);
        for signal in Signal::ALL.into_iter().filter(|s| s.ty() == Type::Bool) {
            signals[signal] &= 1;
        }
        signals
    })
}

/// Source text of a random valid program.
pub fn source() -> impl Strategy<Value = String> {
    source_reading(SignalSet::ALL)
}

/// Source text of a random valid program that reads no other signals than these.
pub fn source_reading(signals: SignalSet) -> impl Strategy<Value = String> {
    let shallow = Values::new(2, signals);
    let deep = Values::new(3, signals);
    let events = vec(event(&deep, &shallow), 1..5);
    (definitions(), events)
        .prop_map(|(definitions, events)| format!("{definitions}\n{}\n", events.join("\n")))
}

fn definitions() -> impl Strategy<Value = String> {
    let declared = NUMBERS.iter().take(6).map(|name| (*name, false));
    let declared = declared.chain(BOOLEANS.iter().map(|name| (*name, true)));
    let declarations: Vec<_> = declared
        .map(|(name, boolean)| {
            let initial = if boolean {
                select(vec!["true", "false"])
                    .prop_map(str::to_owned)
                    .boxed()
            } else {
                number()
            };
            (any::<bool>(), any::<bool>(), initial).prop_map(
                move |(volatile, in_block, initial)| {
                    let volatile = if volatile { "volatile " } else { "" };
                    match name.strip_prefix("Report.") {
                        Some(bare) if in_block => format!("(Report ({volatile}{bare} {initial}))"),
                        _ => format!("({volatile}{name} {initial})"),
                    }
                },
            )
        })
        .collect();
    // Unused variables move the others about in a frame.
    (declarations, 0..70_usize, 0..70_usize).prop_map(|(declarations, reports, controls)| {
        let reports: String = (0..reports)
            .map(|i| format!(" (volatile x{i} {i})"))
            .collect();
        let controls: String = (0..controls).map(|i| format!(" (y{i} {i})")).collect();
        format!(
            "(def{controls}\n  (Report{reports})\n  {})",
            declarations.join("\n  ")
        )
    })
}

fn number() -> Text {
    let edges = [
        0,
        1,
        2,
        9,
        10,
        1 << 31,
        (1 << 31) - 1,
        u64::from(u32::MAX),
        1 << 32,
        1 << 63,
        u64::MAX - 1,
        u64::MAX,
    ];
    prop_oneof![
        4 => (0..2000_u64).prop_map(|n| n.to_string()),
        2 => select(edges.to_vec()).prop_map(|n| n.to_string()),
        1 => any::<u64>().prop_map(|n| n.to_string()),
        1 => Just("+infinity".to_owned()),
        1 => (0..1000_u32).prop_map(|n| format!("{n}.0")),
    ]
    .boxed()
}

fn decimal() -> Text {
    let edges = [
        "1.25",
        "0.75",
        "0.000000001",
        "2147483647.5",
        "0.3333333",
        "1000000.001",
    ];
    prop_oneof![
        3 => (0..1000_u32, 1..1_000_000_u32).prop_map(|(whole, part)| format!("{whole}.{part:06}")),
        1 => select(edges.to_vec()).prop_map(str::to_owned),
        1 => (0..99_u32, 1..99_u32).prop_map(|(a, b)| format!("(+ 0.{a:02} {b}.5)")),
        1 => (1..99_u32, 1..99_u32).prop_map(|(a, b)| format!("(* {a} {b}.25)")),
    ]
    .boxed()
}

/// A form of an operator in one of its spellings.
fn form(spellings: &[&'static str], arguments: Vec<Text>) -> Text {
    (select(spellings.to_vec()), arguments)
        .prop_map(|(operator, arguments)| format!("({operator} {})", arguments.join(" ")))
        .boxed()
}

/// Expressions of at most some depth.
struct Values {
    number: Text,
    /// Numbers that are not literals, with which a decimal does not fold.
    varying: Text,
    boolean: Text,
}

impl Values {
    fn new(depth: u32, signals: SignalSet) -> Self {
        if depth == 0 {
            let number = prop_oneof![1 => number(), 3 => named(signals)].boxed();
            return Self {
                number,
                varying: named(signals),
                boolean: boolean_leaf(signals),
            };
        }
        let below = Self::new(depth - 1, signals);
        let compound = Union::new(below.numbers());
        let leaf = Self::new(0, signals);
        Self {
            number: prop_oneof![1 => leaf.number, 3 => compound.clone()].boxed(),
            varying: prop_oneof![1 => leaf.varying, 3 => compound].boxed(),
            boolean: prop_oneof![1 => leaf.boolean, 3 => Union::new(below.booleans())].boxed(),
        }
    }

    fn numbers(&self) -> Vec<Text> {
        let (n, b) = (|| self.number.clone(), || self.boolean.clone());
        vec![
            form(&["+", "add", "Add"], vec![n(), n()]),
            form(&["-", "sub"], vec![n(), n()]),
            form(&["*", "mul"], vec![n(), n()]),
            form(&["/", "div"], vec![n(), n()]),
            form(&["min", "max", "Max", "wrapped_max"], vec![n(), n()]),
            form(&["+", "*", "min", "max"], vec![n(), n(), n()]),
            form(&["*"], vec![decimal(), self.varying.clone()]),
            form(&["*", "/"], vec![self.varying.clone(), decimal()]),
            form(&["if", "If", "!if"], vec![b(), n(), n()]),
            form(&["if", "!if"], vec![b(), n()]),
            form(
                &["ewma"],
                vec![(0..13_u64).prop_map(|w| w.to_string()).boxed(), n()],
            ),
            form(&["ewma"], vec![n(), n()]),
        ]
    }

    fn booleans(&self) -> Vec<Text> {
        let (n, b) = (|| self.number.clone(), || self.boolean.clone());
        let comparisons = [
            "==", "eq", "!=", "ne", "<", "lt", "<=", "le", ">", "gt", ">=", "ge",
        ];
        vec![
            form(&comparisons, vec![n(), n()]),
            form(&comparisons, vec![n(), n()]),
            form(&comparisons, vec![n(), decimal()]),
            form(&comparisons, vec![decimal(), n()]),
            form(&["==", "!="], vec![b(), b()]),
            form(&["&&", "And", "||", "Or"], vec![b(), b()]),
            form(&["and", "or"], vec![b(), b(), b()]),
            form(&["!", "not"], vec![b()]),
            form(&["if", "!if"], vec![b(), b(), b()]),
            form(&["if"], vec![b(), b()]),
        ]
    }
}

fn named(signals: SignalSet) -> Text {
    let names = NUMBERS
        .into_iter()
        .chain(["Timer.Micros", "Timer.micros", "Ack.rtt_sample_us"]);
    let signals = signals
        .iter()
        .filter(|s| s.ty() == Type::Num)
        .map(Signal::name);
    select(names.chain(signals).collect::<Vec<_>>())
        .prop_map(str::to_owned)
        .boxed()
}

fn boolean_leaf(signals: SignalSet) -> Text {
    let signals = signals
        .iter()
        .filter(|s| s.ty() == Type::Bool)
        .map(Signal::name);
    let names = BOOLEANS.into_iter().chain(["true", "false"]);
    select(names.chain(signals).collect::<Vec<_>>())
        .prop_map(str::to_owned)
        .boxed()
}

fn assignment(values: &Values) -> Text {
    let number = (select(NUMBERS.to_vec()), values.number.clone());
    let boolean = (select(BOOLEANS.to_vec()), values.boolean.clone());
    // A boolean that is stored in a variable of numbers is 0 or 1.
    let stored = (select(NUMBERS[..6].to_vec()), values.boolean.clone());
    let write = |(place, value): (&str, String)| format!("(:= {place} {value})");
    prop_oneof![
        8 => number.prop_map(write),
        2 => boolean.prop_map(write),
        1 => stored.prop_map(write),
    ]
    .boxed()
}

fn command() -> Text {
    select(vec!["(report)", "(reset)", "(fallthrough)"])
        .prop_map(str::to_owned)
        .boxed()
}

/// A statement with at most `depth` levels of branches.
fn statement(values: &Values, shallow: &Values, depth: u32) -> Text {
    let simple = prop_oneof![4 => assignment(values), 1 => command()];
    if depth == 0 {
        return simple.boxed();
    }
    let inner = statement(shallow, shallow, depth - 1);
    let nested = (shallow.boolean.clone(), vec(inner.clone(), 1..3))
        .prop_map(|(condition, body)| format!("(when {condition} {})", body.join(" ")));
    let condition = || shallow.boolean.clone();
    prop_oneof![
        6 => simple,
        1 => nested,
        1 => form(&["if", "!if"], vec![condition(), inner.clone()]),
        1 => form(&["if", "If", "!if"], vec![condition(), inner.clone(), inner]),
    ]
    .boxed()
}

fn event(values: &Values, shallow: &Values) -> impl Strategy<Value = String> + use<> {
    let condition = prop_oneof![1 => Just("true".to_owned()), 3 => values.boolean.clone()];
    let body = vec(statement(values, shallow, 2), 1..5);
    let ends = select(vec![
        "",
        "\n  (fallthrough)",
        "\n  (report)",
        "\n  (report) (fallthrough)",
    ]);
    (condition, body, ends).prop_map(|(condition, body, end)| {
        format!(
            "(when {condition} # an event\n  {}{end})",
            body.join("\n  ")
        )
    })
}
