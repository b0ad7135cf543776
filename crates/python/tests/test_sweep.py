"""Sweeps here and on clusters: the files of `fairwater run`, byte by byte."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import fairwater

GRID = """\
duration = "1s"
seeds = [1, 2]

[sweep]
rate = ["6mbit", "12mbit"]
algorithm = ["reno", "cubic"]

[dumbbell]
rate = "$rate"
rtt = "20ms"
buffer = "1bdp"
loss = "0.5%"

[[flow]]
algorithm = "$algorithm"
"""

HALVING = """\
import fairwater
from fairwater.gym import PROGRAM


class Halving(fairwater.Algorithm):
    programs = PROGRAM

    def on_report(self, report, control):
        control.set_cwnd(report.cwnd // 2 if report.lost else report.cwnd + 1448)
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = tmp_path / "grid.toml"
    file.write_text(GRID)
    return file


def files(folder: Path) -> dict[str, bytes]:
    found = {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}
    assert {"origin.json", "results.jsonl", "flows.parquet", "report.html"} <= set(found)
    return found


def by_command(scenario: Path, out: Path, *options: str) -> Path:
    command = [sys.executable, "-m", "fairwater", "run", scenario, "--out", out, "-q", *options]
    subprocess.run(command, check=True, capture_output=True)
    return out


@pytest.fixture(scope="session")
def dask():
    distributed = pytest.importorskip("distributed", reason="needs fairwater[dask]")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


def test_here_the_files_are_those_of_the_command(scenario, tmp_path):
    expected = files(by_command(scenario, tmp_path / "command"))
    folder = fairwater.sweep(scenario, out=tmp_path / "here", jobs=2)
    assert folder == tmp_path / "here"
    assert files(folder) == expected


def test_on_dask_the_files_are_those_of_the_command(scenario, tmp_path, dask):
    expected = files(by_command(scenario, tmp_path / "command"))
    told = []
    folder = fairwater.sweep(
        scenario, dask, out=tmp_path / "dask", progress=lambda *done: told.append(done)
    )
    assert files(folder) == expected
    assert told == [(n, 8) for n in range(1, 9)]


@contextlib.contextmanager
def folder_of_ray() -> Iterator[Path]:
    """A folder for Ray's files, with a path so short that its sockets' names fit."""
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_on_ray_the_files_are_those_of_the_command(scenario, tmp_path):
    pytest.importorskip("ray", reason="needs fairwater[ray]")
    expected = files(by_command(scenario, tmp_path / "command"))
    with folder_of_ray() as folder:
        env = os.environ | {"RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": str(folder)}
        swept = sweep_by_ray(scenario, "ray", tmp_path / "ray", env)
    assert swept.stdout == "", swept.stderr
    assert files(tmp_path / "ray") == expected


SWEEP = """\
import sys
import fairwater

scenario, on, out, joined = sys.argv[1:]
if joined:
    import ray
    ray.init(joined, log_to_driver=False)
try:
    fairwater.sweep(scenario, on, out=out)
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


def sweep_by_ray(
    scenario: Path, on: str, out: Path, env: dict[str, str], joined: str = ""
) -> subprocess.CompletedProcess[str]:
    """Sweep in a process of its own, as one has one Ray and one way to authenticate."""
    return subprocess.run(
        [sys.executable, "-c", SWEEP, str(scenario), on, str(out), joined],
        env=env,
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


TOKEN = "0123456789abcdef" * 4


@dataclass
class Head:
    """A Ray cluster of one node, as `ray start --head` begins it."""

    gcs: str
    clients: str
    env: dict[str, str]


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    pytest.importorskip("grpc", reason="needs fairwater[ray]")
    with folder_of_ray() as folder, (folder / "log").open("w+") as log:
        env = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
        env |= {"HOME": str(folder), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
        env["PYTHONUNBUFFERED"] = "1"
        # Else a server that died as it was forked is waited for that long, before another try.
        env["RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S"] = "15"
        gcs, clients = free_port(), free_port()
        ray = Path(sys.executable).with_name("ray")
        command = f"{ray} start --head --block --disable-usage-stats --include-dashboard=false"
        options = f"--num-cpus=2 --port={gcs} --ray-client-server-port={clients}"
        node = subprocess.Popen(
            [*command.split(), *options.split(), f"--temp-dir={folder}"],
            env=env,
            stdout=log,
            stderr=log,
        )
        try:
            # Clients that come before all of it has begun are kept waiting.
            while "Ray runtime started" not in (said := (folder / "log").read_text()):
                assert node.poll() is None, said
                time.sleep(0.1)
            yield Head(f"127.0.0.1:{gcs}", f"ray://127.0.0.1:{clients}", env)
        finally:
            # It ends all that it began.
            node.send_signal(signal.SIGTERM)
            try:
                node.wait(timeout=30)
            finally:
                node.kill()


def test_on_ray_at_an_address_the_files_are_those_of_the_command(scenario, tmp_path, head):
    (tmp_path / "halving.py").write_text(HALVING)
    scenario.write_text(GRID.replace('["reno", "cubic"]', '["reno", "halving.py:Halving"]'))
    expected = files(by_command(scenario, tmp_path / "command"))
    swept = sweep_by_ray(scenario, head.clients, tmp_path / "at", head.env)
    assert swept.stdout == "", swept.stderr
    assert files(tmp_path / "at") == expected


def test_on_a_ray_that_was_joined_no_other_address_is_taken(scenario, tmp_path, head):
    expected = files(by_command(scenario, tmp_path / "command"))
    swept = sweep_by_ray(scenario, "ray", tmp_path / "joined", head.env, joined=head.gcs)
    assert swept.stdout == "", swept.stderr
    assert files(tmp_path / "joined") == expected
    out = tmp_path / "other"
    swept = sweep_by_ray(scenario, "ray://127.0.0.1:1", out, head.env, joined=head.clients)
    assert "RuntimeError: this process has joined a Ray cluster already" in swept.stdout
    assert not out.exists()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"RAY_AUTH_MODE": "disabled"}, "wants a token, and not what it was shown"),
        ({"RAY_AUTH_TOKEN": TOKEN[::-1]}, "wants a token, and not what it was shown"),
        ({"RAY_AUTH_TOKEN": ""}, "Ray has no token to show"),
    ],
)
def test_a_ray_that_wants_a_token_says_what_to_set(scenario, tmp_path, head, changes, told):
    swept = sweep_by_ray(scenario, head.clients, tmp_path / "out", head.env | changes)
    assert swept.stdout.startswith("ConnectionError: "), swept.stderr
    assert told in swept.stdout
    assert "RAY_AUTH_MODE=token" in swept.stdout


def test_where_no_ray_serves_clients_the_error_says_so(scenario, tmp_path, head):
    out = tmp_path / "out"
    swept = sweep_by_ray(scenario, f"ray://{head.gcs}", out, head.env)
    assert "ConnectionError: " in swept.stdout
    assert "is no client server of Ray" in swept.stdout
    swept = sweep_by_ray(scenario, f"ray://127.0.0.1:{free_port()}", out, head.env)
    assert "ConnectionError: " in swept.stdout
    assert "does not answer" in swept.stdout
    assert not (out / "points").exists() or not list((out / "points").iterdir())


def test_an_algorithm_in_python_is_sent_along(scenario, tmp_path, dask):
    (tmp_path / "halving.py").write_text(HALVING)
    text = GRID.replace('["reno", "cubic"]', '["reno", "halving.py:Halving"]')
    scenario.write_text(text)
    expected = files(by_command(scenario, tmp_path / "command"))
    assert files(fairwater.sweep(scenario, out=tmp_path / "here")) == expected
    before = set(Path(tempfile.gettempdir()).glob("fairwater-*"))
    assert files(fairwater.sweep(scenario, dask, out=tmp_path / "dask")) == expected
    assert set(Path(tempfile.gettempdir()).glob("fairwater-*")) <= before


def test_what_was_stopped_goes_on_where_it_was(scenario, tmp_path):
    def stop(done, _):
        if done == 3:
            raise KeyboardInterrupt

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        fairwater.sweep(scenario, out=out, jobs=1, progress=stop)
    points = {file: file.stat().st_mtime_ns for file in (out / "points").iterdir()}
    assert len(points) == 3
    told = []
    fairwater.sweep(scenario, out=out, progress=lambda *done: told.append(done))
    assert told == [(n, 8) for n in range(4, 9)]
    assert all(file.stat().st_mtime_ns == at for file, at in points.items())
    assert files(out) == files(by_command(scenario, tmp_path / "command"))
    # And nothing is left to be done.
    fairwater.sweep(scenario, "tcp://127.0.0.1:1", out=out)


def test_settings_and_a_seed_change_the_grid_as_the_command_does(scenario, tmp_path):
    out = tmp_path / "command"
    by_command(scenario, out, "--seed", "7", "--set", "rate=9mbit")
    folder = fairwater.sweep(scenario, out=tmp_path / "here", seed=7, settings={"rate": "9mbit"})
    assert files(folder) == files(out)
    assert len(list((folder / "points").iterdir())) == 2


def test_what_is_wrong_is_said_before_anything_runs(scenario, tmp_path):
    for address in ("http://127.0.0.1:8786", "127.0.0.1:6379", "ray://head", "tcp://:1", ""):
        with pytest.raises(ValueError, match="is no cluster"):
            fairwater.sweep(scenario, address, out=tmp_path / "out")
    with pytest.raises(ValueError, match="jobs"):
        fairwater.sweep(scenario, out=tmp_path / "out", jobs=0)
    with pytest.raises(FileNotFoundError):
        fairwater.sweep(tmp_path / "nothing.toml")
    assert not (tmp_path / "out").exists()
    scenario.write_text(GRID.replace('"reno"', '"rino"'))
    with pytest.raises(ValueError, match="did you mean `reno`"):
        fairwater.sweep(scenario, out=tmp_path / "out")
    scenario.write_text(GRID)
    fairwater.sweep(scenario, out=tmp_path / "out")
    scenario.write_text(GRID.replace("20ms", "30ms"))
    with pytest.raises(ValueError, match="differs from line"):
        fairwater.sweep(scenario, out=tmp_path / "out")
    assert fairwater.sweep(scenario, out=tmp_path / "out", fresh=True)
