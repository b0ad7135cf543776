//! `fairwater replay --step`: from invocation to invocation.

use std::io::{self, IsTerminal};
use std::time::Duration;

use fairwater_hosting::Stop;
use fairwater_recording::{Direction, Recording, Step, StepError, Stepper, Target};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::{Args, screen};
use crate::failure::Failure;
use crate::output;

pub(super) fn run(args: &Args, recording: &Recording) -> Result<(), Failure> {
    let stepper = Stepper::new(recording)?;
    let mut at = match (args.at, args.flow) {
        (Some(number), _) => number,
        (None, Some(flow)) => stepper.first(flow)?,
        (None, None) => {
            let first = stepper.flows().next().ok_or(StepError::Empty)?;
            stepper.first(first.0)?
        }
    };
    if let Some(condition) = &args.until {
        let target = Target::Condition(condition.clone());
        let found = stepper.find(at, Direction::Forward, &target)?;
        at = found.ok_or_else(|| {
            Failure::Other(format!(
                "`{condition}` holds after no invocation of the flow behind number {at}"
            ))
        })?;
    }
    let mut view = View::new(&stepper, at)?;
    view.condition.clone_from(&args.until);
    if args.json {
        return output::json(&view.step);
    }
    if !io::stdout().is_terminal() {
        return output::print(screen::text(&view.step));
    }
    let result = live(&mut ratatui::init(), &mut view);
    ratatui::restore();
    result
}

/// What is shown.
pub(super) struct View<'r> {
    pub(super) stepper: &'r Stepper<'r>,
    pub(super) step: Step,
    /// The condition of `c` and `C`.
    pub(super) condition: Option<String>,
    /// A condition that is being typed.
    pub(super) typed: Option<String>,
    /// What there is to say about the last key.
    pub(super) message: String,
}

impl<'r> View<'r> {
    pub(super) fn new(stepper: &'r Stepper<'r>, at: u64) -> Result<Self, StepError> {
        Ok(Self {
            stepper,
            step: stepper.step(at)?,
            condition: None,
            typed: None,
            message: String::new(),
        })
    }

    fn go(&mut self, to: u64) {
        match self.stepper.step(to) {
            Ok(step) => self.step = step,
            Err(error) => self.message = error.to_string(),
        }
    }

    fn find(&mut self, direction: Direction, target: &Target) {
        let found = self.stepper.find(self.step.invocation, direction, target);
        match found {
            Ok(Some(number)) => self.go(number),
            Ok(None) => {
                let (what, where_to) = match (target, direction) {
                    (Target::Any, Direction::Forward) => ("invocation", "after"),
                    (Target::Any, Direction::Back) => ("invocation", "before"),
                    (Target::Report, Direction::Forward) => ("report", "after"),
                    (Target::Report, Direction::Back) => ("report", "before"),
                    (Target::Loss, Direction::Forward) => ("loss", "after"),
                    (Target::Loss, Direction::Back) => ("loss", "before"),
                    (Target::Condition(_), Direction::Forward) => ("such invocation", "after"),
                    (Target::Condition(_), Direction::Back) => ("such invocation", "before"),
                };
                self.message = format!("the flow has no {what} {where_to} this one");
            }
            Err(error) => self.message = error.to_string(),
        }
    }

    /// The condition that is set, in this direction.
    fn continue_to(&mut self, direction: Direction) {
        match self.condition.clone() {
            Some(condition) => self.find(direction, &Target::Condition(condition)),
            None => "b sets a condition to stop at".clone_into(&mut self.message),
        }
    }

    fn next_flow(&mut self) {
        let flows: Vec<u32> = self.stepper.flows().map(|(flow, _)| flow).collect();
        let place = flows.iter().position(|flow| *flow == self.step.flow);
        let next = place.map_or(0, |place| (place + 1) % flows.len().max(1));
        if let Some(first) = flows
            .get(next)
            .and_then(|flow| self.stepper.first(*flow).ok())
        {
            self.go(first);
        }
    }

    /// Does what a key says; whether to go on.
    pub(super) fn key(&mut self, code: KeyCode) -> bool {
        self.message.clear();
        if let Some(typed) = &mut self.typed {
            match code {
                KeyCode::Enter => {
                    self.condition = self.typed.take().filter(|text| !text.is_empty());
                    self.continue_to(Direction::Forward);
                }
                KeyCode::Esc => self.typed = None,
                KeyCode::Backspace => drop(typed.pop()),
                KeyCode::Char(letter) => typed.push(letter),
                _ => {}
            }
            return true;
        }
        let all = self.stepper.of_flow(self.step.flow);
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Right | KeyCode::Char('l' | ' ') => {
                self.find(Direction::Forward, &Target::Any);
            }
            KeyCode::Left | KeyCode::Char('h') => self.find(Direction::Back, &Target::Any),
            KeyCode::Char('r') => self.find(Direction::Forward, &Target::Report),
            KeyCode::Char('R') => self.find(Direction::Back, &Target::Report),
            KeyCode::Char('x') => self.find(Direction::Forward, &Target::Loss),
            KeyCode::Char('X') => self.find(Direction::Back, &Target::Loss),
            KeyCode::Char('c') => self.continue_to(Direction::Forward),
            KeyCode::Char('C') => self.continue_to(Direction::Back),
            KeyCode::Char('b') => self.typed = Some(String::new()),
            KeyCode::Char('f') => self.next_flow(),
            KeyCode::Home | KeyCode::Char('g') => {
                if let Some(first) = all.first() {
                    self.go(*first);
                }
            }
            KeyCode::End | KeyCode::Char('G') => {
                if let Some(last) = all.last() {
                    self.go(*last);
                }
            }
            _ => {}
        }
        true
    }
}

fn live(terminal: &mut DefaultTerminal, view: &mut View<'_>) -> Result<(), Failure> {
    let stop = Stop::on_signals().map_err(Failure::io("handling signals"))?;
    while !stop.is_asked() {
        terminal
            .draw(|frame| screen::draw(frame, view))
            .map_err(Failure::io("the terminal"))?;
        match next_key().map_err(Failure::io("the terminal"))? {
            Some((KeyCode::Char('c'), KeyModifiers::CONTROL)) => return Err(Failure::Interrupted),
            Some((code, _)) if !view.key(code) => return Ok(()),
            _ => {}
        }
    }
    Failure::if_interrupted(&stop)
}

/// The next key within 200 ms.
fn next_key() -> io::Result<Option<(KeyCode, KeyModifiers)>> {
    if !event::poll(Duration::from_millis(200))? {
        return Ok(None);
    }
    Ok(match event::read()? {
        Event::Key(KeyEvent {
            code,
            modifiers,
            kind: KeyEventKind::Press | KeyEventKind::Repeat,
            ..
        }) => Some((code, modifiers)),
        _ => None,
    })
}

impl From<StepError> for Failure {
    fn from(error: StepError) -> Self {
        Self::BadInput(error.to_string())
    }
}
