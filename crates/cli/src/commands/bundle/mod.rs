//! `fairwater bundle`.

mod clean;
mod key;
mod probe;
mod receive;
mod send;
mod status;

use std::path::Path;

use clap::Subcommand;
use fairwater_hosting::bundle::{BoxConfig, SendboxConfig};

use crate::failure::Failure;
use crate::hosting::read_box_config;
use crate::output;
use crate::units::count;

const EXAMPLES: &str = "\
Examples:
  fairwater bundle key tokyo.key
  fairwater check send.toml
  fairwater bundle probe --dry-run send.toml
  sudo fairwater bundle send send.toml           (at the site whose queue it is)
  sudo fairwater bundle receive receive.toml     (at the other site)
  sudo fairwater bundle status --why

A sendbox between a site's port lan0 and the network:
  [sendbox]
  ports = [\"lan0\"]

  [[bundle]]
  name = \"tokyo\"
  number = 1                  # the same at both boxes, as is the key
  key = \"tokyo.key\"
  receivebox = \"198.51.100.2\"
  to = [\"10.2.0.0/16\"]        # the other site
  algorithm = \"copa\"          # finds the rate
  queue = \"sfq\"               # schedules the queue: sfq, fq_codel, drr, wdrr, priority, fifo

And the receivebox:
  [receivebox]
  ports = [\"wan0\"]

  [[bundle]]
  name = \"osaka\"
  number = 1
  key = \"tokyo.key\"
  from = [\"10.1.0.0/16\"]
  to = [\"10.2.0.0/16\"]

SIGHUP reads the file of a sendbox again. docs/bundle.md is the guide.";

/// Move the queue of the traffic between two sites to the sender's site, and schedule it there
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: BundleCommand,
}

#[derive(Debug, Subcommand)]
enum BundleCommand {
    Key(key::Args),
    Send(send::Args),
    Receive(receive::Args),
    Status(status::Args),
    Probe(probe::Args),
    Clean(clean::Args),
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        BundleCommand::Key(args) => key::run(args),
        BundleCommand::Send(args) => send::run(args),
        BundleCommand::Receive(args) => receive::run(args),
        BundleCommand::Status(args) => status::run(args),
        BundleCommand::Probe(args) => probe::run(args),
        BundleCommand::Clean(args) => clean::run(args),
    }
}

/// Checks the configuration of a box, for `fairwater check`.
pub(crate) fn check(file: &Path, json: bool) -> Result<(), Failure> {
    let config = read_box_config(file)?;
    let (kind, bundles, algorithms) = match &config {
        BoxConfig::Send(config) => {
            send::require_known(config)?;
            ("sendbox", config.bundles.len(), config.algorithms())
        }
        BoxConfig::Receive(config) => ("receivebox", config.bundles.len(), Vec::new()),
    };
    if json {
        let found = serde_json::json!({
            "sound": true,
            "box": kind,
            "bundles": bundles,
            "algorithms": algorithms,
        });
        return output::json(&found);
    }
    output::print(format!(
        "{} is sound: a {kind} with {}.\n",
        file.display(),
        count(bundles, "bundle")
    ))
}

/// The file of a sendbox.
fn sendbox(file: &Path) -> Result<SendboxConfig, Failure> {
    match read_box_config(file)? {
        BoxConfig::Send(config) => Ok(config),
        BoxConfig::Receive(_) => Err(Failure::BadInput(format!(
            "{}: it configures a receivebox: `fairwater bundle receive` runs it",
            file.display()
        ))),
    }
}
