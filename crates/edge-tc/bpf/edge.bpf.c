// SPDX-License-Identifier: GPL-2.0
/* An edge in the kernel: programs at the host's side of a guest's port. `fw_from_guest` is for its
 * ingress, `fw_to_guest` for its egress. Each reads a packet, brings the guest's connection up to
 * date, runs the flow's program by a tail call, and `fw_enforce`, which that one leaves to, rewrites
 * the packet; one of which no program hears is rewritten at once. Whatever they do not understand passes as it came. */
#include "expire.h"
#include "invoke.h"
#include "opening.h"
#include "plain.h"
#include "redirect.h"

char _license[] SEC("license") = "GPL";

const volatile struct layouts layouts = {};
const volatile struct edge_layouts edge_layouts = {};

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
	if (tracked == TRACKED || tracked == BEYOND_WINDOW || tracked == NOT_LOCKED)
		return tracked;
	if (tracked == ANOTHER_OPENS && is_policed_anyway(p))
		return BEYOND_WINDOW;
	p->now_ns = clock_ns();
	promotion = promote();
	if (promotion == NO_PLACE)
		return NO_CONNECTION;
	p->may_open = false;
	tracked = track();
	if (tracked == NO_CONNECTION)
		on_unknown();
	else if (tracked == TRACKED && promotion == NOT_PROMOTED && is_ignored(p->event)) /* of the first packet it says nothing */
		count_ignored(p->event);
	return tracked;
}

/* Runs the program of the flow of the packet at work, which is claimed; a program that is there does not return. */
static __always_inline void invoke(struct __sk_buff *skb, struct packet *p)
{
	u32 slot = p->slot, program;
	struct controlled *more = bpf_map_lookup_elem(&fw_controlled, &slot);
	struct frame *f = bpf_map_lookup_elem(&fw_frames, &slot);

	if (!more || !f)
		return;
	program = program_of(more, f, p);
	if (program < MAX_PROGRAMS) {
		u32 was = f->state;

		f->state = FLOW_RUNNING;
		skb->cb[0] = slot;
		run_program(skb, &fw_programs, program);
		f->state = was; /* no such program */
		note_release(f);
	}
	finish(skb);
}

static __always_inline int handle(struct __sk_buff *skb, u32 direction)
{
	struct packet *p = packet_at_work();
	int found;

	if (!p || is_returned(skb))
		return GO_ON;
	if (!read_plain(skb, p, direction)) {
		found = parse(skb, direction);
		if (found == READABLE)
			found = parse_options(skb);
		if (found != READABLE) {
			if (found != NOT_TCP)
				count(found);
			return GO_ON;
		}
	}
	if (READ_ONCE(redirection.device)) {
		found = redirect(skb);
		if (found != NOT_REDIRECTED)
			return found;
	}
	found = follow(skb, p);
	if (found == BEYOND_WINDOW) {
		count(POLICED);
		return DROP;
	}
	if (found != TRACKED)
		return GO_ON;
	if (p->is_invoked)
		invoke(skb, p);
	else
		rewrite(skb, p);
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

/* For the ingress of the device of the process that buffers. */
SEC("tc")
int fw_return(struct __sk_buff *skb)
{
	return return_frame(skb);
}

/* Flows' programs leave to this. */
SEC("tc")
int fw_enforce(struct __sk_buff *skb)
{
	finish(skb);
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
