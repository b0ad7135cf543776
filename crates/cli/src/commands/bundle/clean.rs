//! `fairwater bundle clean`.

use fairwater_bundle_linux::{BoxError, remove_leftovers};
use fairwater_netlink::Interfaces;

use crate::failure::Failure;

/// Remove what a killed sendbox with `plane = "kernel"` left at this machine's interfaces
///
/// A sendbox that runs keeps its queue, and nothing of anybody else is touched.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The interfaces [default: all]
    #[arg(value_name = "INTERFACE")]
    interfaces: Vec<String>,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let asked = !args.interfaces.is_empty();
    let interfaces = match asked {
        true => args.interfaces.clone(),
        false => {
            let listed = Interfaces::new().and_then(|mut all| all.list());
            let listed = listed.map_err(Failure::io("listing interfaces"))?;
            listed.into_iter().map(|it| it.name).collect()
        }
    };
    let mut removed = 0;
    for interface in interfaces {
        match remove_leftovers(&interface) {
            Ok(true) => {
                removed += 1;
                eprintln!("{interface}: removed the queue of a sendbox that was killed.");
            }
            Ok(false) => {}
            Err(BoxError::Taken(_)) => {
                eprintln!("{interface}: a sendbox is at work here, and keeps its queue.");
            }
            // It went meanwhile, or has somebody else's queue.
            Err(BoxError::NoPort(_) | BoxError::ForeignQdisc { .. }) if !asked => {}
            Err(error) => return Err(error.into()),
        }
    }
    if removed == 0 {
        eprintln!("Nothing is left of a sendbox.");
    }
    Ok(())
}
