"""Plots: what is in them, and what is said when they cannot be."""

import pytest

import fairwater
from fairwater import plot

matplotlib = pytest.importorskip("matplotlib", reason="needs fairwater[plot]")
matplotlib.use("Agg")

ALONE = """\
duration = "4s"
[dumbbell]
rate = "12mbit"
rtt = "20ms"
buffer = "1bdp"
[[flow]]
name = "first"
algorithm = "cubic"
[[flow]]
name = "second"
algorithm = "reno"
start = "1s"
"""

GRID = """\
duration = "1s"
seeds = 3
[sweep]
rate = ["6mbit", "12mbit", "24mbit"]
algorithm = ["reno", "cubic"]
[dumbbell]
rate = "$rate"
rtt = "20ms"
buffer = "1bdp"
loss = "1%"
[[flow]]
algorithm = "$algorithm"
"""


@pytest.fixture(autouse=True)
def closed():
    yield
    matplotlib.pyplot.close("all")


@pytest.fixture(scope="module")
def alone():
    return fairwater.simulate(ALONE)


@pytest.fixture(scope="module")
def results():
    return fairwater.simulate(GRID)


def test_a_run_in_time_has_each_flow_in_each_panel(alone):
    figure = plot.series(alone)
    panels = figure.axes
    assert len(panels) == 4
    for panel in panels[:3]:
        assert [line.get_label() for line in panel.lines] == ["first", "second"]
        assert panel.get_ylim()[0] == 0
    samples = alone.flow_series
    first = samples[samples["flow"] == "first"]
    cwnd = panels[2].lines[0].get_ydata()
    assert list(cwnd) == pytest.approx([n / 1e3 for n in first["cwnd_bytes"]])
    throughput = panels[0].lines[0].get_ydata()
    assert len(throughput) == 100
    assert throughput.mean() == pytest.approx(first["throughput_bps"].mean() / 1e6)
    # Alone, it has the link: 12 Mbit/s are 11.6 of payload.
    assert 10 < sorted(throughput[5:25])[10] < 12
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["first", "second"]


def test_flows_can_be_chosen(alone):
    figure = plot.series(alone, flows=["second"])
    assert [line.get_label() for line in figure.axes[0].lines] == ["second"]
    assert not figure.legends
    with pytest.raises(ValueError, match="no flow third; there are first, second"):
        plot.series(alone, flows=["third"])


def test_a_grid_has_a_panel_for_each_metric_and_a_line_for_each_algorithm(results):
    figure = plot.grid(results, x="rate", by="algorithm", metrics=["throughput", "loss"])
    assert len(figure.axes) == 2
    for panel in figure.axes:
        assert [text.get_text() for text in panel.get_xticklabels()] == [
            "6mbit",
            "12mbit",
            "24mbit",
        ]
        assert [line.get_label() for line in panel.lines] == ["reno", "cubic"]
    groups = results.groups
    cubic = groups[(groups["$algorithm"] == "cubic") & (groups["$rate"] == "12mbit")]
    expected = cubic["throughput_bps"].mean() / 1e6
    assert figure.axes[0].lines[1].get_ydata()[1] == pytest.approx(expected)
    edge = results.edges.loc[results.edges.groupby("point")["utilisation"].idxmax()]
    reno = edge[(edge["$algorithm"] == "reno") & (edge["$rate"] == "24mbit")]
    share = (reno["dropped"] + reno["lost"]) / (reno["dropped"] + reno["lost"] + reno["packets"])
    assert figure.axes[1].lines[0].get_ydata()[2] == pytest.approx(100 * share.mean())


def test_every_metric_can_be_drawn_from_a_folder_too(results, tmp_path):
    pytest.importorskip("pyarrow", reason="needs fairwater[plot]")
    file = tmp_path / "grid.toml"
    file.write_text(GRID)
    folder = fairwater.sweep(file, out=tmp_path / "out")
    there = plot.grid(folder, metrics=list(plot.METRICS))
    here = plot.grid(results, metrics=list(plot.METRICS))
    assert len(here.axes) == len(plot.METRICS)
    for one, other in zip(here.axes, there.axes, strict=True):
        for a, b in zip(one.lines, other.lines, strict=True):
            assert list(a.get_ydata()) == pytest.approx(list(b.get_ydata()))
            assert all(value == value for value in a.get_ydata())


def test_what_cannot_be_drawn_is_said(alone, results, tmp_path):
    with pytest.raises(ValueError, match="has no samples in time"):
        plot.series(results)
    with pytest.raises(ValueError, match="no variable `speed`; there are: rate, algorithm"):
        plot.grid(results, x="speed")
    with pytest.raises(ValueError, match="no metric speed; there are throughput"):
        plot.grid(results, metrics=["speed"])
    with pytest.raises(ValueError, match="one point"):
        plot.grid(alone)
    with pytest.raises(ValueError, match="no folder of results"):
        plot.grid(tmp_path)
