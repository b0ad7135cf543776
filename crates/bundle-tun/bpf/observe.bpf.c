// SPDX-License-Identifier: GPL-2.0
/* The receivebox's eyes. `fw_observe` is for the ingress of the port from the network: it counts a
 * bundle's packets, finds boundary packets, and tells of them by a ring. No packet changes.
 * `src/observer.rs` is the other side; `fairwater_bundle`'s identity, boundary and segments are the
 * reference, to which tests hold this. */
#include "network.h"

char _license[] SEC("license") = "GPL";

#define PASS (-1) /* TCX_NEXT: the next program decides */
#define MAX_SEGMENTS 1024 /* as fairwater_bundle::MAX_SEGMENTS */
#define MAX_EXTENSIONS 8
#define PAYLOAD_WORDS 3 /* of UDP, in the identity */
#define MAX_BUNDLES 4096
#define ETHERNET_HEADER 14

enum extension {
	HOP_BY_HOP = 0,
	ROUTING = 43,
	FRAGMENT = 44,
	AUTHENTICATION = 51,
	DESTINATION = 60,
	MOBILITY = 135,
	HIP = 139,
	SHIM6 = 140,
};

struct bundle {
	u64 key[2]; /* of the boundary hash */
	u64 mask;   /* N - 1; all ones while nobody is told */
	u64 bytes;  /* of IP packets */
	u64 packets;
	u64 ce_bytes;
	u64 ce_packets;
	u32 any_destination;
	u32 spare;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_BUNDLES);
	__type(key, u32);
	__type(value, struct bundle);
} fw_bundles SEC(".maps");

/* By prefix of the source: index of the bundle. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct prefix_key);
	__type(value, u32);
} fw_sources SEC(".maps");

/* By index of the bundle and prefix of the destination. */
struct destination_key {
	u32 length; /* bits: 32 and those of the prefix */
	u32 bundle;
	u8 address[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct destination_key);
	__type(value, u8);
} fw_destinations SEC(".maps");

/* A boundary packet, with the counters up to it. */
struct boundary {
	u64 hash;
	u64 received_ns; /* CLOCK_MONOTONIC */
	u64 bytes;
	u64 packets;
	u64 ce_bytes;
	u64 ce_packets;
	u32 bundle; /* index */
	u32 spare;
};

const struct boundary *unused_boundary __attribute__((unused));

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} fw_boundaries SEC(".maps");

struct observation {
	u64 lost; /* boundaries that the ring had no room for */
	u16 message_port; /* in network byte order */
	u16 spare[3];
};

struct observation observation SEC(".data.observation");

struct sip {
	u64 v0, v1, v2, v3;
};

static __always_inline u64 rotated(u64 x, u32 by)
{
	return x << by | x >> (64 - by);
}

static __always_inline void sip_round(struct sip *s)
{
	s->v0 += s->v1;
	s->v1 = rotated(s->v1, 13) ^ s->v0;
	s->v0 = rotated(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = rotated(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = rotated(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = rotated(s->v1, 17) ^ s->v2;
	s->v2 = rotated(s->v2, 32);
}

static __always_inline void absorb(struct sip *s, u64 word)
{
	s->v3 ^= word;
	sip_round(s);
	s->v0 ^= word;
}

/* SipHash-1-3 of what was absorbed, so many words. */
static __always_inline u64 finish(struct sip *s, u32 words)
{
	absorb(s, (u64)words * 8 << 56);
	s->v2 ^= 0xff;
	sip_round(s);
	sip_round(s);
	sip_round(s);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

/* A packet, or a super-packet, at work. */
struct packet {
	struct __sk_buff *skb;
	struct bundle *bundle;
	struct sip addresses; /* the hash's state after them */
	u64 words[4];         /* of the transport, in the identity */
	u64 bytes, packets, ce_bytes, ce_packets; /* counted before this packet */
	u32 index;            /* of the bundle */
	u32 address_words;
	u32 headers;          /* bytes, the transport's among them */
	u32 payload;          /* bytes */
	u32 segment;          /* payload bytes of each segment but the last */
	u32 segments;
	u8 protocol;
	bool is_v6;
	bool is_marked;
	bool has_identity;
};

/* Reads the transport's words of a whole packet; where its payload begins, or 0 without identity. */
static __always_inline u32 read_transport(struct packet *p, u32 at, u32 end, u16 id)
{
	struct __sk_buff *skb = p->skb;
	u8 *words = (u8 *)p->words;

	if (p->protocol == TCP) {
		u8 header[20];
		u32 size;

		if (end < at + 20 || load(skb, at, header, 20))
			return 0;
		size = (header[12] >> 4) * 4;
		if (size < 20 || end < at + size)
			return 0;
		__builtin_memcpy(words, header, 4);
		__builtin_memcpy(words + 4, &id, 2);
		words[6] = TCP;
		__builtin_memcpy(words + 8, header + 4, 8);
		p->payload = end - at - size;
		return at + size;
	}
	if (p->protocol == UDP) {
		u8 header[8];
		u32 length;

		if (end < at + 8 || load(skb, at, header, 8))
			return 0;
		length = (u32)header[4] << 8 | header[5];
		if (length < 8 || length > end - at)
			return 0;
		__builtin_memcpy(words, header, 4);
		words[6] = UDP;
		p->payload = length - 8;
		return at + 8;
	}
	if (p->protocol == ESP) {
		if (end < at + 8 || load(skb, at, words + 8, 8))
			return 0;
		words[6] = ESP;
		/* Its header counts as payload there too: nothing of ESP is segmented. */
		return at;
	}
	return 0;
}

/* The options of a TCP header, word by word: the first timestamps (RFC 7323 §3.2). A malformed
 * option ends the list without any, as in fairwater_wire. */
struct options {
	u8 bytes[40];
	u32 at;
	u32 end;
	u32 tsval;
	u32 found;
};

static long option(u32 index, struct options *o)
{
	u32 at = o->at;
	u8 kind, length;

	if (at >= o->end || at >= 40)
		return 1;
	kind = o->bytes[at];
	if (kind == 0)
		return 1;
	if (kind == 1) {
		o->at = at + 1;
		return 0;
	}
	if (at + 1 >= o->end || at + 1 >= 40) {
		o->found = 0;
		return 1;
	}
	length = o->bytes[at + 1];
	if (length < 2 || at + length > o->end) {
		o->found = 0;
		return 1;
	}
	if (kind == 8 && length == 10 && at <= 30 && !o->found) {
		__builtin_memcpy(&o->tsval, &o->bytes[at + 2], 4);
		o->found = 1;
	}
	o->at = at + length;
	return 0;
}

static __always_inline void read_timestamp(struct packet *p, u32 at, u32 payload)
{
	struct options o = {};
	u32 length = payload - at - 20;

	/* The usual form: two no-operations, then timestamps. */
	if (length < 12 || length > 40)
		return;
	if (load(p->skb, at + 20, o.bytes, 12))
		return;
	if (o.bytes[0] == 1 && o.bytes[1] == 1 && o.bytes[2] == 8 && o.bytes[3] == 10 && length == 12) {
		__builtin_memcpy(&p->words[2], &o.bytes[4], 4);
		return;
	}
	/* A constant length for each word: the verifier knows then what was written. */
	for (u32 i = 12; i < 40; i += 4)
		if (i < length)
			load(p->skb, at + 20 + i, o.bytes + i, 4);
	o.end = length;
	bpf_loop(40, option, &o, 0);
	if (o.found)
		__builtin_memcpy(&p->words[2], &o.tsval, 4);
}

/* The hash of a segment; its payload begins at `at` and has so many bytes. */
static __always_inline u64 hash_of(struct packet *p, u32 segment, u32 at, u32 length)
{
	struct sip s = p->addresses;
	u32 words = p->address_words;

	if (p->protocol == TCP) {
		u64 first = p->words[0], second = p->words[1];
		u8 *ports = (u8 *)&first, *numbers = (u8 *)&second;
		u32 seq;
		u16 id;

		if (segment) {
			__builtin_memcpy(&id, ports + 4, 2);
			__builtin_memcpy(&seq, numbers, 4);
			/* Senders that do not count leave 0 in every packet. */
			if (!p->is_v6 && id)
				id = __builtin_bswap16(__builtin_bswap16(id) + segment);
			seq = __builtin_bswap32(__builtin_bswap32(seq) + segment * p->segment);
			__builtin_memcpy(ports + 4, &id, 2);
			__builtin_memcpy(numbers, &seq, 4);
		}
		absorb(&s, first);
		absorb(&s, second);
		absorb(&s, p->words[2]);
		return finish(&s, words + 3);
	}
	if (p->protocol == UDP) {
		u64 first = p->words[0], head[PAYLOAD_WORDS] = {};
		u16 size = __builtin_bswap16((u16)length);

		__builtin_memcpy((u8 *)&first + 4, &size, 2);
		if (length >= 24) {
			load(p->skb, at, head, 24);
		} else if (length) {
			/* The verifier wants to see that the length is between 1 and 23. */
			u32 few = length & 31;

			if (few && few < 24)
				load(p->skb, at, head, few);
		}
		absorb(&s, first);
		absorb(&s, head[0]);
		absorb(&s, head[1]);
		absorb(&s, head[2]);
		return finish(&s, words + 4);
	}
	absorb(&s, p->words[0]);
	absorb(&s, p->words[1]);
	return finish(&s, words + 2);
}

static __always_inline void tell(struct packet *p, u64 hash, u32 packets, u32 bytes)
{
	struct boundary *told = bpf_ringbuf_reserve(&fw_boundaries, sizeof(*told), 0);

	if (!told) {
		__sync_fetch_and_add(&observation.lost, 1);
		return;
	}
	told->hash = hash;
	told->received_ns = bpf_ktime_get_ns();
	told->bytes = p->bytes + bytes;
	told->packets = p->packets + packets;
	told->ce_bytes = p->ce_bytes + (p->is_marked ? bytes : 0);
	told->ce_packets = p->ce_packets + (p->is_marked ? packets : 0);
	told->bundle = p->index;
	told->spare = 0;
	bpf_ringbuf_submit(told, 0);
}

static long segment(u32 index, struct packet *p)
{
	u32 start = index * p->segment, length;
	u64 hash;

	if (start >= p->payload)
		return 1;
	length = min(p->payload - start, p->segment);
	hash = hash_of(p, index, p->headers + start, length);
	if (!(hash & p->bundle->mask))
		tell(p, hash, index + 1, (index + 1) * p->headers + start + length);
	return 0;
}

/* Past the extension headers of IPv6; the transport's protocol goes to `protocol`. 0: a fragment, or
 * what cannot be read. */
struct extensions {
	struct __sk_buff *skb;
	u32 at;
	u8 next;
	bool is_done;
};

static long extension(u32 index, struct extensions *e)
{
	u8 head[4];
	u32 length;

	if (e->next != HOP_BY_HOP && e->next != DESTINATION && e->next != ROUTING && e->next != MOBILITY &&
	    e->next != HIP && e->next != SHIM6 && e->next != FRAGMENT && e->next != AUTHENTICATION) {
		e->is_done = true;
		return 1;
	}
	if (load(e->skb, e->at, head, 4))
		return 1;
	length = e->next == FRAGMENT ? 8 : e->next == AUTHENTICATION ? 4 * (head[1] + 2) : 8 * (head[1] + 1);
	/* Only a fragment that is a whole packet goes on (RFC 6946). */
	if (e->next == FRAGMENT && (head[2] || (head[3] & 0xf9)))
		return 1;
	if (e->next == ROUTING && head[3])
		return 1;
	e->next = head[0];
	e->at += length;
	return 0;
}

/* Counts the packets on the wire that this is, of so many bytes in all. */
static __always_inline void count(struct packet *p, u32 bytes)
{
	struct bundle *b = p->bundle;

	p->bytes = __sync_fetch_and_add(&b->bytes, bytes);
	p->packets = __sync_fetch_and_add(&b->packets, p->segments);
	if (p->is_marked) {
		p->ce_bytes = __sync_fetch_and_add(&b->ce_bytes, bytes);
		p->ce_packets = __sync_fetch_and_add(&b->ce_packets, p->segments);
	} else {
		p->ce_bytes = READ_ONCE(b->ce_bytes);
		p->ce_packets = READ_ONCE(b->ce_packets);
	}
}

SEC("tcx/ingress")
int fw_observe(struct __sk_buff *skb)
{
	struct destination_key to = { .length = 160 };
	struct prefix_key from = { .length = 128 };
	struct packet p = { .skb = skb };
	u32 at, end, *index, payload = 0, bytes;
	u64 addresses[4] = {};
	bool is_whole;
	u16 id = 0;
	u8 head[20];

	if (skb->vlan_present)
		return PASS;
	if (skb->protocol == __builtin_bswap16(IPV4)) {
		u32 source, destination;

		if (load(skb, 0, head, 20))
			return PASS;
		__builtin_memcpy(addresses, head + 12, 8);
		__builtin_memcpy(&source, head + 12, 4);
		__builtin_memcpy(&destination, head + 16, 4);
		map_ipv4(from.address, source);
		map_ipv4(to.address, destination);
		at = (head[0] & 0xf) * 4;
		end = (u32)head[2] << 8 | head[3];
		p.is_marked = (head[1] & 3) == 3;
		p.protocol = head[9];
		is_whole = !(head[6] & 0x3f) && !head[7];
		__builtin_memcpy(&id, head + 4, 2);
		p.address_words = 1;
	} else if (skb->protocol == __builtin_bswap16(IPV6)) {
		struct extensions e = { .skb = skb, .at = 40 };

		if (load(skb, 0, head, 8) || load(skb, 8, addresses, 32))
			return PASS;
		__builtin_memcpy(from.address, addresses, 16);
		__builtin_memcpy(to.address, addresses + 2, 16);
		end = 40 + ((u32)head[4] << 8 | head[5]);
		p.is_marked = (head[1] & 0x30) == 0x30;
		e.next = head[6];
		bpf_loop(MAX_EXTENSIONS + 1, extension, &e, 0);
		p.protocol = e.next;
		at = e.at;
		is_whole = e.is_done;
		p.is_v6 = true;
		p.address_words = 4;
	} else {
		return PASS;
	}
	index = bpf_map_lookup_elem(&fw_sources, &from);
	if (!index)
		return PASS;
	p.index = to.bundle = *index;
	p.bundle = bpf_map_lookup_elem(&fw_bundles, &p.index);
	if (!p.bundle || (!p.bundle->any_destination && !bpf_map_lookup_elem(&fw_destinations, &to)))
		return PASS;
	/* BIG TCP states 0. */
	if ((p.is_v6 ? end == 40 : !end) && skb->len > 0xffff)
		end = skb->len - ETHERNET_HEADER;
	if (is_message(skb, p.protocol, at, end, READ_ONCE(observation.message_port)))
		return PASS;
	if (is_whole)
		payload = read_transport(&p, at, end, id);
	p.has_identity = payload;
	p.segments = 1;
	bytes = end;
	p.headers = payload;
	p.segment = p.payload;
	if (payload && skb->gso_size && skb->gso_size < p.payload && p.protocol != ESP) {
		u32 segments = (p.payload + skb->gso_size - 1) / skb->gso_size;

		if (segments <= MAX_SEGMENTS) {
			p.segment = skb->gso_size;
			p.segments = segments;
			bytes = segments * payload + p.payload;
		}
	}
	count(&p, bytes);
	if (!p.has_identity)
		return PASS;
	if (p.protocol == TCP)
		read_timestamp(&p, at, payload);
	p.addresses.v0 = 0x736f6d6570736575ULL ^ p.bundle->key[0];
	p.addresses.v1 = 0x646f72616e646f6dULL ^ p.bundle->key[1];
	p.addresses.v2 = 0x6c7967656e657261ULL ^ p.bundle->key[0];
	p.addresses.v3 = 0x7465646279746573ULL ^ p.bundle->key[1];
	absorb(&p.addresses, addresses[0]);
	if (p.is_v6) {
		absorb(&p.addresses, addresses[1]);
		absorb(&p.addresses, addresses[2]);
		absorb(&p.addresses, addresses[3]);
	}
	if (p.segments > 1) {
		bpf_loop(p.segments, segment, &p, 0);
	} else {
		u64 hash = hash_of(&p, 0, payload, p.payload);

		if (!(hash & p.bundle->mask))
			tell(&p, hash, 1, bytes);
	}
	return PASS;
}
