"""What the tests share."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "python"

PROGRAM = """
(def
  (Report (volatile acked 0) (volatile lost 0) (timeout false) (srtt +infinity))
  (gain 3)
  (probing true))
(when true
  (:= Report.acked (+ Report.acked Ack.bytes_acked))
  (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
  (when (> Micros Flow.rtt_sample_us) (report) (reset)))
"""
"""Reports each round trip; `timeout` and `srtt` never change."""


def scenario(algorithm: str, *, count: int = 1, duration: str = "2s", more: str = "") -> str:
    """A scenario with flows of `algorithm` on 12 Mbit/s and 20 ms."""
    return f"""
        duration = "{duration}"
        dumbbell = {{ rate = "12mbit", rtt = "20ms" }}
        flow = [{{ algorithm = "{algorithm}", count = {count} }}{more}]
    """


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run the command with these arguments to its end."""
    return subprocess.run(
        [sys.executable, "-m", "fairwater", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a file into a folder of the test's own; returns its path."""

    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return written


@pytest.fixture(scope="session")
def privileged() -> None:
    """Skip where this machine cannot run the Linux datapath; fail where it must."""
    doctor = run("doctor")
    if doctor.returncode == 0:
        return
    if os.environ.get("FAIRWATER_REQUIRE_PRIVILEGED") == "1":
        pytest.fail(f"FAIRWATER_REQUIRE_PRIVILEGED=1, but:\n{doctor.stdout}")
    pytest.skip(doctor.stdout)
