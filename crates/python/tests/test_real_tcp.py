"""Algorithms in Python on this machine's TCP: needs root and a kernel with BTF."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import EXAMPLES, PROGRAM, run, scenario

import fairwater

pytestmark = pytest.mark.usefixtures("privileged")

sys.path.insert(0, str(EXAMPLES))

from aimd import Aimd
from newreno import NewReno


class Transfer:
    """A connection over the loopback that sends as long as it lasts, and counts."""

    def __init__(self, congestion_control: str) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.sender = socket.socket()
        name = congestion_control.encode()
        self.sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name)
        self.sender.connect(listener.getsockname())
        self.receiver, _ = listener.accept()
        listener.close()
        self.received = 0
        self.threads = [threading.Thread(target=each) for each in (self._send, self._receive)]
        for thread in self.threads:
            thread.start()

    def _send(self) -> None:
        block = bytes(10_000)
        with contextlib.suppress(OSError):
            while True:
                self.sender.sendall(block)
                # Enough to see it move, and little enough to leave this machine to others.
                time.sleep(0.001)

    def _receive(self) -> None:
        with contextlib.suppress(OSError):
            while got := self.receiver.recv(1 << 16):
                self.received += len(got)

    def congestion_control(self) -> str:
        """What the sender has now."""
        name = self.sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        return name.rstrip(b"\0").decode()

    def moves(self) -> bool:
        """Whether anything arrives from now on, within a few seconds."""
        before = self.received
        return eventually(lambda: self.received > before + 50_000)

    def close(self) -> None:
        for end in (self.sender, self.receiver):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        self.sender.close()
        self.receiver.close()


@contextlib.contextmanager
def transfers(*names: str) -> Iterator[list[Transfer]]:
    with transfers_that_outlast() as begin:
        yield begin(*names)


@contextlib.contextmanager
def transfers_that_outlast() -> Iterator[Callable[..., list[Transfer]]]:
    """Transfers that begin within the block when they are asked for."""
    running: list[Transfer] = []

    def begin(*names: str) -> list[Transfer]:
        running.extend(Transfer(name) for name in names)
        return running

    try:
        yield begin
    finally:
        for each in running:
            each.close()


def children(process: subprocess.Popen) -> list[int]:
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(each) for each in listed.split()]


def eventually(holds, seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.02)
    return holds()


@contextlib.contextmanager
def attached(
    *algorithms: str, signal_number: signal.Signals = signal.SIGINT
) -> Iterator[tuple[subprocess.Popen, list[str]]]:
    """Run `fairwater attach`; yields the process, and the lines that it says."""
    command = [sys.executable, "-m", "fairwater", "attach", *algorithms]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        lines: list[str] = []
        assert process.stderr is not None
        listener = threading.Thread(target=lines.extend, args=(process.stderr,))
        listener.start()
        try:
            ready = eventually(lambda: any("Ctrl-C stops" in line for line in lines), 60)
            assert ready, "".join(lines)
            yield process, lines
        finally:
            process.send_signal(signal_number)
            process.wait()
            listener.join()
    expected = 130 if signal_number == signal.SIGINT else 0
    assert process.returncode == expected, "".join(lines)


@pytest.mark.parametrize("algorithm", [Aimd, NewReno])
def test_an_example_controls_real_connections(algorithm):
    reports = []

    class Watched(algorithm):
        name = "py_watched"

        def on_report(self, report, control):
            reports.append(report.cwnd)
            super().on_report(report, control)

    with fairwater.attach(Watched) as name:
        assert name == "fw_py_watched"
        with transfers(name) as [transfer]:
            assert eventually(lambda: len(reports) > 20)
            assert transfer.moves()
    names = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    assert "fw_py_watched" not in names


@pytest.mark.parametrize("example", ["aimd.py:Aimd", "newreno.py:NewReno"])
def test_an_example_uses_an_emulated_link(example, tmp_path):
    report = tmp_path / "report.html"
    ended = run(
        "try", str(EXAMPLES / example), "--on", "linux", "--link", "24mbit 20ms 1bdp",
        "--for", "4s", "--bulk", "--tries", "1", "--report", str(report), "--json", "--quiet",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert '"utilisation": 0.' in ended.stdout or '"utilisation": 1' in ended.stdout
    assert "Traceback" not in ended.stderr


def test_what_raises_gives_its_flow_up_and_the_connection_goes_on(capfd):
    class Raises(Aimd):
        name = "py_raises"

        def on_report(self, report, control):
            raise RuntimeError("on real TCP too")

    attachment = fairwater.attach(Raises)
    with attachment as name, transfers(name) as [transfer]:
        assert eventually(lambda: attachment.notices)
        assert transfer.moves()
    said = capfd.readouterr().err
    assert said.count("Traceback (most recent call last)") == 1
    assert "RuntimeError: on real TCP too" in said
    assert "goes on under Cubic in the kernel" in said


SHRINKING = """
import fcntl, socket, struct, sys, time

SIOCSIFFLAGS, SIOCSIFMTU, IFF_UP = 0x8914, 0x8922, 1

def bring_up(mtu):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFMTU, struct.pack("16si20x", b"lo", mtu))
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))

bring_up(9000)
listener = socket.create_server(("127.0.0.1", 0))
sender = socket.socket()
sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[1].encode())
sender.connect(listener.getsockname())
receiver, _ = listener.accept()

def move():
    for _ in range(50):
        sender.sendall(bytes(20_000))
        left = 20_000
        while left:
            left -= len(receiver.recv(left))
        time.sleep(0.01)

move()
bring_up(1500)
move()
"""


@pytest.mark.parametrize("key", [None, "all"])
def test_on_mss_tells_of_the_new_segment_size(key):
    sizes = []

    class Sized(Aimd):
        name = "py_sized"

        def aggregate_by(self, info):
            return key

        def new_flow(self, info, control):
            sizes.append(info.mss)
            super().new_flow(info, control)

        def on_mss(self, mss, control):
            sizes.append(mss)
            control.set_cwnd(10 * mss)

    with fairwater.attach(Sized) as name:
        command = ["unshare", "--net", sys.executable, "-c", SHRINKING, name]
        subprocess.run(command, check=True, timeout=60)
        assert eventually(lambda: len(sizes) == 2)
    # Less the headers of IPv4 and of TCP with timestamps.
    assert sizes == [8948, 1448]


LEFT = """
import os, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
import fairwater
from aimd import Aimd

class Left(Aimd):
    name = "py_left"
    reports = 0

    def on_report(self, report, control):
        Left.reports += 1
        super().on_report(report, control)

def reported():
    before, end = Left.reports, time.monotonic() + 30
    while Left.reports < before + 100 and time.monotonic() < end:
        time.sleep(0.001)
    return Left.reports >= before + 100

attachment = fairwater.attach(Left)
name = attachment.__enter__()
quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
traffic = subprocess.Popen([sys.executable, "-c", sys.argv[2], name], **quiet)
assert reported()
fork = os.fork()
if fork:
    assert os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]) == 0
    assert reported()
"""

TRAFFIC = """
import socket, sys, threading
listener = socket.create_server(("127.0.0.1", 0))
senders = []
for _ in range(8):
    sender = socket.socket()
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[1].encode())
    sender.connect(listener.getsockname())
    receiver, _ = listener.accept()
    senders.append(sender)
    def receive(receiver=receiver):
        while receiver.recv(1 << 16):
            pass
    threading.Thread(target=receive, daemon=True).start()
while True:
    for sender in senders:
        sender.sendall(bytes(1000))
"""


def test_what_is_still_attached_when_the_interpreter_ends_is_detached():
    """Though reports go on coming; and a fork that ends leaves the attachment alone."""
    command = [sys.executable, "-c", LEFT, str(EXAMPLES), TRAFFIC]
    pipes = {"stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen(command, **pipes) as process:
        try:
            _, said = process.communicate(timeout=60)
        finally:
            # The traffic goes on, and in a failure so may the rest.
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, said
    assert said == ""
    names = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    assert "fw_py_left" not in names


BLOCKS = f"""
import time
import fairwater

class Blocks(fairwater.Algorithm):
    '''Blocks for a second, once, when a flow has begun.'''
    name = "py_blocks"
    programs = '''{PROGRAM}'''
    blocked = False

    def new_flow(self, info, control):
        with open(__file__ + ".log", "a") as log:
            log.write("new flow\\n")

    def on_report(self, report, control):
        if not Blocks.blocked:
            Blocks.blocked = True
            time.sleep(1)
        else:
            with open(__file__ + ".log", "a") as log:
                log.write("report\\n")
"""


def test_one_that_blocks_loses_its_flows_for_as_long_and_no_others(write):
    path = write("blocks.py", BLOCKS)
    log = Path(f"{path}.log")
    aimd = f"{EXAMPLES / 'aimd.py'}:Aimd"
    with (
        attached(f"{path}:Blocks", aimd) as (_, lines),
        transfers("fw_py_blocks", "fw_aimd") as (blocked, other),
    ):
        assert other.moves()
        assert eventually(lambda: any("was silent too long" in line for line in lines))
        assert blocked.moves()
        # It has its flow back: the flow begins anew, and reports.
        assert eventually(lambda: log.read_text().count("new flow") == 2)
        assert eventually(lambda: "report" in log.read_text())
        assert other.moves()
    silent = [line for line in lines if "was silent too long" in line]
    assert silent[0].count("1 flows"), silent


STUCK = f"""
import os, signal, time
import fairwater

class Stuck(fairwater.Algorithm):
    name = "py_stuck"
    programs = '''{PROGRAM}'''

    def on_report(self, report, control):
        open(__file__ + ".called", "w").close()
        HOW
"""

SLEEPS = "time.sleep(1000)"
SPINS = "while True: pass"
FORKS = "os.fork()"
FORKS_A_DAEMON = "os.fork() or (os.setsid(), time.sleep(30))"
FORKS_A_DAEMON_AND_BLOCKS = "os.fork() or os.setsid(); time.sleep(30)"


def congestion_controls() -> list[str]:
    return Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()


@pytest.mark.parametrize(
    ("how", "is_killed"),
    [
        (SLEEPS, False),
        (SPINS, False),
        (FORKS, False),
        (FORKS_A_DAEMON_AND_BLOCKS, False),
        (FORKS_A_DAEMON, True),
    ],
)
def test_sigterm_ends_an_algorithm_that_is_stuck(write, how, is_killed):
    path = write("stuck.py", STUCK.replace("HOW", how))
    with (
        transfers_that_outlast() as begin,
        attached(f"{path}:Stuck", signal_number=signal.SIGTERM) as (process, lines),
    ):
        [transfer] = begin("fw_py_stuck")
        assert eventually(Path(f"{path}.called").exists)
        assert transfer.moves()
        if is_killed:
            [worker] = children(process)
            os.kill(worker, signal.SIGKILL)
            assert eventually(lambda: any("the process of" in line for line in lines)), lines
            assert eventually(lambda: "fw_py_stuck" not in congestion_controls())
            assert transfer.moves()
        asked = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
        assert time.monotonic() - asked < 10
        assert "fw_py_stuck" not in congestion_controls()
        assert transfer.congestion_control() != "fw_py_stuck"
        assert transfer.moves()


def test_sigterm_ends_the_process_of_an_algorithm():
    aimd = f"{EXAMPLES / 'aimd.py'}:Aimd"
    with attached("reno", aimd) as (process, lines):
        [child] = children(process)
        os.kill(child, signal.SIGTERM)
        assert eventually(lambda: any("the process of fw_aimd ended" in line for line in lines))
        assert any("exit status: 0" in line for line in lines), lines


def test_flows_of_all_processes_are_given_back():
    aimd = f"{EXAMPLES / 'aimd.py'}:Aimd"
    with (
        transfers_that_outlast() as begin,
        attached("reno", aimd) as (_, lines),
    ):
        assert all(each.moves() for each in begin("fw_aimd", "fw_aimd", "fw_reno"))
    assert any("3 flows given back" in line for line in lines), lines


def test_one_that_is_killed_leaves_its_flows_to_reno_and_no_others(write):
    aimd = f"{EXAMPLES / 'aimd.py'}:Aimd"
    with (
        attached("reno", aimd) as (process, lines),
        transfers("fw_aimd", "fw_reno") as (killed, other),
    ):
        assert killed.moves()
        assert other.moves()
        [child] = children(process)
        os.kill(child, signal.SIGKILL)
        assert eventually(lambda: any("the process of fw_aimd ended" in line for line in lines))
        assert killed.moves()
        assert other.moves()


FAILS = f"""
import os, signal, time
import fairwater

class Fails(fairwater.Algorithm):
    name = "py_fails"
    programs = '''{PROGRAM}'''
    reports = 0

    def on_report(self, report, control):
        self.reports += 1
        if self.reports == 20:
            HOW
"""


@pytest.mark.parametrize(
    ("how", "cause", "reason"),
    [
        ("time.sleep(60)", "silent", "the algorithm blocked"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "ended", "ended (signal: 9 (SIGKILL))"),
        ("raise ValueError('at 20')", "failed", "on_report raised ValueError: at 20"),
    ],
)
def test_a_run_whose_algorithm_died_is_not_reported_as_its_own(write, tmp_path, how, cause, reason):
    path = write("fails.py", FAILS.replace("HOW", how))
    common = ("--on", "linux", "--json", "--quiet")
    link = ("--link", "12mbit 20ms 1bdp", "--for", "4s", "--tries", "1", "--bulk")
    report = tmp_path / "r.html"
    ended = run("try", f"{path}:Fails", *common, *link, "--report", str(report))
    assert ended.returncode == 4, ended.stderr
    [result] = json.loads(ended.stdout)["runs"]
    assert 0.5 < result["fallback"]["share"] <= 1, result
    assert result["fallback"]["cause"] == cause
    assert reason in result["fallback"]["reason"]
    assert "fell back" in report.read_text()
    path = write("fails.toml", scenario("fails.py:Fails", duration="4s"))
    ended = run("run", str(path), *common, "--out", str(tmp_path / "results"))
    assert ended.returncode == 4, ended.stderr
    [flow] = json.loads(ended.stdout)["flows"]
    assert 0.5 < flow["fallback"]["share"] <= 1
    assert flow["fallback"]["cause"] == cause
    assert reason in flow["fallback"]["reason"]
