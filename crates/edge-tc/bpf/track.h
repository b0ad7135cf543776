/* SPDX-License-Identifier: GPL-2.0 */
/* Packets of open connections: fairwater_edge's `track/flow.rs`. */
#pragma once

#include "maps.h"
#include "sender.h"

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

/* Brings the packet's connection up to date; what it was is in the packet's `event`. Returns
 * whether there is such a connection. */
__noinline int track(void)
{
	struct packet *p = packet_at_work();
	struct connection *c;
	struct controlled *more;
	struct frame *f;
	u32 event, slot;

	if (!p)
		return false;
	c = bpf_map_lookup_elem(&fw_connections, &p->key);
	if (!c)
		return false;
	slot = c->slot;
	more = bpf_map_lookup_elem(&fw_controlled, &slot);
	f = bpf_map_lookup_elem(&fw_frames, &slot);
	bpf_spin_lock(&c->lock);
	if (p->flags & RST) {
		event = RESET_OUT_OF_WINDOW;
		if (is_believed(c, p)) {
			c->bits |= IS_RESET;
			c->seen_ns = p->now_ns;
			event = OTHER;
		}
	} else if (p->direction == FROM_GUEST) {
		event = on_sent(c, more, p);
	} else {
		event = on_received(c, more, f, p);
	}
	p->una = c->una;
	p->nxt = c->nxt;
	bpf_spin_unlock(&c->lock);
	p->slot = slot;
	p->event = event;
	return true;
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
