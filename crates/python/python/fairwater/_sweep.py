"""Grids of scenarios, on this machine or on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

from fairwater._clusters import cluster
from fairwater._fairwater import Grid, ResultsFolder
from fairwater._simulate import warn_of_fallbacks

__all__ = ["sweep"]


def sweep(
    scenario: str | os.PathLike[str],
    on: str | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    settings: Mapping[str, object] | None = None,
    seed: int | None = None,
    fresh: bool = False,
    jobs: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Path:
    """Simulate each point of a scenario's grid; returns the folder of the results.

    The folder is what `fairwater run SCENARIO` makes, file by file and byte by byte: points as
    JSON, `results.jsonl`, Parquet tables and the report page. Points are kept as they come, so a
    sweep that was stopped goes on where it was, whoever goes on with it: this function, on any
    cluster, or the command.

    `on` is where points are simulated:

    - `None`: here, `jobs` at once (one for each core if that is `None`);
    - `"tcp://HOST:PORT"` or `"tls://HOST:PORT"`: a Dask cluster (`pip install fairwater[dask]`);
    - `"ray://HOST:PORT"`: a Ray cluster, by its client server (`pip install fairwater[ray]`);
    - `"ray"`: the Ray cluster that this process has joined by `ray.init`, else one begun here.

    Workers need this version of Fairwater. Files that the scenario names are sent to them, and so
    are algorithms in Python, but not what those import.

    `out`, `settings`, `seed` and `fresh` are the command's `--out`, `--set`, `--seed` and
    `--fresh`. `progress` is called with how many points are done, and how many there are.

    A scenario that is wrong, an address that is none, and a folder of other results raise
    `ValueError`, and nothing is run; a Ray cluster that is not there, or wants a token, raises
    `ConnectionError`. When a point fails, those that are done are kept, and its error is raised.
    """
    file = Path(scenario)
    changes = [f"{key}={value}" for key, value in (settings or {}).items()]
    source = file.read_text(encoding="utf-8")
    grid = Grid(str(file), source, file.parent, None, changes, seed)
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs is {jobs}: it must be at least 1")
    run = partial(_here, grid, jobs) if on is None else cluster(on, file, grid)
    folder = Path(out) if out is not None else _folder(file, seed)
    results = ResultsFolder(folder, grid, fresh)
    missing = results.missing()
    done = len(grid) - len(missing)
    for found in run(missing) if missing else ():
        results.keep(found)
        done += 1
        if progress is not None:
            progress(done, len(grid))
    warn_of_fallbacks(results.finish(file.stem), stacklevel=3)
    return folder


def _folder(file: Path, seed: int | None) -> Path:
    return Path(f"{file.stem}.results" if seed is None else f"{file.stem}-seed{seed}.results")


def _here(grid: Grid, jobs: int | None, points: Sequence[int]) -> Iterator[str]:
    # A simulation holds no lock of the interpreter but where an algorithm is in Python.
    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        futures = [pool.submit(grid.simulate, index) for index in points]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)
