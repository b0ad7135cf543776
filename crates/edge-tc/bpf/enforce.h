/* SPDX-License-Identifier: GPL-2.0 */
/* Keeps a guest to what its flow's program decided: the window of ACKs to it, and ECN that is spoken
 * for it (vCC figure 3 b and c). */
#pragma once

#include "ecn.h"
#include "rewrite.h"

/* Decides what of the packet at work, of a controlled flow whose lock is held, is rewritten. */
static __always_inline void enforce(struct enforcement *e, struct packet *p)
{
	if (p->direction == FROM_GUEST && !e->translates_ecn)
		return;
	p->is_rewritten = true;
	p->to_word = p->word;
	p->to_window = p->window;
	p->to_ecn = p->ecn;
	if (p->direction == FROM_GUEST) {
		/* A guest that is released answers to losses, not to marks. */
		ecn_sent(e, p, e->limit != RELEASED && !is_beyond(e, p->seq, 2));
	} else {
		if (e->translates_ecn)
			ecn_received(e, p);
		p->to_window = window_field(e, p);
	}
}

/* Rewrites the packet at work as enforce() has decided. */
static __always_inline void rewrite(struct __sk_buff *skb, const struct packet *p)
{
	if (!p->is_rewritten)
		return;
	if (p->to_ecn != p->ecn)
		set_ecn(skb, p, p->to_ecn);
	set_flags_and_window(skb, p, p->to_word, p->to_window);
}
