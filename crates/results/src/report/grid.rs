//! The report of a grid: its points in a table, and each metric over one of the variables.

use std::fmt::Write;

use super::layout::GridLayout;
use super::page::{COLOURS, Data, Head, Line, Page, Plot, X, escaped, rounded};
use super::run::{column, notices};
use crate::PointResult;
use crate::grid::{Metric, Row, equal_seeds, metrics, rows};

/// A grid that is drawn.
struct Grid<'a> {
    variables: &'a [&'a str],
    rows: Vec<Row>,
    metrics: Vec<Metric>,
    /// The variable along the axis.
    over: usize,
    /// Those with plots of their own for each of their values.
    panels: Vec<usize>,
    /// A variable and the value that the others are multiples of.
    baseline: Option<(usize, &'a str)>,
}

pub(super) fn html(
    title: &str,
    points: &[PointResult],
    variables: &[&str],
    layout: &GridLayout,
) -> String {
    let grid = Grid::new(points, variables, layout);
    let seeds = grid.rows.iter().map(|row| row.seeds).max().unwrap_or(0);
    let backend = points.first().map_or("", |point| point.backend.as_str());
    Page {
        title: title.to_owned(),
        parameters: match seeds {
            0 | 1 => format!("{} points on {backend}, one seed", grid.rows.len()),
            _ => format!("{} points on {backend}, means of {seeds} seeds", grid.rows.len()),
        },
        head: grid.head(),
        rows: grid.table(),
        below: notices(points, equal_seeds(points)),
        notes: "Values are means over the seeds of a point; in brackets, the least and the greatest.",
        data: Data {
            x: X::names(
                variables.get(grid.over).copied().unwrap_or("point"),
                values(&grid.rows, grid.over),
            ),
            columns: grid.columns(),
            plots: grid.plots(),
        },
    }
    .html()
}

/// The values that a variable has in these rows, in their order.
fn values<'r>(rows: impl IntoIterator<Item = &'r Row>, variable: usize) -> Vec<String> {
    let mut found = Vec::new();
    for row in rows {
        if let Some(value) = row.values.get(variable)
            && !found.contains(value)
        {
            found.push(value.clone());
        }
    }
    found
}

impl<'a> Grid<'a> {
    fn new(points: &[PointResult], variables: &'a [&'a str], layout: &'a GridLayout) -> Self {
        let index = |name: &String| variables.iter().position(|known| known == name);
        let mut metrics = metrics(points, &layout.metrics);
        if !layout.metrics.is_empty() {
            metrics.retain(|metric| layout.metrics.iter().any(|title| title == metric.title));
        }
        let rows = rows(points, variables, &metrics);
        let panels: Vec<usize> = layout.panels.iter().filter_map(index).collect();
        let count = |variable: &usize| values(&rows, *variable).len();
        let most = || {
            let others = (0..variables.len()).rev();
            others.filter(|v| !panels.contains(v)).max_by_key(count)
        };
        let over = layout.over.as_ref().and_then(index).or_else(most);
        let baseline = layout.baseline.as_ref();
        Grid {
            variables,
            over: over.unwrap_or(0),
            baseline: baseline.and_then(|(name, value)| Some((index(name)?, value.as_str()))),
            panels,
            metrics,
            rows,
        }
    }

    fn head(&self) -> Vec<Head> {
        let mut head = vec![column("Point", "")];
        for metric in &self.metrics {
            head.push(column(metric.title, metric.unit));
            if let Some((_, value)) = self.baseline {
                head.push(column(metric.title, &format!("× {value}")));
            }
        }
        head
    }

    fn table(&self) -> String {
        let mut table = String::new();
        for row in &self.rows {
            let named: Vec<_> = (self.variables.iter().zip(&row.values))
                .map(|(name, value)| format!("{name} {value}"))
                .collect();
            // Writing to a string does not fail.
            let _ = write!(table, "<tr><td>{}</td>", escaped(&named.join(", ")));
            for index in 0..self.metrics.len() {
                let _ = match (row.means[index], row.ranges[index]) {
                    (Some(mean), Some((least, most))) if row.seeds > 1 => {
                        write!(table, "<td>{mean:.3} ({least:.3}–{most:.3})</td>")
                    }
                    (Some(mean), _) => write!(table, "<td>{mean:.3}</td>"),
                    (None, _) => write!(table, "<td>–</td>"),
                };
                if self.baseline.is_some() {
                    let shown = self.shown(row, index);
                    let shown = shown.map_or("–".to_owned(), |shown| format!("{shown:.3}"));
                    let _ = write!(table, "<td>{shown}</td>");
                }
            }
            table.push_str("</tr>\n");
        }
        table
    }

    /// A metric's mean, over that of the baseline if there is one.
    fn shown(&self, row: &Row, metric: usize) -> Option<f64> {
        let mean = row.means[metric]?;
        let Some((variable, value)) = self.baseline else {
            return Some(mean);
        };
        let base = self.rows.iter().find(|other| {
            let mut pairs = row.values.iter().zip(&other.values).enumerate();
            pairs.all(|(at, (own, others))| {
                if at == variable {
                    others == value
                } else {
                    own == others
                }
            })
        })?;
        let base = base.means[metric]?;
        (base != 0.0).then(|| mean / base)
    }

    /// Plots beside each other: as many as the last of the panels' variables has values.
    fn columns(&self) -> usize {
        let last = self.panels.last();
        last.map_or(1, |variable| values(&self.rows, *variable).len().max(1))
    }

    /// For each metric, a plot of each panel.
    fn plots(&self) -> Vec<Plot> {
        let of = |row: &Row| -> Vec<String> {
            let values = self.panels.iter();
            values.map(|panel| row.values[*panel].clone()).collect()
        };
        let mut panels: Vec<Vec<String>> = Vec::new();
        for row in &self.rows {
            let panel = of(row);
            if !panels.contains(&panel) {
                panels.push(panel);
            }
        }
        let mut plots = Vec::new();
        for (index, metric) in self.metrics.iter().enumerate() {
            for panel in &panels {
                let within: Vec<&Row> = self.rows.iter().filter(|row| of(row) == *panel).collect();
                let named: Vec<_> = (self.panels.iter().zip(panel))
                    .map(|(variable, value)| format!("{} {value}", self.variables[*variable]))
                    .collect();
                plots.push(Plot {
                    title: if named.is_empty() {
                        metric.title.into()
                    } else {
                        format!("{}: {}", metric.title, named.join("; ")).into()
                    },
                    note: metric.note.into(),
                    unit: match self.baseline {
                        Some((_, value)) => format!("× {value}").into(),
                        None => metric.unit.into(),
                    },
                    lines: self.lines(&within, index),
                    x: None,
                });
            }
        }
        plots
    }

    /// A line for each combination of the variables that differ and are not drawn over; none for
    /// the baseline, which is 1.
    fn lines(&self, rows: &[&Row], metric: usize) -> Vec<Line> {
        let differ = |variable: &usize| values(rows.iter().copied(), *variable).len() > 1;
        let others: Vec<usize> = (0..self.variables.len())
            .filter(|variable| *variable != self.over && differ(variable))
            .collect();
        let label = |row: &Row| -> String {
            let texts: Vec<_> = others.iter().map(|v| row.values[*v].as_str()).collect();
            texts.join(", ")
        };
        let mut labels: Vec<String> = Vec::new();
        for row in rows {
            let is_baseline = self
                .baseline
                .is_some_and(|(at, value)| row.values[at] == value);
            let label = label(row);
            if !is_baseline && !labels.contains(&label) {
                labels.push(label);
            }
        }
        let ticks = values(&self.rows, self.over);
        let line = |(run, text): (usize, &String)| {
            let at = |tick: &String| {
                let mut found = rows.iter();
                let row = found
                    .find(|row| row.values.get(self.over) == Some(tick) && label(row) == *text)?;
                self.shown(row, metric).map(rounded)
            };
            Line {
                label: if text.is_empty() {
                    self.metrics[metric].title.to_owned()
                } else {
                    text.clone()
                },
                run,
                dashed: run >= COLOURS,
                values: ticks.iter().map(at).collect(),
            }
        };
        labels.iter().enumerate().map(line).collect()
    }
}
