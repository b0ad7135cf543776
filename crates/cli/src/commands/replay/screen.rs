//! The view of one invocation.

use fairwater_recording::{Mark, NamedValue, Step};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span, Text};

use super::step::View;

const KEYS: &str = "→ ← step  r R report  x X loss  b condition  c C continue  f flow  g G ends  q quit";

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
    let told = told.filter(|value| (value.value != 0 && value.value != u64::MAX) || value.has_changed());
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
