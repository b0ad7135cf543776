/* SPDX-License-Identifier: GPL-2.0 */
/* Connections that are opening: fairwater_edge's `track/handshake.rs`. */
#pragma once

#include "packet.h"
#include "rules.h"
#include "seq.h"

#define MAX_SHIFT 14	    /* RFC 7323 §2.3 */
#define TIMESTAMPS_BYTES 12 /* in each segment, as hosts align them (RFC 7323 appendix A) */

static __always_inline void read_syn(struct syn *syn, const struct packet *p)
{
	syn->iss = p->seq;
	syn->end = p->seq + segment_length(p);
	syn->flags = p->flags;
	syn->window = p->window;
	syn->mss = p->mss;
	syn->scale = p->scale;
	syn->bits = SYN_SEEN | p->options;
}

/* Whether `ack` acknowledges that SYN; of its data as much as there is (RFC 7413 §4.2). */
static __always_inline bool is_answer_to(const struct syn *syn, u32 ack)
{
	return is_within(ack, syn->iss + 1, bytes_since(syn->end, syn->iss));
}

/* Takes another SYN; whether it belongs to this connection. */
static __always_inline bool take_syn(struct candidate *it, const struct packet *p)
{
	bool to = p->direction == TO_GUEST;
	struct syn *own = to ? &it->syns[1] : &it->syns[0];
	struct syn *other = to ? &it->syns[0] : &it->syns[1];

	/* RFC 9293 §3.10.7.3 */
	if ((p->flags & ACK) && !((other->bits & SYN_SEEN) && is_answer_to(other, p->ack)))
		return false;
	if (own->bits & SYN_SEEN) {
		if (own->iss != p->seq)
			return false;
		/* ECN's flags may be left out of later ones: what counts is what was offered. */
		if (!to)
			it->guest_repeats = saturating_inc(it->guest_repeats);
		return true;
	}
	read_syn(own, p);
	return true;
}

/* Whether this is the third packet: from the initiator, in order, acknowledging the other's SYN. */
static __always_inline bool is_completed_by(const struct candidate *it, const struct packet *p)
{
	bool to = p->direction == TO_GUEST;
	const struct syn *from = to ? &it->syns[1] : &it->syns[0];
	const struct syn *other = to ? &it->syns[0] : &it->syns[1];

	return (from->bits & SYN_SEEN) && (other->bits & SYN_SEEN) && p->direction == it->initiator &&
	       (p->flags & ACK) && !(p->flags & RST) && is_answer_to(from, p->seq) &&
	       is_answer_to(other, p->ack);
}

/* Maximum segment size of the guest's data, bytes of payload. */
static __always_inline u32 mss_of(const struct candidate *it, bool is_v6)
{
	const struct syn *guest = &it->syns[0], *peer = &it->syns[1];
	u32 mss = is_v6 ? 1220 : 536; /* RFC 9293 §3.7.1 */

	if (peer->bits & SYN_MSS)
		mss = peer->mss;
	/* The guest's own option tells its link's MTU. */
	if ((guest->bits & SYN_MSS) && guest->mss < mss)
		mss = guest->mss;
	if (guest->bits & peer->bits & SYN_TIMESTAMPS)
		mss = saturating_sub(mss, TIMESTAMPS_BYTES);
	return max(mss, 1u);
}

/* Whether the two ends agreed upon some ECN (RFC 3168 §6.1.1, RFC 9768 §3.1.2 table 2). */
static __always_inline bool has_ecn(const struct candidate *it)
{
	bool to = it->initiator == TO_GUEST;
	u32 offer = ACE(it->syns[to ? 1 : 0].flags), answer = ACE(it->syns[to ? 0 : 1].flags);

	if (!(it->syns[0].bits & it->syns[1].bits & SYN_SEEN))
		return false;
	/* RFC 3168 §6.1.1.1: an answer that mirrors the offer is a broken peer's. */
	if ((offer & 3) != 3 || answer == offer)
		return false;
	if (offer == 7 && (answer == 2 || answer == 3 || answer == 4 || answer == 6))
		return true;
	return answer == 1 || answer == 5;
}

/* Why a connection that is opening may not be touched; PASSED if it may. */
static __always_inline u32 exemption_of(const struct candidate *it)
{
	const struct syn *guest = &it->syns[0];
	u32 bits = guest->bits | it->syns[1].bits;

	if (bits & SYN_SIGNED)
		return EXEMPT_SIGNED;
	if (bits & SYN_MPTCP)
		return EXEMPT_MPTCP;
	if (it->initiator == FROM_GUEST && (guest->bits & SYN_SEEN) && (ACE(guest->flags) & 3) == 3)
		return EXEMPT_NATIVE_ECN;
	return has_ecn(it) ? EXEMPT_NATIVE_ECN : PASSED;
}

/* Whether the peer agreed to ECN that was offered it for the guest (RFC 3168 §6.1.1). */
static __always_inline bool has_agreed_to_translation(const struct candidate *it)
{
	u32 answer = ACE(it->syns[1].flags);

	return it->translated_ecn && (it->syns[1].bits & SYN_SEEN) && (answer == 1 || answer == 5);
}

/* The initial window (RFC 6928 §2), bytes. */
static __always_inline u64 initial_window(u64 mss)
{
	return min(10 * mss, max(2 * mss, 14600ull));
}
