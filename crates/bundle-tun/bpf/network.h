/* SPDX-License-Identifier: GPL-2.0 */
/* What both programs read of a packet: addresses, and whether it is a message between boxes. */
#pragma once

#include "types.h"

enum ether_type { IPV4 = 0x0800, IPV6 = 0x86dd };
enum protocol { TCP = 6, UDP = 17, ESP = 50 };

/* Longest IP packet with a message between boxes, bytes: header of IPv6 and UDP, and message.rs'
 * MAX_MESSAGE_BYTES, rounded up. */
#define MAX_MESSAGE 160

/* An address as a key of longest prefixes: IPv4 is mapped to ::ffff:0:0/96. */
struct prefix_key {
	u32 length; /* bits */
	u8 address[16];
};

/* Offset from the network header, wherever the device's frames begin. */
static __always_inline long load(struct __sk_buff *skb, u32 at, void *to, u32 length)
{
	return bpf_skb_load_bytes_relative(skb, at, to, length, BPF_HDR_START_NET);
}

static __always_inline void map_ipv4(u8 *address, u32 from)
{
	__builtin_memset(address, 0, 10);
	address[10] = address[11] = 0xff;
	__builtin_memcpy(address + 12, &from, 4);
}

/* Whether a packet with this transport header and so many bytes carries a message between boxes:
 * those pass the sendbox of the other direction, or an outer one, and are not counted. */
static __always_inline bool is_message(struct __sk_buff *skb, u8 protocol, u32 at, u32 bytes, u16 port)
{
	u16 ports[2];

	if (protocol != UDP || bytes > MAX_MESSAGE || load(skb, at, ports, sizeof(ports)))
		return false;
	return ports[0] == port || ports[1] == port;
}
