/* SPDX-License-Identifier: GPL-2.0 */
/* What the programs share with user space, and with each other. `src/layout.rs` has the same. */
#pragma once

#include "../../kernel/bpf/types.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "words of an identity are read as SipHash reads them, in little-endian order"
#endif

/* Why a packet is not read, or which fields identify it: fairwater_bundle::IdentityFields. */
enum verdict { GO_ON = -1 }; /* TC_ACT_UNSPEC, TCX_NEXT */

enum ether_type { IPV4 = 0x0800, IPV6 = 0x86dd, VLAN = 0x8100, QINQ = 0x88a8, OLD_QINQ = 0x9100 };

enum ip_protocol { TCP = 6, UDP = 17, ESP = 50 };

enum fields { TCP_V4 = 0, TCP_V6 = 1, UDP_FIELDS = 2, ESP_FIELDS = 3, NO_IDENTITY = 4 };

#define MAX_SEGMENTS 1024 /* fairwater_bundle::MAX_SEGMENTS */

/* Of a bundle, mappable: written by user space while the programs read. */
struct settings {
	u64 key[2];	     /* of the boundary hash */
	u64 mask;	     /* N - 1 */
	u32 any_destination; /* no prefixes of destinations are asked for */
	u32 is_shaped;	     /* packets go to the bundle's classes */
	u32 first_class;     /* minor number of its first leaf */
	u32 leaves;	     /* of each band */
	u32 bands;
	u32 spare[5];
};

_Static_assert(sizeof(struct settings) == 64, "src/layout.rs");

/* Of a bundle on one processor: an array by bundle, then by processor, so that user space reads it in its memory.
 * Each has a cache line of its own. */
struct counters {
	u64 bytes; /* of IP packets */
	u64 packets;
	u64 ce_bytes;
	u64 ce_packets;
	/* The boundary that was told last, when first, and how often. */
	u64 told;
	u64 told_ns;
	u64 told_times;
	u64 lost; /* boundaries that the ring had no room for */
};

/* A boundary packet; the counts are of all processors, the packet included. */
struct event {
	u64 time_ns; /* CLOCK_MONOTONIC */
	u64 hash;
	u64 bytes;
	u64 packets;
	u64 ce_bytes;
	u64 ce_packets;
	u32 bundle;
	u32 fields; /* enum fields */
};

/* The packet that a program is at work on, per processor. Offsets count from the IP header. */
struct packet {
	u64 words[8]; /* the identity's bytes; the addresses of a packet without identity, too */
	u32 used;     /* words */
	u32 fields;   /* enum fields */
	u32 is_v6;
	u32 traffic_class;
	u32 ip_bytes; /* that the IP header states */
	u32 payload_at;
	u32 end;
	u32 protocol;
	u32 here; /* place in the options, while they are read */
	u32 options_size;
	u32 network_at; /* of a packet that is not plain, from its first byte on */
	u32 spare;
	/* What a traced packet is read from. */
	u64 data;
	u32 linear;
	u32 length;
	u8 raw[64];
	u8 head[96];
};
