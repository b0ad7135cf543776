//! `fairwater doctor`.

use std::fmt::Write;

use fairwater_linux::probe::{Feature, Probe, probe};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  sudo fairwater doctor
  sudo fairwater doctor --json | jq '.features[] | select(.ok | not)'

The exit code is 3 if a feature that `attach` needs is missing; `try` then simulates.";

/// Check whether this system can run Fairwater
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print JSON on standard output
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let probe = probe();
    if args.json {
        output::json(&Json::new(&probe))?;
    } else {
        output::print(table(&probe))?;
    }
    probe.require().map_err(|_| Failure::AlreadyReported(3))
}

fn table(probe: &Probe) -> String {
    let width = probe
        .features
        .iter()
        .map(|f| f.name.len())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for feature in &probe.features {
        let (state, what) = match &feature.found {
            Ok(found) => ("ok", found),
            Err(reason) => ("missing", reason),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{state:7}  {:width$}  {what}  (for {})",
            feature.name, feature.needed_for
        );
    }
    text
}

#[derive(Serialize)]
struct Json<'a> {
    ok: bool,
    features: Vec<JsonFeature<'a>>,
}

#[derive(Serialize)]
struct JsonFeature<'a> {
    name: &'a str,
    ok: bool,
    required: bool,
    needed_for: &'a str,
    found: Option<&'a str>,
    missing: Option<&'a str>,
}

impl<'a> Json<'a> {
    fn new(probe: &'a Probe) -> Self {
        let feature = |feature: &'a Feature| JsonFeature {
            name: feature.name,
            ok: feature.found.is_ok(),
            required: feature.required,
            needed_for: feature.needed_for,
            found: feature.found.as_deref().ok(),
            missing: feature.found.as_ref().err().map(String::as_str),
        };
        Self {
            ok: probe.require().is_ok(),
            features: probe.features.iter().map(feature).collect(),
        }
    }
}
