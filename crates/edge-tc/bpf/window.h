/* SPDX-License-Identifier: GPL-2.0 */
/* The receive window that a guest is told: fairwater_edge's `enforce/window.rs`. */
#pragma once

#include "edge.h"
#include "packet.h"
#include "seq.h"

#define RELEASED (~0ull)
#define MIN_SEGMENTS 2 /* with one, a receiver that delays its ACKs stalls the guest */
#define MAX_TARGET (1u << 30) /* RFC 7323 §2.3 */

/* Bytes that are enforced: whole segments, two at least. */
static __always_inline u64 target_of(const struct enforcement *e)
{
	u64 segments = e->limit / e->mss;

	return max(segments, (u64)MIN_SEGMENTS) * e->mss;
}

static __always_inline u32 limited_field(struct enforcement *e, const struct packet *p, u32 peer_field)
{
	u32 scale = e->guest_scale & 31, edge, window, field;
	u64 target;

	/* RFC 5681 §2: an ACK is a duplicate only if its window is that of the last one. */
	if (e->has_last && segment_length(p) == 0 && p->nxt != p->una && e->last_ack == p->ack &&
	    e->last_field == p->window)
		return min((u32)e->last_told, peer_field);
	target = min(target_of(e), (u64)MAX_TARGET);
	edge = seq_max(p->una + (u32)target, p->nxt);
	e->edge = seq_max(e->edge, edge);
	window = bytes_since(e->edge, p->ack);
	field = (u32)(((u64)window + (1u << scale) - 1) >> scale);
	return min(min(field, 0xffffu), peer_field);
}

/* The window's field for an ACK to the guest. */
static __always_inline u16 window_field(struct enforcement *e, const struct packet *p)
{
	u32 scale = e->guest_scale & 31;
	u32 peer_window = (u32)p->window << (e->peer_scale & 31);
	u32 peer_field = min(peer_window >> scale, 0xffffu);
	u32 field = e->limit == RELEASED ? peer_field : limited_field(e, p, peer_field);

	e->has_last = true;
	e->last_ack = p->ack;
	e->last_field = p->window;
	e->last_told = field;
	e->told = seq_max(e->told, p->ack + (field << scale));
	return field;
}

/* Whether data that begins at `start` is beyond the window that the guest was told. One byte at the
 * edge is a probe (RFC 9293 §3.8.6.1). */
static __always_inline bool is_beyond(const struct enforcement *e, u32 start, u32 length)
{
	s32 distance = (s32)(start - e->told);

	return distance == 0 ? length > 1 : distance > 0 && length > 0;
}
