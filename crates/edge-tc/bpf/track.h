/* SPDX-License-Identifier: GPL-2.0 */
/* Packets of open connections: fairwater_edge's `track/flow.rs`. */
#pragma once

#include "enforce.h"
#include "lock.h"
#include "maps.h"
#include "sender.h"

/* What track() found. */
enum tracked {
	TRACKED,
	NO_CONNECTION,
	ANOTHER_OPENS, /* perhaps; nothing was done */
	BEYOND_WINDOW, /* the packet is to be dropped; nothing was done */
	NOT_LOCKED,    /* nothing was done, as the flow was locked for too long */
};

#define MAX_WINDOW (1u << 30) /* RFC 7323 §2.3 */

static __always_inline void set_bits(struct connection *c, u32 bits)
{
	if ((READ_ONCE(c->bits) & bits) != bits)
		__sync_fetch_and_or(&c->bits, bits);
}

static __always_inline void clear_bits(struct connection *c, u32 bits)
{
	if (READ_ONCE(c->bits) & bits)
		__sync_fetch_and_and(&c->bits, ~bits);
}

/* A reset that its receiver will not believe ends nothing (RFC 5961 §3.2). */
static __always_inline bool is_believed(const struct connection *c, const struct packet *p)
{
	u32 length;

	if (p->direction == TO_GUEST)
		return p->seq == c->guest_ack;
	length = bytes_since(seq_max(c->nxt, c->peer_edge), c->una);
	return is_within(p->seq, c->una, saturating_inc(length));
}

/* A packet from the guest of a connection that is measured only. */
static __always_inline u32 measure_sent(struct connection *c, const struct packet *p)
{
	u32 length = segment_length(p), end = p->seq + length;

	if (length == 0 || !is_after(end, c->una))
		return NOTHING_SENT;
	if (!is_after(end, c->nxt))
		return SENT_AGAIN;
	c->nxt = end;
	return SENT_NEW;
}

static __always_inline u32 on_sent(struct connection *c, struct controlled *more, struct packet *p)
{
	s32 span = (s32)(c->nxt - p->seq);

	if ((span < 0 ? -(u32)span : (u32)span) > MAX_WINDOW)
		return OUT_OF_WINDOW;
	/* The window of an old segment is out of date (RFC 9293 §3.10.7.4, SND.WL1 and SND.WL2). */
	if ((p->flags & ACK) && !is_before(p->ack, c->guest_ack) &&
	    bytes_since(p->ack, c->guest_ack) <= MAX_WINDOW) {
		u32 window = (u32)p->window << (c->guest_scale & 31);

		c->guest_ack = p->ack;
		c->guest_edge = seq_max(c->guest_edge, p->ack + window);
	}
	if (p->flags & FIN)
		set_bits(c, FIN_FROM_GUEST);
	c->seen_ns = p->now_ns;
	return more ? sender_sent(c, &more->sender, p, more->enforcement.told) : measure_sent(c, p);
}

/* An ACK of a connection that is measured only. */
static __always_inline u32 measure_acked(struct connection *c, const struct packet *p)
{
	u32 advanced = bytes_since(p->ack, c->una);

	if (is_after(p->ack, c->nxt))
		return ACK_BEYOND;
	if (is_before(p->ack, c->una))
		return ACK_OLD;
	c->una = p->ack;
	return advanced ? ACKED_NEW : ACKED_SAME;
}

static __always_inline u32 on_received(struct connection *c, struct controlled *more, struct frame *f,
				       struct packet *p)
{
	/* RFC 9293 §3.10.7.4: of a segment outside the window nothing counts, its ACK neither. What
	 * is a window old may still be a late packet. */
	u32 window = max(bytes_since(c->guest_edge, c->guest_ack), 1u);
	u32 from = c->guest_ack - max(window, 0xffffu);
	u32 span = max(bytes_since(c->guest_edge, from), 1u), una = c->una, event;

	if (!(c->bits & IS_MIDWAY) && !is_within(p->seq, from, saturating_inc(span)))
		return OUT_OF_WINDOW;
	if (p->flags & FIN)
		set_bits(c, FIN_TO_GUEST);
	c->seen_ns = p->now_ns;
	if (!(p->flags & ACK))
		return OTHER;
	event = more && f ? sender_acked(c, &more->sender, f, p, p->window == c->peer_field) :
			    measure_acked(c, p);
	if (event == ACK_BEYOND || event == ACK_OLD)
		return event;
	/* Whoever acknowledges new data was not reset: the reset was forged, or not believed. */
	if (c->una != una)
		clear_bits(c, IS_RESET);
	c->peer_field = p->window;
	c->peer_edge = p->ack + ((u32)p->window << (c->peer_scale & 31));
	return event;
}

/* Whether the packet is data of a guest beyond the window that it was told, and is policed. */
static __always_inline bool is_policed(const struct connection *c, const struct controlled *more,
				       const struct packet *p)
{
	return more && c->police && p->direction == FROM_GUEST && p->payload && !(p->flags & SYN) &&
	       is_beyond(&more->enforcement, p->seq, p->payload);
}

static __always_inline u32 track_packet(struct connection *c, struct controlled *more, struct frame *f,
					struct packet *p)
{
	if (p->flags & RST) {
		if (!is_believed(c, p))
			return RESET_OUT_OF_WINDOW;
		set_bits(c, IS_RESET);
		c->seen_ns = p->now_ns;
		return OTHER;
	}
	return p->direction == FROM_GUEST ? on_sent(c, more, p) : on_received(c, more, f, p);
}

#define CLAIM_LASTS 1000 /* 2^20 ns each */

/* A flow's program runs on one CPU at a time: whoever claims the flow runs it, others leave what they
 * counted to the next. A claim is the time, never 0. It ends by itself after a second: a process that
 * is killed may take the programs away between a flow's program and the one that enforces. */
static __always_inline bool is_claimed(const struct controlled *more, u32 now)
{
	return more->claim && (s32)(now - more->claim) < CLAIM_LASTS;
}

static __always_inline u32 claim_of(u64 now_ns)
{
	return (u32)(now_ns >> 20) | 1;
}

/* Whether programs hear of that. */
static __always_inline bool is_heard_of(u32 event)
{
	return event == ACKED_NEW || event == ACKED_DUPLICATE || event == SENT_AFTER_TIMEOUT;
}

static __always_inline bool is_ignored(u32 event)
{
	return event >= OUT_OF_WINDOW;
}

/* Whether what comes of a packet may depend on the time to the microsecond: where an RTT ends or a sample begins.
 * Else the clock of the tick does, which costs a fifth. */
static __always_inline bool needs_exact_time(const struct connection *c, const struct sender *s,
					     const struct packet *p)
{
	u32 nxt = c->nxt, taken = s->sample_count, end, spread;

	if (p->direction == TO_GUEST)
		return p->ack != c->una || p->payload == 0 || p->sack_count;
	end = p->seq + segment_length(p);
	if (end == p->seq)
		return false;
	if (nxt == c->una || is_before(p->seq, nxt) || taken == 0)
		return true;
	/* As sample_sent() decides. */
	spread = bytes_since(nxt, c->una) / MAX_SAMPLES;
	return taken < MAX_SAMPLES && bytes_since(end, SAMPLE(s, taken - 1).end) >= spread;
}

/* The packet at work is of a flow that an algorithm controls. */
static __always_inline int track_controlled(struct connection *c, struct packet *p)
{
	u32 slot = p->slot, generation = c->generation, may_open = p->may_open, event;
	struct controlled *more = bpf_map_lookup_elem(&fw_controlled, &slot);
	struct frame *f = bpf_map_lookup_elem(&fw_frames, &slot);
	bool is_exact;

	if (!more || !f)
		return NO_CONNECTION;
	p->generation = generation;
	if (!lock(more))
		return NOT_LOCKED;
	/* Another CPU has forgotten the connection meanwhile. */
	if (more->generation != generation) {
		unlock(more);
		return NO_CONNECTION;
	}
	if (may_open && is_policed(c, more, p)) {
		unlock(more);
		return BEYOND_WINDOW;
	}
	is_exact = needs_exact_time(c, &more->sender, p);
	p->now_ns = is_exact ? clock_ns() : coarse_clock_ns();
	p->event = track_packet(c, more, f, p);
	p->una = c->una;
	p->nxt = c->nxt;
	event = READ_ONCE(p->event);
	if (!(p->flags & SYN) && event < OTHER) {
		bool is_heard = is_heard_of(event);

		/* A program's clock does not go back. */
		if (is_heard && !is_exact)
			p->now_ns = clock_ns();
		u32 claim = claim_of(p->now_ns);

		if (is_heard && !is_claimed(more, claim)) {
			more->claim = p->claim = claim;
			p->is_invoked = true;
			take_signals(c, &more->sender, f, p->now_ns, more->enforcement.told,
				     event == SENT_AFTER_TIMEOUT);
		} else {
			enforce(&more->enforcement, p);
		}
	}
	unlock(more);
	return TRACKED;
}

/* Brings the packet's connection up to date; what it was is in the packet's `event`. If the flow's
 * program is to hear of it, and no other CPU is at that, the frame has the signals then, and the flow
 * is claimed; else what is rewritten is decided. */
__noinline int track(void)
{
	struct packet *p = packet_at_work();
	struct connection *c;

	if (!p)
		return NO_CONNECTION;
	p->is_invoked = p->is_rewritten = false;
	c = bpf_map_lookup_elem(&fw_connections, &p->key);
	if (!c)
		return NO_CONNECTION;
	/* While another connection opens on its ports, the numbers may be that one's. */
	if (p->may_open && (READ_ONCE(c->bits) & HAS_CANDIDATE))
		return ANOTHER_OPENS;
	p->slot = c->slot;
	if (p->slot != NO_SLOT)
		return track_controlled(c, p);
	/* Of connections that are measured only, the time serves to forget them. */
	p->now_ns = coarse_clock_ns();
	p->event = track_packet(c, NULL, NULL, p);
	return TRACKED;
}

static __always_inline void count_ignored(u32 event)
{
	count(IGNORED);
	if (event == RESET_OUT_OF_WINDOW)
		count(RESETS_IGNORED);
}
