//! 32-bit sequence numbers and clocks of the wire, and the 64-bit offsets and times inside.

use fairwater_net::Time;
use fairwater_wire::Seq;

/// One direction's numbers: offset 0 is the first byte after the SYN.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offsets {
    /// Number of the SYN.
    isn: Seq,
}

impl Offsets {
    pub(crate) const fn new(isn: Seq) -> Self {
        Self { isn }
    }

    /// Number of an offset.
    #[expect(clippy::cast_possible_truncation, reason = "modulo 2³²")]
    pub(crate) const fn seq(self, offset: u64) -> Seq {
        self.isn.plus(1).plus(offset as u32)
    }

    /// The offset of a number that is less than 2³¹ from `near`; negative before the first byte.
    pub(crate) const fn offset(self, seq: Seq, near: u64) -> i64 {
        near as i64 + seq.distance_from(self.seq(near)) as i64
    }
}

/// Nanoseconds of a tick of TSval, as a shift: 16.4 µs. A clock that is finer than RFC 7323 §5.4's millisecond tells
/// transmissions apart on short paths, and its sign lasts 9.8 h, far longer than a segment lives.
const TICK_SHIFT: u32 = 14;

/// The clock of this end's timestamps (RFC 7323 §3).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    offset: u32,
}

impl Clock {
    pub(crate) const fn new(offset: u32) -> Self {
        Self { offset }
    }

    /// TSval now.
    #[expect(clippy::cast_possible_truncation, reason = "modulo 2³²")]
    pub(crate) const fn value(self, now: Time) -> u32 {
        ((now.as_nanos() >> TICK_SHIFT) as u32).wrapping_add(self.offset)
    }

    /// The latest time at which an echoed value can have been sent; `None` if it lies in the future.
    pub(crate) fn sent_at(self, echo: u32, now: Time) -> Option<Time> {
        let age = self.value(now).wrapping_sub(echo);
        if age >= 1 << 31 {
            return None;
        }
        let tick = (now.as_nanos() >> TICK_SHIFT).checked_sub(u64::from(age))?;
        let end = ((tick + 1) << TICK_SHIFT) - 1;
        Some(Time::from_nanos(end).min(now))
    }
}

/// The peer's clock: TS.Recent (RFC 7323 §4.3), without end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerClock {
    recent: u64,
    at: Time,
}

/// How long TS.Recent says something (RFC 7323 §5.5).
const OUTDATED_SECS: u64 = 24 * 24 * 60 * 60;

impl PeerClock {
    pub(crate) const fn new(value: u32, now: Time) -> Self {
        // Far enough from 0 that no earlier value is negative.
        let recent = (1 << 32) + value as u64;
        Self { recent, at: now }
    }

    /// TSecr.
    #[expect(clippy::cast_possible_truncation, reason = "modulo 2³²")]
    pub(crate) const fn echo(self) -> u32 {
        self.recent as u32
    }

    /// A TSval without end; `None` if it is too old (RFC 7323 §5.3, R1).
    pub(crate) fn unwrap(self, value: u32, now: Time) -> Option<u64> {
        let ahead = value.wrapping_sub(self.echo()).cast_signed();
        if ahead >= 0 {
            return Some(self.recent + u64::from(ahead.cast_unsigned()));
        }
        let is_outdated = now.since(self.at).as_secs() > OUTDATED_SECS;
        is_outdated.then(|| self.recent + u64::from(value.wrapping_sub(self.echo())))
    }

    /// RFC 7323 §4.3: a segment that continues what was acknowledged brings a clock.
    pub(crate) fn update(&mut self, value: u64, now: Time) {
        self.recent = self.recent.max(value);
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_go_on_where_numbers_wrap() {
        let offsets = Offsets::new(Seq(u32::MAX - 1));
        assert_eq!(offsets.seq(0), Seq(u32::MAX));
        assert_eq!(offsets.seq(1), Seq(0));
        assert_eq!(offsets.offset(Seq(0), 0), 1);
        assert_eq!(offsets.offset(Seq(u32::MAX - 1), 0), -1);
        let far = 3 * (1 << 32) + 17;
        assert_eq!(offsets.offset(offsets.seq(far), far - 1000), far as i64);
        assert_eq!(offsets.offset(offsets.seq(far - 9), far), far as i64 - 9);
    }

    #[test]
    fn an_echo_is_never_taken_for_later_than_now_nor_earlier_than_it_was_sent() {
        let clock = Clock::new(u32::MAX - 5);
        for sent in [0, 1, 16_383, 16_384, 70_000, 1 << 47] {
            let sent = Time::from_nanos(sent);
            for later in [0, 5, 20_000, 1_000_000_000] {
                let now = sent.plus_nanos(later);
                let at = clock.sent_at(clock.value(sent), now).expect("in the past");
                assert!(sent <= at && at <= now, "{sent:?} {at:?} {now:?}");
                assert!(at.since(sent).as_nanos() < 1 << TICK_SHIFT);
            }
        }
        let now = Time::from_millis(5);
        assert_eq!(clock.sent_at(clock.value(now).wrapping_add(1), now), None);
    }

    #[test]
    fn an_old_clock_is_refused_until_the_recent_one_is_outdated() {
        let begin = Time::from_millis(1);
        let mut peer = PeerClock::new(u32::MAX, begin);
        let next = peer.unwrap(3, begin).expect("it has wrapped");
        peer.update(next, begin);
        assert_eq!(peer.echo(), 3);
        assert_eq!(peer.unwrap(u32::MAX, begin), None);
        let days = begin + std::time::Duration::from_secs(OUTDATED_SECS + 1);
        assert!(
            peer.unwrap(u32::MAX, days)
                .is_some_and(|value| value > next)
        );
    }
}
