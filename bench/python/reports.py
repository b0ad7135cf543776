"""How fast reports go through algorithms in Python, and what memory ten million of them take.

make bench-python
"""

import gc
import resource
import statistics
import sys
from pathlib import Path

import fairwater

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "python"))

from aimd import Aimd
from newreno import NewReno

RUNS = 7
REPORTS = 1_000_000
MANY = 10_000_000


class Nothing(fairwater.Algorithm):
    """What a call costs that does nothing."""

    programs = Aimd.programs

    def on_report(self, report, control):
        pass


def resident_kib() -> int:
    """Memory that this process has now, KiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


def main() -> None:
    print(f"{'algorithm':10} {'flows':>6} {'reports/s':>12} {'least':>12} {'most':>12}")
    for algorithm in (Nothing, Aimd, NewReno):
        for flows in (1, 64):
            rates = [
                fairwater.speed(algorithm, reports=REPORTS, flows=flows).reports_per_s
                for _ in range(RUNS)
            ]
            middle = statistics.median(rates)
            print(
                f"{algorithm.__name__:10} {flows:6} {middle:12,.0f} "
                f"{min(rates):12,.0f} {max(rates):12,.0f}"
            )
    gc.collect()
    before, blocks = resident_kib(), sys.getallocatedblocks()
    fairwater.speed(Aimd, reports=MANY)
    gc.collect()
    print(
        f"{MANY:,} reports: {resident_kib() - before} KiB more resident, "
        f"{sys.getallocatedblocks() - blocks} more blocks of Python's"
    )


if __name__ == "__main__":
    main()
