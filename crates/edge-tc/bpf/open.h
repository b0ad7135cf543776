/* SPDX-License-Identifier: GPL-2.0 */
/* Candidates that become connections: fairwater_edge's `Table::promote` and `Owner::opened`. */
#pragma once

#include "candidate.h"
#include "track.h"

/* A flow has ended, and nobody uses its frame any more: its slot is free for another. */
static __always_inline void free_slot(struct frame *f, u32 slot)
{
	f->state = FLOW_FREE;
	send_event(f, EVENT_CLOSED);
	bpf_map_push_elem(&fw_free, &slot, 0);
}

static __always_inline u16 family_of(const struct key *key)
{
	return key->is_v6 ? 10 : 2; /* AF_INET6, AF_INET */
}

/* Whether a slot's flow, whose lock is held, is of the connection of that key. */
static __always_inline bool is_of(const struct controlled *more, const struct frame *f, const struct key *key)
{
	u32 differs = more->interface ^ key->interface;

	differs |= (more->vlan[0] ^ key->vlan[0]) | (more->vlan[1] ^ key->vlan[1]);
	differs |= (f->local_port ^ key->guest_port) | (f->remote_port ^ key->peer_port);
	differs |= f->family ^ family_of(key);
	for (int i = 0; i < 4; i++)
		differs |= (f->local[i] ^ key->guest[i]) | (f->remote[i] ^ key->peer[i]);
	return !differs;
}

/* Ends the flow of that key, slot and generation; whether it had not ended. While another CPU runs its
 * program, which writes into the frame, the slot stays taken: that CPU frees it. */
static __always_inline bool end_flow(const struct key *key, u32 slot, u32 generation, u64 now_ns)
{
	struct controlled *more = bpf_map_lookup_elem(&fw_controlled, &slot);
	struct frame *f = bpf_map_lookup_elem(&fw_frames, &slot);
	bool is_there, is_free = false;

	if (!more || !f)
		return false;
	if (!lock(more))
		return false;
	is_there = more->generation == generation && is_of(more, f, key);
	if (is_there) {
		/* From here on no packet changes anything of the flow. */
		more->generation = generation + 1;
		is_free = !is_claimed(more, claim_of(now_ns));
		more->is_over = !is_free;
	}
	unlock(more);
	if (is_free)
		free_slot(f, slot);
	return is_there;
}

/* Forgets the connection of that key, if there is one. */
static __always_inline void forget(struct key *key, u64 now_ns)
{
	struct connection *c = bpf_map_lookup_elem(&fw_connections, key);
	u32 slot, generation;

	if (!c)
		return;
	slot = c->slot;
	generation = c->generation;
	/* Of CPUs that forget it at a time, the one that ends the flow does. */
	if (slot == NO_SLOT || end_flow(key, slot, generation, now_ns))
		bpf_map_delete_elem(&fw_connections, key);
}

/* No other connection opens on the ports of the packet at work, or no longer: its connection need not be
 * looked for among the candidates. */
static __always_inline void note_no_candidate(struct packet *p)
{
	struct connection *c = bpf_map_lookup_elem(&fw_connections, &p->key);

	if (!c || !(READ_ONCE(c->bits) & HAS_CANDIDATE))
		return;
	clear_bits(c, HAS_CANDIDATE);
	/* A SYN adds its candidate first, then sets the bit. */
	if (bpf_map_lookup_elem(&fw_candidates, &p->key))
		set_bits(c, HAS_CANDIDATE);
}

static __always_inline void begin_sender(struct sender *s, const struct candidate *it, const struct connection *c,
					 u64 now_ns)
{
	__builtin_memset(s, 0, sizeof(*s));
	s->mss = c->mss;
	s->sack = !!(it->syns[0].bits & it->syns[1].bits & SYN_SACK);
	s->classic_ecn = has_agreed_to_translation(it);
	s->lost_edge = c->una;
	s->timer_ns = now_ns;
	s->delivered_ns = now_ns;
	s->first_sent_ns = now_ns;
}

static __always_inline void begin_controlled(struct controlled *more, const struct candidate *it,
					     const struct connection *c, const struct packet *p)
{
	u32 una = c->una, syn_window = bytes_since(c->peer_edge, una);
	u64 initial = initial_window(c->mss);
	struct enforcement *e = &more->enforcement;

	begin_sender(&more->sender, it, c, p->now_ns);
	__builtin_memset(e, 0, sizeof(*e));
	e->limit = initial;
	e->edge = una;
	/* The answer to the guest's SYN was rewritten; a passive guest has been told of nothing yet. */
	e->told = una + min((u64)syn_window, initial);
	e->peer_scale = c->peer_scale;
	e->guest_scale = it->translated_scale == NO_SCALE ? c->peer_scale :
							    min(it->translated_scale, c->peer_scale);
	e->translates_ecn = has_agreed_to_translation(it);
	e->mss = c->mss;
	more->claim = more->is_over = 0;
	more->opened_ns = p->now_ns;
	more->initial = initial;
	more->first = una;
	e->shown_scale = it->translated_scale;
	more->min_rtt_us[0] = more->min_rtt_us[1] = ~0ull;
	more->min_rtt_since_us = 0;
	more->marked_packets = 0;
	more->interface = p->key.interface;
	more->vlan[0] = p->key.vlan[0];
	more->vlan[1] = p->key.vlan[1];
}

static __always_inline void begin_frame(struct frame *f, const struct controlled *more, const struct packet *p,
					u32 slot, u16 algorithm)
{
	u64 now_us = p->now_ns / 1000;

	__builtin_memset(f->signals, 0, sizeof(f->signals));
	f->signals[RTT_SAMPLE_US] = ~0ull;
	f->mss = more->enforcement.mss;
	f->cwnd = more->initial;
	f->cwnd_packets = 0;
	f->rate = 0;
	f->timer_zero = now_us;
	f->applied = f->pending = READ_ONCE(f->stage_sequence);
	f->fault = 0;
	f->program = NO_PROGRAM;
	f->observed_us = (u32)now_us;
	f->family = family_of(&p->key);
	f->local_port = p->key.guest_port;
	f->remote_port = p->key.peer_port;
	for (int i = 0; i < 4; i++) {
		f->local[i] = p->key.guest[i];
		f->remote[i] = p->key.peer[i];
	}
	f->fallbacks = 0;
	f->bytes_acked = 0;
	f->born_us = now_us;
	f->srtt_us = 0;
	f->rtt_us = 0;
	f->retransmitted = 0;
	f->mark = 0;
	f->cgroup = 0;
	f->algorithm = algorithm;
	f->aggregate = 0;
	f->state = FLOW_STARTING;
	f->report.slot = slot;
	f->report.generation++;
	/* After the generation: a part that the plane writes for the former flow from here on it takes back. */
	WRITE_ONCE(f->stage.part, 0);
	f->report.program = NO_PROGRAM;
	f->report.time_us = now_us;
	f->report.cwnd = f->cwnd;
	f->report.rate = 0;
	f->report.count = 0;
	f->report.ssthresh = ~0ull;
}

/* A connection of which both SYNs were seen. */
static __always_inline void begin_opened(struct connection *c, const struct candidate *it, const struct packet *p)
{
	const struct syn *guest = &it->syns[0], *peer = &it->syns[1];

	c->una = guest->iss + 1;
	c->nxt = seq_max(guest->end, c->una);
	c->guest_ack = peer->iss + 1;
	c->guest_edge = peer->iss + 1 + guest->window;
	c->peer_edge = guest->iss + 1 + peer->window;
	c->peer_field = peer->window;
	c->mss = mss_of(it, p->key.is_v6);
	/* Neither window is scaled unless both SYNs say so (RFC 7323 §2.2). */
	if (guest->bits & peer->bits & SYN_SCALE) {
		c->guest_scale = min(guest->scale, MAX_SHIFT);
		c->peer_scale = min(peer->scale, MAX_SHIFT);
	}
}

/* One that was met midway: its window's scale is unknown. */
static __always_inline void begin_midway(struct connection *c, const struct candidate *it)
{
	c->una = it->syns[0].iss;
	c->nxt = seq_max(it->syns[0].end, c->una);
	c->guest_ack = it->syns[1].iss;
	c->guest_edge = c->guest_ack + it->syns[0].window;
	c->peer_edge = c->una;
	c->mss = 1448;
	c->bits = IS_MIDWAY;
}

static __always_inline bool is_open_now(const struct candidate *it, const struct packet *p)
{
	u32 length;

	if (it->kind == OPENING)
		return is_completed_by(it, p);
	/* The peer acknowledges what the guest has sent: both are there. */
	length = bytes_since(it->syns[0].end, it->syns[0].iss);
	return p->direction == TO_GUEST && (p->flags & ACK) && !(p->flags & RST) &&
	       is_within(p->ack, it->syns[0].iss, saturating_inc(length)) &&
	       bytes_since(p->seq, it->syns[1].iss) <= 0xffff;
}

/* What promote() did. */
enum promotion { NOT_PROMOTED, PROMOTED, NO_PLACE };

/* Gives a candidate a place of its own if the packet proves that both ends are there. */
__noinline int promote(void)
{
	struct packet *p = packet_at_work();
	struct connection c = { .slot = NO_SLOT };
	struct candidate it, *found;
	struct controlled *more = NULL;
	struct frame *f = NULL;
	u32 slot = NO_SLOT;

	if (!p)
		return NOT_PROMOTED;
	found = bpf_map_lookup_elem(&fw_candidates, &p->key);
	if (!found) {
		note_no_candidate(p);
		return NOT_PROMOTED;
	}
	if (!is_open_now(found, p))
		return NOT_PROMOTED;
	it = *found;
	/* Of CPUs that see such packets at a time, one opens the connection: a second slot would be lost. */
	if (bpf_map_delete_elem(&fw_candidates, &p->key))
		return NOT_PROMOTED;
	forget(&p->key, p->now_ns);
	c.seen_ns = it.kind == OPENING ? p->now_ns : it.began_ns;
	if (it.kind == OPENING)
		begin_opened(&c, &it, p);
	else
		begin_midway(&c, &it);
	if (it.treatment.is_control) {
		c.fate = it.kind == OPENING ? exemption_of(&it) : EXEMPT_MIDWAY;
		if (c.fate == PASSED) {
			slot = take_slot();
			more = bpf_map_lookup_elem(&fw_controlled, &slot);
			f = bpf_map_lookup_elem(&fw_frames, &slot);
			c.fate = more && f ? CONTROLLED_FLOW : EXEMPT_NO_ROOM;
		}
	}
	if (c.fate == CONTROLLED_FLOW && more && f) {
		c.slot = slot;
		c.generation = more->generation;
		c.police = it.treatment.police;
		begin_controlled(more, &it, &c, p);
		begin_frame(f, more, p, slot, it.treatment.algorithm);
	}
	if (bpf_map_update_elem(&fw_connections, &p->key, &c, BPF_ANY)) {
		if (c.slot != NO_SLOT) {
			if (f)
				f->state = FLOW_FREE;
			bpf_map_push_elem(&fw_free, &slot, 0);
		}
		count(FULL);
		return NO_PLACE;
	}
	if (c.fate == CONTROLLED_FLOW && f) {
		count(CONTROLLED);
		send_event(f, EVENT_CREATED);
	} else if (c.fate != PASSED) {
		count(EXEMPT);
	}
	return PROMOTED;
}

/* A packet of a connection that is not known: perhaps one met midway. */
__noinline int on_unknown(void)
{
	struct packet *p = packet_at_work();
	struct candidate new = {}, *it;

	if (!p || p->direction != FROM_GUEST || p->payload == 0 || (p->flags & (RST | FIN)) || !(p->flags & ACK))
		return 0;
	it = bpf_map_lookup_elem(&fw_candidates, &p->key);
	if (it && it->kind == OPENING)
		return 0;
	new.began_ns = p->now_ns;
	new.kind = MIDWAY;
	new.syns[0].iss = p->seq;
	new.syns[0].end = p->seq + p->payload;
	new.syns[0].window = p->window;
	new.syns[1].iss = p->ack;
	new.treatment = treatment_of(&p->key);
	bpf_map_update_elem(&fw_candidates, &p->key, &new, BPF_ANY);
	return 0;
}
