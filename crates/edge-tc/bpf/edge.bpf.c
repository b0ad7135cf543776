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

/* Whether a guest sends data beyond the window that it was told, and is policed. */
static __always_inline bool is_policed(const struct packet *p, const struct connection *c)
{
	u32 slot = c->slot;
	struct controlled *more;
	struct candidate *it;

	if (!c->police || p->payload == 0)
		return false;
	more = bpf_map_lookup_elem(&fw_controlled, &slot);
	if (!more || !is_beyond(&more->enforcement, p->seq, p->payload))
		return false;
	/* While another connection opens on its ports, the numbers may be that one's. */
	it = bpf_map_lookup_elem(&fw_candidates, &p->key);
	return !it || it->kind != OPENING;
}

/* What is next to be done with the packet at work. */
enum step { STEP_DONE, STEP_DROP, STEP_ENFORCE };

/* Finds the connection of the packet at work, or makes one, and brings it up to date. */
static __always_inline int follow(struct __sk_buff *skb, struct packet *p)
{
	struct connection *c;
	bool is_new = false;

	if (p->flags & SYN) {
		on_syn(skb);
		return STEP_DONE;
	}
	c = bpf_map_lookup_elem(&fw_connections, &p->key);
	if (c && p->direction == FROM_GUEST && is_policed(p, c)) {
		count(POLICED);
		return STEP_DROP;
	}
	if (!c || (c->bits & HAS_CANDIDATE)) {
		int promotion = promote();

		if (promotion == NO_PLACE)
			return STEP_DONE;
		is_new = promotion == PROMOTED;
	}
	if (!track()) {
		on_unknown();
		return STEP_DONE;
	}
	if (is_ignored(p->event)) {
		/* Of the packet that opens a connection this says nothing. */
		if (!is_new)
			count_ignored(p->event);
		return STEP_DONE;
	}
	return p->slot == NO_SLOT || p->event == OTHER ? STEP_DONE : STEP_ENFORCE;
}

static __always_inline int handle(struct __sk_buff *skb, u32 direction)
{
	struct packet *p = packet_at_work();
	int found, step;
	u32 program;

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
	p->now_ns = clock_ns();
	step = follow(skb, p);
	if (step == STEP_DROP)
		return DROP;
	if (step == STEP_DONE)
		return GO_ON;
	program = prepare();
	if (program < MAX_PROGRAMS) {
		u32 slot = p->slot;
		struct frame *f = bpf_map_lookup_elem(&fw_frames, &slot);

		if (f) {
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
	};

	bpf_for_each_map_elem(&fw_connections, expire_one, &expiry, 0);
	return expiry.forgotten;
}
