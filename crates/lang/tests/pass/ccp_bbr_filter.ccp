# CCP §4.3, first excerpt: BBR's filters. The `def` block is not in print.
(def (minrtt +infinity) (curr_btl_est 0))
(when true
  (:= minrtt (min minrtt Ack.rtt_sample_us))
  (:= curr_btl_est (max curr_btl_est Flow.rate_incoming))
  (fallthrough))
