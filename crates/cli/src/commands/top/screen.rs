//! The live table.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Row as TableRow, Table, TableState};

use super::flows::{Row, TopSample};
use super::text::{self, TextTable};

/// Draws a sample; `scroll` keeps the selected row.
pub(super) fn draw(frame: &mut Frame<'_>, sample: &TopSample, scroll: &mut TableState) {
    let mut head: Vec<Line<'_>> = match sample.planes.as_slice() {
        [] if !sample.flows.is_empty() || !sample.bundles.is_empty() => Vec::new(),
        [] => vec!["No algorithm is attached on this machine.".into()],
        planes => planes
            .iter()
            .map(|plane| text::plane(plane).into())
            .collect(),
    };
    head.extend(text::bundles(&sample.bundles).into_iter().map(Line::from));
    let height = u16::try_from(head.len()).unwrap_or(u16::MAX);
    let [top, middle, bottom] = Layout::vertical([
        Constraint::Length(height.saturating_add(1)),
        Constraint::Min(2),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Text::from(head), top);
    frame.render_stateful_widget(table(sample, middle.width), middle, scroll);
    frame.render_widget(Line::from("q quit   ↑ ↓ PgUp PgDn scroll").dim(), bottom);
}

fn table(sample: &TopSample, width: u16) -> Table<'_> {
    let text = TextTable::new(sample).within(width.into());
    let widths: Vec<_> = text
        .widths()
        .into_iter()
        .map(|width| Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX)))
        .collect();
    let header: TableRow<'_> = text.header.into_iter().collect();
    let flows = sample.flows.iter().zip(text.rows);
    Table::new(flows.map(|(row, cells)| flow(row, cells)), widths)
        .header(header.bold())
        .row_highlight_style(Style::new().reversed())
}

fn flow(row: &Row, cells: Vec<String>) -> TableRow<'_> {
    let state = match row.state {
        "running" => Style::new(),
        "faulted" => Style::new().fg(Color::Red),
        _ => Style::new().fg(Color::Yellow),
    };
    TableRow::new(cells.into_iter().map(Cell::from)).style(state)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::flows::RateTracker;
    use super::super::flows::tests::{flow, member, plane};
    use super::*;

    fn screen(sample: &TopSample, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal
            .draw(|frame| draw(frame, sample, &mut TableState::default()))
            .unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn every_flow_has_its_line() {
        let flows = (0..3).map(|slot| flow(slot, 0)).collect();
        let sample = RateTracker::default().sample(&[plane(flows)], vec![], Duration::ZERO);
        let text = screen(&sample, 130, 20);
        assert!(text.contains("process 42 is alive, 3 flows"), "{text}");
        for port in ["5000", "5001", "5002"] {
            assert!(text.contains(&format!("10.0.0.2:{port}")), "{text}");
        }
    }

    #[test]
    fn a_narrow_terminal_has_whole_columns_and_the_aggregates_among_them() {
        let flows = (0..3).map(|slot| member(slot, 0, "to 10.0.0.2"));
        let sample =
            RateTracker::default().sample(&[plane(flows.collect())], vec![], Duration::ZERO);
        let wide = screen(&sample, 160, 10);
        for column in text::COLUMNS {
            assert!(wide.contains(column), "{column} in {wide}");
        }
        for width in [80, 60] {
            let narrow = screen(&sample, width, 10);
            for cell in ["to 10.0.0.2 (3)", "10.0.0.2:5000", "145 kB"] {
                assert!(narrow.contains(cell), "{cell} in {narrow}");
            }
        }
    }

    #[test]
    fn a_tiny_terminal_is_drawn_too() {
        let sample =
            RateTracker::default().sample(&[plane(vec![flow(0, 0)])], vec![], Duration::ZERO);
        for size in [(1, 1), (20, 2), (5, 40)] {
            screen(&sample, size.0, size.1);
        }
    }
}
