/* SPDX-License-Identifier: GPL-2.0 */
/* What the programs that count share with user space, and constants of one loading. */
#pragma once

#include "types.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct packet);
} fw_packet SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct settings);
} fw_settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counters);
} fw_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} fw_events SEC(".maps");

/* Bytes of the link's header: 14 with Ethernet, 0 where packets begin with IP. */
const volatile u32 link_header = 14;
const volatile u32 processors = 1;
/* Messages between boxes have this port at one end; network byte order. */
const volatile u16 message_port = 0;
/* For runs without an interface: the mark says the kind of segmentation, and equal boundaries are told. */
const volatile bool test_run = false;

static __always_inline struct counters *counters_of(u32 bundle, u32 processor)
{
	u32 place = bundle * processors + processor;

	return bpf_map_lookup_elem(&fw_counters, &place);
}

static __always_inline struct packet *packet_at_work(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&fw_packet, &zero);
}
