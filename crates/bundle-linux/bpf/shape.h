/* SPDX-License-Identifier: GPL-2.0 */
/* Hands out leaf classes to flows. A flow keeps its leaf while it sends; a new one gets the leaf that was unused for
 * the longest time among a few, so that a sparse flow hardly ever shares the leaf of a bulk one. */
#pragma once

#include "identity.h"

#define TRIED_LEAVES 8
/* A flow that was silent for so long may get another leaf: nothing of it waits any more. */
#define IDLE_NS 1000000000ull

struct flow {
	u64 last_ns;
	u32 leaf;
	u32 spare;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 16);
	__type(key, u64);
	__type(value, struct flow);
} fw_flows SEC(".maps");

/* When a packet was last put into each leaf: CLOCK_MONOTONIC, ns. Mappable. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} fw_leaves SEC(".maps");

/* Key of the hash of flows, random at each start: nobody can make flows that share a leaf. */
const volatile u64 flow_key[2] = {};

/* Addresses, ports, protocol; of ESP the SPI; of fragments and other protocols the addresses. */
static __always_inline u64 flow_of(const struct packet *p, u32 band)
{
	u64 words[6] = {};
	u32 at = p->is_v6 ? 4 : 1;

	for (u32 i = 0; i < 4; i++)
		words[i] = i < at ? p->words[i] : 0;
	words[4] = (u64)p->protocol << 32 | (u64)band << 40;
	if (p->fields == ESP_FIELDS)
		words[5] = (u32)(p->is_v6 ? p->words[5] : p->words[2]);
	else if (p->fields != NO_IDENTITY)
		words[5] = (u32)(p->is_v6 ? p->words[4] : p->words[1]);
	return siphash13(words, 6, flow_key[0], flow_key[1]);
}

/* A leaf of the `leaves` from `first` on that was unused for long. */
static __always_inline u32 choose_leaf(u32 first, u32 leaves, u64 now)
{
	u32 start = bpf_get_prandom_u32(), best = first;
	u64 longest = 0;

	for (u32 i = 0; i < TRIED_LEAVES; i++) {
		u32 leaf = first + (start + i) % leaves;
		const u64 *last = bpf_map_lookup_elem(&fw_leaves, &leaf);
		u64 unused = last ? now - READ_ONCE(*last) : 0;

		if (unused >= longest) {
			longest = unused;
			best = leaf;
		}
	}
	return best;
}

/* The leaf of the flow of the packet at work, out of `leaves` from `first` on: places in fw_leaves. */
static __always_inline u32 leaf_of(const struct packet *p, u32 band, u32 first, u32 leaves, u64 now)
{
	u64 key = flow_of(p, band);
	struct flow *flow = bpf_map_lookup_elem(&fw_flows, &key);
	struct flow new = { .last_ns = now };
	u64 *last;
	u32 leaf;

	/* A leaf of another band or bundle: prefixes have changed. */
	if (flow && now - flow->last_ns < IDLE_NS && flow->leaf - first < leaves) {
		leaf = flow->leaf;
		flow->last_ns = now;
	} else {
		leaf = new.leaf = choose_leaf(first, leaves, now);
		bpf_map_update_elem(&fw_flows, &key, &new, BPF_ANY);
	}
	last = bpf_map_lookup_elem(&fw_leaves, &leaf);
	if (last)
		WRITE_ONCE(*last, now);
	return leaf;
}
