//! Plots of a sender's state, the same in every report.

use super::page::{Line, Plot};

/// Congestion windows, with the slow-start thresholds of those senders that have any: `thresholds`
/// has a line for each of `windows`. Both in kB.
pub(super) fn window_plot(mut windows: Vec<Line>, thresholds: Vec<Line>) -> Plot {
    let (with, without): (Vec<Line>, Vec<Line>) = thresholds.into_iter().partition(has_values);
    let names: Vec<&str> = without.iter().map(|line| line.label.as_str()).collect();
    let note = match (with.is_empty(), names.is_empty()) {
        (_, true) => "of each sender; dashed: slow-start threshold".to_owned(),
        (true, false) => {
            "of each sender; slow-start thresholds are unknown: programs of the plane keep their own"
                .to_owned()
        }
        (false, false) => format!(
            "of each sender; dashed: slow-start threshold (unknown for {})",
            names.join(", ")
        ),
    };
    windows.extend(with.into_iter().map(|line| Line {
        label: line.label + ", ssthresh",
        dashed: true,
        ..line
    }));
    Plot {
        title: "Congestion window".into(),
        note: note.into(),
        unit: "kB".into(),
        lines: windows,
        x: None,
    }
}

/// Congestion states by their numbers; `None` when no sender's is known.
pub(super) fn state_plot(states: Vec<Line>) -> Option<Plot> {
    let lines: Vec<Line> = states.into_iter().filter(has_values).collect();
    (!lines.is_empty()).then(|| Plot {
        title: "State".into(),
        note: "of each sender’s congestion control: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss"
            .into(),
        unit: "".into(),
        lines,
        x: None,
    })
}

fn has_values(line: &Line) -> bool {
    line.values.iter().any(Option::is_some)
}
