//! What an algorithm costs a QUIC server on noq: per ACK frame, and in throughput over loopback. And what
//! transfers come to while planes die.

mod frames;
pub(crate) mod kills;
mod loopback;

use anyhow::ensure;

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Rounds; each measures every variant once.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// ACK frames that a controller takes in a round.
    #[arg(long, default_value_t = 500_000)]
    frames: u64,
    /// Bytes of a transfer over loopback; 0 leaves the transfers out.
    #[arg(long, default_value_t = 1_000_000_000)]
    bytes: u64,
    /// Algorithms, beside noq's own Cubic.
    #[arg(long, value_delimiter = ',', default_value = "cubic,copa,reno")]
    algorithms: Vec<String>,
}

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    ensure!(
        arguments.rounds > 0 && arguments.frames > 0,
        "there must be a round and a frame"
    );
    frames::run(arguments)?;
    if arguments.bytes > 0 {
        loopback::run(arguments)?;
    }
    Ok(())
}
