/* SPDX-License-Identifier: GPL-2.0 */
/* Invocations of flows' programs, and the limit that comes of them. */
#pragma once

#include "open.h"

#define MIN_RTT_WINDOW_US 10000000ull /* fairwater-datapath's `enforced.rs` */

/* Whether the flow's program may run now: not after a fault, nor while the plane is silent. */
static __always_inline bool may_run(struct frame *f, u64 now_us)
{
	if (f->fault) {
		if (f->state != FLOW_FAULTED) {
			f->state = FLOW_FAULTED;
			f->report.count = f->fault;
			send_event(f, EVENT_FAULT);
		}
		return false;
	}
	return !plane_is_silent(now_us);
}

static __always_inline void note_release(struct frame *f)
{
	if (f->state != FLOW_RUNNING)
		return;
	f->state = FLOW_FALLBACK;
	f->fallbacks++;
	__sync_fetch_and_add(&plane.fallbacks, 1);
}

/* What observers read of a flow. */
static __always_inline void observe(struct frame *f, struct controlled *more, const struct packet *p)
{
	const struct sender *s = &more->sender;

	more->marked_packets += f->signals[ECN_PACKETS];
	f->srtt_us = s->srtt_ns / 1000;
	f->rtt_us = f->signals[RTT_SAMPLE_US];
	f->bytes_acked += f->signals[BYTES_ACKED];
	f->retransmitted += f->signals[LOST_PKTS];
	f->observed_us = f->signals[NOW];
	f->cwnd_packets = bytes_since(more->enforcement.told, p->una) / s->mss;
}

/* The minimum of the RTT samples of the present and the previous half of the filter's window. */
static __always_inline void filter_rtt(struct controlled *more, u64 now_us, u64 rtt_us)
{
	u64 elapsed = now_us > more->min_rtt_since_us ? now_us - more->min_rtt_since_us : 0;

	if (rtt_us == ~0ull || rtt_us == 0)
		return;
	if (elapsed >= MIN_RTT_WINDOW_US / 2) {
		more->min_rtt_us[0] = elapsed >= MIN_RTT_WINDOW_US ? ~0ull : more->min_rtt_us[1];
		more->min_rtt_us[1] = rtt_us;
		more->min_rtt_since_us = now_us;
	} else {
		more->min_rtt_us[1] = min(more->min_rtt_us[1], rtt_us);
	}
}

/* A box has a window alone: it is at most rate × minimum RTT, but one segment. */
static __always_inline u64 window_of(const struct controlled *more, const struct frame *f)
{
	u64 min_rtt = min(more->min_rtt_us[0], more->min_rtt_us[1]), rate = f->rate, bytes;

	if (rate == 0 || min_rtt == ~0ull)
		return f->cwnd;
	/* A rate is at most 2^40 bytes/s: no overflow below 16 s. */
	bytes = min_rtt >> 24 ? rate / 1000 * (min_rtt / 1000) : rate * min_rtt / 1000000;
	return min(f->cwnd, max(bytes, (u64)more->enforcement.mss));
}

/* A flow's part of the windows of its group, if it has one. A reduction takes effect at once, in
 * proportion; growth waits for the next division (fairwater-edge's `Portion::limit`). */
static __always_inline u64 part_of(const struct frame *f, u64 window)
{
	u64 part = READ_ONCE(f->stage.part), of = READ_ONCE(f->stage.part_of);

	if (!part || !of)
		return window;
	/* Beyond any window of TCP, so that the product does not overflow. */
	return window >= of ? part : min(part, 0xffffffffull) * min(window, 0xffffffffull) / of;
}

/* A count of a flow that uses its own window, not its part; `remainder` is what rounding has left before. */
static __always_inline void count_as_own(u64 *count, u32 *remainder, u64 part, u64 window)
{
	u64 whole = min(*count, 0xffffffffull) * window + min((u64)*remainder, part - 1);

	*count = whole / part;
	*remainder = whole % part;
}

/* Makes the signals those of a flow that uses its own window, not its part: algorithms reckon with what their window
 * lets in (fairwater-edge's `Portion::as_own`). Rates are so already: `take_rates`. */
static __always_inline void signals_as_own(struct controlled *more, struct frame *f)
{
	u64 part = min(READ_ONCE(f->stage.part), 0xffffffffull);
	u64 window = min(READ_ONCE(f->stage.part_of), 0xffffffffull);

	if (!part || !window)
		return;
	count_as_own(&f->signals[BYTES_ACKED], &more->remainders[0], part, window);
	count_as_own(&f->signals[PACKETS_ACKED], &more->remainders[1], part, window);
	count_as_own(&f->signals[BYTES_MISORDERED], &more->remainders[2], part, window);
	count_as_own(&f->signals[PACKETS_MISORDERED], &more->remainders[3], part, window);
	f->signals[BYTES_IN_FLIGHT] = min(f->signals[BYTES_IN_FLIGHT], 0xffffffffull) * window / part;
	f->signals[PACKETS_IN_FLIGHT] = min(f->signals[PACKETS_IN_FLIGHT], 0xffffffffull) * window / part;
}

/* The guest's limit after an invocation. */
static __always_inline u64 limit_of(const struct controlled *more, const struct frame *f, const struct packet *p)
{
	if (f->state == FLOW_RUNNING && !f->fault)
		return part_of(f, window_of(more, f));
	/* RFC 5681 §3.1: slow start, until the plane has chosen a program. */
	if (f->state == FLOW_STARTING && !plane_is_silent(p->now_ns / 1000) &&
	    elapsed_ns(p->now_ns, more->opened_ns) < settings.grace_ns)
		return (u64)more->initial + bytes_since(p->una, more->first);
	return ~0ull;
}

/* The index of the program to run for the packet at work, of a flow that is claimed, or NO_PROGRAM. */
static __always_inline u32 program_of(struct controlled *more, struct frame *f, const struct packet *p)
{
	u64 now_us = p->now_ns / 1000;

	filter_rtt(more, now_us, f->signals[RTT_SAMPLE_US]);
	observe(f, more, p);
	if (may_run(f, now_us)) {
		accept_stage(f);
		if (f->program < MAX_PROGRAMS) {
			signals_as_own(more, f);
			return f->program;
		}
		if (f->state == FLOW_STARTING)
			return NO_PROGRAM;
	}
	note_release(f);
	return NO_PROGRAM;
}

/* After the program of the flow of the packet at work, if it had one to run: takes the limit over, ends the
 * claim, and rewrites the packet. */
__noinline int finish(struct __sk_buff *skb)
{
	struct packet *p = packet_at_work();
	bool is_own, is_over = false;
	struct controlled *more;
	struct frame *f;
	u32 slot;
	u64 limit;

	if (!p)
		return 0;
	slot = p->slot;
	more = bpf_map_lookup_elem(&fw_controlled, &slot);
	f = bpf_map_lookup_elem(&fw_frames, &slot);
	if (!more || !f)
		return 0;
	limit = limit_of(more, f, p);
	if (!lock(more))
		return 0;
	/* A claim that lasted too long may be another's. */
	is_own = more->claim == p->claim;
	if (is_own) {
		is_over = more->is_over;
		more->claim = more->is_over = 0;
	}
	if (more->generation == p->generation) {
		if (is_own)
			more->enforcement.limit = limit;
		enforce(&more->enforcement, p);
	}
	unlock(more);
	if (is_over)
		free_slot(f, slot);
	rewrite(skb, p);
	return 0;
}
