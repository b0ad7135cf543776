# Sums up what happened, and reports once in a smoothed round-trip time, at most each 5 ms, and at
# a retransmission timeout.
(def
  (Report
    (volatile delivered 0)     # bytes that arrived
    (volatile lost 0)          # packets
    (volatile rtt_sum 0)       # microseconds, over the RTT samples
    (volatile rtt_samples 0)
    (volatile timeouts 0)
    (volatile elapsed 0)       # microseconds since the report before
    (min_rtt +infinity))       # microseconds, since the connection began
  (sacked 0)                   # bytes that arrived out of order, and are not acknowledged in order
  (srtt 0))
(when (< Flow.rtt_sample_us +infinity)
  (:= srtt (ewma 8 Flow.rtt_sample_us))
  (:= Report.min_rtt (min Report.min_rtt Flow.rtt_sample_us))
  (:= Report.rtt_sum (+ Report.rtt_sum Flow.rtt_sample_us))
  (:= Report.rtt_samples (+ Report.rtt_samples 1))
  (fallthrough))
(when true
  # A cumulative ACK over what was SACKed before does not count that again.
  (:= Report.delivered
    (+ Report.delivered (+ (- Ack.bytes_acked sacked) Ack.bytes_misordered)))
  (:= sacked (+ (- sacked Ack.bytes_acked) Ack.bytes_misordered))
  (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
  (:= Report.elapsed Micros)
  (fallthrough))
# RFC 5681 §3.1 goes down to one segment, since what is in flight is taken to be gone. Half is left
# to the policy, which hears of it at once.
(when Flow.was_timeout
  (:= Report.timeouts (+ Report.timeouts 1))
  (:= sacked 0)
  (:= Cwnd (max 1 (/ Cwnd 2)))
  (report)
  (reset))
(when (&& (> Micros srtt) (> Micros 5000))
  (report)
  (reset))
