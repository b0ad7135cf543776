/* SPDX-License-Identifier: GPL-2.0 */
/* The packet that a program is at work on, per CPU: what was read of it, and what became of it.
 * Programs at a port run with bottom halves off, so no other takes the place meanwhile. */
#pragma once

#include "edge.h"

enum tcp_flags {
	FIN = 0x001,
	SYN = 0x002,
	RST = 0x004,
	PSH = 0x008,
	ACK = 0x010,
	ECE = 0x040,
	CWR = 0x080,
	AE = 0x100,
	TCP_FLAGS = 0x1ff,
};

/* The ACE field (RFC 9768 §3.2.2). */
#define ACE(flags) (((flags) >> 6) & 7)

enum ecn_field { NOT_ECT = 0, ECT_1 = 1, ECT_0 = 2, CE = 3 };

enum option_bits {
	OPTION_MSS = SYN_MSS,
	OPTION_SCALE = SYN_SCALE,
	OPTION_SACK_PERMITTED = SYN_SACK,
	OPTION_TIMESTAMPS = SYN_TIMESTAMPS,
	OPTION_SIGNED = SYN_SIGNED,
	OPTION_MPTCP = SYN_MPTCP,
};

/* What a packet of an open connection turned out to be. */
enum event_of_packet {
	NOTHING_SENT, /* fairwater_edge::track::Sent */
	SENT_NEW,
	SENT_AGAIN,
	SENT_AFTER_TIMEOUT,
	ACKED_NEW, /* fairwater_edge::track::Acked */
	ACKED_DUPLICATE,
	ACKED_SAME,
	OTHER,
	/* It passes untouched. */
	OUT_OF_WINDOW,
	RESET_OUT_OF_WINDOW,
	ACK_BEYOND,
	ACK_OLD,
};

#define TCP_HEADER 20
#define MAX_OPTION_BYTES 40

/* parse() returns READABLE for a whole TCP segment, NOT_TCP for other transports, else the reason. */
enum parsed { READABLE = -1, NOT_TCP = -2 };

struct packet {
	struct key key;
	u64 now_ns;
	u32 direction; /* enum direction */
	u32 network_at;
	u32 transport_at;
	u32 seq;
	u32 ack;
	u32 payload; /* bytes */
	u16 flags;   /* enum tcp_flags */
	u16 window;  /* not scaled */
	u8 ecn;	     /* enum ecn_field */
	u8 options;  /* enum option_bits */
	u8 scale;
	u8 scale_at; /* offset of the first window-scale option's value in the TCP header */
	u16 mss;
	u16 ip_word; /* the first 16 bits of the IP header */
	u16 spare;
	u16 word; /* the TCP header's 16 bits with data offset and flags */
	u32 tsval;
	u32 tsecr;
	u32 sack_count;
	struct range sack[4];
	u8 raw[64]; /* the options */
	u32 options_size; /* bytes */
	u32 here; /* place in the options, while they are read */
	/* What tracking found. */
	u32 slot;
	u32 una;
	u32 nxt;
	u32 event; /* enum event_of_packet */
	u32 may_open;	/* the packet may be of a connection that is opening */
	u32 generation; /* of the flow in the slot */
	u32 claim;	/* by which the flow is claimed, if it is invoked */
	u8 is_invoked;	/* the flow is claimed, and its frame has the signals */
	/* What is enforced. */
	u8 is_rewritten; /* the following holds; else the packet stays as it is */
	u8 to_ecn;	 /* enum ecn_field */
	u8 spare2;
	u16 to_word; /* as `word` */
	u16 to_window;
	u32 kept; /* counts while samples are compacted */
	u64 opaque;
	struct sample newest;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct packet);
} fw_packet SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, u32);
	__type(value, u64);
} fw_counters SEC(".maps");

static __always_inline struct packet *packet_at_work(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&fw_packet, &zero);
}

static __always_inline void count(u32 counter)
{
	u64 *value = bpf_map_lookup_elem(&fw_counters, &counter);

	if (value)
		*value += 1;
}

/* The value, of which the verifier then knows nothing: ways that differ in it become one again. */
static __always_inline u32 opaque(struct packet *p, u32 value)
{
	WRITE_ONCE(p->opaque, value);
	return READ_ONCE(p->opaque);
}

/* Sequence numbers that the segment takes: payload, SYN and FIN. */
static __always_inline u32 segment_length(const struct packet *p)
{
	return p->payload + !!(p->flags & SYN) + !!(p->flags & FIN);
}
