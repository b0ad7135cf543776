/* SPDX-License-Identifier: GPL-2.0 */
/* Keeps a guest to what its flow's program decided: the window of ACKs to it, and ECN that is spoken
 * for it (vCC figure 3 b and c). */
#pragma once

#include "ecn.h"
#include "invoke.h"
#include "rewrite.h"

static __always_inline bool is_same(const struct key *a, const struct key *b)
{
	const u64 *x = (const u64 *)a, *y = (const u64 *)b;

	_Static_assert(sizeof(struct key) == 48, "six words");
	return !((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3]) | (x[4] ^ y[4]) | (x[5] ^ y[5]));
}

/* Rewrites the packet at work, of a controlled flow, after its program if it had one to run. */
__noinline int enforce(struct __sk_buff *skb)
{
	struct packet *p = packet_at_work();
	struct changes changes = { .field = KEEP_FIELD };
	struct controlled *more;
	struct enforcement *e;
	u32 slot, window;
	u64 limit = 0;

	if (!p)
		return 0;
	slot = p->slot;
	window = p->window;
	more = bpf_map_lookup_elem(&fw_controlled, &slot);
	/* Another CPU may have given the slot to another flow meanwhile. */
	if (!more || !is_same(&more->key, &p->key))
		return 0;
	e = &more->enforcement;
	if (p->direction == FROM_GUEST && !e->translates_ecn && !p->is_invoked)
		return 0;
	if (p->is_invoked) {
		struct frame *f = bpf_map_lookup_elem(&fw_frames, &slot);

		limit = f ? limit_of(more, f, p) : RELEASED;
	}
	bpf_spin_lock(&more->lock);
	if (p->is_invoked)
		e->limit = limit;
	if (p->direction == FROM_GUEST) {
		/* A guest that is released answers to losses, not to marks. */
		bool may_mark = e->limit != RELEASED && !is_beyond(e, p->seq, 2);

		if (e->translates_ecn)
			ecn_sent(e, p, may_mark, &changes);
	} else {
		if (e->translates_ecn)
			ecn_received(e, p, &changes);
		window = window_field(e, p);
	}
	bpf_spin_unlock(&more->lock);
	if (p->is_invoked)
		end_claim(more);
	if (changes.set | changes.clear)
		set_flags(skb, p, changes.set, changes.clear);
	if (changes.field != KEEP_FIELD)
		set_ecn(skb, p, changes.field);
	if (p->direction == TO_GUEST)
		set_window(skb, p, window);
	return 0;
}
