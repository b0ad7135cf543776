/* SPDX-License-Identifier: GPL-2.0 */
/* Reads the headers of a packet: Ethernet, VLAN, IPv4, IPv6 with extension headers, TCP. What
 * cannot be read is counted by the reasons of fairwater_wire::ParseError. */
#pragma once

#include "options.h"

#define ETHERNET_HEADER 14
#define MAX_EXTENSIONS 8
#define MAX_JUMBO_OPTIONS 16

enum ether_type { IPV4 = 0x0800, IPV6 = 0x86dd, VLAN = 0x8100, QINQ = 0x88a8, OLD_QINQ = 0x9100 };
enum protocol { TCP = 6, UDP = 17 };
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

static __always_inline u16 be16(const u8 *at)
{
	return (u16)at[0] << 8 | at[1];
}

static __always_inline u32 be32(const u8 *at)
{
	return (u32)at[0] << 24 | (u32)at[1] << 16 | (u32)at[2] << 8 | at[3];
}

/* A byte, 0 beyond the packet. */
static __always_inline u8 byte_at(struct __sk_buff *skb, u32 at)
{
	u8 byte = 0;

	bpf_skb_load_bytes(skb, at, &byte, 1);
	return byte;
}

/* The payload length of a jumbogram, whose hop-by-hop header is at `at` (RFC 2675 §2); BIG TCP of
 * kernels up to 6.x says so. Negative: the reason, minus one, for which it cannot be read. */
static __always_inline s64 jumbo_length(struct __sk_buff *skb, u32 at)
{
	u32 end = at + 8 * (byte_at(skb, at + 1) + 1), option = at + 2;

	if (skb->len < end)
		return -1 - (s64)IPV6_EXTENSION_TRUNCATED;
	for (int i = 0; i < MAX_JUMBO_OPTIONS && option < end; i++) {
		u8 kind = byte_at(skb, option);

		if (kind == 0) {
			option += 1;
			continue;
		}
		u8 length = byte_at(skb, option + 1);

		if (kind != 0xc2) {
			option += 2 + length;
			continue;
		}
		u8 value[4] = {};

		if (length != 4 || end < option + 6 || bpf_skb_load_bytes(skb, option + 2, value, 4))
			break;
		u32 payload = be32(value);

		/* RFC 2675 §3: a length that the other field could hold is an error. */
		return payload > 0xffff ? (s64)payload : -1 - (s64)IPV6_JUMBO;
	}
	return -1 - (s64)IPV6_JUMBO;
}

/* Where the transport's header begins, and the packet ends. */
struct payload {
	u32 start;
	u32 end;
	u32 protocol;
	bool is_fragment;
};

static __always_inline int parse_ipv4(struct __sk_buff *skb, struct packet *p, u32 at, struct payload *out)
{
	u32 there = skb->len > at ? skb->len - at : 0;
	u32 from[2];
	u8 header[12];

	if (there < 20 || bpf_skb_load_bytes(skb, at, header, sizeof(header)) ||
	    bpf_skb_load_bytes(skb, at + 12, from, sizeof(from)))
		return IPV4_TRUNCATED;
	u32 length = (header[0] & 0xf) * 4, total = be16(header + 2), field = be16(header + 6);

	if (length < 20)
		return IPV4_HEADER_LENGTH;
	if (there < length)
		return IPV4_TRUNCATED;
	/* Linux's BIG TCP: a super-packet whose length the field cannot hold says 0. */
	if (total == 0 && there > 0xffff)
		total = there;
	if (total < length || total > there)
		return IPV4_TOTAL_LENGTH;
	bool to = p->direction == TO_GUEST;

	p->key.is_v6 = 0;
	p->key.guest[0] = to ? from[1] : from[0];
	p->key.peer[0] = to ? from[0] : from[1];
	for (int i = 1; i < 4; i++)
		p->key.guest[i] = p->key.peer[i] = 0;
	p->ecn = header[1] & 3;
	out->start = at + length;
	out->end = at + total;
	out->protocol = header[9];
	out->is_fragment = field & 0x3fff;
	return READABLE;
}

static __always_inline int follow_extensions(struct __sk_buff *skb, u32 next, struct payload *out)
{
	u32 here = out->start, end = out->end;

	for (int i = 0; i <= MAX_EXTENSIONS; i++) {
		u8 header[8];
		u32 length;

		if (next != HOP_BY_HOP && next != DESTINATION && next != ROUTING && next != MOBILITY &&
		    next != HIP && next != SHIM6 && next != FRAGMENT && next != AUTHENTICATION) {
			out->protocol = next;
			out->start = here;
			return READABLE;
		}
		if (end - here < 8 || bpf_skb_load_bytes(skb, here, header, sizeof(header)))
			return IPV6_EXTENSION_TRUNCATED;
		if (next == FRAGMENT)
			length = 8;
		else if (next == AUTHENTICATION) /* RFC 4302 §2.2 */
			length = 4 * (header[1] + 2);
		else
			length = 8 * (header[1] + 1);
		if (end - here < length)
			return IPV6_EXTENSION_TRUNCATED;
		if (next == ROUTING && header[3])
			return IPV6_ROUTED;
		if (next == FRAGMENT && (be16(header + 2) & 0xfff9)) {
			out->is_fragment = true;
			return READABLE;
		}
		next = header[0];
		here += length;
	}
	return IPV6_EXTENSION_COUNT;
}

static __always_inline int parse_ipv6(struct __sk_buff *skb, struct packet *p, u32 at, struct payload *out)
{
	u32 there = skb->len > at ? skb->len - at : 0;
	bool to = p->direction == TO_GUEST;
	u8 header[8];

	if (there < 40 || bpf_skb_load_bytes(skb, at, header, sizeof(header)) ||
	    bpf_skb_load_bytes(skb, at + 8, to ? p->key.peer : p->key.guest, 16) ||
	    bpf_skb_load_bytes(skb, at + 24, to ? p->key.guest : p->key.peer, 16))
		return IPV6_TRUNCATED;
	s64 length = be16(header + 4);

	if (length == 0 && header[6] == HOP_BY_HOP) {
		length = jumbo_length(skb, at + 40);
		if (length < 0)
			return -1 - length;
	}
	if (length > there - 40)
		return IPV6_PAYLOAD_LENGTH;
	p->key.is_v6 = 1;
	p->ecn = (be16(header) >> 4) & 3;
	out->start = at + 40;
	out->end = out->start + length;
	out->is_fragment = false;
	return follow_extensions(skb, header[6], out);
}

static __always_inline int parse_udp(struct __sk_buff *skb, const struct payload *ip)
{
	u32 length = ip->end - ip->start;
	u8 header[8];

	if (length < 8 || bpf_skb_load_bytes(skb, ip->start, header, sizeof(header)))
		return UDP_TRUNCATED;
	u32 datagram = be16(header + 4);

	/* RFC 2675 §4: a datagram in a jumbogram. */
	if (datagram == 0 && length > 0xffff)
		datagram = length;
	return datagram < 8 || datagram > length ? UDP_LENGTH : NOT_TCP;
}

static __always_inline int parse_tcp(struct __sk_buff *skb, struct packet *p, const struct payload *ip)
{
	u32 length = ip->end - ip->start;
	u8 header[TCP_HEADER];

	if (length < TCP_HEADER || bpf_skb_load_bytes(skb, ip->start, header, sizeof(header)))
		return TCP_TRUNCATED;
	u32 size = (header[12] >> 4) * 4;

	if (size < TCP_HEADER)
		return TCP_DATA_OFFSET;
	if (length < size)
		return TCP_TRUNCATED;
	bool to = p->direction == TO_GUEST;

	p->key.guest_port = to ? be16(header + 2) : be16(header);
	p->key.peer_port = to ? be16(header) : be16(header + 2);
	p->transport_at = ip->start;
	p->seq = be32(header + 4);
	p->ack = be32(header + 8);
	p->word = be16(header + 12);
	p->flags = p->word & TCP_FLAGS;
	p->window = be16(header + 14);
	p->payload = length - size;
	p->options_size = size - TCP_HEADER;
	return READABLE;
}

static __always_inline bool is_vlan(u32 kind)
{
	return kind == VLAN || kind == QINQ || kind == OLD_QINQ;
}

static __always_inline int parse_ethernet(struct __sk_buff *skb, struct packet *p, u32 *kind)
{
	u32 at = ETHERNET_HEADER, tags = 0;
	u8 type[4];

	if (skb->len < ETHERNET_HEADER || bpf_skb_load_bytes(skb, 12, type, 2))
		return ETHERNET_TRUNCATED;
	*kind = be16(type);
	p->key.vlan[0] = p->key.vlan[1] = 0;
	/* A tag that the device took off. */
	if (skb->vlan_present)
		p->key.vlan[tags++] = (skb->vlan_tci & 0xfff) | VLAN_PRESENT;
	for (int i = 0; i < 3 && is_vlan(*kind); i++) {
		if (skb->len < at + 4 || bpf_skb_load_bytes(skb, at, type, 4))
			return VLAN_TRUNCATED;
		u16 id = (be16(type) & 0xfff) | VLAN_PRESENT;

		if (tags == 0)
			p->key.vlan[0] = id;
		else if (tags == 1)
			p->key.vlan[1] = id;
		else
			return VLAN_DEPTH;
		tags++;
		*kind = be16(type + 2);
		at += 4;
	}
	p->network_at = at;
	return READABLE;
}

/* READABLE for a whole TCP segment, which is the packet at work then. */
__noinline int parse(struct __sk_buff *skb, u32 direction)
{
	struct packet *p = packet_at_work();
	struct payload ip = {};
	u32 kind = 0;
	int found;

	if (!p)
		return NOT_TCP;
	p->direction = direction;
	p->key.interface = skb->ifindex;
	found = parse_ethernet(skb, p, &kind);
	if (found != READABLE)
		return found;
	u32 at = p->network_at;

	if (kind != IPV4 && kind != IPV6)
		return NOT_IP;
	if (at < skb->len && byte_at(skb, at) >> 4 != (kind == IPV4 ? 4 : 6))
		return IP_VERSION;
	found = kind == IPV4 ? parse_ipv4(skb, p, at, &ip) : parse_ipv6(skb, p, at, &ip);
	if (found != READABLE)
		return found;
	if (ip.is_fragment)
		return NOT_TCP;
	if (ip.protocol == UDP)
		return parse_udp(skb, &ip);
	if (ip.protocol != TCP)
		return NOT_TCP;
	return parse_tcp(skb, p, &ip);
}
