"""Grids of scenarios, on this machine or on a cluster."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from fairwater._fairwater import Grid, ResultsFolder, __version__

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
    - `"ray://HOST:PORT"`: a Ray cluster; `"ray"` is one begun here (`pip install fairwater[ray]`).

    Workers need this version of Fairwater. Files that the scenario names are sent to them, and so
    are algorithms in Python, but not what those import.

    `out`, `settings`, `seed` and `fresh` are the command's `--out`, `--set`, `--seed` and
    `--fresh`. `progress` is called with how many points are done, and how many there are.

    A scenario that is wrong, an address that is none, and a folder of other results raise
    `ValueError`, and nothing is run. When a point fails, those that are done are kept, and its
    error is raised.
    """
    file = Path(scenario)
    changes = [f"{key}={value}" for key, value in (settings or {}).items()]
    source = file.read_text(encoding="utf-8")
    grid = Grid(str(file), source, file.parent, None, changes, seed)
    run = _cluster(on, jobs, file, grid)
    folder = Path(out) if out is not None else _folder(file, seed)
    results = ResultsFolder(folder, grid, fresh)
    missing = results.missing()
    done = len(grid) - len(missing)
    for found in run(missing) if missing else ():
        results.keep(found)
        done += 1
        if progress is not None:
            progress(done, len(grid))
    results.finish(file.stem)
    return folder


def _folder(file: Path, seed: int | None) -> Path:
    return Path(f"{file.stem}.results" if seed is None else f"{file.stem}-seed{seed}.results")


@dataclass(frozen=True)
class _Job:
    """All that a worker needs beside the index of a point: texts, by the names of their files."""

    name: str
    source: str
    files: tuple[tuple[str, str], ...]
    scripts: tuple[tuple[str, str], ...]
    version: str = __version__


def _job(file: Path, grid: Grid) -> _Job:
    scripts = grid.scripts
    for name in map(PurePosixPath, scripts):
        if name.is_absolute() or ".." in name.parts:
            raise ValueError(f"`{name}`: for a cluster, an algorithm's file is beside the scenario")
    files = tuple(sorted(grid.files.items()))
    return _Job(str(file), grid.source, files, tuple(sorted(scripts.items())))


def _point(job: _Job, index: int) -> str:
    """What a worker does."""
    if job.version != __version__:
        raise RuntimeError(
            f"a worker has Fairwater {__version__}, and the sweep is of {job.version}"
        )
    return _grid(job).simulate(index)


@lru_cache(maxsize=4)
def _grid(job: _Job) -> Grid:
    """The grid, which a worker reads once."""
    folder = Path(tempfile.mkdtemp(prefix="fairwater-")) if job.scripts else Path()
    for name, text in job.scripts:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return Grid(job.name, job.source, folder, dict(job.files))


_Run = Callable[[Sequence[int]], Iterator[str]]


def _cluster(on: str | None, jobs: int | None, file: Path, grid: Grid) -> _Run:
    """What runs points there. Whatever it needs is looked for now, before results are touched."""
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs is {jobs}: it must be at least 1")
    if on is None:
        return lambda points: _here(grid, points, jobs)
    if on == "ray" or on.startswith("ray://"):
        ray, job = _needed("ray", "ray"), _job(file, grid)
        return lambda points: _on_ray(ray, job, points, on)
    if on.startswith(("tcp://", "tls://")):
        distributed, job = _needed("distributed", "dask"), _job(file, grid)
        return lambda points: _on_dask(distributed, job, points, on)
    raise ValueError(
        f"`{on}` is no cluster: a Dask scheduler is tcp://HOST:PORT or tls://HOST:PORT, Ray is "
        "ray://HOST:PORT, and None is this machine"
    )


def _here(grid: Grid, points: Sequence[int], jobs: int | None) -> Iterator[str]:
    # A simulation holds no lock of the interpreter but where an algorithm is in Python.
    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        futures = [pool.submit(grid.simulate, index) for index in points]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _on_dask(distributed: Any, job: _Job, points: Sequence[int], address: str) -> Iterator[str]:
    with distributed.Client(address, set_as_default=False) as client:
        sent = client.scatter(job, broadcast=True)
        futures = client.map(lambda index, job: _point(job, index), points, job=sent, pure=False)
        try:
            done = distributed.as_completed(futures, loop=client.loop, with_results=True)
            for _, found in done:
                yield found
        finally:
            client.cancel(futures)


def _on_ray(ray: Any, job: _Job, points: Sequence[int], address: str) -> Iterator[str]:
    begun = not ray.is_initialized()
    if begun:
        ray.init("local" if address == "ray" else address, log_to_driver=False)
    try:
        sent = ray.put(job)
        remote: Any = ray.remote(_point)
        waiting = [remote.remote(sent, index) for index in points]
        try:
            while waiting:
                ready, waiting = ray.wait(waiting)
                yield from ray.get(ready)
        finally:
            for reference in waiting:
                ray.cancel(reference)
    finally:
        if begun:
            ray.shutdown()


def _needed(module: str, extra: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name != module:
            raise
        message = f"a cluster at that address needs {extra}: `pip install fairwater[{extra}]`"
        raise ModuleNotFoundError(message, name=module) from None
