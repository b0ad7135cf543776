//! `fairwater up`.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use fairwater_edge::policy::PortPattern;
use fairwater_hosting::control::{Control, ControlListener};
use fairwater_hosting::host::{DEFAULT_PATH, Host, HostConfig};
use fairwater_hosting::metrics::MetricsServer;
use fairwater_hosting::service_manager::ServiceManager;
use fairwater_hosting::{Stop, TURN};

use crate::failure::Failure;
use crate::hosting::{raise_open_files, read_host_config, remove_sockets_if_stuck};
use crate::units::count;

const EXAMPLES: &str = "\
Examples:
  sudo fairwater up
  fairwater check /etc/fairwater.toml
  sudo fairwater status
  sudo fairwater switch cubic copa --flows port=443 --share 10%
  sudo systemctl reload fairwater        (or SIGHUP: reads the file again)

A configuration; only the first line is required:
  algorithms = [\"cubic\", \"copa\", \"ledbatpp\"]

  [linux]                    # this machine's TCP
  default = \"cubic\"          # algorithm of new connections

  [links]                    # datapaths in other processes
  ccp = \"/tmp/ccp/portus\"    # datapaths written for CCP

  [sendbox]                  # bundles of this site's packets: `fairwater bundle --help` has the keys,
  ports = [\"lan0\"]           # each bundle a [[sendbox.bundle]]; likewise [receivebox]

  [metrics]
  listen = \"127.0.0.1:9464\"

  [[policy]]                 # the first matching rule decides for a new flow
  cgroup = \"/system.slice/backup.service\"
  algorithm = \"ledbatpp\"

dist/fairwater.toml explains every key. At Ctrl-C or SIGTERM, the command restores the machine's
settings.";

/// Run one plane for all datapaths of this host, configured by a file
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The configuration
    #[arg(value_name = "FILE", default_value = DEFAULT_PATH)]
    file: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let config = read_host_config(&args.file)?;
    let reread = || reread(&args.file);
    host_until_stopped(config, &reread)
}

/// Runs a plane with all its datapaths until it is stopped. `reread` reads its configuration again.
pub(crate) fn host_until_stopped(
    config: HostConfig,
    reread: &dyn Fn() -> Result<HostConfig, String>,
) -> Result<(), Failure> {
    let (stop, hangup) = Stop::on_signals_but_hangup().map_err(Failure::io("handling signals"))?;
    if let Some(links) = &config.links {
        raise_open_files(links.max_peers);
        remove_sockets_if_stuck(&config, &stop)?;
    }
    let mut host = Host::start(config.clone())?;
    let mut control = match &config.control {
        Some(at) => {
            let bound = ControlListener::bind(&at.socket, at.groups.clone(), host.waker());
            Some(Control::new(
                bound.map_err(Failure::io("the control socket"))?,
            ))
        }
        None => None,
    };
    let _metrics = metrics(&config)?;
    let mut manager = ServiceManager::new();
    host.drain_notices()
        .iter()
        .for_each(|sentence| eprintln!("{sentence}"));
    let said = sentence(&config);
    eprintln!("{said}");
    manager.ready(&said);
    while !stop.is_asked() {
        let wait = control
            .as_ref()
            .and_then(Control::next_turn)
            .unwrap_or(TURN);
        let notices = host
            .turn(wait.min(TURN))
            .map_err(Failure::io("waiting for events"))?;
        notices.iter().for_each(|notice| eprintln!("{notice}"));
        manager.turn();
        if hangup.swap(false, SeqCst) {
            manager.reloading();
            reload(reread, &mut host, control.as_ref());
            manager.ready(&sentence(host.config()));
        }
        if let Some(control) = &mut control {
            let notices = control.turn(&mut host, reread);
            notices.iter().for_each(|notice| eprintln!("{notice}"));
        }
    }
    manager.stopping();
    if let Some(control) = control {
        control.finish(&mut host);
        // Linux TCP answers a hand-over at the next turn.
        host.turn(Duration::ZERO)
            .map_err(Failure::io("waiting for events"))?;
    }
    host.finish()
        .iter()
        .for_each(|notice| eprintln!("{notice}"));
    Failure::if_interrupted(&stop)
}

fn metrics(config: &HostConfig) -> Result<Option<MetricsServer>, Failure> {
    let (Some(address), Some(control)) = (&config.metrics, &config.control) else {
        return Ok(None);
    };
    let bound = MetricsServer::bind(address, control.socket.clone());
    let server = bound.map_err(|error| Failure::Other(format!("the metrics at {error}")))?;
    eprintln!("Metrics are at {address}.");
    Ok(Some(server))
}

/// Reads the file again for a plane that runs.
fn reread(file: &Path) -> Result<HostConfig, String> {
    read_host_config(file).map_err(|failure| still_in_force(failure, file))
}

/// Why a configuration that was read again is not taken, as a sentence.
pub(crate) fn still_in_force(failure: Failure, file: &Path) -> String {
    match failure {
        Failure::AlreadyReported(_) => format!(
            "{} has mistakes, and the former configuration stays in force; `fairwater check` shows them",
            file.display()
        ),
        other => other.to_string(),
    }
}

/// Reads the configuration again; with mistakes in it, the former stays in force.
fn reload(
    reread: &dyn Fn() -> Result<HostConfig, String>,
    host: &mut Host,
    control: Option<&Control>,
) {
    let reloaded = reread().and_then(|config| match control {
        Some(control) => control.reload(host, config),
        None => host.reload(config).map_err(|error| error.to_string()),
    });
    match reloaded {
        Ok(different) if different.is_empty() => eprintln!("Reloaded: nothing is different."),
        Ok(different) => different
            .iter()
            .for_each(|sentence| eprintln!("Reloaded: {sentence}")),
        Err(why) => eprintln!("Not reloaded: {why}."),
    }
}

/// What the plane serves, as a sentence.
fn sentence(config: &HostConfig) -> String {
    let names: Vec<_> = config
        .algorithms
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let mut places = Vec::new();
    if config.linux.is_some() {
        places.push("Linux TCP".to_owned());
    }
    if let Some(edge) = &config.edge {
        places.push(format!("the ports {}", patterns(&edge.on)));
    }
    if let Some(sendbox) = &config.sendbox {
        let bundles = count(sendbox.bundles.len(), "bundle");
        places.push(format!("{bundles} from {}", sendbox.ports.join(", ")));
    }
    if let Some(receivebox) = &config.receivebox {
        let bundles = count(receivebox.bundles.len(), "bundle");
        places.push(format!("{bundles} to {}", receivebox.ports.join(", ")));
    }
    if let Some(links) = &config.links {
        places.push(links.listen.display().to_string());
        places.extend(links.ccp.as_ref().map(|path| path.display().to_string()));
    }
    format!(
        "Hosting {} at {}. Ctrl-C stops.",
        names.join(", "),
        places.join(", ")
    )
}

/// `vnet*, tap0`.
fn patterns(on: &[PortPattern]) -> String {
    let names: Vec<_> = on.iter().map(PortPattern::as_str).collect();
    names.join(", ")
}
