//! `fairwater top`.

mod flows;
mod screen;
mod text;

use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, Instant};

use fairwater_linux::{observe, probe};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::widgets::TableState;

use crate::failure::Failure;
use crate::output;
use crate::stop::Stop;
use crate::units::parse_duration;
use flows::{Look, Watcher};

const EXAMPLES: &str = "\
Examples:
  sudo fairwater top
  sudo fairwater top --once --interval 5s
  sudo fairwater top --json | jq '.flows[] | select(.state == \"fallback\")'

States: starting (no program chosen yet), running (under its algorithm), fallback (under Reno in the
kernel because the plane is gone or silent), faulted (under Reno for good: its program or algorithm
failed). Delivery is what was acknowledged within the interval. Flows of an aggregate share one
controller: its key is shown, and how many they are. A narrow terminal shows fewer columns.";

/// Watch the flows of every attached algorithm
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print one table and end; so it is too when standard output is no terminal
    #[arg(long)]
    once: bool,
    /// Print one JSON document and end
    #[arg(long)]
    json: bool,
    /// The time between two looks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    probe::probe().require()?;
    if args.json || args.once || !io::stdout().is_terminal() {
        let look = once(args.interval)?;
        return if args.json {
            output::json(&look)
        } else {
            output::print(text::table(&look))
        };
    }
    let result = live(&mut ratatui::init(), args.interval);
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

/// Two looks, for the rates between them.
fn once(interval: Duration) -> Result<Look, Failure> {
    let stop = Stop::on_signals()?;
    let mut watcher = Watcher::default();
    watcher.look(&observe::planes(), Duration::ZERO);
    let start = Instant::now();
    while start.elapsed() < interval {
        stop.check_interrupt()?;
        thread::sleep((interval - start.elapsed()).min(Duration::from_millis(50)));
    }
    Ok(watcher.look(&observe::planes(), start.elapsed()))
}

fn live(terminal: &mut DefaultTerminal, interval: Duration) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let mut watcher = Watcher::default();
    let mut scroll = TableState::default();
    let mut looked = Instant::now();
    let mut look = watcher.look(&observe::planes(), Duration::ZERO);
    while !stop.is_asked() {
        terminal
            .draw(|frame| screen::draw(frame, &look, &mut scroll))
            .map_err(Failure::io("the terminal"))?;
        match key(interval.saturating_sub(looked.elapsed())).map_err(Failure::io("the terminal"))? {
            Key::Quit => return Ok(()),
            Key::Interrupt => return Err(Failure::Interrupted),
            Key::Up(rows) => scroll.scroll_up_by(rows),
            Key::Down(rows) => scroll.scroll_down_by(rows),
            Key::None => {}
        }
        if looked.elapsed() >= interval {
            look = watcher.look(&observe::planes(), looked.elapsed());
            looked = Instant::now();
        }
    }
    stop.check_interrupt()
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
