// SPDX-License-Identifier: GPL-2.0
/* An edge in the kernel: programs at the host's side of a guest's port. `fw_from_guest` is for its
 * ingress, `fw_to_guest` for its egress. Each reads a packet, brings the guest's connection up to
 * date, runs the flow's program by a tail call, and `fw_enforce`, which that one leaves to, rewrites
 * the packet. Whatever they do not understand passes as it came. */
#include "enforce.h"
#include "expire.h"
#include "open.h"
#include "opening.h"
#include "parse.h"

char _license[] SEC("license") = "GPL";

const volatile struct layouts layouts = {};
const volatile struct edge_layouts edge_layouts = {};

enum verdict { GO_ON = -1 /* TC_ACT_UNSPEC, TCX_NEXT */, DROP = 2 /* TC_ACT_SHOT, TCX_DROP */ };

/* Whether the packet at work is policed, though another connection may be opening on its ports. */
static __always_inline bool is_policed_anyway(const struct packet *p)
{
	struct candidate *it = bpf_map_lookup_elem(&fw_candidates, &p->key);
	struct connection *c = bpf_map_lookup_elem(&fw_connections, &p->key);
	u32 slot;

	if (!c || (it && it->kind == OPENING))
		return false;
	slot = c->slot;
	return is_policed(c, bpf_map_lookup_elem(&fw_controlled, &slot), p);
}

/* Finds the connection of the packet at work, or makes one, and brings it up to date; what track()
 * returned, or NO_CONNECTION where no more is to be done. */
static __always_inline int follow(struct __sk_buff *skb, struct packet *p)
{
	int tracked, promotion;

	if (p->flags & SYN) {
		p->now_ns = clock_ns();
		on_syn(skb);
		return NO_CONNECTION;
	}
	p->may_open = true;
	tracked = track();
	if (tracked == TRACKED && is_ignored(p->event))
		count_ignored(p->event);
	if (tracked == TRACKED || tracked == BEYOND_WINDOW)
		return tracked;
	if (tracked == ANOTHER_OPENS && is_policed_anyway(p))
		return BEYOND_WINDOW;
	p->now_ns = clock_ns();
	promotion = promote();
	if (promotion == NO_PLACE)
		return NO_CONNECTION;
	p->may_open = false;
	tracked = track();
	if (tracked != TRACKED)
		on_unknown();
	else if (promotion == NOT_PROMOTED && is_ignored(p->event)) /* of the first packet it says nothing */
		count_ignored(p->event);
	return tracked;
}

static __always_inline int handle(struct __sk_buff *skb, u32 direction)
{
	struct packet *p = packet_at_work();
	int found;

	if (!p)
		return GO_ON;
	found = parse(skb, direction);
	if (found == READABLE)
		found = parse_options(skb);
	if (found != READABLE) {
		if (found != NOT_TCP)
			count(found);
		return GO_ON;
	}
	found = follow(skb, p);
	if (found == BEYOND_WINDOW) {
		count(POLICED);
		return DROP;
	}
	if (found != TRACKED || is_ignored(p->event) || p->event == OTHER || p->slot == NO_SLOT)
		return GO_ON;
	if (p->is_invoked) {
		u32 slot = p->slot, program;
		struct controlled *more = bpf_map_lookup_elem(&fw_controlled, &slot);
		struct frame *f = bpf_map_lookup_elem(&fw_frames, &slot);

		if (!more || !f)
			return GO_ON;
		program = program_of(more, f, p);
		if (program < MAX_PROGRAMS) {
			u32 was = f->state;

			f->state = FLOW_RUNNING;
			skb->cb[0] = slot;
			run_program(skb, &fw_programs, program);
			f->state = was; /* no such program */
			note_release(f);
		}
	}
	enforce(skb);
	return GO_ON;
}

SEC("tc")
int fw_from_guest(struct __sk_buff *skb)
{
	return handle(skb, FROM_GUEST);
}

SEC("tc")
int fw_to_guest(struct __sk_buff *skb)
{
	return handle(skb, TO_GUEST);
}

/* Flows' programs leave to this. */
SEC("tc")
int fw_enforce(struct __sk_buff *skb)
{
	enforce(skb);
	return GO_ON;
}

/* Run by the process, with some packet; returns how many connections were forgotten. */
SEC("tc")
int fw_expire(struct __sk_buff *skb)
{
	struct expiry expiry = {
		.now_ns = clock_ns(),
		.idle_ns = settings.idle_ns,
		.closing_ns = settings.closing_ns,
		.gone = settings.gone,
	};

	bpf_for_each_map_elem(&fw_connections, expire_one, &expiry, 0);
	return expiry.forgotten;
}
