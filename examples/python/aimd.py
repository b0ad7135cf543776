"""Additive increase, multiplicative decrease: the algorithm of CCP §4.2.

fairwater try examples/python/aimd.py:Aimd --against kernel:reno
"""

import fairwater


class Aimd(fairwater.Algorithm):
    """Grows by one segment for each window acknowledged, halves on a loss."""

    programs = """
        (def (Report (volatile acked 0) (volatile lost 0)))
        (when true
          (:= Report.acked (+ Report.acked Ack.bytes_acked))
          (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
          (when (> Micros Flow.rtt_sample_us) (report) (reset)))"""

    def new_flow(self, info, control):
        self.mss = info.mss

    def on_report(self, report, control):
        if report.lost:
            control.set_cwnd(max(report.cwnd // 2, self.mss))
        else:
            control.set_cwnd(report.cwnd + report.acked * self.mss // report.cwnd)
