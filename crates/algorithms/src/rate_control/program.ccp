# The program of algorithms whose rate the plane sets: it counts, and runs slow start.

(const
  (report_us 10000)                  # between reports
  (target_us 12500))                 # queueing delay that ends slow start

# In bytes and microseconds, unless said otherwise.
(def
  (Report
    (volatile acked 0)             # newly delivered, in or out of order
    (volatile lost 0)
    (volatile timeout false)
    (volatile least_us +infinity)  # of the RTT samples
    (srtt_us 0)
    (in_flight 0)
    (sent 0)                       # rates of the datapath, bytes/s, of a bundle: over a round trip
    (received 0)
    (slow_start true))
  # Set by the plane:
  (mss 1448)
  (begins true)                    # false: the flow has left slow start under another control
  (bundle false)                   # the flow is the traffic between two sites
  # Kept by the program:
  (base_us +infinity)
  (lost_now 0)
  (sacked 0)                       # acknowledged out of order, not yet in order
  (repeated 0)                     # acknowledged in order, and out of order before
  (delivered 0))

(when true
  (:= lost_now (* mss Ack.lost_pkts_sample))
  (:= repeated (min sacked Ack.bytes_acked))
  (:= delivered (+ Ack.bytes_misordered (- Ack.bytes_acked repeated)))
  (:= sacked (+ (- sacked repeated) Ack.bytes_misordered))
  (:= Report.acked (+ Report.acked delivered))
  (:= Report.lost (+ Report.lost lost_now))
  (:= Report.in_flight Flow.bytes_in_flight)
  (fallthrough))

(when (&& (> (+ Ack.bytes_acked Ack.bytes_misordered) 0) (< Flow.rtt_sample_us +infinity))
  (:= Report.srtt_us (if (== Report.srtt_us 0) Flow.rtt_sample_us
                       (/ (+ (* 7 Report.srtt_us) Flow.rtt_sample_us) 8)))
  (:= base_us (min base_us Flow.rtt_sample_us))
  (:= Report.least_us (min Report.least_us Flow.rtt_sample_us)))

(when Flow.was_timeout
  (:= Report.timeout true)
  (:= Cwnd mss)
  (report))

(when bundle
  (:= Report.sent Flow.rate_outgoing)
  (:= Report.received Flow.rate_incoming)
  (fallthrough))

(when (! begins)
  (:= begins true)
  (:= Report.slow_start false))

(when Report.slow_start
  (if (> (* 2 (+ Flow.bytes_in_flight delivered)) Cwnd)
    (:= Cwnd (+ Cwnd delivered)))
  (when (|| (> lost_now 0) (> Report.least_us (+ base_us target_us)))
    (when (< Report.least_us +infinity)
      (:= Report.slow_start false)
      (report)
      (reset))))

(when (> Micros report_us)
  (report)
  (reset))
