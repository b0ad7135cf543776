//! One reduction a window of data, which Reno and CUBIC share.

use fairwater_lang::Signal;

use super::Path;

/// An episode of congestion: the window of data in which cwnd was reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Episode {
    /// Bytes still to be acknowledged of the window in which cwnd was last reduced.
    recover: u64,
    /// The last reduction was a retransmission timeout's.
    timed_out: bool,
}

/// What an invocation means for the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Response {
    /// A retransmission timeout: the loss window, and this slow start threshold, bytes.
    Timeout { ssthresh: u64 },
    /// The first loss or mark of a window: a reduction to this threshold, bytes.
    Reduce { ssthresh: u64 },
    /// cwnd stays.
    Hold,
    /// cwnd may grow for so many bytes acknowledged.
    Grow { acked: u64 },
}

impl Episode {
    /// No congestion yet.
    pub(super) const NONE: Self = Self {
        recover: 0,
        timed_out: false,
    };

    /// Judges an invocation under this cwnd and slow start threshold, bytes. `reduced` is the new
    /// threshold for a FlightSize, both in bytes.
    pub(super) fn respond(
        &mut self,
        (cwnd, ssthresh): (u64, u64),
        path: &Path<'_>,
        reduced: impl Fn(u64) -> u64,
    ) -> Response {
        let acked = path.signal(Signal::BytesAcked);
        // The threshold is at least 2 segments (RFC 5681 §3.1 eq. 4, RFC 9438 §4.6).
        let reduced = |flight| reduced(flight).max(path.mss.saturating_mul(2));
        if path.is_timeout() {
            let ssthresh = self.time_out(ssthresh, path.flight(cwnd), reduced);
            return Response::Timeout { ssthresh };
        }
        if path.signal(Signal::Undo) != 0 {
            // The reduction was for a spurious loss, and the transport took it back.
            *self = Self::NONE;
        }
        // Congestion counts once per window of data (RFC 5681 §3.2, RFC 3168 §6.1.2).
        if self.recover == 0 && path.is_congested() {
            let flight = path.flight(cwnd);
            self.recover = flight;
            self.timed_out = false;
            let ssthresh = reduced(flight);
            return Response::Reduce { ssthresh };
        }
        let recovering = self.recover > 0 && !self.timed_out;
        self.recover = self.recover.saturating_sub(acked);
        if recovering || acked == 0 || path.is_limited_by_application(cwnd) {
            return Response::Hold;
        }
        Response::Grow { acked }
    }

    /// The slow start threshold after a timeout (RFC 5681 §3.1, RFC 9438 §4.8): it is held when the
    /// same window timed out before, and not raised when that window was reduced for already.
    fn time_out(&mut self, ssthresh: u64, flight: u64, reduced: impl Fn(u64) -> u64) -> u64 {
        let in_episode = self.recover > 0;
        if self.timed_out && in_episode {
            return ssthresh;
        }
        self.recover = flight;
        self.timed_out = true;
        match in_episode {
            true => ssthresh.min(reduced(flight)),
            false => reduced(flight),
        }
    }
}
