/* SPDX-License-Identifier: GPL-2.0 */
/* What a controlled guest has in flight, from the packets that pass: fairwater_edge's
 * `track/sender.rs`. All of it runs under the connection's lock. */
#pragma once

#include "samples.h"

#define DUP_THRESH 3 /* RFC 5681 §3.2, RFC 6675 §3 */

/* All up to `edge` that was not acknowledged is lost. */
static __always_inline void declare_lost(const struct connection *c, struct sender *s, u32 edge)
{
	u32 from = seq_max(s->lost_edge, c->una);

	if (!is_after(edge, from))
		return;
	u32 lost = missing(&s->sacked, from, edge);

	s->lost_edge = edge;
	s->lost += div_ceil(lost, s->mss);
	if (lost && !s->in_recovery) {
		s->in_recovery = true;
		s->recover = c->nxt;
	}
}

/* Bytes sent and neither acknowledged nor lost (RFC 6675 §4, pipe). */
static __always_inline u32 in_flight(const struct connection *c, const struct sender *s)
{
	u32 out = bytes_since(c->nxt, c->una), resent = 0, arrived;
	u64 gone;

	for (u32 i = 0; i < MAX_RANGES; i++) {
		if (i >= s->resent.count)
			break;
		resent += missing(&s->sacked, s->resent.of[i].start, s->resent.of[i].end);
	}
	if (s->sack) {
		arrived = total_of(&s->sacked);
	} else {
		u64 bytes = (u64)s->duplicates * s->mss;
		u32 most = bytes_since(c->nxt, seq_max(c->una, s->lost_edge));

		arrived = min(bytes, (u64)most);
	}
	gone = (u64)arrived + missing(&s->sacked, c->una, s->lost_edge);
	return (gone >= out ? 0 : out - (u32)gone) + resent;
}

/* [start, end), between una and nxt, was sent again. */
static __always_inline u32 sender_resent(struct connection *c, struct sender *s, struct packet *p, u32 start, u32 end)
{
	bool is_head = start == c->una, is_overtaken = false;
	bool is_due = is_head && overlap(&s->resent, start, start + 1) == 0 && is_after(s->lost_edge, start);
	u32 sent = SENT_AGAIN;

	for (u32 i = 0; i < MAX_RANGES; i++) {
		if (i >= s->sacked.count)
			break;
		is_overtaken |= !is_before(s->sacked.of[i].start, end);
	}
	is_overtaken = opaque(p, is_overtaken);
	is_head = opaque(p, is_head);
	is_due = opaque(p, is_due);
	if (is_head && !is_due && elapsed_ns(p->now_ns, s->timer_ns) >= rto_ns(s)) {
		/* RFC 5681 §3.1, RFC 6675 §5.1: all that is out counts as lost. */
		declare_lost(c, s, c->nxt);
		s->resent.count = 0;
		s->sample_count = 0;
		s->duplicates = 0;
		s->in_recovery = true;
		s->recover = c->nxt;
		sent = SENT_AFTER_TIMEOUT;
	} else if (is_overtaken) {
		/* The guest takes for lost what later data has overtaken, by whatever rule it has. */
		declare_lost(c, s, end);
	}
	if (is_head)
		s->timer_ns = p->now_ns;
	sample_resent(s, p, start, end);
	insert_range(p, &s->resent, start, end);
	return sent;
}

/* A packet from the guest; `edge` is the right edge of the window that the guest was told. */
static __always_inline u32 sender_sent(struct connection *c, struct sender *s, struct packet *p, u32 edge)
{
	u32 length = segment_length(p), start = p->seq, end = start + length, before = c->nxt;
	bool was_empty = c->nxt == c->una;
	u32 sent = SENT_NEW;

	if (length == 0 || !is_after(end, c->una))
		return NOTHING_SENT;
	if (is_before(start, before))
		sent = sender_resent(c, s, p, seq_max(start, c->una), seq_min(end, before));
	if (is_after(end, before)) {
		s->has_more = !(p->flags & PSH) && !(p->flags & FIN);
		s->room = bytes_since(edge, end);
		bool is_window_limited = s->room < s->mss;

		sample_sent(s, p, end, bytes_since(before, c->una), !s->has_more && !is_window_limited);
		c->nxt = end;
	}
	if (was_empty)
		s->timer_ns = p->now_ns;
	return sent;
}

static __always_inline void advance(struct connection *c, struct sender *s, struct packet *p, u32 ack, u32 advanced)
{
	u32 segments = div_ceil(advanced, s->mss);

	c->una = ack;
	s->timer_ns = p->now_ns;
	trim_before(p, &s->sacked, ack);
	trim_before(p, &s->resent, ack);
	s->lost_edge = seq_max(s->lost_edge, ack);
	/* Without SACK: of the segments acknowledged, all but the first had come as duplicates. */
	s->duplicates = saturating_sub(s->duplicates, saturating_sub(segments, 1));
	if (s->in_recovery && !is_before(ack, s->recover)) {
		s->in_recovery = false;
		s->duplicates = 0;
	}
}

/* Takes the blocks that make sense; how many bytes are new. */
static __always_inline u32 take_blocks(const struct connection *c, struct sender *s, struct packet *p)
{
	u32 ack = p->ack, out = bytes_since(c->nxt, ack), new = 0;

	if (!s->sack)
		return 0;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < 4; i++) {
		u32 start, last;

		if (i >= p->sack_count)
			break;
		start = p->sack[i & 3].start;
		last = p->sack[i & 3].end - 1;
		/* RFC 2883: what is below ack tells of a duplicate. */
		if (start != ack && last != ack && is_within(start, ack, out) && is_within(last, ack, out) &&
		    is_before(start, last + 1))
			new += insert_range(p, &s->sacked, start, last + 1);
		new = opaque(p, new);
	}
	return new;
}

static __always_inline void find_losses(const struct connection *c, struct sender *s, struct packet *p, u32 ack,
					u32 advanced)
{
	if (s->sack) {
		u32 above = 0, edge = 0;
		bool found = false;

		/* RFC 6675 §4, IsLost: more than (DupThresh - 1) segments SACKed above. */
		for (int i = MAX_RANGES - 1; i >= 0; i--) {
			if ((u32)i >= s->sacked.count)
				continue;
			above += bytes_since(s->sacked.of[i].end, s->sacked.of[i].start);
			if (above > (DUP_THRESH - 1) * s->mss) {
				found = true;
				edge = s->sacked.of[i].start;
				break;
			}
		}
		if (opaque(p, found))
			declare_lost(c, s, edge);
	} else if (s->in_recovery ? advanced > 0 : s->duplicates >= DUP_THRESH) {
		/* RFC 6582 §3.2, step 3: the next hole. */
		declare_lost(c, s, seq_min(ack + s->mss, c->nxt));
	}
}

/* An ACK from the peer; `has_same_window` says that its window is that of the ACK before. */
static __always_inline u32 sender_acked(struct connection *c, struct sender *s, struct frame *f, struct packet *p,
					bool has_same_window)
{
	u32 ack = p->ack, out = bytes_since(c->nxt, c->una), advanced = bytes_since(ack, c->una);
	u32 in_order, sacked, newly;
	u32 lost_before = s->lost;
	bool is_duplicate;

	if (is_after(ack, c->nxt))
		return ACK_BEYOND;
	if (is_before(ack, c->una))
		return ACK_OLD;
	in_order = missing(&s->sacked, c->una, ack);
	sacked = take_blocks(c, s, p);
	is_duplicate = opaque(p, advanced == 0 && out > 0 && segment_length(p) == 0 && has_same_window);
	if (advanced > 0)
		advance(c, s, p, ack, advanced);
	else if (is_duplicate && !s->sack)
		s->duplicates += 1;
	advanced = opaque(p, advanced);
	is_duplicate = opaque(p, is_duplicate);
	find_losses(c, s, p, ack, advanced);
	newly = in_order + sacked;
	is_duplicate = opaque(p, is_duplicate);
	if (is_duplicate && !s->sack) {
		newly += s->mss;
		s->sacked_bytes += s->mss;
	}
	/* Classic ECN does not tell how much was marked: all, as Linux takes it. */
	if (s->classic_ecn && (p->flags & ECE)) {
		s->marked_bytes += newly;
		s->marked_packets += div_ceil(newly, s->mss);
	}
	newly = opaque(p, newly);
	sample_acked(s, f, p, c->una, newly);
	sample_limit(c, s, out, newly);
	advanced = opaque(p, advanced);
	is_duplicate = opaque(p, is_duplicate);
	s->acked += advanced;
	s->acked_packets += div_ceil(in_order, s->mss);
	s->sacked_bytes += sacked;
	if (advanced > 0)
		return ACKED_NEW;
	return is_duplicate || sacked > 0 || s->lost > lost_before ? ACKED_DUPLICATE : ACKED_SAME;
}

/* The signals of an invocation; what happened since the last one is in them once. `edge` is the
 * right edge of the window that the guest was told. */
static __always_inline void take_signals(const struct connection *c, struct sender *s, struct frame *f, u64 now_ns,
					 u32 edge, bool is_timeout)
{
	u32 mss = s->mss, flight = in_flight(c, s);
	bool is_window_limited = bytes_since(edge, c->nxt) < mss;

	f->signals[BYTES_ACKED] = s->acked;
	f->signals[PACKETS_ACKED] = s->acked_packets;
	f->signals[BYTES_MISORDERED] = s->sacked_bytes;
	f->signals[PACKETS_MISORDERED] = div_ceil(s->sacked_bytes, mss);
	f->signals[ECN_BYTES] = s->marked_bytes;
	f->signals[ECN_PACKETS] = s->marked_packets;
	f->signals[LOST_PKTS] = s->lost;
	f->signals[BYTES_IN_FLIGHT] = flight;
	f->signals[PACKETS_IN_FLIGHT] = div_ceil(flight, mss);
	/* Nobody sees a guest's send buffer: one segment at least waits if the window holds it back,
	 * or if the last segment was not the end of a write and nothing shows that the guest holds itself back. */
	f->signals[BYTES_PENDING] =
		is_window_limited || (s->has_more && !has_stopped(s, bytes_since(c->nxt, c->una))) ? mss : 0;
	f->signals[WAS_TIMEOUT] = is_timeout;
	f->signals[NOW] = now_ns / 1000;
	s->acked = s->acked_packets = s->sacked_bytes = 0;
	s->marked_bytes = s->marked_packets = s->lost = 0;
}
