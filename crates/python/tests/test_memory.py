"""Reports leave no memory behind."""

import gc
import sys

import pytest
from conftest import PROGRAM, scenario

import fairwater


class Busy(fairwater.Algorithm):
    """Uses all there is of a report and a control."""

    programs = PROGRAM

    def new_flow(self, info, control):
        self.address = info.remote

    def on_report(self, report, control):
        control.set_cwnd(report.cwnd + report.acked)
        control.set_rate(report.acked * 1000)
        control.update(gain=report.lost % 7, probing=report.timeout)
        if report["acked"] % 5 == 0:
            control.switch(report.program)
        assert not hasattr(report, "missing")


def blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.parametrize("flows", [1, 50])
def test_reports_leave_no_objects_behind(flows):
    fairwater.speed(Busy, reports=5_000, flows=flows)
    before = blocks()
    fairwater.speed(Busy, reports=100_000, flows=flows)
    assert blocks() - before < 500


def test_flows_and_what_they_raise_leave_no_objects_behind():
    class Raises(Busy):
        def on_report(self, report, control):
            raise RuntimeError(report.time_us)

    text = scenario("raises", count=20, duration="200ms")
    algorithms = {"raises": Raises}

    def fail(times: int) -> None:
        for _ in range(times):
            fairwater.simulate(text, algorithms=algorithms)

    # The interpreter's own free lists fill during the first hundreds of exceptions.
    fail(40)
    before = blocks()
    fail(40)
    # Less than one object for each flow whose algorithm raised.
    assert blocks() - before < 40 * 20
