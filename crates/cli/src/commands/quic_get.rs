//! `fairwater quic-get`.

use std::io::{IsTerminal, stderr};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use fairwater_hosting::Stop;
use fairwater_quic::transfer::{Fetched, Fingerprint, GetConfig, GetProgress, get};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use crate::units::{bit_rate, bytes, duration};

const EXAMPLES: &str = "\
Examples:
  fairwater quic-get 127.0.0.1:4433 --trust 9f86d081…
      the content goes nowhere: what counts is the time; `fairwater quic-serve` prints the line
  fairwater quic-get server.example:4433 --trust 9f86d081… --output movie.mp4
  fairwater quic-get 127.0.0.1:4433 --trust 9f86d081… --json | jq .seconds

The content's BLAKE3 hash is compared with the server's. If a transfer fails or is stopped, no part of
the file is left.";

/// Fetch what `fairwater quic-serve` serves
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Host and port of the server
    #[arg(value_name = "ADDRESS", value_parser = resolve)]
    server: SocketAddr,
    /// Fingerprint of the server's certificate
    #[arg(long, value_name = "FINGERPRINT")]
    trust: Fingerprint,
    /// Where the content goes [default: nowhere]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Folder for a qlog file
    #[arg(long, value_name = "FOLDER")]
    qlog: Option<PathBuf>,
    /// Print JSON on standard output instead of a sentence
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

fn resolve(text: &str) -> Result<SocketAddr, String> {
    let mut addresses = text.to_socket_addrs().map_err(|error| error.to_string())?;
    addresses.next().ok_or_else(|| "no address".to_owned())
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    bytes: u64,
    seconds: f64,
    handshake_seconds: f64,
    bits_per_second: f64,
    blake3: &'a str,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(folder) = args.qlog.as_ref().filter(|folder| !folder.is_dir()) {
        let problem = format!("{}: no such folder", folder.display());
        return Err(Failure::BadInput(problem));
    }
    let stop = Stop::on_signals().map_err(Failure::io("handling signals"))?;
    let config = GetConfig {
        remote: args.server,
        trust: args.trust,
        output: args.output.clone(),
        qlog: args.qlog.clone(),
    };
    let bar = progress_bar(args.quiet);
    let fetched = get(&config, stop.flag(), &mut |progress| show(&bar, progress));
    bar.finish_and_clear();
    let fetched = fetched?;
    report(args, &fetched)?;
    Failure::if_interrupted(&stop)
}

fn report(args: &Args, fetched: &Fetched) -> Result<(), Failure> {
    let bits_per_second = 8.0 * fetched.bytes as f64 / fetched.took.as_secs_f64();
    if args.json {
        return output::json(&Summary {
            bytes: fetched.bytes,
            seconds: fetched.took.as_secs_f64(),
            handshake_seconds: fetched.handshake.as_secs_f64(),
            bits_per_second,
            blake3: &fetched.hash,
        });
    }
    output::print(format!(
        "{} in {}, {}; BLAKE3 {}\n",
        bytes(fetched.bytes),
        duration(fetched.took),
        bit_rate(bits_per_second),
        fetched.hash
    ))
}

fn progress_bar(quiet: bool) -> ProgressBar {
    if quiet || !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(1);
    let template = "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &ProgressBar, progress: GetProgress) {
    bar.set_length(progress.length);
    bar.set_position(progress.bytes);
}
