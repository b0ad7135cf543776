# Careful Resume (RFC 9959): a flow's start on a path whose capacity an earlier flow observed. Slow
# start (RFC 5681 3.1) is the normal congestion control of Reconnaissance and Validating; the flow's
# algorithm takes over when `ended` is reported.
#
# TCP and QUIC number what they send in different ways, so packets are told apart by counting: all
# that is in flight at one moment is acknowledged, or lost, when that many bytes are.

# In bytes and microseconds, unless said otherwise.
(def
  (Report
    (phase 0)                      # 0 Reconnaissance, 1 Unvalidated, 2 Validating, 3 Safe Retreat, 4 Probing
    (ended 0)                      # why Careful Resume is over, 0 while it is not: see `Ended`
    (pipe 0)                       # PipeSize: the capacity that is validated
    (ssthresh 0)                   # of the normal congestion control, 0 for none
    (srtt_us 0))
  # Set by the plane:
  (mss 1448)
  (initial 14480)                  # the initial window
  (jump 0)                         # jump_cwnd
  (saved 0)                        # saved_cwnd
  (saved_rtt_us 0)
  # Kept by the program:
  (min_rtt_us +infinity)
  (sacked 0)                       # acknowledged out of order, not yet in order
  (repeated 0)                     # acknowledged in order, and out of order before
  (delivered 0)
  (congested false)
  (beyond false)                   # more was acknowledged than was in flight when the phase began
  (lost 0)
  (reconnoitred 0)                 # initial data that was acknowledged
  (left 0)                         # in flight when the phase began, not yet acknowledged or lost
  (since_us 0)                     # when the Unvalidated Phase began
  (round_us 0))                    # RTT then

(when true
  (:= repeated (min sacked Ack.bytes_acked))
  (:= delivered (+ Ack.bytes_misordered (- Ack.bytes_acked repeated)))
  (:= sacked (+ (- sacked repeated) Ack.bytes_misordered))
  (:= lost (* mss Ack.lost_pkts_sample))
  (:= congested (|| (> Ack.lost_pkts_sample 0) (> Ack.ecn_packets 0)))
  (when (< Flow.rtt_sample_us +infinity)
    (:= min_rtt_us (min min_rtt_us Flow.rtt_sample_us))
    (:= Report.srtt_us (if (== Report.srtt_us 0) Flow.rtt_sample_us
                         (/ (+ (* 7 Report.srtt_us) Flow.rtt_sample_us) 8))))
  (fallthrough))

# RFC 9959 3.6: a timeout ends Careful Resume. The loss window of RFC 5681 3.1.
(when (&& Flow.was_timeout (== Report.ended 0))
  (:= Report.ended 7)
  (:= Report.ssthresh (max (* 2 mss) (/ (+ Flow.bytes_in_flight lost) 2)))
  (:= Cwnd mss)
  (:= Rate 0)
  (report))

# It is over: the window stands still until the plane has switched to the algorithm.
(when (> Report.ended 0)
  (when (> Micros (max Report.srtt_us 1000))
    (report)
    (reset)))

(when (&& (== Report.ended 0) (== Report.phase 3))
  # 3.5: PipeSize counts on, the window does not grow. What was in flight is acknowledged, or lost.
  (:= Report.pipe (+ Report.pipe delivered))
  (:= left (- left (+ delivered lost)))
  # On leaving, ssthresh is at most PipeSize times Beta, 0.5.
  (when (== left 0)
    (:= Report.ended 6)
    (:= Report.ssthresh (max (* 2 mss) (/ Report.pipe 2)))
    (report)))

# The capacity is there again. Slow start would double the window once more before a full path tells: for
# two round trips the window grows by a quarter of that (as in RFC 9406 4.2). A path that is full has a queue
# then, and slow start is over; otherwise it goes on.
(when (&& (== Report.ended 0) (== Report.phase 4))
  (:= left (- left delivered))
  (if (> (* 2 (+ Flow.bytes_in_flight delivered)) Cwnd)
    (:= Cwnd (+ Cwnd (/ delivered 4))))
  (if (== left 0) (:= Report.ended 5))
  (if (> Report.srtt_us (+ min_rtt_us (max 4000 (/ min_rtt_us 8))))
    (:= Report.ended 8))
  (when congested
    (:= Report.ended 8)
    (:= Cwnd (max (* 2 mss) (/ Cwnd 2))))
  (if (== Report.ended 8) (:= Report.ssthresh Cwnd))
  (if (> Report.ended 0) (report)))

(when (&& (== Report.ended 0) (== Report.phase 2))
  # 3.4: the normal rules move the window, and PipeSize counts on.
  (:= Report.pipe (+ Report.pipe delivered))
  (:= left (- left delivered))
  (if (> (* 2 (+ Flow.bytes_in_flight delivered)) Cwnd)
    (:= Cwnd (+ Cwnd delivered)))
  (when (&& (! congested) (== left 0))
    (:= Report.phase 4)
    (:= left (* 2 Flow.bytes_in_flight))
    # What is short of the saved capacity, or soon found again, slow start may go on to find.
    (if (|| (< Cwnd (- saved (/ saved 4))) (< saved (* 32 initial)))
      (:= Report.ended 5))
    (report)))

(when (&& (== Report.ended 0) (== Report.phase 1))
  # 3.3: PipeSize counts what is acknowledged.
  (:= Report.pipe (+ Report.pipe delivered))
  (:= beyond (> delivered left))
  (:= left (- left delivered))
  # The window is used, an unvalidated packet is acknowledged, or a round trip is over.
  (when (&& (! congested)
            (|| (|| (> (+ Flow.bytes_in_flight mss) Cwnd) beyond)
                (> (- Ack.now since_us) round_us)))
    (:= Rate 0)
    (if (|| (< Flow.bytes_in_flight initial) (<= Flow.bytes_in_flight Report.pipe))
      (:= Report.ended 4))
    (if (> Report.ended 0)
      (:= Cwnd (min Cwnd (max initial Report.pipe)))
      (:= Cwnd (min Cwnd (max initial Flow.bytes_in_flight))))
    (:= left Flow.bytes_in_flight)
    (:= Report.phase 2)
    (report)))

# 3.3, 3.4: congestion, or a path whose RTT is another (4.2.1), leads to Safe Retreat (3.5): the window is
# half of PipeSize at most.
(when (&& (&& (== Report.ended 0) (|| (== Report.phase 1) (== Report.phase 2)))
          (|| congested (&& (== Report.phase 1) (<= min_rtt_us (/ saved_rtt_us 2)))))
  (:= Report.phase 3)
  (:= left Flow.bytes_in_flight)
  (:= Cwnd (max (* 2 mss) (min Cwnd (/ Report.pipe 2))))
  (:= Rate 0)
  (report))

(when (&& (== Report.ended 0) (== Report.phase 0))
  (:= reconnoitred (+ reconnoitred delivered))
  (when congested
    # 3.2: the normal response, which the algorithm does not see: half the window (RFC 5681 3.1).
    (:= Report.ended 1)
    (:= Cwnd (max (* 2 mss) (/ Cwnd 2)))
    (:= Report.ssthresh Cwnd)
    (report))
  (when (== Report.ended 0)
    (if (> (* 2 (+ Flow.bytes_in_flight delivered)) Cwnd)
      (:= Cwnd (+ Cwnd delivered))))
  # The initial data is acknowledged (3.2). A sender with less to send than the window stays (4.2). An RTT
  # that is an eighth longer than it was tells of a queue: the capacity is in use (4.2.1 leaves that open; as
  # RFC 9406 4.2 has it, at least 4 ms). This is well below ten times as long, another path's.
  (when (&& (&& (== Report.ended 0) (>= reconnoitred initial))
            (> (+ (+ Flow.bytes_in_flight delivered) (* 2 mss)) (/ Cwnd 2)))
    (if (|| (<= min_rtt_us (/ saved_rtt_us 2)) (> min_rtt_us (+ saved_rtt_us (max 4000 (/ saved_rtt_us 8)))))
      (:= Report.ended 2)
      (if (<= jump Cwnd) (:= Report.ended 3)))
    (when (== Report.ended 0)
      (:= Report.phase 1)
      (:= Report.pipe Flow.bytes_in_flight)
      (:= left Flow.bytes_in_flight)
      (:= since_us Ack.now)
      (:= round_us Flow.rtt_sample_us)
      (:= Cwnd jump)
      # Paced by the present RTT, whatever was saved (3.3, 4.3.2).
      (:= Rate (min 1000000000000 (max 1 (/ (* jump 1000000) Flow.rtt_sample_us)))))
    (report)))

(when (> Micros (max Report.srtt_us 1000))
  (report)
  (reset))
