/* SPDX-License-Identifier: GPL-2.0 */
/* Messages between boxes. They pass the sendbox of the other direction, and an outer one, and neither box counts them. */
#pragma once

#include "types.h"

/* Longest IP packet with a message, bytes: the headers of IPv6 and UDP, and MAX_MESSAGE_BYTES of
 * fairwater_bundle::message, rounded up. */
#define MAX_MESSAGE 160

/* Whether a datagram is one; `ports` as they are in memory, `port` in network byte order. */
static __always_inline bool is_message(u32 ports, u32 ip_bytes, u16 port)
{
	return ip_bytes <= MAX_MESSAGE && ((u16)ports == port || (u16)(ports >> 16) == port);
}

/* Whether the packet at work is one. */
static __always_inline bool carries_message(const struct packet *p, u16 port)
{
	return p->fields == UDP_FIELDS && is_message(p->is_v6 ? p->words[4] : p->words[1], p->ip_bytes, port);
}
