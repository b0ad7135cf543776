// SPDX-License-Identifier: GPL-2.0
/* A sendbox's port, before its queue: puts the packets of bundles into their classes. What belongs to no bundle, and
 * everything while the process is gone or hangs, goes to HTB's direct queue, which has no limit. */
#define MAX_EQUAL 2
#include "bundles.h"
#include "parse.h"
#include "message.h"
#include "shape.h"

char _license[] SEC("license") = "GPL";

/* Handle of the root qdisc, which is the class of unlimited packets too. */
const volatile u32 handle = 0;

/* Written by user space while the programs read; mappable. */
struct page {
	u64 beat_ns;  /* CLOCK_MONOTONIC: when the process was last seen alive */
	u64 stale_ns; /* age of a beat from which on nothing is shaped */
	u64 stale_packets; /* packets of bundles that went unlimited since the beat was stale */
	u8 bands[64]; /* by DSCP; 0 goes first */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct page);
} fw_page SEC(".maps");

/* Emptied by the kernel with its last descriptor in user space, so that a killed process shapes nothing. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} fw_shaping SEC(".maps");

/* ICMP's errors go first, whatever their DSCP: they are few, and senders wait for them. */
/* Bytes of the IP packets on the wire that a packet becomes. */
static __always_inline u64 wire_bytes(const struct __sk_buff *skb, const struct packet *p)
{
	u32 segments = skb->gso_segs;

	return p->ip_bytes + (u64)(segments > 1 ? segments - 1 : 0) * p->payload_at;
}

static __always_inline bool is_icmp(const struct packet *p)
{
	return p->protocol == 1 || p->protocol == 58;
}

SEC("tc")
int fw_shape(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct packet *p = packet_at_work();
	const struct settings *settings;
	u32 bundle, zero = 0, band, bands, leaves, place, dscp;
	struct page *page = bpf_map_lookup_elem(&fw_page, &zero);
	u64 now = bpf_ktime_get_ns();
	struct counters *counters;
	bool is_plain = false;

	if (!p || !page)
		return handle;
	if (link_header == 14 && data + 14 <= end)
		is_plain = read_plain(p, data + 14, end, skb->len - 14, BITS16(data + 12));
	if (!is_plain && !parse(skb))
		return handle;
	if (carries_message(p, message_port))
		return handle;
	bundle = p->is_v6 ? bundle_of_v6(&p->words[2]) : bundle_of_v4(p->words[0] >> 32);
	settings = bpf_map_lookup_elem(&fw_settings, &bundle);
	if (!settings || !READ_ONCE(settings->is_shaped))
		return handle;
	if (now - READ_ONCE(page->beat_ns) > READ_ONCE(page->stale_ns) &&
	    READ_ONCE(page->beat_ns) < now) {
		__sync_fetch_and_add(&page->stale_packets, 1);
		return handle;
	}
	bands = settings->bands;
	leaves = settings->leaves;
	if (bands == 0 || leaves == 0)
		return handle;
	dscp = (p->traffic_class >> 2) & 63;
	band = is_icmp(p) ? 0 : min((u32)page->bands[dscp], bands - 1);
	place = bundle * bands * leaves + band * leaves;
	counters = counters_of(bundle, bpf_get_smp_processor_id());
	if (counters) {
		counters->bytes += wire_bytes(skb, p);
		counters->packets += 1;
	}
	if (leaves > 1)
		place = leaf_of(p, band, place, leaves, now);
	return handle | ((settings->first_class + place - bundle * bands * leaves) & 0xffff);
}

SEC("tc")
int fw_classify(struct __sk_buff *skb)
{
	bpf_tail_call(skb, &fw_shaping, 0);
	return handle;
}
