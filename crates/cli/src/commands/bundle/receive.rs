//! `fairwater bundle receive`.

use std::path::PathBuf;
use std::sync::atomic::Ordering::SeqCst;

use fairwater_hosting::bundle::{BoxConfig, ReceiveHost, ReceiveboxConfig};
use fairwater_hosting::service_manager::ServiceManager;
use fairwater_hosting::{Stop, TURN};

use crate::control::receive_socket;
use crate::failure::Failure;
use crate::hosting::read_box_config;
use crate::units::count;

/// Run a receivebox: count what arrives from other sites, and tell their sendboxes
///
/// No packet is held or changed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where `fairwater bundle status` asks [default: /run/fairwater/bundle-receive]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = match read_box_config(&args.file)? {
        BoxConfig::Receive(config) => config,
        BoxConfig::Send(_) => {
            return Err(Failure::BadInput(format!(
                "{}: it configures a sendbox: `fairwater bundle send` runs it",
                args.file.display()
            )));
        }
    };
    let (stop, hangup) = Stop::on_signals_but_hangup().map_err(Failure::io("handling signals"))?;
    let socket = args.socket.clone().or_else(receive_socket);
    let said = sentence(&config);
    let mut host = ReceiveHost::start(config, socket.as_deref())?;
    let mut manager = ServiceManager::new();
    eprintln!("{said}");
    manager.ready(&said);
    while !stop.is_asked() {
        host.turn(TURN).map_err(Failure::io("waiting"))?;
        manager.turn();
        if hangup.swap(false, SeqCst) {
            manager.reloading();
            eprintln!("Not reloaded: a receivebox takes changes at a restart.");
            manager.ready(&said);
        }
    }
    manager.stopping();
    drop(host);
    eprintln!("Stopped: nothing of the receivebox is left.");
    Failure::if_interrupted(&stop)
}

fn sentence(config: &ReceiveboxConfig) -> String {
    format!(
        "Observing {} at {}, and answering at {}. Ctrl-C stops.",
        count(config.bundles.len(), "bundle"),
        config.ports.join(", "),
        config.listen
    )
}
