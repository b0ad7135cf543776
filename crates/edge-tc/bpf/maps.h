/* SPDX-License-Identifier: GPL-2.0 */
/* Maps of the programs at guests' ports, beside those of `frames.h`. */
#pragma once

#include "edge.h"
#include "frames.h"

/* Open connections; sized before load. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct key);
	__type(value, struct connection);
} fw_connections SEC(".maps");

/* By slot, as fw_frames; sized before load. Only what can be mapped begins at a page, and its entries with it at
 * cache lines. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct controlled);
} fw_controlled SEC(".maps");

/* Connections that are opening, or were met midway: a flood displaces only these. Sized before load. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct key);
	__type(value, struct candidate);
} fw_candidates SEC(".maps");

/* Two halves of MAX_RULES each; `settings.active` says which one holds. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * MAX_RULES);
	__type(key, u32);
	__type(value, struct rule);
} fw_rules SEC(".maps");

/* The port sets that an interface is in, a bit each, by its index; sized before load. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u64);
} fw_ports SEC(".maps");

/* Programs of flows by index, and what they leave to: the program that enforces. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, MAX_PROGRAMS);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u32));
} fw_programs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u32));
} fw_enforcing SEC(".maps");

struct settings settings SEC(".data.settings");

/* Set before load: the time is `settings.clock_ns`. */
const volatile bool test_clock = false;

static __always_inline u64 coarse_clock_ns(void)
{
	return test_clock ? READ_ONCE(settings.clock_ns) : bpf_ktime_get_coarse_ns();
}

static __always_inline u64 clock_ns(void)
{
	return test_clock ? READ_ONCE(settings.clock_ns) : bpf_ktime_get_ns();
}
