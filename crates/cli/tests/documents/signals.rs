//! `docs/signals.md` has what each datapath declares, and names tests that there are.

use std::fs;

use fairwater_lang::Signal;
use fairwater_plane::SignalQualities;
use fairwater_quic::Stack;

use super::{quoted, root};

/// The columns of the table.
fn datapaths() -> [(&'static str, SignalQualities); 10] {
    [
        ("linux", fairwater_linux::CAPABILITIES.signals),
        ("noq", Stack::Noq.signals()),
        ("quinn", Stack::Quinn.signals()),
        ("s2n-quic", Stack::S2n.signals()),
        ("utcp", fairwater_utcp::signal_qualities()),
        ("libccp", fairwater_proto::ccp::CAPABILITIES.signals),
        ("simulator", fairwater_sim::capabilities().signals),
        ("edge", fairwater_edge::track::signal_qualities()),
        (
            "edge that buffers",
            fairwater_edge::buffer::signal_qualities(),
        ),
        ("bundle", fairwater_bundle::datapath_config().signals),
    ]
}

fn document() -> String {
    fs::read_to_string(root().join("docs/signals.md")).unwrap()
}

#[test]
fn the_table_of_signals_is_what_each_datapath_declares() {
    let text = document();
    let names: Vec<_> = datapaths().iter().map(|(name, _)| *name).collect();
    let header = format!("| signal | {} |", names.join(" | "));
    assert!(text.contains(&header), "no header {header}");
    for signal in Signal::ALL {
        let qualities: Vec<_> = datapaths()
            .iter()
            .map(|(_, qualities)| qualities.of(signal).name())
            .collect();
        let row = format!("| `{}` | {} |", signal.name(), qualities.join(" | "));
        assert!(text.contains(&row), "docs/signals.md has no line\n{row}");
    }
}

#[test]
fn each_datapath_has_a_test_that_there_is() {
    let text = document();
    let section = text.split("## The tests").nth(1).expect("the section");
    for (name, _) in datapaths() {
        let start = format!("| {name} |");
        let row = section.lines().find(|line| line.starts_with(&start));
        let row = row.unwrap_or_else(|| panic!("no row for {name}"));
        let quoted = quoted(row);
        let file = quoted.iter().find(|word| word.contains('/')).unwrap();
        let test = quoted.iter().find(|word| !word.contains('/')).unwrap();
        let source = fs::read_to_string(root().join(file)).unwrap();
        assert!(source.contains(&format!("fn {test}()")), "{test} in {file}");
    }
}
