/* SPDX-License-Identifier: GPL-2.0 */
/* SYNs: candidates for the table, and what is changed in them (vCC figure 3 a). */
#pragma once

#include "candidate.h"
#include "rewrite.h"
#include "track.h"

/* Hides from the guest what it must not know of the peer's SYN. */
static __always_inline void hide(struct __sk_buff *skb, const struct packet *p, bool ecn, u32 scale)
{
	if (ecn && (p->flags & ACK))
		set_flags(skb, p, 0, ECE | CWR | AE);
	if (scale != NO_SCALE)
		set_window_scale(skb, p, scale);
}

static __always_inline void rewrite_syn_of_guest(struct __sk_buff *skb, const struct packet *p,
						 struct candidate *it)
{
	/* RFC 3168 §6.1.1.1: a SYN that was lost may have been lost for its flags. */
	if (!it->treatment.ecn || it->guest_repeats || (p->flags & ACK))
		return;
	it->translated_ecn = true;
	set_flags(skb, p, ECE | CWR, 0);
}

static __always_inline void rewrite_syn_of_peer(struct __sk_buff *skb, const struct packet *p,
						struct candidate *it)
{
	u8 max_scale = it->treatment.max_scale;
	u64 initial;

	it->translated_scale = NO_SCALE;
	if ((p->options & OPTION_SCALE) && max_scale != NO_SCALE && max_scale < p->scale)
		it->translated_scale = max_scale;
	hide(skb, p, it->translated_ecn, it->translated_scale);
	if (!(p->flags & ACK))
		return;
	/* RFC 7323 §2.2: not scaled. The guest may send as much as its first ACK will allow. */
	initial = min(initial_window(mss_of(it, p->key.is_v6)), 0xffffull);
	set_window(skb, p, min((u64)p->window, initial));
}

static __always_inline void rewrite_opening(struct __sk_buff *skb, const struct packet *p, struct candidate *it)
{
	bool is_from_guest = p->direction == FROM_GUEST;

	if (!it->treatment.is_control || exemption_of(it) != PASSED) {
		if (!is_from_guest)
			hide(skb, p, it->translated_ecn, it->translated_scale);
	} else if (is_from_guest) {
		rewrite_syn_of_guest(skb, p, it);
	} else {
		rewrite_syn_of_peer(skb, p, it);
	}
}

/* A SYN's answer that comes once more, after the third packet; perhaps another connection is opening
 * on the ports. */
static __always_inline void answered_again(struct __sk_buff *skb, struct packet *p, struct candidate *it)
{
	struct controlled *more;
	u32 slot;

	p->may_open = false;
	if (track() != TRACKED)
		return;
	if (is_ignored(p->event)) {
		count_ignored(p->event);
		return;
	}
	if (it) {
		rewrite_opening(skb, p, it);
		return;
	}
	slot = p->slot;
	more = bpf_map_lookup_elem(&fw_controlled, &slot);
	if (more && p->direction == TO_GUEST)
		hide(skb, p, more->enforcement.translates_ecn, more->enforcement.shown_scale);
}

/* A packet with SYN. */
__noinline int on_syn(struct __sk_buff *skb)
{
	struct packet *p = packet_at_work();
	struct candidate new = {}, *it;
	struct connection *c;

	if (!p)
		return 0;
	it = bpf_map_lookup_elem(&fw_candidates, &p->key);
	if (it && it->kind == OPENING && take_syn(it, p)) {
		rewrite_opening(skb, p, it);
		return 0;
	}
	if (p->flags & ACK) {
		answered_again(skb, p, it && it->kind == OPENING ? it : NULL);
		return 0;
	}
	new.began_ns = p->now_ns;
	new.kind = OPENING;
	new.initiator = p->direction;
	new.translated_scale = NO_SCALE;
	new.treatment = treatment_of(&p->key);
	if (p->direction == TO_GUEST)
		read_syn(&new.syns[1], p);
	else
		read_syn(&new.syns[0], p);
	rewrite_opening(skb, p, &new);
	bpf_map_update_elem(&fw_candidates, &p->key, &new, BPF_ANY);
	c = bpf_map_lookup_elem(&fw_connections, &p->key);
	if (c)
		set_bits(c, HAS_CANDIDATE);
	return 0;
}
