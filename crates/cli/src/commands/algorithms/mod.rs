//! `fairwater algorithms`.

use std::fmt::Write;

use fairwater_algorithms::{Entry, Parameter};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  fairwater algorithms
  fairwater algorithms copa cubic
  fairwater algorithms --json | jq -r '.algorithms[].name'

A parameter is set behind the name: `fairwater try cubic:report=10ms,slow_start=plane`.";

/// List the algorithms and their parameters
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Algorithms to list [default: all]
    #[arg(value_name = "NAME", value_parser = parse_name)]
    names: Vec<&'static Entry>,
    /// Print JSON on standard output
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let listed: Vec<&Entry> = if args.names.is_empty() {
        fairwater_algorithms::all().iter().collect()
    } else {
        args.names.clone()
    };
    if args.json {
        output::json(&Json {
            algorithms: listed.into_iter().map(JsonAlgorithm::new).collect(),
        })
    } else {
        output::print(
            listed
                .into_iter()
                .map(paragraph)
                .collect::<Vec<_>>()
                .join("\n"),
        )
    }
}

/// The algorithm of that name, whatever parameters stand behind it.
fn parse_name(text: &str) -> Result<&'static Entry, String> {
    let name = text.split(':').next().unwrap_or(text).trim();
    let entry = fairwater_algorithms::all().iter().find(|e| e.name == name);
    entry.ok_or_else(|| match fairwater_algorithms::by_spec(name) {
        Err(unknown) => unknown.to_string(),
        Ok(_) => format!("there is no algorithm `{name}`"),
    })
}

fn paragraph(algorithm: &Entry) -> String {
    let parameters = algorithm.parameters();
    let width = parameters.iter().map(|p| p.key.len()).max().unwrap_or(0);
    let mut text = format!("{}: {}\n", algorithm.name, algorithm.summary);
    for Parameter {
        key,
        range,
        default,
        meaning,
        ..
    } in &parameters
    {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {key:width$}  {meaning}");
        let _ = writeln!(text, "  {:width$}  {range}; default: {default}", "");
    }
    text
}

#[derive(Serialize)]
struct Json {
    algorithms: Vec<JsonAlgorithm>,
}

#[derive(Serialize)]
struct JsonAlgorithm {
    name: &'static str,
    summary: &'static str,
    parameters: Vec<JsonParameter>,
}

#[derive(Serialize)]
struct JsonParameter {
    key: &'static str,
    range: String,
    default: String,
    meaning: &'static str,
}

impl JsonAlgorithm {
    fn new(algorithm: &Entry) -> Self {
        let parameter = |p: Parameter| JsonParameter {
            key: p.key,
            range: p.range,
            default: p.default,
            meaning: p.meaning,
        };
        Self {
            name: algorithm.name,
            summary: algorithm.summary,
            parameters: algorithm.parameters().into_iter().map(parameter).collect(),
        }
    }
}
