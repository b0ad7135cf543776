//! `fairwater algorithms`.

use std::fmt::Write;

use fairwater_algorithms::{Entry, Parameter};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  fairwater algorithms
  fairwater algorithms --json | jq -r '.algorithms[].name'

A parameter is set behind the name: `fairwater try cubic:report=10ms,slow_start=plane`.";

/// List the algorithms and their parameters
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print JSON on standard output
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let all = fairwater_algorithms::all();
    if args.json {
        output::json(&Json {
            algorithms: all.iter().map(JsonAlgorithm::new).collect(),
        })
    } else {
        output::print(all.iter().map(paragraph).collect::<Vec<_>>().join("\n"))
    }
}

fn paragraph(algorithm: &Entry) -> String {
    let width = algorithm
        .parameters
        .iter()
        .map(|p| p.key.len())
        .max()
        .unwrap_or(0);
    let mut text = format!("{}: {}\n", algorithm.name, algorithm.summary);
    for Parameter {
        key,
        range,
        default,
        meaning,
    } in algorithm.parameters
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
    range: &'static str,
    default: &'static str,
    meaning: &'static str,
}

impl JsonAlgorithm {
    fn new(algorithm: &Entry) -> Self {
        let parameter = |p: &Parameter| JsonParameter {
            key: p.key,
            range: p.range,
            default: p.default,
            meaning: p.meaning,
        };
        Self {
            name: algorithm.name,
            summary: algorithm.summary,
            parameters: algorithm.parameters.iter().map(parameter).collect(),
        }
    }
}
