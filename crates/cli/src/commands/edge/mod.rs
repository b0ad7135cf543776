//! `fairwater edge`.

mod check;
mod explain;
mod status;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use fairwater_edge::policy::PortPattern;
use fairwater_edge_tc::EdgeOptions;
use fairwater_hosting::host::{ControlConfig, EdgeConfig, HostConfig};
use fairwater_hosting::resolve;

use super::up::{host_until_stopped, still_in_force};
use crate::control::edge_socket;
use crate::failure::Failure;
use crate::hosting::read_edge_policy;

const EXAMPLES: &str = "\
Examples:
  sudo fairwater edge --on 'vnet*' --policy edge.toml
  sudo fairwater edge --on tap0 --on tap1 --policy edge.toml
  fairwater edge status
  fairwater edge explain 10.0.0.5:443 192.0.2.9:51000 --port vnet3 --policy edge.toml
  fairwater edge check edge.toml

A policy; the first matching rule decides when a connection opens, and without one it passes:
  [[rule]]
  peer = \"10.0.0.0/8\"         # inside: the guest obeys DCTCP's marks no more than Reno's
  algorithm = \"reno\"
  ecn = true                  # ECN is spoken for guests that have none

  [[rule]]
  algorithm = \"cubic\"

SIGHUP reads the policy again. At Ctrl-C, SIGTERM or a crash, the programs leave the ports, and guests
keep to their own congestion control. `[edge]` in the file of `fairwater up` does the same beside this
host's own datapaths. docs/edge.md is the guide.";

/// Give the TCP flows of unmodified guests this host's congestion control
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<EdgeCommand>,
    /// Network interfaces on this host to which guests are connected: names, `*` for any text;
    /// interfaces that come later are found
    #[arg(long, value_name = "PATTERN", required = true, value_parser = PortPattern::new)]
    on: Vec<PortPattern>,
    /// The policy: which connections get which algorithm
    #[arg(long, value_name = "FILE", required = true)]
    policy: Option<PathBuf>,
    /// Algorithms that a policy read later may name, besides those of the policy now
    #[arg(long, value_name = "ALGORITHM", value_delimiter = ',')]
    with: Vec<String>,
    /// Most connections that algorithms control at a time; others pass
    #[arg(long, value_name = "N", default_value_t = EdgeOptions::default().max_flows,
        value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    max_flows: u32,
    /// Where `fairwater edge status` asks [default: /run/fairwater/edge]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum EdgeCommand {
    Status(status::Args),
    Explain(explain::Args),
    Check(check::Args),
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Some(EdgeCommand::Status(args)) => status::run(args),
        Some(EdgeCommand::Explain(args)) => explain::run(args),
        Some(EdgeCommand::Check(args)) => check::run(args),
        None => host(args),
    }
}

fn host(args: &Args) -> Result<(), Failure> {
    let Some(file) = &args.policy else {
        return Err(Failure::BadInput("--policy FILE is missing".to_owned()));
    };
    let config = configuration(args, file)?;
    let reread = || configuration(args, file).map_err(|failure| still_in_force(failure, file));
    host_until_stopped(config, &reread)
}

/// A host with an edge alone, whose algorithms are those of the policy.
fn configuration(args: &Args, file: &Path) -> Result<HostConfig, Failure> {
    let policy = read_edge_policy(file, None)?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut algorithms = Vec::new();
    let named = policy.algorithms();
    for name in named
        .iter()
        .map(|name| &**name)
        .chain(args.with.iter().map(String::as_str))
    {
        if !algorithms.iter().any(|(known, _)| known == name) {
            algorithms.push((name.to_owned(), resolve(name, folder)?));
        }
    }
    if named.is_empty() {
        return Err(Failure::BadInput(format!(
            "{}: no rule gives connections an algorithm, so there is nothing to run",
            file.display()
        )));
    }
    let socket = args.socket.clone().or_else(edge_socket);
    Ok(HostConfig {
        algorithms,
        edge: Some(EdgeConfig {
            on: args.on.clone(),
            policy_file: file.to_owned(),
            policy: Arc::new(policy),
            options: EdgeOptions {
                max_flows: args.max_flows,
                ..EdgeOptions::default()
            },
        }),
        control: socket.map(|socket| ControlConfig {
            socket,
            groups: Vec::new(),
        }),
        ..HostConfig::default()
    })
}
