//! A comparison over QUIC.

use fairwater_hosting::Stop;
use fairwater_lab::{Candidate, QuicController, over_quic};
use fairwater_net::LinkSpec;
use fairwater_results::RoundResults;

use super::candidate::{CandidateArgument, Sender};
use super::progress::ProgressDisplay;
use super::{Args, comparison, rounds};
use crate::failure::Failure;

pub(super) fn run(
    args: &Args,
    link: LinkSpec,
    arguments: &[CandidateArgument],
) -> Result<RoundResults, Failure> {
    let candidates: Result<Vec<_>, _> = arguments.iter().map(candidate).collect();
    let rounds = rounds(args, comparison(args, link, candidates?), arguments)?;
    let stop = Stop::on_signals().map_err(Failure::io("handling signals"))?;
    stop.exit_if_stuck(|| ())
        .map_err(Failure::io("handling signals"))?;
    let mut display = ProgressDisplay::new(args.quiet);
    let results = rounds.run(
        &mut |progress| display.show(progress),
        |comparison, progress| Ok(over_quic(comparison, stop.flag(), progress)?),
    );
    drop(display);
    Failure::if_interrupted(&stop)?;
    results
}

fn candidate(argument: &CandidateArgument) -> Result<Candidate<QuicController>, Failure> {
    let congestion_control = match &argument.sender {
        Sender::Hosted(algorithm) => QuicController::Plane(algorithm.choice.clone()),
        Sender::Kernel(name) if name == "cubic" => QuicController::Cubic,
        Sender::Kernel(name) if name == "reno" => QuicController::NewReno,
        Sender::Kernel(_) => {
            return Err(Failure::BadInput(format!(
                "noq has no `{}`; in the place of the kernel's it has `kernel:cubic` and \
                 `kernel:reno`",
                argument.label
            )));
        }
    };
    Ok(Candidate {
        label: argument.label.clone(),
        congestion_control,
    })
}
