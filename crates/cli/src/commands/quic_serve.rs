//! `fairwater quic-serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwater_hosting::Stop;
use fairwater_net::quantity;
use fairwater_quic::certificate::Certificate;
use fairwater_quic::transfer::{Content, FileServer, ServeConfig, Served, TransferError};
use fairwater_quic::{Factory, Options, QuicError};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use crate::units::{bit_rate, bytes, duration, parse_duration};

const EXAMPLES: &str = "\
Examples:
  fairwater quic-serve --zeros 100MB
      and fetch it with the `fairwater quic-get` line that the command prints
  fairwater quic-serve movie.mp4 --algorithm copa:delta=0.25 --listen 0.0.0.0:4433
  fairwater quic-serve --zeros 1GB --algorithm stack:cubic
      noq's own Cubic, to compare with
  fairwater quic-serve --zeros 1GB --algorithm copa --plane /run/fairwater/plane.ring
      the algorithm of the plane at that socket (`fairwater up` or `fairwater serve`)

The algorithm runs in this process, or, with --plane, in the plane at a socket for rings in shared
memory; flows of a plane that is not there, or dies, run under Cubic until it is back. The
certificate is made on the spot: a client trusts its fingerprint, which the command prints.";

/// Serve a file over QUIC (noq) under an algorithm
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file
    #[arg(value_name = "FILE", required_unless_present = "zeros")]
    file: Option<PathBuf>,
    /// Serve so many bytes 0 instead of a file: `100MB`
    #[arg(long, value_name = "BYTES", conflicts_with = "file", value_parser = parse_size)]
    zeros: Option<u64>,
    /// Algorithm of the connections: `copa`, `copa:delta=0.25`, or `stack:cubic` for noq's own
    #[arg(long, value_name = "ALGORITHM", default_value = "copa")]
    algorithm: String,
    /// Socket of a plane in another process
    #[arg(long, value_name = "PATH")]
    plane: Option<PathBuf>,
    /// Address to listen at; port 0 is any
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4433")]
    listen: SocketAddr,
    /// Folder for a qlog file of each connection
    #[arg(long, value_name = "FOLDER")]
    qlog: Option<PathBuf>,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Stop after so many transfers
    #[arg(long, value_name = "COUNT")]
    transfers: Option<u32>,
    /// Print the transfers as JSON on standard output at the end
    #[arg(long)]
    json: bool,
}

fn parse_size(text: &str) -> Result<u64, String> {
    quantity::bytes(text).map_err(|error| error.to_string())
}

/// One transfer, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Transfer {
    remote: SocketAddr,
    bytes: u64,
    seconds: f64,
    /// The last delivery rate that the controller measured, bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery_rate: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Summary {
    algorithm: String,
    transfers: Vec<Transfer>,
    /// Reports of the flows to the plane.
    reports: u64,
    /// How often a flow went under the fallback.
    fallbacks: u64,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let factory = factory(args)?;
    if let Some(folder) = args.qlog.as_ref().filter(|folder| !folder.is_dir()) {
        let problem = format!("{}: no such folder", folder.display());
        return Err(Failure::BadInput(problem));
    }
    let content = match (&args.file, args.zeros) {
        (_, Some(bytes)) => Content::Zeros(bytes),
        (Some(file), None) => Content::File(file.clone()),
        (None, None) => return Err(Failure::BadInput("name a file, or --zeros".to_owned())),
    };
    let certificate = Certificate::generate(["localhost".to_owned()])
        .map_err(|error| Failure::Other(format!("the certificate: {error}")))?;
    let stop = Stop::on_signals().map_err(Failure::io("handling signals"))?;
    let mut server = FileServer::bind(ServeConfig {
        listen: args.listen,
        content,
        controllers: factory.clone(),
        certificate,
        qlog: args.qlog.clone(),
    })?;
    eprintln!(
        "Serving under {}; fetch with: fairwater quic-get {} --trust {}",
        args.algorithm,
        server.address(),
        server.fingerprint()
    );
    let served = serve(args, &mut server, &stop);
    server.close();
    let status = factory.as_deref().map(Factory::status).unwrap_or_default();
    if args.json {
        output::json(&Summary {
            algorithm: args.algorithm.clone(),
            transfers: served.into_iter().map(transfer).collect(),
            reports: status.reports,
            fallbacks: status.fallbacks,
        })?;
    }
    Failure::if_interrupted(&stop)
}

/// `None` for noq's own.
fn factory(args: &Args) -> Result<Option<Arc<Factory>>, Failure> {
    let options = Options::default().name("quic-serve");
    let options = match &args.plane {
        Some(socket) => options.plane(socket),
        None => options.embedded(),
    };
    match (args.algorithm.as_str(), &args.plane) {
        ("stack:cubic", None) => Ok(None),
        ("stack:cubic", Some(_)) => Err(Failure::BadInput(
            "noq's own Cubic has no plane: leave out --plane".to_owned(),
        )),
        (algorithm, _) => Ok(Some(options.noq(algorithm)?)),
    }
}

fn serve(args: &Args, server: &mut FileServer, stop: &Stop) -> Vec<Served> {
    let began = Instant::now();
    let mut all = Vec::new();
    let is_full = |all: &Vec<Served>| {
        args.transfers
            .is_some_and(|most| all.len() >= most as usize)
    };
    while !stop.is_asked()
        && !is_full(&all)
        && args.duration.is_none_or(|most| began.elapsed() < most)
    {
        for served in server.turn(Duration::from_millis(100), stop.flag()) {
            eprintln!("{}", sentence(&served));
            all.push(served);
        }
    }
    all
}

fn sentence(served: &Served) -> String {
    let took = duration(served.took);
    match &served.failure {
        Some(failure) => format!("{}: {failure} (after {took})", served.remote),
        None => {
            let rate = bit_rate(8.0 * served.bytes as f64 / served.took.as_secs_f64());
            let bytes = bytes(served.bytes);
            format!("{}: {bytes} in {took}, {rate}", served.remote)
        }
    }
}

fn transfer(served: Served) -> Transfer {
    Transfer {
        remote: served.remote,
        bytes: served.bytes,
        seconds: served.took.as_secs_f64(),
        delivery_rate: served.delivery_rate.map(|rate| 8 * rate.bytes_per_s),
        failure: served.failure,
    }
}

impl From<QuicError> for Failure {
    fn from(error: QuicError) -> Self {
        match error {
            QuicError::Io(error) => Self::io("the datapath's threads")(error),
            other => Self::BadInput(other.to_string()),
        }
    }
}

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Stopped => Self::Interrupted,
            TransferError::File { .. } => Self::BadInput(error.to_string()),
            other => Self::Other(other.to_string()),
        }
    }
}
