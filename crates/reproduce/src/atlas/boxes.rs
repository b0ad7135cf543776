//! Box plots of seeds or rounds, as SVG: names that are long stand beside their boxes.

use std::fmt::Write;

use fairwater_results::report::escaped;

use super::prose;
use crate::distribution::quantile;

/// Width of the drawing, of its names, and height of a row, in units of the drawing.
const WIDTH: f64 = 1050.0;
const NAMES: f64 = 400.0;
const ROW: f64 = 26.0;
/// Most dots of a row; more would hide the box.
const MOST_DOTS: usize = 30;

/// A row: its name and a value of each seed.
pub(super) type Row = (String, Vec<f64>);

/// A figure of rows; empty if no row has values.
pub(super) fn boxes(title: &str, note: &str, unit: &str, rows: &[Row]) -> String {
    let values = || rows.iter().flat_map(|(_, values)| values).copied();
    let (Some(least), Some(most)) = (values().reduce(f64::min), values().reduce(f64::max)) else {
        return String::new();
    };
    let (low, high, step) = scale(least, most);
    let x = |value: f64| NAMES + (value - low) / (high - low) * (WIDTH - NAMES - 40.0);
    let bottom = ROW * rows.len() as f64 + 8.0;
    let mut svg = format!(
        "<h2>{} <span>{}</span></h2>\n<svg class=\"boxes\" role=\"img\" viewBox=\"0 0 {WIDTH} {:.0}\">\n",
        prose(title),
        prose(note),
        bottom + 36.0
    );
    let mut tick = low;
    while tick <= high + step / 2.0 {
        let at = x(tick);
        // Writing to a string does not fail.
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"0\" y2=\"{bottom:.1}\"/>\
             <text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 15.0,
            tick_text(tick, step)
        );
        tick += step;
    }
    let _ = writeln!(
        svg,
        "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        x(f64::midpoint(low, high)),
        bottom + 31.0,
        escaped(unit)
    );
    for (index, (name, values)) in rows.iter().enumerate() {
        svg += &row(name, values, ROW * (index as f64 + 0.5) + 4.0, x);
    }
    svg + "</svg>\n"
}

/// A tick with as many decimals as its step has.
fn tick_text(tick: f64, step: f64) -> String {
    let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    // Not -0.
    let tick = if tick.abs() < step / 2.0 { 0.0 } else { tick };
    format!("{tick:.decimals$}")
}

fn row(name: &str, values: &[f64], y: f64, x: impl Fn(f64) -> f64) -> String {
    let mut text = format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
        NAMES - 12.0,
        y + 4.0,
        escaped(&shortened(name))
    );
    let at = |share: f64| quantile(values.to_vec(), share);
    let of = [0.0, 0.25, 0.5, 0.75, 1.0].map(at);
    let [
        Some(least),
        Some(first),
        Some(median),
        Some(third),
        Some(most),
    ] = of
    else {
        return text;
    };
    let [least, first, median, third, most] = [least, first, median, third, most].map(x);
    let _ = writeln!(
        text,
        "<line class=\"whisker\" x1=\"{least:.1}\" x2=\"{most:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
         <rect x=\"{first:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"14\"/>\
         <line class=\"median\" x1=\"{median:.1}\" x2=\"{median:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
        y - 7.0,
        (third - first).max(0.5),
        y - 7.0,
        y + 7.0
    );
    if values.len() <= MOST_DOTS {
        for value in values {
            let at = x_of(*value, least, most, values);
            let _ = write!(text, "<circle cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"2\"/>");
        }
        text.push('\n');
    }
    text
}

/// The place of a value between the places of the least and the greatest.
fn x_of(value: f64, least: f64, most: f64, values: &[f64]) -> f64 {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match high > low {
        true => least + (value - low) / (high - low) * (most - least),
        false => least,
    }
}

/// Characters of a name that fit.
const NAME_CHARACTERS: usize = 62;

fn shortened(name: &str) -> String {
    match name.chars().count() > NAME_CHARACTERS {
        true => name
            .chars()
            .take(NAME_CHARACTERS - 1)
            .chain(['…'])
            .collect(),
        false => name.to_owned(),
    }
}

/// From where to where an axis goes, and its step: 1, 2 or 5 of a power of ten. It begins at 0, unless
/// the values lie close to each other far from it.
fn scale(least: f64, most: f64) -> (f64, f64, f64) {
    let from = match least >= 0.0 && most < 4.0 * (most - least) || least <= 0.0 && most >= 0.0 {
        true => least.min(0.0),
        false => least,
    };
    let width = match most > from {
        true => most - from,
        false => most.abs().max(1e-9),
    };
    let power = 10_f64.powf((width / 5.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = steps
        .into_iter()
        .find(|step| width / step <= 6.0)
        .unwrap_or(steps[3]);
    let low = (from / step).floor() * step;
    let high = (most / step).ceil() * step;
    (low, if high > low { high } else { low + step }, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_holds_its_values_in_round_steps() {
        assert_eq!(scale(0.0, 45.0), (0.0, 50.0, 10.0));
        assert_eq!(scale(-3.0, 4.0), (-4.0, 4.0, 2.0));
        let (low, high, step) = scale(95.9, 96.0);
        assert!(
            low <= 95.9 && high >= 96.0 && step < 0.1,
            "{low} {high} {step}"
        );
        let (low, high, _) = scale(5.0, 5.0);
        assert!(low <= 5.0 && high >= 5.0 && high > low, "{low} {high}");
    }

    #[test]
    fn ticks_have_the_decimals_of_their_step() {
        assert_eq!(tick_text(20.0, 5.0), "20");
        assert_eq!(tick_text(48.268, 0.002), "48.268");
        assert_eq!(tick_text(-1e-12, 0.5), "0.0");
    }

    #[test]
    fn rows_without_values_make_no_figure() {
        assert_eq!(boxes("t", "n", "u", &[("a".to_owned(), Vec::new())]), "");
        let svg = boxes("t", "n", "u", &[("a & b".to_owned(), vec![1.0, 2.0, 4.0])]);
        assert!(svg.contains("a &amp; b") && svg.matches("<circle").count() == 3);
    }
}
