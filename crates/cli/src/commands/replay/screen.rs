//! The view of one invocation.

use fairwater_recording::{Mark, NamedValue, Step};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span, Text};

use super::step::View;

const KEYS: &str =
    "→ ← step  r R report  x X loss  b condition  c C continue  f flow  g G ends  q quit";

/// Draws an invocation: the program with the clauses that were reached, the values, and the time line.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View<'_>) {
    let step = &view.step;
    let plane = plane_lines(step);
    let height = u16::try_from(plane.len()).unwrap_or(u16::MAX).min(4);
    let [top, line, middle, below, bottom] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(2),
        Constraint::Min(3),
        Constraint::Length(height),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Text::from(head(step)), top);
    frame.render_widget(Text::from(time_line(view, usize::from(line.width))), line);
    let values = values(step);
    let width = values.iter().map(Line::width).max().unwrap_or(0);
    let width = u16::try_from(width).unwrap_or(u16::MAX).saturating_add(1);
    let [left, right] =
        Layout::horizontal([Constraint::Min(20), Constraint::Length(width)]).areas(middle);
    draw_source(frame, view, left);
    frame.render_widget(Text::from(values), right);
    frame.render_widget(Text::from(plane), below);
    frame.render_widget(footer(view), bottom);
}

fn footer<'v>(view: &'v View<'_>) -> Line<'v> {
    match (&view.typed, view.message.as_str()) {
        (Some(typed), _) => Line::from(format!("stop where this holds: {typed}_")),
        (None, "") => Line::from(KEYS).dim(),
        (None, message) => Line::from(message.to_owned()).fg(Color::Yellow),
    }
}

fn head(step: &Step) -> Vec<Line<'static>> {
    let ran = match (&step.program, step.fault) {
        (_, Some(fault)) => format!("stopped: {fault}"),
        (Some(program), None) => format!("program {program}"),
        (None, None) => "the fallback".to_owned(),
    };
    let mut first = format!(
        "invocation {}  flow {}  {} µs  {ran}",
        step.invocation, step.flow, step.time_us
    );
    if step.reported {
        first += "  reported";
    }
    let second = match &step.difference {
        Some(difference) => Line::from(difference.clone()).fg(Color::Red),
        None if step.staged.is_empty() => Line::default(),
        None => Line::from(format!("staged: {}", step.staged.join(", "))),
    };
    vec![Line::from(first).bold(), second]
}

fn plane_lines(step: &Step) -> Vec<Line<'static>> {
    let each = step.plane.iter();
    each.map(|line| Line::from(format!("plane: {line}")))
        .collect()
}

/// The flow's invocations around this one, and their marks.
fn time_line(view: &View<'_>, width: usize) -> Vec<Line<'static>> {
    let all = view.stepper.of_flow(view.step.flow);
    let place = all.partition_point(|number| *number < view.step.invocation);
    let first = place.saturating_sub(width / 2);
    let shown = all.iter().skip(first).take(width);
    let marks = shown.map(|number| {
        let (mark, style) = match view.stepper.mark(*number) {
            Mark::Fault => ("!", Style::new().fg(Color::Red)),
            Mark::Timeout => ("T", Style::new().fg(Color::Red)),
            Mark::Loss => ("x", Style::new().fg(Color::Red)),
            Mark::Report => ("r", Style::new().fg(Color::Green)),
            Mark::Fallback => ("-", Style::new().dim()),
            Mark::Ack => ("·", Style::new()),
        };
        let is_here = *number == view.step.invocation;
        Span::styled(mark, if is_here { style.reversed() } else { style })
    });
    let pointer = format!("{}^", " ".repeat(place - first));
    vec![Line::from_iter(marks), Line::from(pointer)]
}

/// The source, so that the last clause that fired can be seen.
fn draw_source(frame: &mut Frame<'_>, view: &View<'_>, area: Rect) {
    let Some((source, clauses)) = view.stepper.source(view.step.invocation) else {
        return;
    };
    let held = |index: usize| {
        let mut reached = view.step.clauses.iter();
        reached.find(|c| c.index == index).map(|c| c.held)
    };
    let lines: Vec<Line<'_>> = (1..)
        .zip(source.lines())
        .map(|(number, line)| {
            let within = clauses
                .iter()
                .position(|(first, last)| (*first..=*last).contains(&number));
            let (mark, style) = match within.map(held) {
                Some(Some(true)) => ("▶ ", Style::new().fg(Color::Green)),
                Some(Some(false)) => ("  ", Style::new()),
                Some(None) => ("  ", Style::new().dim()),
                None => ("  ", Style::new()),
            };
            Line::styled(format!("{mark}{line}"), style)
        })
        .collect();
    let fired = view.step.clauses.iter().rev().find(|clause| clause.held);
    let line = fired.and_then(|clause| clause.line).unwrap_or(1);
    let rows = usize::from(area.height);
    let skipped = line
        .saturating_sub(1 + rows / 3)
        .min(lines.len().saturating_sub(rows));
    let shown: Vec<_> = lines.into_iter().skip(skipped).take(rows).collect();
    frame.render_widget(Text::from(shown), area);
}

fn values(step: &Step) -> Vec<Line<'static>> {
    let all = step.variables.iter().chain(&step.signals);
    let width = all.map(|value| value.name.len()).max().unwrap_or(0);
    let variables = step.variables.iter();
    let mut lines: Vec<Line<'_>> = variables.map(|value| row(value, width)).collect();
    lines.push(Line::default());
    // A signal that is nothing says nothing.
    let told = step.signals.iter();
    let told =
        told.filter(|value| (value.value != 0 && value.value != u64::MAX) || value.has_changed());
    lines.extend(told.map(|value| row(value, width)));
    lines
}

fn row(value: &NamedValue, width: usize) -> Line<'static> {
    let text = value_text(value, width);
    match value.has_changed() {
        true => Line::from(text).fg(Color::Cyan),
        false => Line::from(text),
    }
}

fn value_text(value: &NamedValue, width: usize) -> String {
    let name = &value.name;
    let shown = |value: u64| match value {
        u64::MAX => "+infinity".to_owned(),
        value => value.to_string(),
    };
    match value.before {
        Some(before) if value.has_changed() => {
            format!("{name:width$}  {} ← {}", shown(value.value), shown(before))
        }
        _ => format!("{name:width$}  {}", shown(value.value)),
    }
}

/// The same as text, for a pipe.
pub(super) fn text(step: &Step) -> String {
    let plain = |lines: Vec<Line<'_>>| {
        lines
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    let mut text = plain(head(step));
    for clause in &step.clauses {
        let line = clause
            .line
            .map_or_else(String::new, |line| format!(" (line {line})"));
        let held = if clause.held { "fired" } else { "did not fire" };
        text += &format!("when {}{line}: {held}\n", clause.condition);
    }
    text += &plain(values(step));
    text += &plain(plane_lines(step));
    text
}

#[cfg(test)]
mod tests {
    use fairwater_lang::{Signal, Signals, compile};
    use fairwater_recording::{
        Controls, Head, Invoked, Record, RecordedProgram, Recording, State, Stepper, What,
    };
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;

    use super::*;

    const SOURCE: &str = "(def (Report (volatile lost 0)))
(when (> Ack.lost_pkts_sample 0)
  (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
  (report))
(when true
  (:= Cwnd (+ Cwnd Ack.bytes_acked)))";

    /// 30 ACKs, of which every tenth tells of a loss.
    fn recording() -> Recording {
        let program = compile("p.ccp", SOURCE).unwrap().program;
        let mut recorded = RecordedProgram::of_program("p", &program);
        recorded.source = Some(SOURCE.to_owned());
        let mut cwnd = 10_000;
        let mut records = vec![Record {
            flow: 0,
            time_us: 0,
            what: What::State(State {
                program: Some(0),
                controls: Controls { cwnd, rate: 0 },
                timer_zero_us: 0,
                variables: vec![0],
            }),
        }];
        for ack in 1..=30 {
            let lost = u64::from(ack % 10 == 0);
            let mut signals = Signals::default();
            signals[Signal::Now] = 1000 * ack;
            signals[Signal::BytesAcked] = 1448;
            signals[Signal::LostPkts] = lost;
            let before = Controls { cwnd, rate: 0 };
            cwnd += 1448 * (1 - lost);
            records.push(Record {
                flow: 0,
                time_us: 1000 * ack,
                what: What::Invoked(Box::new(Invoked {
                    program: Some(0),
                    signals,
                    before,
                    after: Controls { cwnd, rate: 0 },
                    report: (lost > 0).then(|| vec![1]),
                    ..Invoked::default()
                })),
            });
        }
        Recording {
            head: Head::new("a test".to_owned(), String::new(), Vec::new()),
            programs: vec![(recorded, program)],
            records,
            end: None,
            damage: Vec::new(),
        }
    }

    fn shown(view: &View<'_>, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, view)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn keys_go_to_reports_losses_and_conditions() {
        let recording = recording();
        let stepper = Stepper::new(&recording).unwrap();
        let mut view = View::new(&stepper, 1).unwrap();
        let text = shown(&view, 100, 24);
        assert!(
            text.contains("invocation 1  flow 0  1000 µs  program p"),
            "{text}"
        );
        assert!(text.contains("▶ (when true"), "{text}");
        assert!(text.contains("11448 ← 10000"), "{text}");
        let press = |view: &mut View<'_>, keys: &str| {
            for key in keys.chars() {
                let code = match key {
                    '\n' => KeyCode::Enter,
                    key => KeyCode::Char(key),
                };
                assert!(view.key(code));
            }
        };
        press(&mut view, "x");
        assert_eq!(view.step.invocation, 10);
        let text = shown(&view, 100, 24);
        assert!(
            text.contains("▶ (when (> Ack.lost_pkts_sample 0)"),
            "{text}"
        );
        assert!(text.contains("reported"), "{text}");
        press(&mut view, "rl");
        assert_eq!(view.step.invocation, 21);
        press(&mut view, "R");
        assert_eq!(view.step.invocation, 20);
        press(&mut view, "gbCwnd > 20000\n");
        assert_eq!(view.step.invocation, 7);
        press(&mut view, "Gc");
        assert_eq!(view.step.invocation, 30);
        assert!(
            shown(&view, 100, 24).contains("no such invocation after"),
            "{}",
            view.message
        );
        press(&mut view, "bCwmd > 1\n");
        assert!(view.message.contains("Cwmd"), "{}", view.message);
        assert!(!view.key(KeyCode::Char('q')));
    }

    #[test]
    fn a_tiny_terminal_is_drawn_too() {
        let recording = recording();
        let stepper = Stepper::new(&recording).unwrap();
        let view = View::new(&stepper, 10).unwrap();
        for size in [(1, 1), (20, 2), (5, 40), (40, 6)] {
            shown(&view, size.0, size.1);
        }
    }
}
