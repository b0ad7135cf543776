//! `fairwater check`.

mod cost;
mod json;

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use fairwater_exec::cost::{generate, of as cost_of, within};
use fairwater_exec::ebpf::listing;
use fairwater_hosting::bundle::BoxConfig;
use fairwater_lang::{Compiled, Diagnostics, bounds};

use crate::budget::Budget;
use crate::commands::bundle;
use crate::failure::Failure;
use crate::hosting::read_host_config;
use crate::output;
use json::Document;

const EXAMPLES: &str = "\
Examples:
  fairwater check aimd.ccp
  fairwater check --json aimd.ccp | jq '.program.signals'
  fairwater check /etc/fairwater.toml
  echo '(def (Report (acked 0))) (when true (report))' | fairwater check -

The errors of a program, or of a configuration, are shown all at once, with exit code 2. The eBPF is the program's own:
r6 points to the flow's frame, and a datapath adds what puts cwnd and rate into force and sends
the report. The cost is that of the longest path through it, and through the code of the other
backends.";

/// Check a datapath program and show its types, its eBPF and its maximum cost; or check the
/// configuration of a host
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The program's source (`-`: standard input), or a configuration for `fairwater up` or
    /// `fairwater bundle` (`*.toml`)
    file: PathBuf,
    /// Print JSON on standard output: errors, warnings, and the program if it compiles
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    budget: Budget,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let name = args.file.display().to_string();
    if args
        .file
        .extension()
        .is_some_and(|extension| extension == "toml")
    {
        let text = std::fs::read_to_string(&args.file).unwrap_or_default();
        if BoxConfig::is_meant(&text) {
            return bundle::check(&args.file, args.json);
        }
        return host_config(args);
    }
    let source = read(args).map_err(|source| Failure::BadInput(format!("{name}: {source}")))?;
    let refused = |errors: &Diagnostics| {
        anstream::eprint!("{}", errors.render(true));
        if args.json {
            output::json(&Document::refused(&name, errors))?;
        }
        Err(Failure::AlreadyReported(2))
    };
    let Compiled {
        program,
        warnings,
        event_spans,
    } = match fairwater_lang::compile(&name, &source) {
        Ok(compiled) => compiled,
        Err(errors) => return refused(&errors),
    };
    anstream::eprint!("{}", warnings.render(true));
    let ebpf = generate(&program).map_err(|error| Failure::BadInput(format!("{name}: {error}")))?;
    if let Err(error) = within(&program, args.budget.max_instructions) {
        return refused(&cost::diagnostics(&name, &source, &event_spans, &error));
    }
    let (ebpf, cost) = (listing(&ebpf), cost_of(&program));
    if args.json {
        output::json(&Document::sound(&name, &warnings, &program, &ebpf, &cost))
    } else {
        output::print(format!("{program}{}ebpf\n{ebpf}", cost::text(&cost)))
    }
}

/// Checks the configuration of a host; `read_host_config` shows its mistakes.
fn host_config(args: &Args) -> Result<(), Failure> {
    let config = read_host_config(&args.file).inspect_err(|_| {
        let text = std::fs::read_to_string(&args.file).unwrap_or_default();
        if text.contains("[[flow") {
            eprintln!(
                "fairwater: this file looks like a scenario; `fairwater run` checks scenarios before it starts"
            );
        }
    })?;
    let algorithms: Vec<_> = config
        .algorithms
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let rules = config.policy.rules.len();
    if args.json {
        let found = serde_json::json!({
            "sound": true,
            "algorithms": algorithms,
            "linux": config.linux.is_some(),
            "edge": config.edge.is_some(),
            "links": config.links.is_some(),
            "sendbox": config.sendbox.is_some(),
            "receivebox": config.receivebox.is_some(),
            "policy_rules": rules,
        });
        return output::json(&found);
    }
    let places = [
        config.linux.is_some().then_some("Linux TCP"),
        config.edge.is_some().then_some("guests"),
        config
            .links
            .is_some()
            .then_some("datapaths in other processes"),
        config.sendbox.is_some().then_some("a sendbox"),
        config.receivebox.is_some().then_some("a receivebox"),
    ];
    let places: Vec<_> = places.into_iter().flatten().collect();
    output::print(format!(
        "{} is sound: {} for {}; rules of the policy: {rules}.\n",
        args.file.display(),
        algorithms.join(", "),
        places.join(" and "),
    ))
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
