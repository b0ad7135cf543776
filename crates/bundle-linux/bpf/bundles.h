/* SPDX-License-Identifier: GPL-2.0 */
/* Which bundle an address belongs to: the longest prefix wins. */
#pragma once

#include "types.h"

#define MAX_PREFIXES 65536
#define NO_BUNDLE 0xffffffff

struct prefix_v4 {
	u32 bits;
	u32 address;
};

struct prefix_v6 {
	u32 bits;
	u64 address[2] __attribute__((packed, aligned(4)));
};

#define PREFIXES(name, key_type)                          \
	struct {                                          \
		__uint(type, BPF_MAP_TYPE_LPM_TRIE);      \
		__uint(map_flags, BPF_F_NO_PREALLOC);     \
		__uint(max_entries, MAX_PREFIXES);        \
		__type(key, key_type);                    \
		__type(value, u32);                       \
	} name SEC(".maps")

/* The bundle of the packet's source (at a receivebox) or destination (at a sendbox). */
PREFIXES(fw_v4, struct prefix_v4);
PREFIXES(fw_v6, struct prefix_v6);

static __always_inline u32 bundle_of_v4(u32 address)
{
	struct prefix_v4 key = { .bits = 32, .address = address };
	u32 *bundle = bpf_map_lookup_elem(&fw_v4, &key);

	return bundle ? *bundle : NO_BUNDLE;
}

static __always_inline u32 bundle_of_v6(const u64 *address)
{
	struct prefix_v6 key = { .bits = 128 };
	u32 *bundle;

	key.address[0] = address[0];
	key.address[1] = address[1];
	bundle = bpf_map_lookup_elem(&fw_v6, &key);
	return bundle ? *bundle : NO_BUNDLE;
}
