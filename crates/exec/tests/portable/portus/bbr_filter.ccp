(def (minrtt +infinity) (curr_btl_est 0))
(when true
  (:= minrtt (min minrtt Flow.rtt_sample_us))
  (:= curr_btl_est (max curr_btl_est Flow.rate_incoming))
  (fallthrough))
