//! Disciplines by name: what links and scenarios are read with.

use std::fmt::Write as _;
use std::time::Duration;

use fairwater_net::{
    Buffer, CoDelConfig, Discipline, DrrConfig, FqCoDelConfig, Limit, PieConfig, PriorityConfig,
    Probability, QueueConfig, QueueContext, QueueError, QueueSpec, QueueSpecError, RedConfig,
    SfqConfig, StepConfig, WdrrConfig,
};

use super::support::rate;

/// 10 Mbit/s and 40 ms: a BDP of 50 kB.
fn context(buffer: Option<Buffer>) -> QueueContext {
    QueueContext {
        rate: rate(10_000_000),
        rtt: Duration::from_millis(40),
        buffer,
    }
}

fn config(text: &str, buffer: Option<Buffer>) -> Result<QueueConfig, QueueSpecError> {
    text.parse::<QueueSpec>()?.config(&context(buffer))
}

#[test]
fn a_name_alone_gives_the_usual_values() {
    let red = RedConfig::with_limit(50_000, rate(10_000_000));
    for (text, expected) in [
        ("droptail", QueueConfig::DropTail(Limit::Bytes(50_000))),
        ("red", QueueConfig::Red(red)),
        ("codel", QueueConfig::CoDel(CoDelConfig::default())),
        ("fq_codel", QueueConfig::FqCoDel(FqCoDelConfig::default())),
        ("sfq", QueueConfig::Sfq(SfqConfig::default())),
        ("drr", QueueConfig::Drr(DrrConfig::default())),
        ("pie", QueueConfig::Pie(PieConfig::default())),
    ] {
        assert_eq!(config(text, None), Ok(expected), "{text}");
    }
}

#[test]
fn parameters_and_the_links_buffer_are_set() {
    let ten = Some(Buffer::Packets(10));
    assert_eq!(
        config("codel:target=2ms,ecn=true", ten),
        Ok(QueueConfig::CoDel(CoDelConfig {
            limit: Limit::Packets(10),
            target: Duration::from_millis(2),
            ecn: true,
            ..CoDelConfig::default()
        }))
    );
    assert_eq!(
        config("step:threshold=0.5bdp", None),
        Ok(QueueConfig::Step(StepConfig {
            limit: Limit::Bytes(50_000),
            threshold: Limit::Bytes(25_000),
        }))
    );
    assert_eq!(
        config("sfq:perturb=10s,flows=16,quantum=3000B", None),
        Ok(QueueConfig::Sfq(SfqConfig {
            perturb: Some(Duration::from_secs(10)),
            flows: 16,
            quantum_bytes: 3000,
            ..SfqConfig::default()
        }))
    );
    assert_eq!(
        config("priority:classes=droptail+fq_codel", ten),
        Ok(QueueConfig::Priority(PriorityConfig {
            classes: vec![
                QueueConfig::DropTail(Limit::Packets(10)),
                QueueConfig::FqCoDel(FqCoDelConfig {
                    limit: Limit::Packets(10),
                    ..FqCoDelConfig::default()
                }),
            ],
            limit: Limit::Packets(10),
        }))
    );
    assert_eq!(
        config("wdrr:classes=sfq+droptail,weights=3+1,quantum=500B", None),
        Ok(QueueConfig::Wdrr(WdrrConfig {
            classes: vec![
                QueueConfig::Sfq(SfqConfig::default()),
                QueueConfig::DropTail(Limit::Bytes(50_000)),
            ],
            weights: vec![3, 1],
            quantum_bytes: 500,
            limit: Limit::Unlimited,
        }))
    );
}

/// A preset is changed by the values beside it, in whatever order they are given, and by the
/// link's buffer.
#[test]
fn a_preset_comes_first() {
    let preset = RedConfig {
        probability: Probability::percent(50),
        limit_bytes: 15_000,
        min_bytes: 3_000,
        max_bytes: 9_000,
        ..RedConfig::vcc_red2(rate(10_000_000))
    };
    let text = "red:probability=50%,min=3kB,max=9kB,preset=vcc-red2";
    let found = config(text, Some(Buffer::Packets(10)));
    assert_eq!(found, Ok(QueueConfig::Red(preset)));
    let alone = config("red:preset=vcc-red1", None);
    let expected = QueueConfig::Red(RedConfig::vcc_red1(rate(10_000_000)));
    assert_eq!(alone, Ok(expected));
}

#[test]
fn classes_can_have_parameters_of_their_own() {
    let mut inner = QueueSpec::new(Discipline::named("step").unwrap());
    inner.set("threshold", "20pkt").unwrap();
    let mut spec = QueueSpec::new(Discipline::named("priority").unwrap());
    spec.set_classes(vec![inner, QueueSpec::default()]).unwrap();
    assert_eq!(
        spec.config(&context(None)),
        Ok(QueueConfig::Priority(PriorityConfig {
            classes: vec![
                QueueConfig::Step(StepConfig {
                    limit: Limit::Bytes(50_000),
                    threshold: Limit::Packets(20),
                }),
                QueueConfig::DropTail(Limit::Bytes(50_000)),
            ],
            limit: Limit::Unlimited,
        }))
    );
}

#[test]
fn disciplines_that_mark_say_so() {
    for (text, marks) in [
        ("droptail", false),
        ("step:threshold=20pkt", true),
        ("codel", false),
        ("codel:ecn=true", true),
        ("fq_codel", true),
        ("red:preset=vcc-red2", true),
        ("pie", false),
        ("priority:classes=droptail+fq_codel", true),
        ("priority:classes=droptail+sfq", false),
        ("wdrr:classes=droptail+fq_codel", true),
    ] {
        assert_eq!(
            config(text, None).map(|config| config.marks()),
            Ok(marks),
            "{text}"
        );
    }
}

#[test]
fn text_and_value_are_one() {
    for text in [
        "droptail",
        "step:threshold=20pkt",
        "red:min=30kB,max=90kB,burst=55pkt,ecn=true",
        "fq_codel:flows=64,target=1ms",
        "priority:classes=droptail+sfq",
        "wdrr:classes=droptail+sfq,weights=3+1",
    ] {
        let spec: QueueSpec = text.parse().unwrap();
        assert_eq!(spec.to_string(), text);
    }
}

#[test]
fn what_no_discipline_takes_is_refused() {
    let message = |text: &str| config(text, None).unwrap_err().to_string();
    for (text, expected) in [
        ("fifo", "there is no queue discipline `fifo`"),
        ("codel:targt=2ms", "`codel` has no parameter `targt`"),
        ("codel:ecn=true,ecn=true", "`ecn` is given twice"),
        ("step", "`step` needs `threshold`"),
        ("codel:target=2", "`target`: `2` has no unit"),
        ("pie:update=0ms", "`update`: it must be more than zero"),
        ("red:avpkt=0B", "`avpkt`: it must be more than zero"),
        ("sfq:flows=65537", "`flows`: 65537 is more than 65536"),
        ("red:preset=mine", "`preset`: there is no `mine`"),
        (
            "priority:classes=droptail+fifo",
            "`classes`: there is no queue discipline `fifo`",
        ),
        (
            "wdrr:classes=droptail+sfq,weights=3",
            "a `wdrr` queue has 1 weights for 2 classes",
        ),
        (
            "wdrr:classes=droptail+sfq,weights=3+0",
            "`weights`: `0` is not a weight",
        ),
        ("wdrr:weights=3+1", "`wdrr` needs `classes`"),
        ("red:min=9kB,max=9kB", "9000 bytes, is not above `min`"),
    ] {
        let found = message(text);
        assert!(found.contains(expected), "{text}: {found}");
    }
}

/// Values that can only be set by a program are refused by [`QueueConfig::check`].
#[test]
fn configurations_that_cannot_work_are_refused() {
    let red = RedConfig::with_limit(50_000, rate(10_000_000));
    let limit = Limit::Unlimited;
    let priority = |classes| QueueConfig::Priority(PriorityConfig { classes, limit });
    let wdrr = |weights| {
        QueueConfig::Wdrr(WdrrConfig {
            classes: vec![QueueConfig::DropTail(limit); 2],
            weights,
            quantum_bytes: 1500,
            limit,
        })
    };
    let zero = |discipline, parameter| QueueError::Zero {
        discipline,
        parameter,
    };
    for (config, expected) in [
        (
            QueueConfig::DropTail(Limit::Bytes(0)),
            zero("droptail", "buffer"),
        ),
        (
            QueueConfig::Red(RedConfig {
                min_bytes: 0,
                ..red
            }),
            zero("red", "min"),
        ),
        (
            QueueConfig::Red(RedConfig {
                avpkt_bytes: 0,
                ..red
            }),
            zero("red", "avpkt"),
        ),
        (
            QueueConfig::Red(RedConfig {
                max_bytes: red.min_bytes,
                ..red
            }),
            QueueError::RedThresholds {
                min_bytes: red.min_bytes,
                max_bytes: red.min_bytes,
            },
        ),
        (
            priority(Vec::new()),
            QueueError::Classes {
                discipline: "priority",
                classes: 0,
            },
        ),
        (
            priority(vec![QueueConfig::Pie(PieConfig {
                update: Duration::ZERO,
                ..PieConfig::default()
            })]),
            zero("pie", "update"),
        ),
        (wdrr(vec![1, 0]), zero("wdrr", "weights")),
        (
            wdrr(vec![1, 1, 1]),
            QueueError::Weights {
                weights: 3,
                classes: 2,
            },
        ),
    ] {
        assert_eq!(config.check(), Err(expected), "{config:?}");
    }
}

/// The table of a discipline's parameters, as `docs/queues.md` has it.
fn table(discipline: &Discipline) -> String {
    let mut table = format!("### `{}`\n\n{}.\n", discipline.name(), discipline.summary());
    let parameters = discipline.parameters();
    if !parameters.is_empty() {
        table.push_str("\n| parameter | meaning | default |\n| --- | --- | --- |\n");
    }
    for parameter in parameters {
        let default = parameter.default.as_deref().unwrap_or("must be given");
        let _ = writeln!(
            table,
            "| `{}` | {} | {default} |",
            parameter.name, parameter.help
        );
    }
    table
}

#[test]
fn every_discipline_is_documented() {
    let docs = include_str!("../../../../docs/queues.md");
    let tables = Discipline::all().iter().map(table);
    let missing: Vec<_> = tables.filter(|table| !docs.contains(table)).collect();
    let missing = missing.join("\n");
    assert!(missing.is_empty(), "add to docs/queues.md:\n{missing}");
}
