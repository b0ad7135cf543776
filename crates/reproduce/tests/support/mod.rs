//! A scenario for tests: two algorithms on two paths, with requests.

use fairwater_experiment::Backend;
use fairwater_reproduce::{Entry, Resolver, World};
use fairwater_scenario::{self as scenario, Scenario};

/// The one scenario, `two.toml`.
pub(crate) struct Files;

const TWO: &str = r#"
duration = "10s"
dumbbell = { rate = "48mbit", rtt = "${path.rtt}" }

[[flow]]
name = "tested"
algorithm = "$algorithm"

[[flow]]
name = "others"
algorithm = "native:cubic"

[sweep]
algorithm = ["cubic", "constant"]
path = [{ name = "near", rtt = "10ms" }, { name = "far", rtt = "100ms" }]
"#;

struct Nothing;

impl scenario::Resolver for Nothing {
    fn read(&self, _: &str) -> Result<String, String> {
        Err("there are no files here".to_owned())
    }

    fn check_algorithm(&self, _: &str) -> Result<(), Vec<String>> {
        Ok(())
    }
}

impl Resolver for Files {
    fn scenario(&self, file: &str, settings: &[String], _: World) -> Result<Scenario, String> {
        if file != "two.toml" {
            return Err("no such file".to_owned());
        }
        let mut source = TWO.to_owned();
        for setting in settings {
            source = scenario::set(&source, setting).map_err(|error| error.to_string())?;
        }
        Scenario::parse(file, &source, Backend::Sim, &Nothing)
            .map_err(|refused| refused.render(false))
    }
}

/// An entry with one claim, which has these lines.
pub(crate) fn entry(claim: &str) -> Entry {
    let source = format!(
        r#"
title = "A test"
section = "§1"
world = "sim"
scenario = "two.toml"

[[claim]]
id = "one"
text = "A claim"
section = "§1"
theirs = "none"
bound = "ours"
{claim}
"#
    );
    let parsed = Entry::parse("test", "1", "1.toml", &source, &Files);
    parsed.unwrap_or_else(|refused| panic!("{}", refused.render(false)))
}
