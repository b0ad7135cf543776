"""Print the tables of docs/edge-figures.md from the results of `fairwater run scenarios/edge/…`.

    python scripts/edge-figures.py shares|ratios|resent|windows|weights|times RESULTS

`windows` and `weights` read the samples, for which they need pyarrow.
"""

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

Key = tuple[str, ...]


def spread(values: list[float], digits: int = 1) -> str:
    """The mean, and half of an interval of 95 %."""
    if len(values) < 2:
        return " ".join(f"{value:.{digits}f}" for value in values) or "none"
    half = 1.96 * statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):.{digits}f} ± {half:.{digits}f}"


def runs(folder: Path) -> Iterator[tuple[Key, dict]]:
    """Each run, and the values of the sweep's variables in it."""
    with (folder / "results.jsonl").open() as lines:
        for run in map(json.loads, lines):
            yield tuple(run["variables"].values()), run


def table(rows: Iterable[tuple[Key, list[str]]]) -> None:
    """Print a row for each point."""
    for key, cells in rows:
        print(" | ".join([*key, *cells]))


def shares(folder: Path) -> None:
    """Of the first flow: its share of the others' mean, %, and Jain's index of all."""
    share, jain, resent = defaultdict(list), defaultdict(list), defaultdict(int)
    for key, run in runs(folder):
        first, *others = (flow["throughput_bps"] for flow in run["flows"])
        share[key].append(100 * first / statistics.mean(others))
        jain[key].append(run["jain"])
        resent[key] += run["flows"][0]["retransmissions"]
    for key, values in share.items():
        index = f"{statistics.mean(jain[key]):.4f} ({min(jain[key]):.4f})"
        print(" | ".join([*key, spread(values), index, f"{resent[key]} sent again"]))


def ratios(folder: Path) -> None:
    """Of each group: the mean of its flows, as a share of the group named `ECN`, %."""
    rates: dict[tuple[Key, str], list[float]] = defaultdict(list)
    for key, run in runs(folder):
        each = {g["name"]: g["throughput_bps"] / g["flows"] for g in run["groups"]}
        for name, rate in each.items():
            rates[key, name].append(100 * rate / each["ECN"])
    table(((*key, name), [spread(values)]) for (key, name), values in rates.items())


def resent(folder: Path) -> None:
    """Segments sent again, % of all that were sent, and the goodput of all, Mbit/s."""
    again, goodput = defaultdict(list), defaultdict(list)
    for key, run in runs(folder):
        sent = sum(flow["segments"] for flow in run["flows"])
        again[key].append(100 * sum(f["retransmissions"] for f in run["flows"]) / sent)
        goodput[key].append(sum(g["throughput_bps"] for g in run["groups"]) / 1e6)
    table((key, [spread(values, 3), spread(goodput[key], 2)]) for key, values in again.items())


def windows(folder: Path, warm_s: float = 5.0) -> None:
    """Quantiles and mean of the window in segments, the queue's mean in kB, and its falls."""
    import pyarrow.parquet as pq

    def series(name: str, column: str, unit: float, edge: str | None) -> dict:
        columns = pq.read_table(folder / f"{name}.parquet").to_pydict()
        found: dict[Key, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        variables = [name for name in columns if name.startswith("$")]
        for index, at_s in enumerate(columns["at_s"]):
            if at_s > warm_s and (edge is None or columns["edge"][index] == edge):
                key = tuple(columns[name][index] for name in variables)
                found[key][columns["seed"][index]].append(columns[column][index] / unit)
        return found

    queue = series("edge_series", "queued_bytes", 1e3, "bottleneck")
    for key, seeds in series("flow_series", "cwnd_bytes", 1448, None).items():
        ordered = [sorted(values) for values in seeds.values()]
        at = (0.1, 0.25, 0.5, 0.75, 0.9)
        quantiles = [spread([v[int(q * (len(v) - 1))] for v in ordered]) for q in at]
        means = spread([statistics.mean(values) for values in ordered])
        queued = spread([statistics.mean(values) for values in queue[key].values()])
        falls = [fall for values in seeds.values() for fall in falls_of(values)]
        double = sum(fall < 0.38 for fall in falls) / len(falls)
        drops = f"{statistics.mean(falls):.2f} of {len(falls)}, {double:.0%} below 0.38"
        print(" | ".join([*key, *quantiles, means, queued, drops]))


def falls_of(values: list[float]) -> Iterator[float]:
    """What each fall by more than a fifth leaves of the window."""
    peak = low = values[0]
    for value in values:
        if low < 0.8 * peak and value > low + 2:
            yield low / peak
            peak = low = value
        low = min(low, value)
        if low >= 0.8 * peak and value > peak:
            peak = low = value


def weights(folder: Path) -> None:
    """Of flows by weight: the preferred flows' goodput to the others', and the sum, Mbit/s.

    Samples are 20 ms long. The ratio is of 5 to 8 s, the sum of 2 to 4, 5 to 8 and 9 to 12 s.
    """
    import pyarrow.parquet as pq

    phases = ((2.0, 4.0), (5.0, 8.0), (9.0, 12.0))
    columns = pq.read_table(folder / "flow_series.parquet").to_pydict()
    variables = [columns[name] for name in columns if name.startswith("$")]
    names = ("seed", "flow", "at_s", "throughput_bps")
    rows = zip(*(columns[name] for name in names), *variables, strict=True)
    sums: dict[Key, dict[int, dict]] = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    for seed, flow, at_s, bps, *key in rows:
        for phase, (start, end) in enumerate(phases):
            if start < at_s <= end:
                sums[tuple(key)][seed][phase, flow.split(".")[0]] += 0.02 * bps
    for key, seeds in sums.items():
        during = [(run[1, "preferred"] / 3) / (run[1, "others"] / 2) for run in seeds.values()]
        totals = [
            spread(
                [
                    1e-6 * (run[phase, "others"] + run[phase, "preferred"]) / (end - start)
                    for run in seeds.values()
                ],
                2,
            )
            for phase, (start, end) in enumerate(phases)
        ]
        print(" | ".join([*key, spread(during, 3), *totals]))


def times(folder: Path) -> None:
    """Completion times, s."""
    took: dict[Key, list[float]] = defaultdict(list)
    for key, run in runs(folder):
        for group in run["groups"]:
            took[key] += [r["fct_us"]["mean"] / 1e6 for r in group["requests"][:1]]
    table((key, [spread(values, 3), f"{len(values)} runs"]) for key, values in took.items())


TABLES = {name.__name__: name for name in (shares, ratios, resent, windows, weights, times)}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in TABLES:
        sys.exit(__doc__)
    TABLES[sys.argv[1]](Path(sys.argv[2]))
