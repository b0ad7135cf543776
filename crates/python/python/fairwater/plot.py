"""Pictures of what simulations found, by matplotlib (`pip install fairwater[plot]`).

    results = fairwater.simulate("scenarios/dumbbell.toml")
    fairwater.plot.series(results).savefig("dumbbell.svg")

    folder = fairwater.sweep("scenarios/aqm.toml")
    fairwater.plot.grid(folder, x="queue")

Both take what `fairwater.simulate` returns, or a folder of results. They return a matplotlib
figure, which a notebook shows.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["METRICS", "grid", "series"]

# Okabe and Ito's colours, which people with any colour vision tell apart; black is for axes.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F5539", "#6C6F73")


def series(results: Any, *, run: int = 0, flows: Sequence[str] | None = None) -> Figure:
    """One run in time: each flow's throughput, its RTT, its cwnd, and the bottleneck's queue.

    Throughput is of what is in order at the receiver, which comes in bursts: it is the mean of a
    hundredth of the run, if samples are more often.

    Args:
        results: what `fairwater.simulate` returned, or a folder of results.
        run: which point of the grid, from 0.
        flows: which flows, by name; all if `None`.

    `ValueError` says if there are no samples: a run that is alone has them, and one of a grid if
    the scenario asks for them.
    """
    tables = _Tables(results)
    samples = _of_run(tables("flow_series"), run)
    if samples.empty:
        raise ValueError(
            f"run {run} has no samples in time: a grid has them where the scenario asks for them, "
            'by `[measure] interval = "100ms"`'
        )
    known = list(dict.fromkeys(samples["flow"]))
    chosen = known if flows is None else list(flows)
    if unknown := [name for name in chosen if name not in known]:
        raise ValueError(f"there is no flow {', '.join(unknown)}; there are {', '.join(known)}")
    figure: Figure
    figure, axes = _figure(4, 1, 8.0, 1.7, sharex=True)
    panels: list[tuple[Axes, str, str, float]] = [
        (axes[0], "throughput_bps", "Throughput\nMbit/s", 1e-6),
        (axes[1], "srtt_us", "Smoothed RTT\nms", 1e-3),
        (axes[2], "cwnd_bytes", "cwnd\nkB", 1e-3),
    ]
    for colour, name in zip(itertools.cycle(_COLOURS), chosen, strict=False):
        of_flow = samples[samples["flow"] == name]
        for panel, column, _, scale in panels:
            shown = _binned(of_flow, column) if column == "throughput_bps" else of_flow
            values = shown[column].astype(float) * scale
            if column == "srtt_us":
                # Before the first sample there is none.
                values = values.where(values > 0)
            panel.plot(shown["at_s"], values, color=colour, label=name)
    queue, bottleneck = _queue(tables, run)
    axes[3].fill_between(queue["at_s"], queue["queueing_us"] / 1e3, color="#9AA0A6", linewidth=0)
    for panel, _, label, _ in panels:
        panel.set_ylabel(label)
    axes[3].set_ylabel("Queueing\nms")
    axes[3].set_title(f"at {bottleneck}", loc="right", fontsize="small", color="#555555")
    axes[3].set_xlabel("Time, s")
    for panel in axes:
        panel.set_ylim(bottom=0)
        panel.margins(x=0)
    if len(chosen) > 1:
        _legend(figure, axes[0], len(chosen))
    return figure


_BINS = 100


def _binned(samples: pd.DataFrame, column: str) -> pd.DataFrame:
    """The means of so many samples in turn that there are at most `_BINS` and a rest."""
    width = max(len(samples) // _BINS, 1)
    bins = samples[["at_s", column]].reset_index(drop=True)
    means: pd.DataFrame = bins.groupby(bins.index // width).agg({"at_s": "max", column: "mean"})
    return means


def _queue(tables: _Tables, run: int) -> tuple[pd.DataFrame, str]:
    """The queue in time of the busiest edge, and its name."""
    edges = _of_run(tables("edges"), run).sort_values("utilisation")
    bottleneck = str(edges["edge"].iloc[-1])
    samples = _of_run(tables("edge_series"), run)
    queue: pd.DataFrame = samples[samples["edge"] == bottleneck].fillna({"queueing_us": 0.0})
    return queue, bottleneck


def _of_metric(
    table: str, column: str, scale: float, how: str
) -> Callable[[_Tables], pd.Series[float]]:
    def read(tables: _Tables) -> pd.Series[float]:
        if how == "busiest":
            values: pd.Series[float] = _busiest(tables)[column]
        else:
            grouped = tables(table).groupby("point")[column]
            values = grouped.sum() if how == "sum" else grouped.mean()
        scaled: pd.Series[float] = values * scale
        return scaled

    return read


def _loss(tables: _Tables) -> pd.Series[float]:
    rows = _busiest(tables)
    gone = (rows["dropped"] + rows["lost"]).astype(float)
    share: pd.Series[float] = 100.0 * gone / (gone + rows["packets"]).clip(lower=1.0)
    return share


def _busiest(tables: _Tables) -> pd.DataFrame:
    """By point: the busiest edge."""
    edges = tables("edges").sort_values("utilisation", kind="stable")
    last: pd.DataFrame = edges.drop_duplicates("point", keep="last").set_index("point").sort_index()
    return last


METRICS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "throughput": (
        "Throughput of all flows, Mbit/s",
        _of_metric("groups", "throughput_bps", 1e-6, "sum"),
    ),
    "utilisation": ("Utilisation, %", _of_metric("edges", "utilisation", 100.0, "busiest")),
    "queueing": (
        "Median queueing delay, ms",
        _of_metric("edges", "queueing_us_p50", 1e-3, "busiest"),
    ),
    "queueing_p95": (
        "Queueing delay, 95th percentile, ms",
        _of_metric("edges", "queueing_us_p95", 1e-3, "busiest"),
    ),
    "loss": ("Packets dropped or lost, %", _loss),
    "retransmissions": (
        "Segments sent again",
        _of_metric("flows", "retransmissions", 1.0, "sum"),
    ),
    "rtt": ("Median RTT, ms", _of_metric("flows", "rtt_us_p50", 1e-3, "mean")),
}
"""What `grid` shows, by name: a label, and what reads it off the tables for each point.
Utilisation, queueing and loss are of the busiest link."""


def grid(
    results: Any,
    *,
    x: str | None = None,
    by: str | None = None,
    metrics: Sequence[str] = ("throughput", "utilisation", "queueing"),
) -> Figure:
    """A grid at a glance: a panel for each metric, the mean over seeds, and their range.

    Args:
        results: what `fairwater.simulate` returned, or a folder of results.
        x: the variable along the axis; the first of the sweep if `None`.
        by: the variable that lines are told apart by; all others if `None`.
        metrics: of `METRICS`.

    Where there are more variables than `x` and `by`, their values are taken together. `ValueError`
    names what does not exist.
    """
    import pandas as pd

    tables = _Tables(results)
    if unknown := [name for name in metrics if name not in METRICS]:
        raise ValueError(f"there is no metric {', '.join(unknown)}; there are {', '.join(METRICS)}")
    points = tables("groups").drop_duplicates("point").set_index("point")
    variables = [name[1:] for name in points.columns if name.startswith("$")]
    for name in (x, by):
        if name is not None and name not in variables:
            there = ", ".join(variables) or "none"
            raise ValueError(f"the sweep has no variable `{name}`; there are: {there}")
    if not variables:
        raise ValueError("the scenario has no [sweep]: there is one point")
    along = x if x is not None else variables[0]
    others = [by] if by is not None else [name for name in variables if name != along]
    lines = points[[f"${name}" for name in others]].agg(", ".join, axis=1) if others else None
    kinds = list(dict.fromkeys(lines)) if lines is not None else [""]
    if len(kinds) > len(_COLOURS):
        raise ValueError(
            f"there are {len(kinds)} lines, for {', '.join(others)}: choose a variable by `by`"
        )
    places = {value: at for at, value in enumerate(dict.fromkeys(points[f"${along}"]))}
    figure: Figure
    figure, axes = _figure(1, len(metrics), 3.6 * len(metrics), 3.2, sharex=False)
    for panel, name in zip(axes, metrics, strict=True):
        label, read = METRICS[name]
        values = read(tables)
        for colour, kind in zip(_COLOURS, kinds, strict=False):
            chosen = points if lines is None else points[lines == kind]
            frame = pd.DataFrame(
                {"at": chosen[f"${along}"].map(places), "value": values.reindex(chosen.index)}
            )
            spread = frame.groupby("at")["value"].agg(["mean", "min", "max"])
            panel.fill_between(
                spread.index, spread["min"], spread["max"], color=colour, alpha=0.15, linewidth=0
            )
            panel.plot(spread.index, spread["mean"], "o-", color=colour, markersize=4, label=kind)
        panel.set_title(label, fontsize="medium", loc="left")
        panel.set_xticks(list(places.values()), list(places))
        panel.set_xlabel(along)
        panel.set_ylim(bottom=0)
    if len(kinds) > 1:
        _legend(figure, axes[0], len(kinds), ", ".join(others))
    return figure


class _Tables:
    """The tables of results, or of a folder of them."""

    def __init__(self, results: Any) -> None:
        if not isinstance(results, str | os.PathLike):
            self._read = results.table
            return
        folder = Path(results)
        if not (folder / "groups.parquet").is_file():
            raise ValueError(f"{folder} is no folder of results: it has no groups.parquet")

        def read(name: str) -> pd.DataFrame:
            import pandas as pd

            file = folder / f"{name}.parquet"
            # A table without rows has no file.
            return pd.read_parquet(file) if file.is_file() else pd.DataFrame()

        self._read = read

    def __call__(self, name: str) -> pd.DataFrame:
        table: pd.DataFrame = self._read(name)
        return table


def _of_run(table: pd.DataFrame, run: int) -> pd.DataFrame:
    if table.empty:
        return table
    chosen: pd.DataFrame = table[table["point"] == run]
    return chosen


def _figure(rows: int, columns: int, width: float, height: float, *, sharex: bool) -> Any:
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as missing:
        if missing.name != "matplotlib":
            raise
        message = "plots need matplotlib: `pip install fairwater[plot]`"
        raise ModuleNotFoundError(message, name="matplotlib") from None

    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(width, height * rows),
        sharex=sharex,
        squeeze=False,
        layout="constrained",
    )
    for panel in axes.flat:
        panel.grid(axis="y", color="#E3E3E3", linewidth=0.8)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
        for line in ("left", "bottom"):
            panel.spines[line].set_color("#999999")
    return figure, axes.flatten()


def _legend(figure: Any, panel: Axes, entries: int, title: str | None = None) -> None:
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        title=title,
        loc="outside upper left",
        ncols=min(entries, 4),
        frameon=False,
    )
