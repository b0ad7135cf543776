//! `fairwater bundle probe`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fairwater_bundle_linux::has_classes;
use fairwater_hosting::bundle::{BoxConfig, ReceiveboxConfig, SendboxConfig, SendboxPlane};
use fairwater_hosting::host::Host;
use fairwater_hosting::{Stop, TURN};
use fairwater_netlink::link_facts;
use rustix::thread::{CapabilitySet, capabilities};

use super::{send, status};
use crate::failure::Failure;
use crate::hosting::read_box_config;
use crate::output;
use crate::units::{count, parse_duration};

const EXAMPLES: &str = "\
Examples:
  fairwater bundle probe --dry-run send.toml      (what would be changed and measured here)
  sudo fairwater bundle probe send.toml           (measures for 10 s; the receivebox has to run)";

/// Measure a sendbox's bundles without limiting them, or say what would be changed and measured here
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The configuration of a box
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Touch nothing: say what would be changed and measured, and what is missing
    #[arg(long)]
    dry_run: bool,
    /// How long to measure
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    time: Duration,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = read_box_config(&args.file)?;
    match config {
        BoxConfig::Send(config) if args.dry_run => {
            send::require_known(&config)?;
            report(&args.file, &sendbox_plan(&config))
        }
        BoxConfig::Receive(config) if args.dry_run => report(&args.file, &receivebox_plan(&config)),
        BoxConfig::Send(config) => measure(config, args.time),
        BoxConfig::Receive(_) => Err(Failure::BadInput(format!(
            "{}: a receivebox measures nothing by itself: add --dry-run, or probe at the sendbox",
            args.file.display()
        ))),
    }
}

/// What would be done on this machine, and what keeps it from being done.
#[derive(Debug, Default)]
struct Plan {
    lines: Vec<String>,
    missing: Vec<String>,
}

impl Plan {
    fn port(&mut self, name: &str, what: &str) -> Option<()> {
        match link_facts(name) {
            Ok(facts) => {
                let kind = if facts.has_ethernet {
                    "Ethernet"
                } else {
                    "bare IP"
                };
                self.lines.push(format!("{name} ({kind}): {what}"));
                facts.has_ethernet.then_some(())
            }
            Err(_) => {
                self.missing.push(format!("there is no interface `{name}`"));
                None
            }
        }
    }

    /// What an unprivileged process lacks.
    fn rights(&mut self, needed: &[(CapabilitySet, &str)]) {
        let held = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
        for (right, name) in needed {
            if !held.contains(*right) {
                self.missing
                    .push(format!("this process has no {name}; try again with sudo"));
            }
        }
    }
}

const ADMIN: (CapabilitySet, &str) = (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN");
const BPF: (CapabilitySet, &str) = (CapabilitySet::BPF, "CAP_BPF");
const PERFMON: (CapabilitySet, &str) = (CapabilitySet::PERFMON, "CAP_PERFMON");

fn sendbox_plan(config: &SendboxConfig) -> Plan {
    let mut plan = Plan::default();
    for port in &config.ports {
        match config.plane {
            SendboxPlane::Tap => {
                let what = "a tc program at its ingress would send the bundles' packets to a TAP device of the process";
                let found = link_facts(port).is_ok();
                if plan.port(port, what).is_none() && found {
                    plan.missing.push(format!(
                        "`{port}` is no Ethernet, and packets of a site come from an Ethernet port"
                    ));
                }
            }
            SendboxPlane::Kernel => {
                let what = "HTB would become its queueing discipline, with a class for each bundle";
                if plan.port(port, what).is_some() {
                    match has_classes(port) {
                        Ok(true) => plan.lines.push(format!(
                            "{port}: a sendbox is there, or was killed; what was left would be removed first"
                        )),
                        Ok(false) => {}
                        Err(error) => plan.missing.push(error.to_string()),
                    }
                }
            }
        }
    }
    match config.plane {
        SendboxPlane::Tap => {
            if !Path::new("/dev/net/tun").exists() {
                let message = "this machine has no /dev/net/tun: load the module `tun`";
                plan.missing.push(message.to_owned());
            }
            plan.rights(&[ADMIN, BPF]);
        }
        SendboxPlane::Kernel => plan.rights(&[ADMIN, BPF, PERFMON]),
    }
    plan.lines.push(format!(
        "messages of receiveboxes would be received at {}; no sysctl, route or firewall rule would change",
        config.listen
    ));
    for (names, bundle) in &config.bundles {
        let to: Vec<_> = bundle
            .destinations
            .iter()
            .map(ToString::to_string)
            .collect();
        let then = match bundle.observe {
            true => "never limited, as `observe` says".to_owned(),
            false => format!(
                "limited by {} then, to {:.1} Mbit/s at least",
                names.algorithm,
                bundle.min_rate as f64 * 8e-6
            ),
        };
        plan.lines.push(format!(
            "{}: packets to {} would be counted; rate, RTT and queue would be measured by answers of {}; {then}",
            names.name,
            to.join(", "),
            bundle.receivebox
        ));
    }
    plan
}

fn receivebox_plan(config: &ReceiveboxConfig) -> Plan {
    let mut plan = Plan::default();
    for port in &config.ports {
        plan.port(
            port,
            "a tc program at its ingress would count packets, and change none",
        );
    }
    plan.rights(&[ADMIN, BPF]);
    plan.lines.push(format!(
        "messages of sendboxes would be received at {}, and answered",
        config.listen
    ));
    for (name, bundle) in &config.bundles {
        let from: Vec<_> = bundle.sources.iter().map(ToString::to_string).collect();
        plan.lines.push(format!(
            "{name}: packets from {} would be counted",
            from.join(", ")
        ));
    }
    plan
}

fn report(file: &Path, plan: &Plan) -> Result<(), Failure> {
    let mut text = format!("{}: nothing is touched.\n", file.display());
    for line in &plan.lines {
        text += &format!("  {line}\n");
    }
    output::print(text)?;
    if plan.missing.is_empty() {
        return Ok(());
    }
    Err(Failure::LabMissing(format!(
        "this machine cannot run it yet: {}",
        plan.missing.join("; ")
    )))
}

/// Runs the sendbox without limits for a while, and prints what it has measured.
fn measure(mut config: SendboxConfig, time: Duration) -> Result<(), Failure> {
    let stop = Stop::on_signals().map_err(Failure::io("handling signals"))?;
    for (_, bundle) in &mut config.bundles {
        bundle.observe = true;
    }
    let bundles = count(config.bundles.len(), "bundle");
    let mut host = Host::start(send::host_of(config, None)?)?;
    eprintln!(
        "Measuring {bundles} for {} s. Nothing is limited.",
        time.as_secs()
    );
    let began = Instant::now();
    while began.elapsed() < time && !stop.is_asked() {
        let notices = host.turn(TURN).map_err(Failure::io("waiting for events"))?;
        notices.iter().for_each(|notice| eprintln!("{notice}"));
    }
    let boxes = host.boxes();
    host.finish()
        .iter()
        .for_each(|notice| eprintln!("{notice}"));
    let row = boxes.map_err(Failure::Other)?.sendbox;
    output::print(
        row.map(|row| status::sendbox_text(&row, true))
            .unwrap_or_default(),
    )?;
    Failure::if_interrupted(&stop)
}
