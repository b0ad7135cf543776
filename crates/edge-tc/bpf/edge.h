/* SPDX-License-Identifier: GPL-2.0 */
/* What the programs at a guest's port keep and share: flows' keys, connections, rules, counters.
 * fairwater-edge is the reference for what the fields mean; `src/layout.rs` compares offsets. */
#pragma once

#include "flow.h"

/* Which way a packet goes through a guest's port. */
enum direction { FROM_GUEST = 0, TO_GUEST = 1 };

enum verdict { GO_ON = -1 /* TC_ACT_UNSPEC, TCX_NEXT */, DROP = 2 /* TC_ACT_SHOT, TCX_DROP */ };

/* Indices of `fw_counters`: first `fairwater_wire::ParseError`, then the rest of EdgeStatistics. */
enum counter {
	ETHERNET_TRUNCATED,
	VLAN_TRUNCATED,
	VLAN_DEPTH,
	NOT_IP,
	IP_VERSION,
	IPV4_TRUNCATED,
	IPV4_HEADER_LENGTH,
	IPV4_TOTAL_LENGTH,
	IPV6_TRUNCATED,
	IPV6_PAYLOAD_LENGTH,
	IPV6_EXTENSION_TRUNCATED,
	IPV6_EXTENSION_COUNT,
	IPV6_JUMBO,
	IPV6_ROUTED,
	TCP_TRUNCATED,
	TCP_DATA_OFFSET,
	UDP_TRUNCATED,
	UDP_LENGTH,
	TCP_OPTION_TRUNCATED,
	TCP_OPTION_LENGTH,
	IGNORED,	/* packets of TCP that did not fit their connection */
	RESETS_IGNORED, /* resets among them */
	FULL,		/* connections that found no room */
	POLICED,	/* packets dropped */
	CONTROLLED,	/* connections that came under an algorithm */
	EXEMPT,		/* connections that the rules would have controlled, and that are measured only */
	REDIRECTED,	/* packets that went to the process that buffers */
	BUFFER_FULL,	/* connections that were to be buffered, and found no room in fw_redirected */
	COUNTERS,
};

/* A VLAN identifier that is there; 0 is no tag. */
#define VLAN_PRESENT 0x1000

/* A guest's connection: fairwater_edge::FlowKey. */
struct key {
	u32 interface;
	u16 vlan[2];   /* identifier | VLAN_PRESENT, the outer first; 0 = no tag */
	u16 guest_port; /* host order */
	u16 peer_port;
	u32 is_v6;
	u32 guest[4]; /* network order; IPv4 in the first word */
	u32 peer[4];
};

/* What is to be done with a connection: fairwater_edge::Treatment. */
struct treatment {
	u16 algorithm; /* index among the algorithms of the plane's page */
	u8 is_control; /* 0: the connection passes */
	u8 ecn;
	u8 police;
	u8 max_scale; /* NO_SCALE leaves the peer's */
	u8 buffer; /* a process holds the guest's data, while it lives (redirect.h) */
	u8 spare;
};

#define NO_SCALE 0xff
#define MAX_RULES 64

enum rule_vlan { ANY_VLAN = 0xffff };
enum rule_family { ANY_FAMILY = 0, ONLY_IPV4 = 4, ONLY_IPV6 = 6 };

/* A rule. The first that matches a connection as its first SYN comes (or, of one met midway, as it is
 * taken into the table) gives the treatment; if none matches, the connection passes. A packet matches
 * if all of the conditions hold. */
struct rule {
	u64 port_sets;	 /* the interface is in one of these sets (fw_ports); 0 = any interface */
	u32 guest[4];	 /* address of the guest and its mask, network order, IPv4 in the first word: */
	u32 guest_mask[4]; /* matches if (address & mask) == guest */
	u32 peer[4];
	u32 peer_mask[4];
	u16 guest_ports[2]; /* first and last, host order; 0 and 65535 = any */
	u16 peer_ports[2];
	u16 vlan;   /* ANY_VLAN, 0 = untagged, or the outer identifier | VLAN_PRESENT */
	u16 family; /* enum rule_family */
	u32 spare;
	struct treatment treatment;
};

/* Written by the process; the programs only read. */
struct settings {
	u64 grace_ns;	/* how long a flow waits for its program before it is released */
	u64 idle_ns;	/* connections without a packet for so long are forgotten, */
	u64 closing_ns; /* and those that end after so long */
	u64 clock_ns;	/* the time, if the programs were loaded with `test_clock` */
	u32 active;	/* which half of fw_rules holds: 0 or 1 */
	u32 rule_count[2]; /* rules of each half, at most MAX_RULES */
	u32 gone; /* interface whose connections are to be forgotten, 0 = none */
};

enum candidate_kind { OPENING = 1, MIDWAY = 2 };

/* Bits of what a SYN says. */
enum syn_bits {
	SYN_SEEN = 1,
	SYN_MSS = 2,
	SYN_SCALE = 4,
	SYN_SACK = 8,
	SYN_TIMESTAMPS = 16,
	SYN_SIGNED = 32,
	SYN_MPTCP = 64,
};

/* What one end says by its SYN. */
struct syn {
	u32 iss;
	u32 end;
	u16 flags;
	u16 window; /* not scaled */
	u16 mss;
	u8 scale; /* as sent */
	u8 bits;  /* enum syn_bits */
};

/* A connection that waits for its third packet, or for a packet of the other direction. */
struct candidate {
	u64 began_ns;
	struct syn syns[2]; /* by enum direction: from the guest, from the peer. Midway: the first is the
			     * guest's packet (iss = sequence number, end), the second its ACK. */
	struct treatment treatment;
	u8 kind;       /* enum candidate_kind */
	u8 initiator;  /* enum direction */
	u8 translated_ecn;   /* ECN was offered to the peer for the guest */
	u8 translated_scale; /* the shift that the guest was told instead of the peer's, or NO_SCALE */
	u32 guest_repeats;   /* how many times the guest's SYN was seen before */
};

enum connection_bits {
	FIN_FROM_GUEST = 1,
	FIN_TO_GUEST = 2,
	IS_RESET = 4,
	IS_MIDWAY = 8,
	HAS_CANDIDATE = 16, /* another connection may be opening on the ports */
};

/* Why a connection is measured only: fairwater_edge::Exemption. */
enum fate { PASSED, EXEMPT_SIGNED, EXEMPT_MPTCP, EXEMPT_NATIVE_ECN, EXEMPT_MIDWAY, EXEMPT_NO_ROOM, CONTROLLED_FLOW };

/* Every open connection. Of one that an algorithm controls there is a `controlled` too, whose lock is over the
 * fields up to `seen_ns`. One that is measured only has no lock: packets of a direction write fields of their own,
 * and packets of one direction that CPUs handle at a time may leave either's numbers. */
struct connection {
	u32 slot;	/* NO_SLOT if no algorithm controls it */
	u32 generation; /* of the slot's flows, this one: another in `controlled` means that it ended */
	u32 una;
	u32 nxt;
	u32 guest_ack; /* what the guest has acknowledged of the peer's data */
	u32 guest_edge;
	u32 peer_edge; /* right edge of the window that the peer advertised last */
	u16 peer_field;
	u8 guest_scale;
	u8 peer_scale;
	u64 seen_ns; /* when a packet of it passed last */
	u32 bits;    /* enum connection_bits; changed by atomic operations */
	u16 mss;     /* bytes of payload */
	u8 fate;     /* enum fate */
	u8 police;
};
_Static_assert(sizeof(struct connection) <= 128, "tracked state per connection");

/* Both as fairwater-edge has them (MAX_RANGES, SLOTS). */
#define MAX_RANGES 8
#define MAX_SAMPLES 8

struct range {
	u32 start;
	u32 end;
};

/* Disjoint ranges of sequence numbers, ascending. */
struct ranges {
	u32 count;
	struct range of[MAX_RANGES];
};

enum sample_bits { HAS_TSVAL = 1, IS_AMBIGUOUS = 2, APP_LIMITED_SAMPLE = 4 };

/* A packet in flight of which the time is known. Times are the low 48 bits of ns, which tell apart what is less
 * than 39 hours apart, and the bytes delivered the low 32, of which no window has as many. */
struct sample {
	u32 end;
	u32 tsval;
	u32 first_end;
	u32 delivered; /* bytes */
	u32 sent;      /* low bits of ns; the high ones follow */
	u32 delivered_at;
	u32 first_sent;
	u16 sent_high;
	u16 delivered_at_high;
	u16 first_sent_high;
	u16 bits; /* enum sample_bits */
};

/* What a controlled guest has in flight: fairwater_edge::track::Sender. */
struct sender {
	u64 timer_ns;
	u64 srtt_ns;
	u64 variation_ns;
	u64 min_rtt_ns;
	u64 delivered_ns;
	u64 first_sent_ns;
	/* since the last invocation */
	u32 acked; /* bytes */
	u32 acked_packets;
	u32 sacked_bytes;
	u32 lost;
	u32 marked_bytes;
	u32 marked_packets;
	u32 mss;
	u32 lost_edge;
	u32 duplicates;
	u32 recover;
	u32 delivered; /* bytes */
	u32 first_end;
	u32 room;	  /* what the last new data left of the window that the guest was told, bytes */
	u32 limited_left; /* bytes still to be delivered of what says nothing of the path */
	u32 sample_count;
	u8 in_recovery;
	u8 sack;
	u8 classic_ecn;
	u8 has_more;
	struct ranges sacked;
	struct ranges resent;
	struct sample samples[MAX_SAMPLES];
};

/* What a guest that is controlled is told: fairwater_edge::enforce. */
struct enforcement {
	u64 limit; /* bytes, ~0 = released */
	u32 edge;
	u32 told;
	u32 last_ack;
	u16 last_field;
	u16 last_told;
	u8 has_last;
	u8 peer_scale;
	u8 guest_scale;
	u8 translates_ecn;
	u8 is_cwr_due;
	u8 is_echoing;
	u8 has_recover;
	u8 shown_scale; /* the shift that the guest was told, if it is another than the peer's, or NO_SCALE */
	u32 recover;
	u32 mss;
};

/* What a controlled flow needs more, by its slot. */
struct controlled {
	u32 lock;	/* see lock.h; over `enforcement`, `sender` and the connection */
	u32 generation; /* grows as a flow of the slot ends */
	u32 claim;  /* since when an invocation of the flow's program is under way, 0 = none; see is_claimed() */
	u32 is_over; /* the flow has ended while it was claimed: whoever claimed it frees the slot */
	struct enforcement enforcement;
	u32 first;   /* sequence number of the guest's first byte */
	u32 initial; /* the initial window, bytes */
	u64 opened_ns;
	u64 min_rtt_us[2]; /* of the previous and of the present half of the filter's window */
	u64 min_rtt_since_us;
	u64 marked_packets; /* since the flow began */
	/* Of the connection's key; the rest is in the flow's frame. */
	u32 interface;
	u16 vlan[2];
	struct sender sender;
	u32 remainders[4]; /* of counts, in parts of the flow's part of its group's windows */
	u64 spare[5];	   /* to whole cache lines */
};
_Static_assert(sizeof(struct controlled) == 704, "state of a controlled flow, beside its frame");

/* For its type alone, which reaches Rust. */
struct edge_layouts {
	struct key key;
	struct treatment treatment;
	struct rule rule;
	struct connection connection;
	struct controlled controlled;
	struct candidate candidate;
	enum counter counter;
	enum fate fate;
	enum connection_bits connection_bits;
	enum rule_vlan rule_vlan;
	enum rule_family rule_family;
	enum direction direction;
};
