//! Pages of the atlas: whole, the same for the same runs, and each text of an entry as text.

#![expect(clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;

use fairwater_reproduce::atlas::{self, Listing, Machine, Measured, Part};
use fairwater_reproduce::{Entry, Judged, World, judge_benchmark};
use fairwater_results::BenchmarkResult;
use support::{Files, entry};

const SOURCE: &str = r#"
title = "Throughput <b>over</b> loopback"
section = "§1"
figure = "Figure 2"
note = "5 & 6"
world = "bench"
benchmark = "loopback"
set = ["--flows=1"]

[[question]]
asks = "Why?"
section = "§2"
answer = "Because."

[[claim]]
id = "kept"
text = "Nothing is lost"
section = "§1"
theirs = "all"
measure = "loopback_kept"
where = { report = "ack" }
against = { where = { report = "10ms" } }
at_least = 0.95
bound = "ours"
"#;

fn rounds() -> BenchmarkResult {
    let mut rounds = BenchmarkResult::new("loopback");
    for (ack, each_10ms) in [(97.0, 99.0), (97.5, 99.5), (96.0, 98.0)] {
        rounds.push("loopback_kept", &[("report", "ack")], ack);
        rounds.push("loopback_kept", &[("report", "10ms")], each_10ms);
        rounds.disturbed.push(None);
    }
    rounds.push("loopback_kept", &[("report", "ack")], 1.0);
    rounds.push("loopback_kept", &[("report", "10ms")], 1.0);
    rounds.disturbed.push(Some("noise".to_owned()));
    rounds
}

fn page(entry: &Entry, judged: &[Judged]) -> String {
    let machine = Machine {
        kernel: "6.18.1".to_owned(),
        cpu: "A CPU".to_owned(),
        cores: 2,
    };
    let run = &entry.runs[0];
    let part = Part {
        world: World::Bench,
        run: Some((run, &run.quick)),
        judged,
        measured: &Measured::Rounds(rounds()),
        machine: Some(&machine),
    };
    atlas::page(entry, &[part], true)
}

#[test]
fn a_page_says_what_was_claimed_and_what_was_found() {
    let entry = Entry::parse("test", "1", "1.toml", SOURCE, &Files)
        .unwrap_or_else(|refused| panic!("{}", refused.render(false)));
    let judged = judge_benchmark(&entry, &entry.runs[0], &rounds());
    let html = page(&entry, &judged);
    for expected in [
        "Throughput &lt;b&gt;over&lt;/b&gt; loopback",
        "5 &amp; 6",
        "§1, Figure 2",
        "<span class=\"chip holds\">holds</span>",
        "sudo fairwater reproduce test:1 --world bench --quick",
        "Linux 6.18.1, 2 cores of A CPU. The machine disturbed 1 of 4 runs, which do not count.",
        "<dt>Why? (§2)</dt><dd>Because.</dd>",
        "3 rounds",
        "class=\"boxes\"",
    ] {
        assert!(html.contains(expected), "{expected} is not in\n{html}");
    }
    assert_eq!(html, page(&entry, &judged));
    // Calm rounds alone are drawn.
    assert_eq!(html.matches("<circle").count(), 6);
}

#[test]
fn the_index_has_a_chip_for_each_world() {
    let entry = Entry::parse("test", "1", "1.toml", SOURCE, &Files)
        .unwrap_or_else(|refused| panic!("{}", refused.render(false)));
    let judged = judge_benchmark(&entry, &entry.runs[0], &rounds());
    let html = atlas::index(&[Listing::new(&entry, &judged)], false);
    assert!(
        html.contains("<a href=\"test/1.html\">test:1</a>"),
        "{html}"
    );
    assert!(html.contains("bench: holds"), "{html}");
    assert!(html.contains("1 of 1 results have a verdict"), "{html}");
    let none = entry.not_judged(World::Bench, "no root");
    let html = atlas::index(&[Listing::new(&entry, &none)], false);
    assert!(html.contains("0 of 1 results have a verdict"), "{html}");
}

#[test]
fn a_page_of_nothing_is_a_page() {
    let entry = entry(
        "measure = \"flow_throughput\"\nwhere = { algorithm = \"cubic\", path = \"near\" }\nat_least = 1\n",
    );
    let run = &entry.runs[0];
    for measured in [Measured::Nothing, Measured::Points(BTreeMap::new())] {
        let part = Part {
            world: World::Sim,
            run: Some((run, &run.full)),
            judged: &entry.not_judged(World::Sim, "not run yet"),
            measured: &measured,
            machine: None,
        };
        let html = atlas::page(&entry, &[part], false);
        assert!(html.contains("chip absent") && html.contains("not run yet"));
        assert!(html.contains("Simulated: the same on each machine"));
        assert!(!html.contains("<svg"));
    }
}
