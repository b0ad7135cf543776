"""The command with algorithms in Python."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import EXAMPLES, PROGRAM, ROOT, run, scenario

import fairwater

AIMD = f"{EXAMPLES / 'aimd.py'}:Aimd"


def test_an_interpreter_that_does_not_know_where_it_is_can_import_it():
    for unknown in (None, ""):
        code = f"import sys; sys.executable = {unknown!r}; import fairwater"
        subprocess.run([sys.executable, "-c", code], check=True)


def test_try_simulates_a_class_in_a_file(tmp_path):
    report = tmp_path / "report.html"
    ended = run(
        "try", AIMD, "--against", "kernel:reno", "--on", "sim", "--for", "5s", "--json", "--quiet",
        "--report", str(report),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    runs = json.loads(ended.stdout)["runs"]
    assert [each["name"] for each in runs] == [AIMD, "kernel:reno"]
    assert all(each["utilisation"] > 0.5 for each in runs)


def test_run_takes_a_class_beside_the_scenario_and_sees_that_it_changed(write, tmp_path):
    algorithm = f"class Mine:\n    programs = '''{PROGRAM}'''\n"
    algorithm += "    def on_report(self, report, control):\n        control.set_cwnd(28960)\n"
    write("mine.py", algorithm)
    path = write("two.toml", scenario("mine.py:Mine") + "seeds = 2\n")
    command = ("run", str(path), "--quiet", "--out", str(tmp_path / "results"))
    ended = run(*command)
    assert ended.returncode == 0, ended.stderr
    assert run(*command).returncode == 0
    write("mine.py", algorithm.replace("28960", "14480"))
    changed = run(*command)
    assert changed.returncode == 2
    assert "--fresh" in changed.stderr


def test_what_is_wrong_with_it_is_bad_input(write):
    path = write("wrong.py", "class Wrong:\n    programs = '(when'\n    def on_report(): ...\n")
    ended = run("try", f"{path}:Wrong", "--on", "sim")
    assert ended.returncode == 2
    assert "does not compile" in ended.stderr
    assert f"{path}:Wrong" in ended.stderr
    ended = run("attach", f"{path}:Wrnog")
    assert ended.returncode == 2
    assert f"did you mean `{path}:Wrong`?" in ended.stderr


def test_a_subclass_without_on_report_is_refused_before_it_runs(write, tmp_path):
    text = f"import fairwater\nclass Bare(fairwater.Algorithm):\n    programs = '''{PROGRAM}'''\n"
    path = write("bare.py", text)
    for command in ("try", "attach"):
        ended = run(command, f"{path}:Bare")
        assert ended.returncode == 2, ended.stderr
        assert "Bare has no method on_report(report, control)" in ended.stderr
    with pytest.raises(ValueError, match="no method on_report"):
        fairwater.simulate(
            scenario("bare"),
            algorithms={"bare": type("Bare", (fairwater.Algorithm,), {"programs": PROGRAM})},
        )


def test_sigterm_ends_a_simulation_of_one_that_spins(write):
    text = f"class Spins:\n    programs = '''{PROGRAM}'''\n"
    text += "    def on_report(self, report, control):\n"
    text += "        print('spins', flush=True)\n        while True:\n            pass\n"
    path = write("spins.py", text)
    command = [sys.executable, "-m", "fairwater", "try", f"{path}:Spins", "--on", "sim", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "spins\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=20) == 143
        finally:
            process.kill()


def test_what_raises_is_shown_with_its_traceback(write, tmp_path):
    text = f"class Raises:\n    programs = '''{PROGRAM}'''\n"
    text += "    def on_report(self, report, control):\n        return 1 / 0\n"
    path = write("raises.py", text)
    ended = run(
        "try", f"{path}:Raises", "--on", "sim", "--for", "2s", "--report", str(tmp_path / "r.html")
    )
    assert ended.returncode == 4
    assert ended.stderr.count("Traceback (most recent call last)") == 1
    assert "return 1 / 0" in ended.stderr
    assert "in the plane: a report of program `raises`" in ended.stderr
    # Told as its own nowhere.
    why = "on_report raised ZeroDivisionError: division by zero"
    assert f"{path}:Raises: the fallback in its place for" in ended.stdout
    assert why in ended.stdout
    assert why in (tmp_path / "r.html").read_text()


def test_json_and_a_scenario_say_that_an_algorithm_failed(write, tmp_path):
    text = f"class Raises:\n    programs = '''{PROGRAM}'''\n    reports = 0\n"
    text += "    def on_report(self, report, control):\n        self.reports += 1\n"
    text += "        if self.reports == 20:\n            raise RuntimeError('at 20')\n"
    path = write("raises.py", text)
    command = ["try", f"{path}:Raises", "--on", "sim", "--for", "4s", "--json", "--quiet"]
    ended = run(*command, "--report", str(tmp_path / "r.html"))
    assert ended.returncode == 4
    [result] = json.loads(ended.stdout)["runs"]
    assert 0.5 < result["fallback"]["share"] < 1
    assert result["fallback"]["cause"] == "failed"
    assert result["fallback"]["reason"] == "on_report raised RuntimeError: at 20"
    other = ', { algorithm = "reno" }'
    path = write("two.toml", scenario("raises.py:Raises", duration="4s", more=other))
    ended = run("run", str(path), "--json", "--quiet", "--out", str(tmp_path / "results"))
    assert ended.returncode == 4
    raised, reno = json.loads(ended.stdout)["flows"]
    assert 0.5 < raised["fallback"]["share"] < 1
    assert raised["fallback"]["reason"] == "on_report raised RuntimeError: at 20"
    assert "fallback" not in reno
    assert "RuntimeError: at 20" in (tmp_path / "results" / "report.html").read_text()
    # What was kept says so again.
    assert run("run", str(path), "--quiet", "--out", str(tmp_path / "results")).returncode == 4


def test_serve_hosts_a_class_in_a_file(tmp_path):
    ended = run(
        "serve", AIMD, "--for", "200ms", "--json", "--listen", str(tmp_path / "plane"),
        "--ccp", str(tmp_path / "ccp"),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert [each["name"] for each in json.loads(ended.stdout)["algorithms"]] == ["aimd"]


def test_ctrl_c_twice_ends_one_that_blocks(write):
    text = f"import time\nclass Blocks:\n    programs = '''{PROGRAM}'''\n"
    text += "    def on_report(self, report, control):\n"
    text += "        print('blocks', flush=True)\n        time.sleep(1000)\n"
    path = write("blocks.py", text)
    command = [sys.executable, "-m", "fairwater", "try", f"{path}:Blocks", "--on", "sim", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "blocks\n"
        for _ in range(100):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                time.sleep(0.1)
        process.kill()
        assert process.returncode == 130


def test_version_and_usage_exit_as_the_programs():
    assert run("--version").returncode == 0
    assert run("no-such-command").returncode == 2
    assert "did you mean `reno`?" in run("try", "renoo").stderr


@pytest.fixture
def program():
    """The program without Python in it, which `cargo test` built."""
    built = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
    path = os.path.join(built, "debug", "fairwater")
    if not os.path.exists(path):
        pytest.skip(f"there is no {path}; cargo build makes it")
    return path


def test_the_program_goes_on_in_python(program, tmp_path):
    with_ours = {**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
    command = [program, "try", AIMD, "--on", "sim", "--for", "1s", "--json", "--quiet"]
    command += ["--report", str(tmp_path / "report.html")]
    ended = subprocess.run(command, env=with_ours, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["runs"][0]["name"] == AIMD


def test_the_program_says_what_to_install_where_python_lacks_it(program, tmp_path):
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    ended = subprocess.run(
        [program, "try", AIMD], env={"PATH": str(tmp_path)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "pip install" in ended.stderr
    ended = subprocess.run(
        [program, "try", AIMD], env={"PATH": "/nowhere"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "`python3` cannot be run" in ended.stderr
