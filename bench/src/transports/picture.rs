//! The picture: a panel for each run, in rows.

use std::path::Path;

use plotters::prelude::*;

/// A window in time.
#[derive(Debug)]
pub(super) struct Panel {
    pub(super) title: String,
    /// Seconds, packets.
    pub(super) points: Vec<(f64, f64)>,
}

const WIDTH: u32 = 330;
const HEIGHT: u32 = 210;

/// Seconds between two points of a line.
const INTERVAL: f64 = 0.1;

const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(225, 225, 225);
const LINE: RGBColor = RGBColor(18, 53, 91);

/// Draws the panels, so many in a row, up to a time in seconds; those of a row have one scale.
pub(super) fn write(
    path: &Path,
    panels: &[Panel],
    columns: usize,
    seconds: f64,
) -> anyhow::Result<()> {
    let rows = panels.len().div_ceil(columns);
    let size = (WIDTH * columns as u32, HEIGHT * rows as u32);
    let root = SVGBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE).map_err(failed)?;
    let areas = root.split_evenly((rows, columns));
    for (row, areas) in panels.chunks(columns).zip(areas.chunks(columns)) {
        let points = row.iter().flat_map(|panel| &panel.points);
        // The overshoot of slow start would press all else flat.
        let late = points.filter(|(at, _)| *at > 1.0);
        let top = 1.15 * late.map(|(_, window)| *window).fold(1.0, f64::max);
        for (panel, area) in row.iter().zip(areas) {
            let mut chart = ChartBuilder::on(area)
                .caption(&panel.title, ("sans-serif", 16, &INK))
                .margin(8)
                .x_label_area_size(32)
                .y_label_area_size(40)
                .build_cartesian_2d(0.0..seconds, 0.0..top)
                .map_err(failed)?;
            chart
                .configure_mesh()
                .disable_x_mesh()
                .light_line_style(TRANSPARENT)
                .bold_line_style(GRID)
                .axis_style(INK)
                .x_desc("s")
                .y_desc("packets")
                .x_label_formatter(&|seconds| format!("{seconds:.0}"))
                .y_label_formatter(&|packets| format!("{packets:.0}"))
                .y_labels(5)
                .label_style(("sans-serif", 14, &INK))
                .draw()
                .map_err(failed)?;
            let points = thinned(&panel.points).map(|(at, window)| (at, window.min(top)));
            chart
                .draw_series(LineSeries::new(points, LINE))
                .map_err(failed)?;
        }
    }
    root.present().map_err(failed)
}

/// The last point of each interval.
fn thinned(points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> + '_ {
    let interval = |point: &(f64, f64)| (point.0 / INTERVAL) as u64;
    points
        .chunk_by(move |one, other| interval(one) == interval(other))
        .filter_map(|chunk| chunk.last().copied())
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow::anyhow!("the picture: {error}")
}
