//! The page of every report.

use std::borrow::Cow;
use std::fmt::Write;

use serde::Serialize;

/// Colours of lines, in the style sheet and the script.
pub const COLOURS: usize = 8;

/// A table with more rows is folded up at first.
const LONG: usize = 24;

/// What a page shows.
pub(super) struct Page {
    pub(super) title: String,
    pub(super) parameters: String,
    pub(super) head: Vec<Head>,
    /// Rows of the table, as HTML.
    pub(super) rows: String,
    /// What stands below the table, as HTML.
    pub(super) below: String,
    pub(super) notes: &'static str,
    pub(super) data: Data,
}

/// A column's head.
pub(super) struct Head {
    pub(super) title: &'static str,
    pub(super) unit: String,
}

/// What the script draws.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Data {
    /// What plots are drawn over that have nothing of their own.
    pub x: X,
    /// How many plots stand beside each other where there is room.
    pub columns: usize,
    /// The plots.
    pub plots: Vec<Plot>,
}

/// What all plots are drawn over.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct X {
    label: String,
    unit: &'static str,
    from: f64,
    to: f64,
    values: Vec<f64>,
    /// Names of the values; empty when they are numbers themselves.
    ticks: Vec<String>,
    /// Whether the values have an order: names without one are drawn as bars.
    ordered: bool,
    /// Whether equal distances are equal ratios.
    logarithmic: bool,
}

impl X {
    /// An axis of time in `steps` equal steps, each marked at its middle.
    #[must_use]
    pub fn time(duration_s: f64, steps: usize) -> Self {
        let step_s = duration_s / steps as f64;
        X {
            label: "time".to_owned(),
            unit: "s",
            from: 0.0,
            to: duration_s,
            values: (0..steps)
                .map(|n| rounded((n as f64 + 0.5) * step_s))
                .collect(),
            ticks: Vec::new(),
            ordered: true,
            logarithmic: false,
        }
    }

    /// Rising numbers.
    #[must_use]
    pub fn linear(label: &str, unit: &'static str, values: Vec<f64>) -> Self {
        X {
            logarithmic: false,
            ..Self::logarithmic(label, unit, values)
        }
    }

    /// Rising numbers above 0, at distances by their ratios.
    #[must_use]
    pub fn logarithmic(label: &str, unit: &'static str, values: Vec<f64>) -> Self {
        X {
            label: label.to_owned(),
            unit,
            from: values.first().copied().unwrap_or(1.0),
            to: values.last().copied().unwrap_or(10.0),
            values,
            ticks: Vec::new(),
            ordered: true,
            logarithmic: true,
        }
    }

    /// The values of a variable, at equal distances.
    #[must_use]
    pub fn names(label: &str, ticks: Vec<String>) -> Self {
        X {
            label: label.to_owned(),
            unit: "",
            from: -0.25,
            to: ticks.len() as f64 - 0.75,
            values: (0..ticks.len()).map(|n| n as f64).collect(),
            ordered: is_ordered(&ticks),
            logarithmic: false,
            ticks,
        }
    }
}

/// Whether the values of a variable have an order: each begins with a number.
fn is_ordered(ticks: &[String]) -> bool {
    ticks
        .iter()
        .all(|tick| tick.starts_with(|c: char| c.is_ascii_digit()))
}

/// A plot.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plot {
    /// Its title.
    pub title: Cow<'static, str>,
    /// What stands beside the title.
    pub note: Cow<'static, str>,
    /// Unit of the values.
    pub unit: Cow<'static, str>,
    /// Its lines.
    pub lines: Vec<Line>,
    /// What this plot is drawn over, if not over what all are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x: Option<X>,
}

/// A line of a plot.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Its name in the legend.
    pub label: String,
    /// Which colour it has.
    pub run: usize,
    /// Whether it is dashed.
    pub dashed: bool,
    /// A value for each of what it is drawn over.
    pub values: Vec<Option<f64>>,
}

impl Page {
    pub(super) fn html(&self) -> String {
        // Values come in last, in one pass, so that nothing within them is taken for a place.
        let values = [
            ("title", escaped(&self.title)),
            ("parameters", escaped(&self.parameters)),
            ("open", if self.is_long() { "" } else { " open" }.to_owned()),
            ("head", self.head()),
            ("rows", self.rows.clone()),
            ("below", self.below.clone()),
            ("notes", self.notes.to_owned()),
            ("data", self.data.json()),
            ("css", include_str!("../../assets/report.css").to_owned()),
            ("js", include_str!("../../assets/report.js").to_owned()),
            (
                "uplot_css",
                include_str!("../../assets/uplot/uPlot.min.css").to_owned(),
            ),
            (
                "uplot_licence",
                include_str!("../../assets/uplot/LICENSE").to_owned(),
            ),
            ("uplot_js", uplot().to_owned()),
        ];
        let mut page = String::new();
        let mut rest = include_str!("../../assets/report.html");
        while let Some((before, after)) = rest.split_once("{{") {
            page.push_str(before);
            let (name, after) = after.split_once("}}").unwrap_or((after, ""));
            let value = values.iter().find(|(known, _)| *known == name);
            page.push_str(value.map_or("", |(_, value)| value.as_str()));
            rest = after;
        }
        page.push_str(rest);
        page
    }

    /// Whether the plots would be far below all rows.
    fn is_long(&self) -> bool {
        self.rows.matches("<tr>").count() > LONG
    }

    fn head(&self) -> String {
        let mut head = String::new();
        for Head { title, unit } in &self.head {
            // Writing to a string does not fail.
            let _ = writeln!(
                head,
                "<th scope=\"col\">{}<span>{}</span></th>",
                escaped(title),
                escaped(unit)
            );
        }
        head
    }
}

impl Data {
    /// As JSON for a script element, where no text may look like the end of the element.
    #[must_use]
    pub fn json(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        text.replace('<', "\\u003c")
    }
}

/// Files that a site of several pages shares, by name: what draws the plots, and how they look.
#[must_use]
pub fn assets() -> [(&'static str, String); 4] {
    let licence = include_str!("../../assets/uplot/LICENSE");
    let css = include_str!("../../assets/report.css").to_owned();
    [
        ("report.css", css),
        (
            "report.js",
            include_str!("../../assets/report.js").to_owned(),
        ),
        (
            "uplot.css",
            include_str!("../../assets/uplot/uPlot.min.css").to_owned(),
        ),
        ("uplot.js", format!("/* uPlot:\n{licence}*/\n{}", uplot())),
    ]
}

/// uPlot without its banner, a link; its licence is in the page instead.
fn uplot() -> &'static str {
    let script = include_str!("../../assets/uplot/uPlot.iife.min.js");
    script
        .split_once("*/")
        .map_or(script, |(_, code)| code.trim_start())
}

/// To a thousandth: more would only make the file longer.
#[must_use]
pub fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// A paragraph that warns of the results above it.
pub(super) fn warning(text: &str) -> String {
    format!("<p class=\"disturbed\">{}</p>\n", escaped(text))
}

/// A text as HTML shows it.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}
