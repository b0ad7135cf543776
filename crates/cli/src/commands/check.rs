//! `fairwater check`.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use fairwater_lang::{Compiled, Diagnostics, Program, Scope, Type, bounds};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  fairwater check aimd.ccp
  fairwater check --json aimd.ccp | jq '.program.signals'
  echo '(def (Report (acked 0))) (when true (report))' | fairwater check -

The errors of a program are shown all at once, with exit code 2.";

/// Check a datapath program and show it typed
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The program's source; `-` is standard input
    file: PathBuf,
    /// Print JSON on standard output: errors, warnings, and the program if it is sound
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let name = args.file.display().to_string();
    let source = read(args).map_err(|source| Failure::BadInput(format!("{name}: {source}")))?;
    let result = fairwater_lang::compile(&name, &source);
    match &result {
        Ok(Compiled { warnings, .. }) => anstream::eprint!("{}", warnings.render(true)),
        Err(errors) => anstream::eprint!("{}", errors.render(true)),
    }
    if args.json {
        output::json(&describe(&name, &result))?;
    } else if let Ok(Compiled { program, .. }) = &result {
        output::print(program.to_string())?;
    }
    result.map(drop).map_err(|_| Failure::Diagnosed)
}

/// The source, cut off beyond the most that the compiler takes, so that it can say so.
fn read(args: &Args) -> io::Result<String> {
    let input: Box<dyn Read> = match args.file.to_str() {
        Some("-") => Box::new(io::stdin()),
        _ => Box::new(File::open(&args.file)?),
    };
    let most = u64::try_from(bounds::MAX_SOURCE)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    let mut bytes = Vec::new();
    input.take(most).read_to_end(&mut bytes)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("byte {at} is not UTF-8 text"),
        )
    })
}

#[derive(Serialize)]
struct Json<'a> {
    file: &'a str,
    errors: Vec<JsonDiagnostic<'a>>,
    warnings: Vec<JsonDiagnostic<'a>>,
    program: Option<JsonProgram<'a>>,
}

#[derive(Serialize)]
struct JsonDiagnostic<'a> {
    code: &'a str,
    message: &'a str,
    line: usize,
    column: usize,
    help: &'a [String],
}

#[derive(Serialize)]
struct JsonProgram<'a> {
    variables: Vec<JsonVariable<'a>>,
    signals: Vec<&'static str>,
}

#[derive(Serialize)]
struct JsonVariable<'a> {
    name: &'a str,
    scope: &'static str,
    r#type: &'static str,
    volatile: bool,
    initially: u64,
}

fn describe<'a>(file: &'a str, result: &'a Result<Compiled, Diagnostics>) -> Json<'a> {
    match result {
        Ok(Compiled { program, warnings }) => Json {
            file,
            errors: Vec::new(),
            warnings: diagnostics(warnings),
            program: Some(describe_program(program)),
        },
        Err(errors) => Json {
            file,
            errors: diagnostics(errors),
            warnings: Vec::new(),
            program: None,
        },
    }
}

fn diagnostics(all: &Diagnostics) -> Vec<JsonDiagnostic<'_>> {
    all.iter()
        .map(|diagnostic| {
            let (line, column) = all.line_column(diagnostic.span());
            JsonDiagnostic {
                code: diagnostic.code,
                message: &diagnostic.message,
                line,
                column,
                help: &diagnostic.help,
            }
        })
        .collect()
}

fn describe_program(program: &Program) -> JsonProgram<'_> {
    JsonProgram {
        variables: program
            .variables
            .iter()
            .map(|variable| JsonVariable {
                name: &variable.name,
                scope: match variable.scope {
                    Scope::Report => "report",
                    Scope::Control => "control",
                    Scope::Hidden => "hidden",
                },
                r#type: match variable.ty {
                    Type::Num => "num",
                    Type::Bool => "bool",
                },
                volatile: variable.volatile,
                initially: variable.init,
            })
            .collect(),
        signals: program
            .signals
            .iter()
            .map(fairwater_lang::Signal::name)
            .collect(),
    }
}
