"""A program with a fault, which docs/replay.md finds: a window that a timeout ends for good.

fairwater record stuck.recording --run examples/python/stuck.toml
"""

import fairwater


class Stuck(fairwater.Algorithm):
    """Grows by one segment a round trip, halves on a loss, rests for 100 ms after a timeout."""

    programs = """
        (def (Report (volatile acked 0) (volatile lost 0))
             (mss 1448) (halved_until 0) (resting false))
        (when true
          (:= Report.acked (+ Report.acked Ack.bytes_acked))
          (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
          (fallthrough))
        (when Flow.was_timeout
          (:= Cwnd (* 2 mss))
          (:= resting true)
          (reset))
        (when (&& (> Ack.lost_pkts_sample 0) (> Ack.now halved_until))
          (:= Cwnd (max (/ Cwnd 2) (* 2 mss)))
          (:= halved_until (+ Ack.now 40000)))
        (when (! resting)
          (:= Cwnd (+ Cwnd (/ (* mss Ack.bytes_acked) Cwnd))))
        (when (> Micros 100000)
          (report)
          (reset))
        (when (&& resting (> Micros 100000))
          (:= resting false))"""

    def new_flow(self, info, control):
        pass

    def on_report(self, report, control):
        pass
