/* SPDX-License-Identifier: GPL-2.0 */
/* Packets of open connections: fairwater_edge's `track/flow.rs`. */
#pragma once

#include "maps.h"
#include "sender.h"
#include "window.h"

/* What track() found. */
enum tracked {
	TRACKED,
	NO_CONNECTION,
	ANOTHER_OPENS, /* perhaps; nothing was done */
	BEYOND_WINDOW, /* the packet is to be dropped; nothing was done */
};

#define MAX_WINDOW (1u << 30) /* RFC 7323 §2.3 */

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
		c->bits |= FIN_FROM_GUEST;
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
		c->bits |= FIN_TO_GUEST;
	c->seen_ns = p->now_ns;
	if (!(p->flags & ACK))
		return OTHER;
	event = more && f ? sender_acked(c, &more->sender, f, p, p->window == c->peer_field) :
			    measure_acked(c, p);
	if (event == ACK_BEYOND || event == ACK_OLD)
		return event;
	/* Whoever acknowledges new data was not reset: the reset was forged, or not believed. */
	if (c->una != una)
		c->bits &= ~IS_RESET;
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

static __always_inline u32 track_locked(struct connection *c, struct controlled *more, struct frame *f,
					struct packet *p)
{
	if (p->flags & RST) {
		if (!is_believed(c, p))
			return RESET_OUT_OF_WINDOW;
		c->bits |= IS_RESET;
		c->seen_ns = p->now_ns;
		return OTHER;
	}
	return p->direction == FROM_GUEST ? on_sent(c, more, p) : on_received(c, more, f, p);
}

#define CLAIM_LASTS 1000 /* 2^20 ns each */

/* A flow's program runs on one CPU at a time: whoever claims the flow runs it, others leave what they
 * counted to the next. A claim is the time, never 0. It ends by itself after a second: a process that
 * is killed may take the programs away between a flow's program and the one that enforces. */
static __always_inline bool claim(struct controlled *more, u64 now_ns)
{
	u32 now = (u32)(now_ns >> 20) | 1, before = READ_ONCE(more->is_claimed);

	if (before && (s32)(now - before) < CLAIM_LASTS)
		return false;
	return __sync_val_compare_and_swap(&more->is_claimed, before, now) == before;
}

static __always_inline void end_claim(struct controlled *more)
{
	WRITE_ONCE(more->is_claimed, 0);
}

/* Whether programs hear of that. */
static __always_inline bool is_heard_of(u32 event)
{
	return event == ACKED_NEW || event == ACKED_DUPLICATE || event == SENT_AFTER_TIMEOUT;
}

/* Brings the packet's connection up to date; what it was is in the packet's `event`. If the flow's
 * program is to hear of it, and no other CPU is at that, the frame has the signals then, and the flow
 * is claimed. All in one function, as looking a connection up costs most. */
__noinline int track(void)
{
	struct packet *p = packet_at_work();
	struct connection *c;
	struct controlled *more;
	struct frame *f;
	u32 event, slot, may_open;

	if (!p)
		return NO_CONNECTION;
	p->is_invoked = false;
	may_open = p->may_open;
	c = bpf_map_lookup_elem(&fw_connections, &p->key);
	if (!c)
		return NO_CONNECTION;
	slot = c->slot;
	more = bpf_map_lookup_elem(&fw_controlled, &slot);
	f = bpf_map_lookup_elem(&fw_frames, &slot);
	/* Of connections that are measured only, the time serves to forget them: the clock of the tick
	 * costs less. */
	p->now_ns = more ? clock_ns() : coarse_clock_ns();
	if (may_open) {
		/* While another connection opens on its ports, the numbers may be that one's. */
		if (c->bits & HAS_CANDIDATE)
			return ANOTHER_OPENS;
		if (is_policed(c, more, p))
			return BEYOND_WINDOW;
	}
	p->slot = slot;
	bpf_spin_lock(&c->lock);
	event = track_locked(c, more, f, p);
	p->event = event;
	p->una = c->una;
	p->nxt = c->nxt;
	event = READ_ONCE(p->event);
	if (more && f && !(p->flags & SYN) && is_heard_of(event) && claim(more, p->now_ns)) {
		p->is_invoked = true;
		take_signals(c, &more->sender, f, p->now_ns, more->enforcement.told,
			     event == SENT_AFTER_TIMEOUT);
	}
	bpf_spin_unlock(&c->lock);
	return TRACKED;
}

static __always_inline bool is_ignored(u32 event)
{
	return event >= OUT_OF_WINDOW;
}

static __always_inline void count_ignored(u32 event)
{
	count(IGNORED);
	if (event == RESET_OUT_OF_WINDOW)
		count(RESETS_IGNORED);
}
