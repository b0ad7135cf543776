//! `fairwater bundle key`.

use std::io;
use std::path::PathBuf;

use fairwater_hosting::bundle::create_key;

use crate::failure::Failure;

/// Draw a key for a bundle: both of its boxes need the file, and nobody else
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The new file, which only its owner may read
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let name = args.file.display();
    create_key(&args.file).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::BadInput(format!(
            "{name} is there already, and a key that is in use must not be lost: choose another name"
        )),
        _ => Failure::BadInput(format!("{name}: {error}")),
    })?;
    eprintln!("{name}: a new key. Copy it to the other box of the bundle.");
    Ok(())
}
