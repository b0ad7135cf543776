//! `fairwater top`.

mod flows;
mod planes;
mod screen;
mod text;

use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, Instant};

use fairwater_hosting::Stop;
use fairwater_linux::{observe, probe};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::widgets::TableState;

use crate::control::ControlArgs;
use crate::failure::Failure;
use crate::output;
use crate::units::parse_duration;
use flows::{RateTracker, TopSample};

const EXAMPLES: &str = "\
Examples:
  sudo fairwater top
  sudo fairwater top --once --interval 5s
  sudo fairwater top --json | jq '.flows[] | select(.state == \"fallback\")'

States: starting (no program chosen yet), running (under its algorithm), fallback (under Cubic in
the kernel because the plane is gone or silent), faulted (under Cubic until the flow closes, because
its program or algorithm failed). A kernel that does not offer its Cubic to eBPF has Reno instead:
`fairwater doctor` tells. Guests' connections appear if `fairwater edge` or
`fairwater up` controls them, flows of datapaths in other processes if `fairwater up` serves them. Delivery is the rate acknowledged within the interval. Flows of an aggregate share
one controller: the table shows the aggregate's key and number of flows. A narrow terminal shows
fewer columns.";

/// Watch the flows of every attached algorithm, guests' connections at an edge, bundles, and flows of datapaths in other
/// processes
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print one table and exit, as when standard output is not a terminal
    #[arg(long)]
    once: bool,
    /// Print one JSON document and exit
    #[arg(long)]
    json: bool,
    /// Time between two samples
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,
    #[command(flatten)]
    control: ControlArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if !planes::answer(&args.control) {
        probe::probe().require()?;
    }
    if args.json || args.once || !io::stdout().is_terminal() {
        let sample = once(args)?;
        return if args.json {
            output::json(&sample)
        } else {
            output::print(text::table(&sample))
        };
    }
    let result = live(&mut ratatui::init(), args);
    ratatui::restore();
    result
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    let bounds = Duration::from_millis(100)..=Duration::from_secs(3600);
    if bounds.contains(&interval) {
        Ok(interval)
    } else {
        Err("it must be 100ms to 60min".into())
    }
}

/// The second of two samples, with the rates between them.
fn once(args: &Args) -> Result<TopSample, Failure> {
    let interval = args.interval;
    let stop = Stop::on_signals().map_err(Failure::io("handling signals"))?;
    let mut tracker = RateTracker::default();
    sample(args, &mut tracker, Duration::ZERO);
    let start = Instant::now();
    while start.elapsed() < interval {
        Failure::if_interrupted(&stop)?;
        thread::sleep((interval - start.elapsed()).min(Duration::from_millis(50)));
    }
    Ok(sample(args, &mut tracker, start.elapsed()))
}

/// A sample, `elapsed` after the last.
fn sample(args: &Args, tracker: &mut RateTracker, elapsed: Duration) -> TopSample {
    TopSample {
        bundles: planes::bundles(&args.control),
        ..tracker.sample(&observe::planes(), planes::flows(&args.control), elapsed)
    }
}

fn live(terminal: &mut DefaultTerminal, args: &Args) -> Result<(), Failure> {
    let interval = args.interval;
    let stop = Stop::on_signals().map_err(Failure::io("handling signals"))?;
    let mut tracker = RateTracker::default();
    let mut scroll = TableState::default();
    let mut sampled = Instant::now();
    let mut shown = sample(args, &mut tracker, Duration::ZERO);
    while !stop.is_asked() {
        terminal
            .draw(|frame| screen::draw(frame, &shown, &mut scroll))
            .map_err(Failure::io("the terminal"))?;
        match key(interval.saturating_sub(sampled.elapsed()))
            .map_err(Failure::io("the terminal"))?
        {
            Key::Quit => return Ok(()),
            Key::Interrupt => return Err(Failure::Interrupted),
            Key::Up(rows) => scroll.scroll_up_by(rows),
            Key::Down(rows) => scroll.scroll_down_by(rows),
            Key::None => {}
        }
        if sampled.elapsed() >= interval {
            shown = sample(args, &mut tracker, sampled.elapsed());
            sampled = Instant::now();
        }
    }
    Failure::if_interrupted(&stop)
}

enum Key {
    Quit,
    Interrupt,
    Up(u16),
    Down(u16),
    None,
}

/// The next key within `wait`; a signal ends the wait within 200 ms.
fn key(wait: Duration) -> io::Result<Key> {
    const PAGE: u16 = 20;
    if !event::poll(wait.min(Duration::from_millis(200)))? {
        return Ok(Key::None);
    }
    let Event::Key(KeyEvent {
        code,
        modifiers,
        kind: KeyEventKind::Press,
        ..
    }) = event::read()?
    else {
        return Ok(Key::None);
    };
    Ok(match code {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Key::Interrupt,
        KeyCode::Char('q') | KeyCode::Esc => Key::Quit,
        KeyCode::Up | KeyCode::Char('k') => Key::Up(1),
        KeyCode::Down | KeyCode::Char('j') => Key::Down(1),
        KeyCode::PageUp => Key::Up(PAGE),
        KeyCode::PageDown => Key::Down(PAGE),
        _ => Key::None,
    })
}
