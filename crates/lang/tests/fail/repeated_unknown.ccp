# An unknown name is reported once, however often it is used.
(when true
  (:= rtt_avg (+ rtt_avg Flow.rtt_sample_us))
  (:= Cwnd rtt_avg)
  (:= Rate rtt_avg))
