//! `fairwater algorithms`.

mod served;

use std::fmt::Write;

use fairwater_algorithms::{Entry, Parameter};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use served::{DatapathKind, Matches};

const EXAMPLES: &str = "\
Examples:
  fairwater algorithms
  fairwater algorithms copa cubic
  fairwater algorithms --json | jq -r '.algorithms[].name'
  fairwater algorithms --for linux
  fairwater algorithms --for libccp cubic:slow_start=program-rate bbr

Parameters follow the name: `fairwater try cubic:report=10ms,slow_start=plane`.";

/// List the algorithms and their parameters
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Algorithms to list [default: all]
    #[arg(value_name = "NAME", value_parser = parse_name)]
    names: Vec<Named>,
    /// Show which algorithms this kind of datapath runs, and why it cannot run the others
    #[arg(long = "for", value_name = "DATAPATH")]
    datapath: Option<DatapathKind>,
    /// Print JSON on standard output
    #[arg(long)]
    json: bool,
}

/// An algorithm as it is typed, parameters included.
#[derive(Debug, Clone)]
struct Named {
    entry: &'static Entry,
    spec: String,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let named = if args.names.is_empty() {
        let all = fairwater_algorithms::all().iter();
        all.map(Named::without_parameters).collect()
    } else {
        args.names.clone()
    };
    match args.datapath {
        Some(kind) => match_with(kind, args.json, &named),
        None => list(args.json, named.iter().map(|named| named.entry).collect()),
    }
}

fn match_with(kind: DatapathKind, json: bool, named: &[Named]) -> Result<(), Failure> {
    let specs: Vec<_> = named.iter().map(|named| named.spec.clone()).collect();
    let matches = Matches::of(kind, &specs)?;
    if json {
        output::json(&matches)
    } else {
        output::print(matches.text())
    }
}

fn list(json: bool, listed: Vec<&Entry>) -> Result<(), Failure> {
    if json {
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

impl Named {
    fn without_parameters(entry: &'static Entry) -> Self {
        Self {
            entry,
            spec: entry.name.to_owned(),
        }
    }
}

/// The algorithm of that name, whatever parameters stand behind it.
fn parse_name(text: &str) -> Result<Named, String> {
    let name = text.split(':').next().unwrap_or(text).trim();
    let entry = fairwater_algorithms::all().iter().find(|e| e.name == name);
    let spec = text.to_owned();
    let named = entry.map(|entry| Named { entry, spec });
    named.ok_or_else(|| match fairwater_algorithms::by_spec(name) {
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
