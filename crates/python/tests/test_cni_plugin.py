"""The chained CNI plugin of examples/edge/cni, by the CNI specification (section 2)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parents[3] / "examples/edge/cni/fairwater-edge"
RESULT = {
    "cniVersion": "1.0.0",
    "interfaces": [
        {"name": "veth7", "mac": "02:00:00:00:00:01"},
        {"name": "eth0", "mac": "02:00:00:00:00:02", "sandbox": "/var/run/netns/blue"},
    ],
    "ips": [{"address": "10.88.0.5/16", "interface": 1}],
}


def fake_command(folder, answers):
    """A command that answers `edge status --json` with these sets of ports in turn."""
    script = folder / "fairwater"
    script.write_text(
        f"#!{sys.executable}\n"
        "import json, pathlib, sys\n"
        "assert sys.argv[1:4] == ['edge', 'status', '--json'], sys.argv\n"
        f"answers = {answers!r}\n"
        f"calls = pathlib.Path({str(folder / 'calls')!r})\n"
        "number = len(calls.read_text()) if calls.exists() else 0\n"
        "calls.write_text('x' * (number + 1))\n"
        "ports = answers[min(number, len(answers) - 1)]\n"
        "if ports is None:\n"
        "    sys.exit('error: no plane answers')\n"
        "print(json.dumps({'ports': [{'name': name, 'interface': 1} for name in ports]}))\n"
    )
    script.chmod(0o755)
    return str(script)


def call(command, config):
    text = config if isinstance(config, str) else json.dumps(config)
    environment = {"CNI_COMMAND": command, "PATH": "/usr/bin:/bin"}
    arguments = [sys.executable, str(PLUGIN)]
    return subprocess.run(
        arguments, input=text, env=environment, capture_output=True, text=True, check=False
    )


def config(**keys):
    return {
        "cniVersion": "1.0.0",
        "name": "edge",
        "type": "fairwater-edge",
        "prevResult": RESULT,
        **keys,
    }


def test_a_container_starts_once_the_edge_is_at_its_port(tmp_path):
    command = fake_command(tmp_path, [None, [], ["veth7"]])
    added = call("ADD", config(command=command))
    assert added.returncode == 0, added.stderr
    assert json.loads(added.stdout) == RESULT
    assert (tmp_path / "calls").read_text() == "xxx"


def test_without_the_edge_a_container_starts_unless_it_is_required(tmp_path):
    command = fake_command(tmp_path, [["veth1"]])
    added = call("ADD", config(command=command, timeout_ms=100))
    assert added.returncode == 0
    assert json.loads(added.stdout) == RESULT
    assert "veth7" in added.stderr
    refused = call("ADD", config(command=command, timeout_ms=100, required=True))
    assert refused.returncode == 1
    error = json.loads(refused.stdout)
    assert (error["cniVersion"], error["code"]) == ("1.0.0", 100)
    assert "veth7" in error["msg"] and "eth0" not in error["msg"]


def test_check_says_nothing_and_delete_needs_no_edge(tmp_path):
    command = fake_command(tmp_path, [["veth7"]])
    checked = call("CHECK", config(command=command))
    assert (checked.returncode, checked.stdout) == (0, "")
    deleted = call("DEL", {"cniVersion": "1.0.0", "name": "edge", "type": "fairwater-edge"})
    assert (deleted.returncode, deleted.stdout) == (0, "")


def test_the_plugin_tells_its_versions():
    told = json.loads(call("VERSION", {"cniVersion": "0.4.0"}).stdout)
    assert told["cniVersion"] == "0.4.0"
    assert {"0.4.0", "1.0.0"} <= set(told["supportedVersions"])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", 6),
        ("[]", 6),
        (json.dumps({"cniVersion": "1.0.0"}), 7),
        (json.dumps(config(timeout_ms="soon")), 7),
    ],
)
def test_mistakes_are_errors_of_the_specification(text, code):
    refused = call("ADD", text)
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["code"] == code


def test_an_unknown_command_is_refused():
    refused = call("REMOVE", config())
    assert json.loads(refused.stdout)["code"] == 4


def test_a_command_that_is_absent_is_named(tmp_path):
    refused = call("ADD", config(command=str(tmp_path / "absent"), timeout_ms=0, required=True))
    assert "absent" in json.loads(refused.stdout)["msg"]
