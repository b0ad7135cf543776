"""Sweeps here and on clusters: the files of `fairwater run`, byte by byte."""

import subprocess
import sys
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


def test_on_ray_the_files_are_those_of_the_command(scenario, tmp_path):
    pytest.importorskip("ray", reason="needs fairwater[ray]")
    expected = files(by_command(scenario, tmp_path / "command"))
    assert files(fairwater.sweep(scenario, "ray", out=tmp_path / "ray")) == expected


def test_an_algorithm_in_python_is_sent_along(scenario, tmp_path, dask):
    (tmp_path / "halving.py").write_text(HALVING)
    text = GRID.replace('["reno", "cubic"]', '["reno", "halving.py:Halving"]')
    scenario.write_text(text)
    expected = files(by_command(scenario, tmp_path / "command"))
    assert files(fairwater.sweep(scenario, out=tmp_path / "here")) == expected
    assert files(fairwater.sweep(scenario, dask, out=tmp_path / "dask")) == expected


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
    for address in ("http://127.0.0.1:8786", "127.0.0.1", ""):
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
