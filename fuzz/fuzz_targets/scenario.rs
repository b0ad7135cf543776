//! Whatever the text, a scenario is refused with places inside it, or each of its points can be
//! had.

#![no_main]

use fairwater_experiment::Backend;
use fairwater_scenario::{Resolver, Scenario};
use libfuzzer_sys::fuzz_target;

/// One trace, one distribution, and any algorithm.
struct Files;

impl Resolver for Files {
    fn read(&self, name: &str) -> Result<String, String> {
        match name {
            "t" => Ok("0\n5\n10\n".to_owned()),
            "c" => Ok("1000 0.5\n100000 1\n".to_owned()),
            other => Ok(other.to_owned()),
        }
    }

    fn check_algorithm(&self, _: &str) -> Result<(), Vec<String>> {
        Ok(())
    }
}

/// Hosts, flows and points that a file of a few bytes can ask for are many: time is for others.
const MOST_DIGITS: usize = 2;

fn asks_for_little(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .all(|word| word.len() <= MOST_DIGITS || !word.bytes().all(|b| b.is_ascii_digit() || b == b'_'))
        && !["0x", "0o", "0b"].iter().any(|prefix| text.contains(prefix))
}

fuzz_target!(|text: &str| {
    if !asks_for_little(text) {
        return;
    }
    for backend in [Backend::Sim, Backend::Linux] {
        match Scenario::parse("fuzz.toml", text, backend, &Files) {
            Ok(scenario) => {
                for index in 0..scenario.len().min(3) {
                    let point = scenario.point(index);
                    assert_eq!(point.index, index);
                    assert_eq!(point.experiment.nodes as usize, point.hosts.len());
                    if backend == Backend::Linux {
                        assert_eq!(point.experiment.edges.len(), 2);
                    }
                }
            }
            Err(refused) => {
                // Places do not count a byte-order mark.
                let text = text.strip_prefix('\u{feff}').unwrap_or(text);
                for label in refused.iter().flat_map(|refused| &refused.labels) {
                    let span = label.span;
                    assert!(text.get(span.start..span.end).is_some(), "{label:?}");
                }
                assert!(!refused.to_string().is_empty());
            }
        }
    }
});
