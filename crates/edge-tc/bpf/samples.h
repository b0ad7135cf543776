/* SPDX-License-Identifier: GPL-2.0 */
/* RTT and delivery-rate samples of some of the packets in flight: fairwater_edge's
 * `track/samples.rs` and `track/rtt.rs`. */
#pragma once

#include "packet.h"
#include "ranges.h"

_Static_assert((MAX_SAMPLES & (MAX_SAMPLES - 1)) == 0, "masked indices");
#define SAMPLE(s, at) ((s)->samples[(at) & (MAX_SAMPLES - 1)])

#define NS_PER_SECOND 1000000000ull
#define MIN_RTO_NS (200 * 1000000ull) /* Linux's TCP_RTO_MIN */
#define FIRST_RTO_NS NS_PER_SECOND    /* RFC 6298 §2.1 */

/* Nanoseconds between times of which 48 bits are known; 0 if the second is the later one. */
static __always_inline u64 elapsed48_ns(u64 later, u64 earlier)
{
	s64 difference = (later - earlier) << 16;

	return difference > 0 ? (u64)difference >> 16 : 0;
}

static __always_inline u64 sent_ns(const struct sample *sample)
{
	return (u64)sample->sent_high << 32 | sample->sent;
}

static __always_inline u64 delivered_ns(const struct sample *sample)
{
	return (u64)sample->delivered_at_high << 32 | sample->delivered_at;
}

static __always_inline u64 first_sent_ns(const struct sample *sample)
{
	return (u64)sample->first_sent_high << 32 | sample->first_sent;
}

/* RFC 6298 §2.2 and §2.3. */
static __always_inline void take_rtt(struct sender *s, u64 rtt)
{
	if (s->srtt_ns == 0) {
		s->srtt_ns = rtt;
		s->variation_ns = rtt / 2;
		s->min_rtt_ns = rtt;
		return;
	}
	u64 difference = s->srtt_ns > rtt ? s->srtt_ns - rtt : rtt - s->srtt_ns;

	s->min_rtt_ns = min(s->min_rtt_ns, rtt);
	s->variation_ns = s->variation_ns - s->variation_ns / 4 + difference / 4;
	s->srtt_ns = s->srtt_ns - s->srtt_ns / 8 + rtt / 8;
}

/* The guest's retransmission timeout, as far as it can be known. */
static __always_inline u64 rto_ns(const struct sender *s)
{
	u64 rto = s->srtt_ns + 4 * s->variation_ns;

	return s->srtt_ns == 0 ? FIRST_RTO_NS : max(rto, MIN_RTO_NS);
}

/* A packet of new data ends at `end`; `in_flight` bytes were out before it. */
static __always_inline void sample_sent(struct sender *s, const struct packet *p, u32 end, u32 in_flight,
					bool app_limited)
{
	u32 taken = s->sample_count;

	if (in_flight == 0) {
		s->delivered_ns = p->now_ns;
		s->first_end = end;
		s->first_sent_ns = p->now_ns;
	}
	if (taken >= MAX_SAMPLES)
		return;
	/* Spread: at least a slot's share of the window behind the last. */
	if (taken && bytes_since(end, SAMPLE(s, taken - 1).end) < in_flight / MAX_SAMPLES)
		return;
	struct sample *into = &SAMPLE(s, taken);

	into->end = end;
	into->sent = p->now_ns;
	into->sent_high = p->now_ns >> 32;
	into->tsval = p->tsval;
	into->bits = (p->options & OPTION_TIMESTAMPS ? HAS_TSVAL : 0) |
		     (app_limited || s->limited_left ? APP_LIMITED_SAMPLE : 0);
	into->delivered = s->delivered;
	into->delivered_at = s->delivered_ns;
	into->delivered_at_high = s->delivered_ns >> 32;
	into->first_end = s->first_end;
	into->first_sent = s->first_sent_ns;
	into->first_sent_high = s->first_sent_ns >> 32;
	s->sample_count = taken + 1;
}

/* Whether the guest has stopped with room left in its window, where `out` bytes are out. Less room than the samples are
 * apart does not tell: a packet of a burst may be behind an ACK by chance. */
static __always_inline bool has_stopped(const struct sender *s, u32 out)
{
	return s->room >= max(s->mss, out / MAX_SAMPLES);
}

/* An ACK came: where the guest had stopped, what it sends until the bytes that are out are delivered says nothing of
 * the path (§3.4, C.app_limited). `out` bytes were out before the ACK. */
static __always_inline void sample_limit(const struct connection *c, struct sender *s, u32 out, u32 newly)
{
	s->limited_left -= min(s->limited_left, newly);
	if (newly > 0 && has_stopped(s, out))
		s->limited_left = bytes_since(c->nxt, c->una);
}

/* [start, end) was sent again. */
static __always_inline void sample_resent(struct sender *s, const struct packet *p, u32 start, u32 end)
{
	bool has_tsval = p->options & OPTION_TIMESTAMPS;

	for (u32 i = 0; i < MAX_SAMPLES; i++) {
		struct sample *sample = &s->samples[i];

		if (i >= s->sample_count)
			break;
		if (!is_within(sample->end - 1, start, bytes_since(end, start)))
			continue;
		/* RFC 7323 §4.1: TSecr tells the two apart, if the clock has moved in between. */
		if (!(has_tsval && (sample->bits & HAS_TSVAL) && sample->tsval != p->tsval))
			sample->bits |= IS_AMBIGUOUS;
		sample->bits |= APP_LIMITED_SAMPLE;
	}
}

/* A rate, of a flow that uses its own window and not a part of its group's (fairwater-edge's `Portion::as_own`). */
static __always_inline u64 rate_as_own(const struct frame *f, u64 rate)
{
	u64 part = min(READ_ONCE(f->stage.part), 0xffffffffull);
	u64 window = min(READ_ONCE(f->stage.part_of), 0xffffffffull);

	if (!part || !window)
		return rate;
	return rate > 0xffffffffull ? (min(rate >> 8, 0xffffffffull) * window / part) << 8 : rate * window / part;
}

static __always_inline void set_rate(struct frame *f, u32 signal, u64 bytes, u64 ns)
{
	if (ns)
		f->signals[signal] =
			rate_as_own(f, (bytes > ~0ull / NS_PER_SECOND ? ~0ull : bytes * NS_PER_SECOND) / ns);
}

/* What the newest of the packets that an ACK delivers says of the path (§3.3 of
 * draft-cheng-iccrg-delivery-rate-estimation). */
static __always_inline void take_rates(struct sender *s, struct frame *f, const struct packet *p)
{
	const struct sample *newest = &p->newest;
	u64 send_ns = elapsed48_ns(sent_ns(newest), first_sent_ns(newest));
	u64 ack_ns = elapsed48_ns(p->now_ns, delivered_ns(newest));

	f->signals[APP_LIMITED] = !!(newest->bits & APP_LIMITED_SAMPLE);
	/* What took less than the least RTT is an artefact. */
	if (max(send_ns, ack_ns) < s->min_rtt_ns)
		return;
	set_rate(f, RATE_INCOMING, s->delivered - newest->delivered, ack_ns);
	set_rate(f, RATE_OUTGOING, bytes_since(newest->end, newest->first_end), send_ns);
}

/* An ACK that delivers `newly` bytes, after `una` and the SACKed ranges were brought up to date. */
static __always_inline void sample_acked(struct sender *s, struct frame *f, struct packet *p, u32 una, u32 newly)
{
	bool found = false, has_rtt = false;
	u64 rtt = 0;

	if (newly == 0)
		return;
	s->delivered += newly;
	s->delivered_ns = p->now_ns;
	WRITE_ONCE(p->kept, 0);
	for (u32 i = 0; i < MAX_SAMPLES; i++) {
		struct sample *sample = &s->samples[i];
		u32 last;

		if (i >= s->sample_count)
			break;
		last = sample->end - 1;
		if (is_before(last, una) || overlap(&s->sacked, last, last + 1) > 0) {
			bool is_later = (p->options & OPTION_TIMESTAMPS) && (sample->bits & HAS_TSVAL) &&
					is_after(p->tsecr, sample->tsval);

			p->newest = *sample;
			found = true;
			if (!(sample->bits & IS_AMBIGUOUS) && !is_later) {
				rtt = elapsed48_ns(p->now_ns, sent_ns(sample));
				has_rtt = true;
			}
		} else {
			u32 kept = READ_ONCE(p->kept);

			if (kept != i)
				SAMPLE(s, kept) = *sample;
			WRITE_ONCE(p->kept, kept + 1);
		}
	}
	s->sample_count = p->kept;
	if (!opaque(p, found))
		return;
	has_rtt = opaque(p, has_rtt);
	s->first_sent_ns = sent_ns(&p->newest);
	s->first_end = p->newest.end;
	if (has_rtt) {
		take_rtt(s, rtt);
		f->signals[RTT_SAMPLE_US] = rtt / 1000;
	}
	take_rates(s, f, p);
}
