"""Points of a scenario's grid on a cluster: Dask's, or Ray's."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from fairwater._fairwater import Grid, __version__
from fairwater._files import forget

Run = Callable[[Sequence[int]], Iterator[str]]
"""Simulates points; yields what each found, as they come."""

_ANSWER_WITHIN_S = 10


def cluster(address: str, file: Path, grid: Grid) -> Run:
    """What runs points at that address. All that it needs but the cluster is looked for now."""
    if address == "ray":
        ray, job = _needed("ray", "ray"), _job(file, grid)
        return lambda points: _on_any_ray(ray, job, points)
    kind, _, place = address.partition("://")
    if kind not in ("ray", "tcp", "tls") or not _is_place(place):
        raise ValueError(
            f"`{address}` is no cluster: a Dask scheduler is tcp://HOST:PORT or tls://HOST:PORT, "
            "the client server of a Ray cluster is ray://HOST:PORT, with the port 10001 if it was "
            "given no other, and None is this machine"
        )
    if kind == "ray":
        ray, job = _needed("ray", "ray"), _job(file, grid)
        _needed("grpc", "ray")
        if ray.is_initialized():
            raise RuntimeError(
                f"this process has joined a Ray cluster already, and would not go to {address}: "
                'on="ray" is the one that it has joined, and ray.shutdown() leaves that'
            )
        return lambda points: _on_ray_at(ray, job, points, place)
    distributed, job = _needed("distributed", "dask"), _job(file, grid)
    return lambda points: _on_dask(distributed, job, points, address)


def _is_place(text: str) -> bool:
    try:
        parts = urlsplit(f"//{text}")
        return bool(parts.hostname and parts.port) and parts.netloc == text
    except ValueError:
        return False


def _needed(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name != module:
            raise
        message = f"a cluster at that address needs {extra}: `pip install fairwater[{extra}]`"
        raise ModuleNotFoundError(message, name=module) from None


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
    if not job.scripts:
        return _grid(job).simulate(index)
    # Nobody tells a worker that a sweep is over, so no folder is left to stay after a point.
    with tempfile.TemporaryDirectory(prefix="fairwater-") as name:
        folder = Path(name).resolve()
        for script, text in job.scripts:
            file = folder / script
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        try:
            return Grid(job.name, job.source, folder, dict(job.files)).simulate(index)
        finally:
            forget(folder)


@lru_cache(maxsize=4)
def _grid(job: _Job) -> Grid:
    """The grid, which a worker reads once."""
    return Grid(job.name, job.source, Path(), dict(job.files))


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


def _on_any_ray(ray: Any, job: _Job, points: Sequence[int]) -> Iterator[str]:
    """On the cluster that this process has joined, or one that is begun and ended here."""
    if ray.is_initialized():
        yield from _on_ray(ray, job, points)
        return
    ray.init("local", log_to_driver=False)
    try:
        yield from _on_ray(ray, job, points)
    finally:
        ray.shutdown()


def _on_ray_at(ray: Any, job: _Job, points: Sequence[int], place: str) -> Iterator[str]:
    _greet_ray(place)
    try:
        try:
            ray.init(f"ray://{place}", log_to_driver=False)
        except ConnectionAbortedError:
            # Ray forks a server for each client, and at times one dies as it is forked (seen with
            # Ray 2.60 and grpcio 1.85, about once in fifteen): another try has another.
            ray.shutdown()
            ray.init(f"ray://{place}", log_to_driver=False)
        yield from _on_ray(ray, job, points)
    finally:
        ray.shutdown()


def _on_ray(ray: Any, job: _Job, points: Sequence[int]) -> Iterator[str]:
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


def _greet_ray(place: str) -> None:
    """Raises `ConnectionError` when no client server of Ray is there that would have us.

    Ray itself tries for half a minute, and then has forgotten why it did not succeed.
    """
    import grpc
    from ray.exceptions import AuthenticationError

    try:
        channels: Any = importlib.import_module("ray._private.grpc_utils")
        messages: Any = importlib.import_module("ray.core.generated.ray_client_pb2")
        services: Any = importlib.import_module("ray.core.generated.ray_client_pb2_grpc")
    except ImportError:
        # They are Ray's own, and another Ray may have them elsewhere: it is joined unseen.
        return
    token = (
        "RAY_AUTH_MODE=token in the environment, and the cluster's token (`ray get-auth-token` "
        "prints it there) in RAY_AUTH_TOKEN or ~/.ray/auth_token"
    )
    nobody = (
        f"does not answer (in {_ANSWER_WITHIN_S} s): `ray start --head` serves clients "
        "at port 10001 where ray[client] is installed, or at what --ray-client-server-port says"
    )
    status = grpc.StatusCode
    why = {
        status.UNAUTHENTICATED: f"wants a token, and not what it was shown: set {token}",
        status.UNIMPLEMENTED: "is no client server of Ray: that has a port of its own, 10001 or "
        "what `ray start --head --ray-client-server-port=PORT` was given",
        status.UNAVAILABLE: nobody,
        status.DEADLINE_EXCEEDED: nobody,
    }
    channel = channels.init_grpc_channel(place)
    try:
        services.RayletDriverStub(channel).ClusterInfo(
            messages.ClusterInfoRequest(type=messages.ClusterInfoType.PING),
            timeout=_ANSWER_WITHIN_S,
            # A cluster that was begun just now may not listen yet.
            wait_for_ready=True,
            metadata=[("client_id", "fairwater")],
        )
    except AuthenticationError:
        raise ConnectionError(f"Ray has no token to show at {place}: set {token}") from None
    except grpc.RpcError as error:
        code = error.code()
        answer = why.get(code, f"answered {code.name}: {error.details()}")
        raise ConnectionError(f"{place} {answer}") from None
    finally:
        channel.close()
