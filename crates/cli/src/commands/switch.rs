//! `fairwater switch`.

use std::io::{self, IsTerminal};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fairwater_hosting::control::{ClientError, Request, Response};
use fairwater_service::Rule;
use fairwater_service::switching::{Outcome, Plan, Progress};
use indicatif::{ProgressBar, ProgressStyle};

use crate::control::ControlArgs;
use crate::failure::Failure;
use crate::filter;
use crate::output;
use crate::units::parse_duration;

const EXAMPLES: &str = "\
Examples:
  sudo fairwater switch cubic copa
  sudo fairwater switch cubic bbr3 --flows port=443 --share 10% --for 10m
  sudo fairwater switch reno cubic --flows prefix=10.0.0.0/8,mark=7 --json

The chosen flows run both algorithms in turn, in pairs of periods whose order is drawn at random:
two halves side by side would disturb each other. The evidence is weighed after each pair. If the
odds are 40:1 that FROM gets more goodput than TO, or that the other flows lose goodput beside TO,
the flows go back to FROM, at the soonest after seven pairs, 8.4 s. If the odds are 40:1 that TO
gets more goodput, or the same at a lower RTT, the flows keep TO. Without a decision within --for,
the flows go back to FROM. A flow that falls back under TO ends the trial at once, as Ctrl-C does.

FILTER is one or more KEY=VALUE, separated by commas: port and remote-port (443, or 1000-2000),
prefix (of the remote address), mark, cgroup, datapath. Only running flows change; `default` of
[linux] and [[policy]] in the configuration choose the algorithm of new flows.

Exit codes: 0 the flows keep TO, 5 the flows are back under FROM.";

/// Try another algorithm on running flows; keep it if it is better, go back if it is worse
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The algorithm that runs now
    from: String,
    /// The algorithm to try
    to: String,
    /// Filter that chooses flows of this algorithm
    #[arg(long, value_name = "FILTER", value_parser = filter::parse)]
    flows: Option<Rule>,
    /// Share of these flows that takes part, drawn at random
    #[arg(long, value_name = "PERCENT", default_value = "100%", value_parser = parse_share)]
    share: f64,
    /// Maximum duration of the trial
    #[arg(long = "for", value_name = "TIME", default_value = "10min", value_parser = parse_trial)]
    duration: Duration,
    /// Seed of the random choices [default: another at each call]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    control: ControlArgs,
    /// Print the verdict as JSON on standard output
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let plan = Plan {
        from: args.from.clone(),
        to: args.to.clone(),
        flows: args.flows.clone().unwrap_or_default(),
        share: args.share,
        for_us: u64::try_from(args.duration.as_micros()).unwrap_or(u64::MAX),
        seed: args.seed.unwrap_or_else(any_seed),
    };
    let mut client = args.control.connect()?;
    let bar = progress_bar(args.duration);
    let mut answer = client.ask(&Request::Switch(plan));
    let verdict = loop {
        match answer {
            Ok(Response::Progress(progress)) => show(&bar, &progress, args),
            Ok(Response::Verdict(verdict)) => break verdict,
            Ok(_) => return Err(client.unexpected().into()),
            Err(ClientError::Failed(why)) => return Err(Failure::BadInput(why)),
            Err(error) => return Err(error.into()),
        }
        answer = client.next_answer();
    };
    bar.finish_and_clear();
    if args.json {
        output::json(&verdict)?;
    } else {
        output::print(format!("{verdict}\n"))?;
    }
    match verdict.outcome {
        Outcome::Kept => Ok(()),
        Outcome::RolledBack | Outcome::Undecided => Err(Failure::AlreadyReported(5)),
    }
}

fn progress_bar(duration: Duration) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(duration.as_secs().max(1));
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &ProgressBar, progress: &Progress, args: &Args) {
    bar.set_position(progress.elapsed_us / 1_000_000);
    let ratio = progress.ratios.goodput.map_or_else(String::new, |ratio| {
        format!(", goodput {ratio:.2} of {}'s", args.from)
    });
    bar.set_message(format!(
        "{} flows under {}; {} pairs{ratio}; odds worse {:.1}, better {:.1}",
        progress.flows, progress.algorithm, progress.pairs, progress.worse, progress.better
    ));
}

fn any_seed() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::from(since.subsec_nanos()) ^ since.as_secs()
}

fn parse_share(text: &str) -> Result<f64, String> {
    let expected = "a percentage above 0%, at most 100%";
    let number = text.strip_suffix('%').ok_or(expected)?;
    let share: f64 = number.parse().map_err(|_| expected)?;
    match share > 0.0 && share <= 100.0 {
        true => Ok(share / 100.0),
        false => Err(expected.to_owned()),
    }
}

fn parse_trial(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if duration >= Duration::from_secs(5) {
        Ok(duration)
    } else {
        Err("nothing can be told in less than 5s".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percentages() {
        assert_eq!(parse_share("10%"), Ok(0.1));
        for wrong in ["10", "0%", "101%", "x%", "-1%", "NaN%"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
    }
}
