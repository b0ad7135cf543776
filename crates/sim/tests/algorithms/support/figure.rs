//! Figures of the documentation, drawn by the tests and held to what is committed.

use std::path::PathBuf;
use std::{env, fs};

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::series::Series;

const WIDTH: u32 = 800;
const TITLE: u32 = 34;
/// Of a panel's heading, with its legend.
const HEADING: u32 = 26;
const PANEL: u32 = 190;
/// Of the values at the left.
const LEFT: u32 = 54;
/// Of the time axis under the last panel.
const AXIS: u32 = 44;
/// A line is thinned out to the least and the greatest value in each of so many columns.
const COLUMNS: usize = 350;
const MOST_BYTES: usize = 150_000;

const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(225, 225, 225);
/// ReportedCounts apart in grey as well: their luminances are 18, 45, 59 and 73 %.
const COLOURS: [RGBColor; 4] = [
    RGBColor(18, 53, 91),
    RGBColor(209, 73, 91),
    RGBColor(95, 168, 211),
    RGBColor(237, 174, 73),
];

/// A value over time, and what the legend calls it.
struct Line {
    label: String,
    points: Series,
    dashed: bool,
}

/// One diagram: values of one unit.
pub(crate) struct Panel {
    title: String,
    unit: String,
    lines: Vec<Line>,
    levels: usize,
    top: f64,
}

impl Panel {
    /// An empty one; the axis begins at 0.
    pub(crate) fn new(title: &str, unit: &str) -> Self {
        Self {
            title: title.to_owned(),
            unit: unit.to_owned(),
            lines: Vec::new(),
            levels: 0,
            top: f64::INFINITY,
        }
    }

    /// A line through these (seconds, value); up to four, and the first is drawn on top.
    pub(crate) fn line(mut self, label: &str, points: Series) -> Self {
        self.lines.push(Line {
            label: label.to_owned(),
            points,
            dashed: false,
        });
        self
    }

    /// A dashed line at this value, to compare with.
    pub(crate) fn level(mut self, label: &str, value: f64) -> Self {
        self.levels += 1;
        self.lines.push(Line {
            label: label.to_owned(),
            points: vec![(f64::NEG_INFINITY, value), (f64::INFINITY, value)],
            dashed: true,
        });
        self
    }

    /// Values above this are cut off.
    pub(crate) fn up_to(mut self, top: f64) -> Self {
        self.top = top;
        self
    }

    fn colour(&self, index: usize) -> RGBColor {
        if self.lines[index].dashed {
            INK
        } else {
            let before = self.lines[..index].iter().filter(|l| !l.dashed).count();
            COLOURS[before % COLOURS.len()]
        }
    }

    /// The greatest value that is shown.
    fn greatest(&self, from_s: f64, to_s: f64) -> f64 {
        let shown = |line: &&Line, at_s: f64| line.dashed || (from_s..=to_s).contains(&at_s);
        let points = self.lines.iter().flat_map(|line| {
            let points = line.points.iter();
            points.filter(move |p| shown(&line, p.0))
        });
        let values = points.map(|p| p.1);
        values.fold(0.0, f64::max).min(self.top).max(1e-9)
    }
}

/// One to three panels above each other, which share the axis of time.
pub(crate) struct Figure {
    name: String,
    title: String,
    panels: Vec<Panel>,
    from_s: f64,
    to_s: f64,
}

impl Figure {
    /// `docs/algorithms/<name>.svg`.
    pub(crate) fn new(name: &str, title: &str) -> Self {
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            panels: Vec::new(),
            from_s: 0.0,
            to_s: f64::INFINITY,
        }
    }

    /// Adds one below.
    pub(crate) fn panel(mut self, panel: Panel) -> Self {
        self.panels.push(panel);
        self
    }

    /// Shows only what lies between these seconds.
    pub(crate) fn between(mut self, from_s: f64, to_s: f64) -> Self {
        (self.from_s, self.to_s) = (from_s, to_s);
        self
    }

    /// Holds the committed file to what is drawn, or writes it where the environment variable
    /// `FAIRWATER_WRITE_FIGURES` is 1.
    pub(crate) fn check(self) {
        let file = format!("docs/algorithms/{}.svg", self.name);
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(&file);
        let drawn = self.draw();
        assert!(drawn.len() < MOST_BYTES, "{file} has {} bytes", drawn.len());
        if env::var_os("FAIRWATER_WRITE_FIGURES").is_some_and(|v| v == "1") {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, drawn).unwrap();
        } else {
            let committed = fs::read_to_string(path).unwrap_or_default();
            assert!(
                committed == drawn,
                "{file} is not what this test draws; look at what FAIRWATER_WRITE_FIGURES=1 \
                 writes, and commit it"
            );
        }
    }

    fn draw(mut self) -> String {
        assert!((1..=3).contains(&self.panels.len()), "{}", self.name);
        let points = |panel: &Panel| {
            let lines = panel.lines.iter().filter(|l| !l.dashed);
            lines
                .filter_map(|l| l.points.last())
                .map(|p| p.0)
                .fold(0.0, f64::max)
        };
        let end = self.panels.iter().map(points).fold(0.0, f64::max);
        self.to_s = self.to_s.min(end);
        let count = u32::try_from(self.panels.len()).unwrap();
        let size = (WIDTH, TITLE + count * (HEADING + PANEL) + AXIS);
        let mut text = String::new();
        {
            let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
            root.fill(&WHITE).unwrap();
            write(&root, &self.title, 19.0, (12, 10), HPos::Left);
            let (_, rest) = root.split_vertically(TITLE);
            let breaks = (1..count).map(|n| n * (HEADING + PANEL));
            let areas = rest.split_by_breakpoints::<i32, i32, _, _>(
                [],
                &breaks
                    .map(|y| i32::try_from(y).unwrap())
                    .collect::<Vec<_>>(),
            );
            for (index, (panel, area)) in self.panels.iter().zip(&areas).enumerate() {
                let last = index + 1 == self.panels.len();
                self.draw_panel(panel, area, last);
            }
            root.present().unwrap();
        }
        text
    }

    fn draw_panel(&self, panel: &Panel, area: &DrawingArea<SVGBackend<'_>, Shift>, last: bool) {
        let heading = format!("{}, {}", panel.title, panel.unit);
        write(
            area,
            &heading,
            16.0,
            (i32::try_from(LEFT).unwrap(), 6),
            HPos::Left,
        );
        legend(area, panel);
        let top = panel.greatest(self.from_s, self.to_s) * 1.06;
        let mut chart = ChartBuilder::on(area)
            .margin_top(HEADING)
            .margin_right(18)
            .margin_bottom(if last { 2 } else { 8 })
            .x_label_area_size(if last { AXIS - 2 } else { 0 })
            .y_label_area_size(LEFT)
            .build_cartesian_2d(self.from_s..self.to_s, 0.0..top)
            .unwrap();
        let plain = |value: &f64| format!("{}", (value * 1e6).round() / 1e6);
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(INK)
            .label_style(("sans-serif", 15).into_font().color(&INK))
            .x_labels(11)
            .y_labels(5)
            .x_label_formatter(&plain)
            .y_label_formatter(&plain)
            .x_desc("time, s")
            .draw()
            .unwrap();
        for index in (0..panel.lines.len()).rev() {
            let line = &panel.lines[index];
            let colour = panel.colour(index);
            if line.dashed {
                let value = line.points[0].1;
                let points = [(self.from_s, value), (self.to_s, value)];
                let style = colour.stroke_width(1);
                let dashes = DashedLineSeries::new(points, 6, 5, style);
                chart.draw_series(dashes).unwrap();
            } else {
                let points = thinned(&line.points, self.from_s, self.to_s);
                let points = points.into_iter().map(|(at, v)| (at, v.min(top)));
                let style = colour.stroke_width(2);
                chart.draw_series(LineSeries::new(points, style)).unwrap();
            }
        }
    }
}

/// The least and the greatest value of each column, in their order.
fn thinned(points: &[(f64, f64)], from_s: f64, to_s: f64) -> Series {
    let inside = points.iter().filter(|p| (from_s..=to_s).contains(&p.0));
    let inside: Series = inside.copied().collect();
    let width = inside.len().div_ceil(COLUMNS).max(1);
    let mut thin = Series::new();
    for column in inside.chunks(width) {
        let (mut least, mut most) = (column[0], column[0]);
        for &point in column {
            if point.1 < least.1 {
                least = point;
            }
            if point.1 > most.1 {
                most = point;
            }
        }
        let (first, second) = if least.0 <= most.0 {
            (least, most)
        } else {
            (most, least)
        };
        thin.push(first);
        if second.0 > first.0 {
            thin.push(second);
        }
    }
    thin
}

fn write(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    text: &str,
    size: f64,
    at: (i32, i32),
    anchor: HPos,
) {
    let style = ("sans-serif", size).into_font().color(&INK);
    let style = style.pos(Pos::new(anchor, VPos::Top));
    area.draw_text(text, &style, at).unwrap();
}

/// About how wide a text is, pixels: the backend knows no font.
fn width_of(text: &str) -> i32 {
    let narrow = |c: char| "fijlrt .,:()".contains(c);
    let halves = text.chars().map(|c| if narrow(c) { 9 } else { 16 });
    halves.sum::<i32>() / 2
}

/// In one row, from the right.
fn legend(area: &DrawingArea<SVGBackend<'_>, Shift>, panel: &Panel) {
    let mut right = i32::try_from(WIDTH).unwrap() - 20;
    for index in (0..panel.lines.len()).rev() {
        let line = &panel.lines[index];
        let style = panel
            .colour(index)
            .stroke_width(if line.dashed { 1 } else { 3 });
        write(area, &line.label, 15.0, (right, 7), HPos::Right);
        right -= width_of(&line.label) + 6;
        let parts: &[(i32, i32)] = if line.dashed {
            &[(0, 6), (11, 17)]
        } else {
            &[(0, 17)]
        };
        for (from, to) in parts {
            let ends = [(right - from, 13), (right - to, 13)];
            area.draw(&PathElement::new(ends, style)).unwrap();
        }
        right -= 17 + 16;
    }
}
