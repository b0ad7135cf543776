"""NewReno, as the reproduction of CCP had it (its §3.3 and Figure 11): one report each RTT.

fairwater try examples/python/newreno.py:NewReno --against kernel:reno --link "96mbit 20ms 1bdp"
"""

from typing import Annotated

import fairwater


class NewReno(fairwater.Algorithm):
    """Slow start and congestion avoidance of RFC 5681, one reduction per window of RFC 6582."""

    programs = """
        (def (Report
          (volatile acked 0)
          (volatile lost 0)
          (volatile timeout false)
          (volatile limited false)))   # cwnd is what held the flow back
        (when true
          (:= Report.acked (+ Report.acked Ack.bytes_acked))
          (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
          (:= Report.timeout (|| Report.timeout Flow.was_timeout))
          (:= Report.limited (|| Report.limited (> (* 2 Flow.bytes_in_flight) Cwnd)))
          (fallthrough))
        (when (|| (> Report.lost 0) Report.timeout) (report) (reset))
        (when (> Micros Flow.rtt_sample_us) (report) (reset))"""

    def __init__(self, beta: Annotated[float, fairwater.Range(0.1, 0.9)] = 0.5):
        self.beta = beta

    def new_flow(self, info, control):
        self.mss = info.mss
        self.ssthresh = fairwater.INFINITY
        self.recover = 0  # of the window that had a loss, still to be acknowledged, bytes

    def on_report(self, report, control):
        cwnd = report.cwnd
        self.recover = max(0, self.recover - report.acked)
        if report.timeout:
            # RFC 5681 §3.1: one segment, and slow start up to half of what was too much.
            self.ssthresh = max(cwnd * self.beta, 2 * self.mss)
            self.recover = 0
            control.set_cwnd(self.mss)
        elif self.recover:
            # RFC 6582 §3.2: what else is lost of the same window is no news.
            return
        elif report.lost:
            self.ssthresh = max(cwnd * self.beta, 2 * self.mss)
            self.recover = cwnd
            control.set_cwnd(self.ssthresh)
        elif report.limited and cwnd < self.ssthresh:
            control.set_cwnd(min(cwnd + report.acked, max(self.ssthresh, cwnd + self.mss)))
        elif report.limited:
            control.set_cwnd(cwnd + report.acked * self.mss / cwnd)
