/* SPDX-License-Identifier: GPL-2.0 */
/* ECN towards the network for a guest that has none (vCC figure 3, appendix A.7): fairwater_edge's
 * `enforce/ecn.rs`. */
#pragma once

#include "window.h"

/* A packet from the guest. Data is marked as ECN-capable if `may_mark`. */
static __always_inline void ecn_sent(struct enforcement *e, struct packet *p, bool may_mark)
{
	if (e->is_echoing && (p->flags & ACK))
		p->to_word |= ECE;
	/* RFC 3168 §6.1.4, §6.1.5, §6.1.6: no pure ACK, nothing that is sent again, no window probe. */
	if (p->event != SENT_NEW || p->payload == 0)
		return;
	if (e->is_cwr_due) {
		e->is_cwr_due = false;
		p->to_word |= CWR;
	}
	if (may_mark)
		p->to_ecn = ECT_0;
}

/* A packet to the guest. */
static __always_inline void ecn_received(struct enforcement *e, struct packet *p)
{
	bool is_over = !e->has_recover || is_after(p->una, e->recover);

	if (p->flags & CWR)
		e->is_echoing = false;
	/* The guest takes it as if no queue had marked it. */
	if (p->ecn == CE) {
		e->is_echoing = true;
		p->to_ecn = NOT_ECT;
	}
	/* RFC 3168 §6.1.2: once per window of data. */
	if ((p->flags & ECE) && is_over) {
		e->is_cwr_due = true;
		e->has_recover = true;
		e->recover = p->nxt;
	}
	p->to_word &= ~(ECE | CWR);
}
