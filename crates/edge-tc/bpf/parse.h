/* SPDX-License-Identifier: GPL-2.0 */
/* Reads the headers of a packet: Ethernet, VLAN, IPv4, IPv6 with extension headers, TCP. What
 * cannot be read is counted by the reasons of fairwater_wire::ParseError. */
#pragma once

#include "load.h"
#include "options.h"

#define ETHERNET_HEADER 14
#define MAX_EXTENSIONS 8
#define MAX_JUMBO_OPTIONS 64

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

/* The payload length of a jumbogram, whose hop-by-hop header is at `at` (RFC 2675 §2); BIG TCP of
 * kernels up to 6.x says so. Negative: the reason, minus one, for which it cannot be read. */
__noinline s64 jumbo_length(struct __sk_buff *skb, struct packet *p, u32 at)
{
	u32 end = at + 8 * (byte_at(skb, at + 1) + 1);

	if (!p)
		return -1 - (s64)IPV6_JUMBO;
	if (skb->len < end)
		return -1 - (s64)IPV6_EXTENSION_TRUNCATED;
	/* In memory: the verifier then sees the same state at each turn of the loop. */
	WRITE_ONCE(p->here, at + 2);
	WRITE_ONCE(p->options_size, end);
	for (int i = 0; i < MAX_JUMBO_OPTIONS; i++) {
		u32 option = READ_ONCE(p->here);
		u8 kind, length;

		end = READ_ONCE(p->options_size);
		if (option >= end)
			break;
		kind = byte_at(skb, option);
		if (kind == 0) {
			WRITE_ONCE(p->here, option + 1);
			continue;
		}
		length = byte_at(skb, option + 1);
		if (kind != 0xc2) {
			WRITE_ONCE(p->here, option + 2 + length);
			continue;
		}
		u16 value[2];

		if (length != 4 || end < option + 6 || load16(skb, option + 2, value, 2))
			break;
		u32 payload = word(value, 0);

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
	u16 header[10];

	if (there < 20 || load16(skb, at, header, 10))
		return IPV4_TRUNCATED;
	u32 length = (byte_of(header, 0) & 0xf) * 4, total = half(header, 2), field = half(header, 6);

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
	p->key.guest[0] = *(u32 *)(to ? &header[8] : &header[6]);
	p->key.peer[0] = *(u32 *)(to ? &header[6] : &header[8]);
	for (int i = 1; i < 4; i++)
		p->key.guest[i] = p->key.peer[i] = 0;
	p->ecn = byte_of(header, 1) & 3;
	p->ip_word = half(header, 0);
	out->start = at + length;
	out->end = at + total;
	out->protocol = byte_of(header, 9);
	out->is_fragment = field & 0x3fff;
	return READABLE;
}

/* Whether a header of that kind may stand before the transport's: a bit each, of kinds up to 63 and from 128 on. */
static __always_inline bool is_extension(u32 kind)
{
	u64 low = 1ull << HOP_BY_HOP | 1ull << ROUTING | 1ull << FRAGMENT | 1ull << AUTHENTICATION | 1ull << DESTINATION;
	u64 high = 1ull << (MOBILITY & 63) | 1ull << (HIP & 63) | 1ull << (SHIM6 & 63);

	return ((kind < 64 ? low : kind >> 6 == 2 ? high : 0) >> (kind & 63)) & 1;
}

/* Bytes of an extension header of that kind, of which the second byte is `length`. */
static __always_inline u32 extension_length(u32 kind, u32 length)
{
	if (kind == FRAGMENT)
		return 8;
	return kind == AUTHENTICATION ? 4 * (length + 2) /* RFC 4302 §2.2 */ : 8 * (length + 1);
}

/* From `out->start` on, where a header of kind `out->protocol` begins, to the transport's. The place is kept in
 * memory: the verifier then sees the same state at each turn of the loop. */
__noinline int follow_extensions(struct __sk_buff *skb, struct payload *out)
{
	if (!out)
		return NOT_TCP;
	for (int i = 0; i <= MAX_EXTENSIONS; i++) {
		u32 kind = READ_ONCE(out->protocol), here = READ_ONCE(out->start), end = READ_ONCE(out->end), length;
		u16 header[4];

		if (!is_extension(kind))
			return READABLE;
		if (end - here < 8 || load16(skb, here, header, 4))
			return IPV6_EXTENSION_TRUNCATED;
		length = extension_length(kind, byte_of(header, 1));
		if (end - here < length)
			return IPV6_EXTENSION_TRUNCATED;
		if (kind == ROUTING && byte_of(header, 3))
			return IPV6_ROUTED;
		if (kind == FRAGMENT && (half(header, 2) & 0xfff9)) {
			out->is_fragment = true;
			return READABLE;
		}
		WRITE_ONCE(out->protocol, byte_of(header, 0));
		WRITE_ONCE(out->start, here + length);
	}
	return IPV6_EXTENSION_COUNT;
}

static __always_inline int parse_ipv6(struct __sk_buff *skb, struct packet *p, u32 at, struct payload *out)
{
	u32 there = skb->len > at ? skb->len - at : 0;
	bool to = p->direction == TO_GUEST;
	u16 header[4];

	if (there < 40 || load16(skb, at, header, 4) ||
	    load16(skb, at + 8, (u16 *)(to ? p->key.peer : p->key.guest), 8) ||
	    load16(skb, at + 24, (u16 *)(to ? p->key.guest : p->key.peer), 8))
		return IPV6_TRUNCATED;
	s64 length = half(header, 4);

	out->protocol = byte_of(header, 6);
	if (length == 0 && out->protocol == HOP_BY_HOP) {
		length = jumbo_length(skb, p, at + 40);
		if (length < 0)
			return -1 - length;
	}
	if (length > there - 40)
		return IPV6_PAYLOAD_LENGTH;
	p->key.is_v6 = 1;
	p->ecn = (half(header, 0) >> 4) & 3;
	p->ip_word = half(header, 0);
	out->start = at + 40;
	out->end = out->start + length;
	out->is_fragment = false;
	return follow_extensions(skb, out);
}

static __always_inline int parse_udp(struct __sk_buff *skb, const struct payload *ip)
{
	u32 length = ip->end - ip->start;
	u16 header[4];

	if (length < 8 || load16(skb, ip->start, header, 4))
		return UDP_TRUNCATED;
	u32 datagram = half(header, 4);

	/* RFC 2675 §4: a datagram in a jumbogram. */
	if (datagram == 0 && length > 0xffff)
		datagram = length;
	return datagram < 8 || datagram > length ? UDP_LENGTH : NOT_TCP;
}

__noinline int parse_tcp(struct __sk_buff *skb, struct packet *p, const struct payload *ip)
{
	u16 header[TCP_HEADER / 2];
	u32 length;

	if (!p || !ip)
		return NOT_TCP;
	length = ip->end - ip->start;
	if (length < TCP_HEADER || load16(skb, ip->start, header, TCP_HEADER / 2))
		return TCP_TRUNCATED;
	u32 size = (byte_of(header, 12) >> 4) * 4;

	if (size < TCP_HEADER)
		return TCP_DATA_OFFSET;
	if (length < size)
		return TCP_TRUNCATED;
	bool to = p->direction == TO_GUEST;

	p->key.guest_port = to ? half(header, 2) : half(header, 0);
	p->key.peer_port = to ? half(header, 0) : half(header, 2);
	p->transport_at = ip->start;
	p->seq = word(header, 4);
	p->ack = word(header, 8);
	p->word = half(header, 12);
	p->flags = p->word & TCP_FLAGS;
	p->window = half(header, 14);
	p->payload = length - size;
	p->options_size = size - TCP_HEADER;
	return READABLE;
}

static __always_inline bool is_vlan(u32 kind)
{
	return kind == VLAN || kind == QINQ || kind == OLD_QINQ;
}

__noinline int parse_ethernet(struct __sk_buff *skb, struct packet *p, u32 *kind)
{
	u32 at = ETHERNET_HEADER, tags = 0;
	u16 type[2];

	if (!p || !kind)
		return NOT_TCP;
	if (skb->len < ETHERNET_HEADER || load16(skb, 12, type, 1))
		return ETHERNET_TRUNCATED;
	*kind = half(type, 0);
	p->key.vlan[0] = p->key.vlan[1] = 0;
	/* A tag that the device took off. */
	if (skb->vlan_present)
		p->key.vlan[tags++] = (skb->vlan_tci & 0xfff) | VLAN_PRESENT;
	for (int i = 0; i < 3 && is_vlan(*kind); i++) {
		if (skb->len < at + 4 || load16(skb, at, type, 2))
			return VLAN_TRUNCATED;
		u16 id = (half(type, 0) & 0xfff) | VLAN_PRESENT;

		if (tags == 0)
			p->key.vlan[0] = id;
		else if (tags == 1)
			p->key.vlan[1] = id;
		else
			return VLAN_DEPTH;
		tags++;
		*kind = half(type, 2);
		at += 4;
	}
	p->network_at = at;
	return READABLE;
}

static __always_inline u8 version_at(struct __sk_buff *skb, u32 at)
{
	u16 head;

	return (load16(skb, at, &head, 1) ? byte_at(skb, at) : byte_of(&head, 0)) >> 4;
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
	if (at < skb->len && version_at(skb, at) != (kind == IPV4 ? 4 : 6))
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
