/* SPDX-License-Identifier: GPL-2.0 */
/* Counts the packets on the wire that a packet is, and tells of those that are boundaries. */
#pragma once

#include "identity.h"
#include "maps.h"

/* Time in which equal boundaries are told MAX_EQUAL times and no more: a flow of equal packets must not keep user
 * space busy. A receivebox tells of one, a sendbox needs the second to know that its mark is ambiguous. */
#define EQUAL_NS 100000000
#define ECN_CE 3

/* Kinds of segmentation, of include/linux/skbuff.h: segments of which are not those of the headers that were read. */
enum {
	GSO_GRE = 3 << 6,
	GSO_IPXIP = 3 << 8,
	GSO_UDP_TUNNEL = 3 << 10,
	GSO_SCTP_AND_ESP = 3 << 14,
	GSO_UDP_FRAGMENTS = 1 << 16,
	GSO_OTHERS = GSO_GRE | GSO_IPXIP | GSO_UDP_TUNNEL | GSO_SCTP_AND_ESP | GSO_UDP_FRAGMENTS,
};

/* One packet on the wire. */
struct wire_packet {
	u64 hash;
	u32 bytes;
	bool has_hash;
};

static __always_inline void sum(struct event *event, u32 bundle)
{
	u64 bytes = 0, packets = 0, ce_bytes = 0, ce_packets = 0;

	for (u32 cpu = 0; cpu < processors; cpu++) {
		const struct counters *other = counters_of(bundle, cpu);

		if (!other)
			break;
		bytes += READ_ONCE(other->bytes);
		packets += READ_ONCE(other->packets);
		ce_bytes += READ_ONCE(other->ce_bytes);
		ce_packets += READ_ONCE(other->ce_packets);
	}
	event->bytes = bytes;
	event->packets = packets;
	event->ce_bytes = ce_bytes;
	event->ce_packets = ce_packets;
}

static __noinline int tell(struct counters *counters, u32 bundle, u64 hash, u32 fields)
{
	u64 now = bpf_ktime_get_ns();
	struct event *event;

	if (counters->told == hash && counters->told_times && now - counters->told_ns < EQUAL_NS && !test_run) {
		if (counters->told_times >= MAX_EQUAL)
			return 0;
		counters->told_times += 1;
	} else {
		counters->told = hash;
		counters->told_ns = now;
		counters->told_times = 1;
	}
	event = bpf_ringbuf_reserve(&fw_events, sizeof(*event), 0);
	if (!event) {
		counters->lost += 1;
		return 0;
	}
	event->time_ns = now;
	event->hash = hash;
	event->bundle = bundle;
	event->fields = fields;
	sum(event, bundle);
	bpf_ringbuf_submit(event, 0);
	return 0;
}

static __always_inline void count(struct counters *counters, u32 bytes, bool is_ce)
{
	counters->bytes += bytes;
	counters->packets += 1;
	if (is_ce) {
		counters->ce_bytes += bytes;
		counters->ce_packets += 1;
	}
}

/* A super-packet while it is expanded. */
struct expansion {
	SOURCE source;
	struct packet *p;
	struct counters *counters;
	const struct settings *settings;
	u32 bundle;
	u32 size;
	u32 fixed_id;
	u32 network;
};

/* Words of the segment that begins `start` bytes into the payload of a UDP super-packet. */
static __always_inline bool read_segment(struct expansion *e, u32 start, u32 part)
{
	struct packet *p = e->p;
	const u64 *head = (const u64 *)p->raw;
	u64 first = p->is_v6 ? p->words[4] : p->words[1];

	if (!load_payload(e->source, p, e->network + p->payload_at + start, part))
		return false;
	set_word(p, 0, transport_word(first, __builtin_bswap16(part), UDP));
	set_word(p, 1, head[0]);
	set_word(p, 2, head[1]);
	set_word(p, 3, head[2]);
	return true;
}

/* Words of the next segment of a TCP super-packet: ID + 1 unless IDs are fixed, seq + size. */
static __always_inline void advance_segment(struct expansion *e)
{
	struct packet *p = e->p;
	u64 numbers = p->is_v6 ? p->words[5] : p->words[2];
	u32 seq = __builtin_bswap32((u32)numbers) + e->size;

	set_word(p, 1, (numbers >> 32 << 32) | __builtin_bswap32(seq));
	if (!p->is_v6 && !e->fixed_id) {
		u64 word = p->words[1];
		u16 id = __builtin_bswap16((u16)(word >> 32)) + 1;

		p->words[1] = (word & ~((u64)0xffff << 32)) | (u64)__builtin_bswap16(id) << 32;
	}
}

static long count_segment(u32 index, struct expansion *e)
{
	struct packet *p = e->p;
	u32 start = index * e->size, payload = p->end - p->payload_at, part;
	u64 hash;

	if (start >= payload)
		return 1;
	part = min(e->size, payload - start);
	if (p->protocol == UDP && !read_segment(e, start, part))
		return 1;
	count(e->counters, p->payload_at + part, (p->traffic_class & 3) == ECN_CE);
	hash = siphash13(p->words, p->used, e->settings->key[0], e->settings->key[1]);
	if ((hash & READ_ONCE(e->settings->mask)) == 0)
		tell(e->counters, e->bundle, hash, p->fields);
	if (p->protocol == TCP)
		advance_segment(e);
	return 0;
}

/* Counts the packet at work, which is of the bundle. `size` bytes of payload are in each segment, 0 if it is none;
 * `kind` is the kernel's kind of segmentation. */
static __always_inline void count_packet(SOURCE source, struct packet *p, u32 bundle,
					 const struct settings *settings, u32 size, u32 kind, bool fixed_id,
					 u32 network)
{
	struct counters *counters = counters_of(bundle, bpf_get_smp_processor_id());
	u32 payload = p->end - p->payload_at;
	u64 hash;

	if (!counters)
		return;
	if (size && p->fields != NO_IDENTITY && !(kind & GSO_OTHERS) && payload > size &&
	    (payload + size - 1) / size <= MAX_SEGMENTS) {
		struct expansion e = {
			.source = source,
			.p = p,
			.counters = counters,
			.settings = settings,
			.bundle = bundle,
			.size = size,
			.fixed_id = fixed_id,
			.network = network,
		};

		bpf_loop(MAX_SEGMENTS, count_segment, &e, 0);
		return;
	}
	count(counters, p->ip_bytes, (p->traffic_class & 3) == ECN_CE);
	if (p->fields == NO_IDENTITY)
		return;
	hash = siphash13(p->words, p->used, settings->key[0], settings->key[1]);
	if ((hash & READ_ONCE(settings->mask)) == 0)
		tell(counters, bundle, hash, p->fields);
}
