# Adds up losses and reports them once per RTT; two names are misspelt.
(def (Report (volatile lost 0)))
(when true
  (:= Report.lots (+ Report.lost Ack.lost_pkts_sample))
  (when (> Micros Flow.rtt_sample) (report) (reset)))
