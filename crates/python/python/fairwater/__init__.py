"""Fairwater from Python: write a congestion control algorithm, simulate it, put it on real TCP.

An algorithm is a class; each of its instances is one flow:

    import fairwater

    class Aimd(fairwater.Algorithm):
        programs = '''
            (def (Report (volatile acked 0) (volatile lost 0)))
            (when true
              (:= Report.acked (+ Report.acked Ack.bytes_acked))
              (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
              (when (> Micros Flow.rtt_sample_us) (report) (reset)))'''

        def new_flow(self, info, control):
            self.mss = info.mss

        def on_report(self, report, control):
            if report.lost:
                control.set_cwnd(max(report.cwnd // 2, self.mss))
            else:
                control.set_cwnd(report.cwnd + report.acked * self.mss // report.cwnd)

`docs/python.md` of the project is the guide; the command is `fairwater`, or
`python -m fairwater`.
"""

from fairwater import _fork, plot  # noqa: F401 (it registers what is done at a fork)
from fairwater._algorithm import INFINITY, MAX_RATE, Algorithm
from fairwater._attach import attach
from fairwater._fairwater import Control, FlowInfo, Report, __version__
from fairwater._parameters import AlgorithmError, Range
from fairwater._simulate import FallbackWarning, Notice, Results, simulate
from fairwater._speed import Speed, speed
from fairwater._sweep import sweep

__all__ = [
    "INFINITY",
    "MAX_RATE",
    "Algorithm",
    "AlgorithmError",
    "Control",
    "FallbackWarning",
    "FlowInfo",
    "Notice",
    "Range",
    "Report",
    "Results",
    "Speed",
    "__version__",
    "attach",
    "plot",
    "simulate",
    "speed",
    "sweep",
]
