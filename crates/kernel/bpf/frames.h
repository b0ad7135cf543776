/* SPDX-License-Identifier: GPL-2.0 */
/* Frames of flows: their slots, the events that the plane hears of, its stages, and the call of a
 * flow's program. One copy per datapath: each has these maps. */
#pragma once

#include "flow.h"

struct plane plane SEC(".data.plane");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(struct frame)); /* set before load, variables included */
} fw_frames SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1); /* set before load */
	__uint(value_size, sizeof(u32));
} fw_free SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22); /* set before load */
} fw_events SEC(".maps");

static __always_inline void send_event(struct frame *f, u32 kind)
{
	f->report.kind = kind;
	if (bpf_ringbuf_output(&fw_events, &f->report, sizeof(f->report), BPF_RB_FORCE_WAKEUP))
		__sync_fetch_and_add(&plane.lost_events, 1);
	f->report.kind = EVENT_REPORT;
}

/* A slot for a new flow, NO_SLOT if all are taken. */
static __always_inline u32 take_slot(void)
{
	u32 slot;

	if (!bpf_map_pop_elem(&fw_free, &slot))
		return slot;
	if (READ_ONCE(plane.next_slot) < plane.max_flows) {
		slot = __sync_fetch_and_add(&plane.next_slot, 1);
		if (slot < plane.max_flows)
			return slot;
	}
	__sync_fetch_and_add(&plane.no_slot, 1);
	return NO_SLOT;
}

static __always_inline bool plane_is_silent(u64 now)
{
	return (s64)(now - READ_ONCE(plane.heartbeat_us)) > (s64)plane.silent_after_us;
}

/* Returns only when there is no such program. An index that is a constant lets the JIT jump to
 * the program directly; from the fourth on the jump is indirect. */
static __always_inline void run_program(void *ctx, void *programs, u32 index)
{
	switch (index) {
	case 0:
		bpf_tail_call_static(ctx, programs, 0);
		break;
	case 1:
		bpf_tail_call_static(ctx, programs, 1);
		break;
	case 2:
		bpf_tail_call_static(ctx, programs, 2);
		break;
	default:
		bpf_tail_call(ctx, programs, index);
	}
}

/* Takes a complete stage that is meant for this flow; the program applies the values. */
static __always_inline void accept_stage(struct frame *f)
{
	u32 sequence = READ_ONCE(f->stage_sequence), pending = f->applied;

	if (sequence != pending && !(sequence & 1) &&
	    READ_ONCE(f->stage.generation) == f->report.generation) {
		pending = sequence;
		f->program = READ_ONCE(f->stage.program);
	}
	f->pending = pending;
}
