"""A program with a fault, which docs/replay.md finds: after a timeout the window does not grow again.

fairwater record stuck.recording --run examples/python/stuck.toml
"""

import fairwater


class Stuck(fairwater.Algorithm):
    """Grows by one segment a round trip, halves on a loss, rests for two round trips after a timeout."""

    programs = """
        (def (Report (volatile acked 0) (volatile lost 0))
             (mss 1448) (halved_until 0) (rest_until 0))
        (when Flow.was_timeout
          (:= Cwnd (* 2 mss))
          (:= rest_until (+ Ack.now (* 2 Flow.rtt_sample_us)))
          (report))
        (when (&& (> Ack.lost_pkts_sample 0) (> Ack.now halved_until))
          (:= Cwnd (max (/ Cwnd 2) (* 2 mss)))
          (:= halved_until (+ Ack.now 40000))
          (fallthrough))
        (when (> Ack.now rest_until)
          (:= Cwnd (+ Cwnd (/ (* mss Ack.bytes_acked) Cwnd)))
          (fallthrough))
        (when true
          (:= Report.acked (+ Report.acked Ack.bytes_acked))
          (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
          (when (> Micros 100000) (report) (reset)))"""

    def new_flow(self, info, control):
        pass

    def on_report(self, report, control):
        pass
