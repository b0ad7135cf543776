"""Scenarios in the simulator."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairwater import _fairwater

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class FallbackWarning(UserWarning):
    """A flow ran without its algorithm, which failed: its results are not the algorithm's.

    For what share of the time, and why, is in the columns `fallback_share` and `fallback_reason`
    of `Results.flows`.
    """


def warn_of_fallbacks(failures: list[str], stacklevel: int) -> None:
    """Warn of flows that ran without their algorithm."""
    if failures:
        more = f" (and {len(failures) - 1} more flows)" if len(failures) > 1 else ""
        warnings.warn(failures[0] + more, FallbackWarning, stacklevel=stacklevel)


@dataclass(frozen=True)
class Notice:
    """What the plane had to say of a run: a flow that an algorithm raised for, for instance."""

    point: int
    """Index of the run in the grid."""
    text: str
    """What happened, with the tracebacks."""


class Results:
    """What a scenario's runs found out: tables, with a row for each flow, group, edge and so on.

    Each row says of which run it is: `point`, its index in the grid, `seed`, and `$rate` and such
    for the variables of the sweep. They are the tables that `fairwater run` writes as Parquet, and
    docs/scenarios.md explains the columns. Rates are bits/s, times µs where a name ends so, and
    what was not measured is NaN.
    """

    def __init__(self, tables: Mapping[str, Mapping[str, Any]], notices: list[Notice]) -> None:
        self._tables = tables
        self.notices = notices

    @property
    def groups(self) -> pd.DataFrame:
        """A row for each `[[flow]]` of the scenario in each run."""
        return self.table("groups")

    @property
    def flows(self) -> pd.DataFrame:
        """A row for each flow."""
        return self.table("flows")

    @property
    def edges(self) -> pd.DataFrame:
        """A row for each direction of each link."""
        return self.table("edges")

    @property
    def requests(self) -> pd.DataFrame:
        """A row for each size class of requests; empty when the scenario has none."""
        return self.table("requests")

    @property
    def flow_series(self) -> pd.DataFrame:
        """A row for each sample of each flow in time; empty for a grid that asks for none."""
        return self.table("flow_series")

    @property
    def edge_series(self) -> pd.DataFrame:
        """A row for each sample of each direction of a link; empty as `flow_series` is."""
        return self.table("edge_series")

    @property
    def completions(self) -> pd.DataFrame:
        """A row for each request that was done; empty for a grid that does not keep them."""
        return self.table("completions")

    @property
    def bundles(self) -> pd.DataFrame:
        """A row for each bundle at each edge; empty when no flow names a bundle."""
        return self.table("bundles")

    @property
    def bundle_series(self) -> pd.DataFrame:
        """A row for each sample of each bundle at each edge; empty as `flow_series` is."""
        return self.table("bundle_series")

    def table(self, name: str) -> pd.DataFrame:
        """A table by its name, as a new DataFrame."""
        import pandas as pd

        frame: pd.DataFrame = pd.DataFrame(self._columns(name))
        return frame

    def arrow(self, name: str) -> pa.Table:
        """A table by its name, as an Arrow table; needs `fairwater[arrow]`."""
        import pyarrow as pa

        return pa.table(self._columns(name))

    def _columns(self, name: str) -> dict[str, Any]:
        import numpy as np

        if name not in _TABLES:
            raise KeyError(f"there is no table {name!r}; there are {', '.join(_TABLES)}")
        columns = self._tables.get(name, {})
        return {
            key: values if isinstance(values, list) else np.frombuffer(values[1], values[0])
            for key, values in columns.items()
        }

    def __repr__(self) -> str:
        return f"<results: {', '.join(self._tables)}>"


_TABLES = (
    "groups",
    "flows",
    "edges",
    "requests",
    "flow_series",
    "edge_series",
    "completions",
    "bundles",
    "bundle_series",
)


def simulate(
    scenario: str | os.PathLike[str],
    *,
    algorithms: Mapping[str, type] | None = None,
    settings: Mapping[str, object] | None = None,
    seed: int | None = None,
    jobs: int | None = None,
    progress: Callable[[float], object] | None = None,
) -> Results:
    """Run a scenario in the simulator.

    `scenario` is a file's path, or a scenario's own text, which has several lines. `algorithms`
    are classes by the name that the scenario calls them by, parameters behind it:
    `algorithm = "mine:gain=0.5"`; a class in a file needs no name: `"my_alg.py:MyAlg"`. `settings`
    change values as the command's `--set` does: `{"dumbbell.rate": "12mbit"}`; `seed` runs with
    that seed alone. The same seed gives the same results.

    `jobs` runs of a grid go at once: one for each core, or one alone when an algorithm is in
    Python. `progress` is called now and then with the share that is done, 0 to 1. A scenario that
    is wrong raises `ValueError` with everything that is wrong; Ctrl-C raises `KeyboardInterrupt`,
    and interrupts an algorithm that blocks unless there are several jobs. An algorithm that raises
    loses its flow to the fallback: `FallbackWarning`.
    """
    text = os.fspath(scenario)
    if "\n" in text:
        name, source, folder = "scenario", text, Path()
    else:
        path = Path(text)
        name, source, folder = text, path.read_text(encoding="utf-8"), path.parent
    tables, notices, failures = _fairwater.simulate(
        name,
        source,
        folder,
        dict(algorithms or {}),
        [f"{key}={value}" for key, value in (settings or {}).items()],
        seed,
        jobs,
        progress,
    )
    warn_of_fallbacks(failures, stacklevel=3)
    return Results(tables, [Notice(*notice) for notice in notices])
