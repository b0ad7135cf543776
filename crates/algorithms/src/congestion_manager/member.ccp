# The program of one member of an aggregate: it adds up what the inner algorithm's program would
# have seen. A constant for each signal that only some inner algorithms read says whether this one
# does, so that a datapath need not have more signals than that algorithm and the pool.

(const
  (reports_per_rtt 4)
  (reads_bytes_misordered false)
  (reads_ecn_bytes false)
  (reads_ecn_packets false)
  (reads_packets_acked false)
  (reads_packets_misordered false)
  (reads_bytes_pending false)
  (reads_packets_in_flight false)
  (reads_rate_incoming false)
  (reads_rate_outgoing false)
  (reads_app_limited false))

(def
  # Volatile: summed since the last report. The others are as at the last ACK.
  (Report
    (volatile bytes_acked 0)
    (when reads_bytes_misordered (volatile bytes_misordered 0))
    (when reads_ecn_bytes (volatile ecn_bytes 0))
    (when reads_ecn_packets (volatile ecn_packets 0))
    (volatile lost_pkts_sample 0)
    (when reads_packets_acked (volatile packets_acked 0))
    (when reads_packets_misordered (volatile packets_misordered 0))
    (bytes_in_flight 0)
    (when reads_bytes_pending (bytes_pending 0))
    (when reads_packets_in_flight (packets_in_flight 0))
    (when reads_rate_incoming (rate_incoming 0))
    (when reads_rate_outgoing (rate_outgoing 0))
    (rtt_sample_us +infinity)
    (volatile was_timeout false)
    (when reads_app_limited (app_limited false))
    (volatile acks 0)                # invocations
    (out 0)                          # in flight before the last ACK, bytes
    (volatile min_rtt_us +infinity)) # minimum RTT sample
  (mss 1448)                         # set by the plane
  (lost_us 0))                       # time of the last loss

(when true
  (:= Report.bytes_acked (+ Report.bytes_acked Ack.bytes_acked))
  (when reads_bytes_misordered
    (:= Report.bytes_misordered (+ Report.bytes_misordered Ack.bytes_misordered)))
  (when reads_ecn_bytes (:= Report.ecn_bytes (+ Report.ecn_bytes Ack.ecn_bytes)))
  (when reads_ecn_packets (:= Report.ecn_packets (+ Report.ecn_packets Ack.ecn_packets)))
  (:= Report.lost_pkts_sample (+ Report.lost_pkts_sample Ack.lost_pkts_sample))
  (when reads_packets_acked (:= Report.packets_acked (+ Report.packets_acked Ack.packets_acked)))
  (when reads_packets_misordered
    (:= Report.packets_misordered (+ Report.packets_misordered Ack.packets_misordered)))
  (:= Report.bytes_in_flight Flow.bytes_in_flight)
  (when reads_bytes_pending (:= Report.bytes_pending Flow.bytes_pending))
  (when reads_packets_in_flight (:= Report.packets_in_flight Flow.packets_in_flight))
  (when reads_rate_incoming (:= Report.rate_incoming Flow.rate_incoming))
  (when reads_rate_outgoing (:= Report.rate_outgoing Flow.rate_outgoing))
  (:= Report.rtt_sample_us Flow.rtt_sample_us)
  (when Flow.was_timeout (:= Report.was_timeout true))
  (when reads_app_limited (:= Report.app_limited Flow.app_limited))

  # Only the plane raises cwnd. Until its answer to a loss comes, the member sends one segment at
  # most, which repairs the loss.
  (when (> Ack.lost_pkts_sample 0)
    (:= lost_us Ack.now)
    (:= Cwnd (max mss (min Cwnd (+ Flow.bytes_in_flight mss)))))
  (:= Report.acks (+ Report.acks 1))
  (:= Report.out (max Flow.bytes_in_flight
    (min Cwnd (+ (+ Flow.bytes_in_flight Ack.bytes_acked) (* mss Ack.lost_pkts_sample)))))
  (:= Report.min_rtt_us (min Report.min_rtt_us Flow.rtt_sample_us))
  (fallthrough))

# After a timeout nothing is in flight any more: one segment (RFC 5681 3.1).
(when Flow.was_timeout
  (:= Cwnd mss)
  (report)
  (reset))

# For a round trip after a loss each ACK is reported: the window has to shrink with what arrives, or
# as much is lost again. That nothing is in flight is reported at once as well, since the next ACK may
# be long in coming.
(when (|| (|| (< (- Ack.now lost_us) Flow.rtt_sample_us) (== Flow.bytes_in_flight 0))
          (> Micros (/ Flow.rtt_sample_us reports_per_rtt)))
  (report)
  (reset))
