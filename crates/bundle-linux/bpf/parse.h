/* SPDX-License-Identifier: GPL-2.0 */
/* Reads the headers of any packet, as fairwater_wire does: Ethernet with up to two VLAN tags, IPv4 with options,
 * IPv6 with extension headers, TCP with options, UDP, ESP. */
#pragma once

#include "maps.h"
#include "plain.h"

#define MAX_EXTENSIONS 8
#define MAX_JUMBO_OPTIONS 64
#define MAX_OPTION_BYTES 40
#define NOT_READ -1L

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
enum option_kind {
	OPTION_END = 0,
	OPTION_NOP = 1,
	OPTION_MSS = 2,
	OPTION_SCALE = 3,
	OPTION_SACK_PERMITTED = 4,
	OPTION_SACK = 5,
	OPTION_TIMESTAMPS = 8,
	OPTION_MD5 = 19,
	OPTION_AO = 29,
	OPTION_MPTCP = 30,
	OPTION_FAST_OPEN = 34,
	OPTION_ACC_ECN_0 = 172,
	OPTION_ACC_ECN_1 = 174,
	OPTION_EXPERIMENT = 254,
};

/* Where the transport's header begins, and the packet ends: from the packet's first byte on. */
struct payload {
	u32 network;
	u32 start;
	u32 end;
	u32 protocol;
	bool is_fragment;
};

/* The payload length of a jumbogram, whose hop-by-hop header is at `at` (RFC 2675 §2). */
static __always_inline s64 jumbo_length(SOURCE source, struct packet *p, u32 at)
{
	u32 end = at + 8 * (byte_at(source, at + 1) + 1);

	if (length_of(source) < end)
		return NOT_READ;
	/* In memory: the verifier then sees the same state at each turn of the loop. */
	WRITE_ONCE(p->here, at + 2);
	WRITE_ONCE(p->options_size, end);
	for (int i = 0; i < MAX_JUMBO_OPTIONS; i++) {
		u32 option = READ_ONCE(p->here), payload = 0;
		u8 kind, length;

		end = READ_ONCE(p->options_size);
		if (option >= end)
			break;
		kind = byte_at(source, option);
		if (kind == 0) {
			WRITE_ONCE(p->here, option + 1);
			continue;
		}
		length = byte_at(source, option + 1);
		if (kind != 0xc2) {
			WRITE_ONCE(p->here, option + 2 + length);
			continue;
		}
		if (length != 4 || end < option + 6 || load(source, option + 2, &payload, 4))
			break;
		payload = __builtin_bswap32(payload);
		/* RFC 2675 §3: a length that the other field could hold is an error. */
		return payload > 0xffff ? (s64)payload : NOT_READ;
	}
	return NOT_READ;
}

static __always_inline bool parse_ipv4(SOURCE source, struct packet *p, struct payload *out)
{
	u32 at = out->network, length_here = length_of(source);
	u32 there = length_here > at ? length_here - at : 0;
	u8 header[20];

	if (there < 20 || load(source, at, header, 20))
		return false;
	u32 length = (header[0] & 0xf) * 4, stated = (u32)header[2] << 8 | header[3], total = stated;
	u32 fragment = ((u32)header[6] << 8 | header[7]) & 0x3fff;

	if (length < 20 || there < length)
		return false;
	/* Linux's BIG TCP: a super-packet whose length the field cannot hold says 0. */
	if (total == 0 && there > 0xffff)
		total = there;
	if (total < length || total > there)
		return false;
	p->is_v6 = 0;
	p->traffic_class = header[1];
	p->ip_bytes = stated;
	__builtin_memcpy(&p->words[0], header + 12, 8);
	p->words[1] = (u64)header[4] << 32 | (u64)header[5] << 40;
	out->start = at + length;
	out->end = at + total;
	out->protocol = header[9];
	out->is_fragment = fragment;
	return true;
}

static __always_inline bool follow_extensions(SOURCE source, u32 next, struct payload *out)
{
	u32 here = out->start, end = out->end;

	for (int i = 0; i <= MAX_EXTENSIONS; i++) {
		u8 header[8];
		u32 length;

		if (next != HOP_BY_HOP && next != DESTINATION && next != ROUTING && next != MOBILITY &&
		    next != HIP && next != SHIM6 && next != FRAGMENT && next != AUTHENTICATION) {
			out->protocol = next;
			out->start = here;
			return true;
		}
		if (end - here < 8 || load(source, here, header, 8))
			return false;
		if (next == FRAGMENT)
			length = 8;
		else if (next == AUTHENTICATION) /* RFC 4302 §2.2 */
			length = 4 * ((u32)header[1] + 2);
		else
			length = 8 * ((u32)header[1] + 1);
		if (end - here < length || (next == ROUTING && header[3]))
			return false;
		if (next == FRAGMENT && (((u32)header[2] << 8 | header[3]) & 0xfff9)) {
			out->is_fragment = true;
			return true;
		}
		next = header[0];
		here += length;
	}
	return false;
}

static __always_inline bool parse_ipv6(SOURCE source, struct packet *p, struct payload *out)
{
	u32 at = out->network, length_here = length_of(source);
	u32 there = length_here > at ? length_here - at : 0;
	u8 header[8];

	if (there < 40 || load(source, at, header, 8) || load(source, at + 8, &p->words[0], 32))
		return false;
	s64 length = (u32)header[4] << 8 | header[5];
	u32 next = header[6];

	p->ip_bytes = length ? length + 40 : 0;
	if (length == 0 && next == HOP_BY_HOP) {
		length = jumbo_length(source, p, at + 40);
		if (length < 0)
			return false;
	}
	if (length > there - 40)
		return false;
	p->is_v6 = 1;
	p->traffic_class = (u32)(header[0] & 0xf) << 4 | header[1] >> 4;
	p->words[4] = 0;
	out->start = at + 40;
	out->end = out->start + length;
	out->is_fragment = false;
	return follow_extensions(source, next, out);
}

#define RAW(p, at) ((p)->raw[(at) & 63])

static __always_inline u32 raw16(const struct packet *p, u32 at)
{
	return (u32)RAW(p, at) << 8 | RAW(p, at + 1);
}

/* RFC 7413 §4.1.1: empty, or 4 to 16 bytes, even. */
static __always_inline bool is_cookie(u32 length)
{
	return length == 0 || (length >= 4 && length <= 16 && length % 2 == 0);
}

/* Whether an option of this kind may have so many bytes of data, which begin at `at`. */
static __always_inline bool has_length(const struct packet *p, u32 kind, u32 at, u32 length)
{
	switch (kind) {
	case OPTION_MSS:
		return length == 2;
	case OPTION_SCALE:
		return length == 1;
	case OPTION_SACK_PERMITTED:
		return length == 0;
	case OPTION_SACK:
		return length % 8 == 0 && length >= 8 && length <= 32;
	case OPTION_TIMESTAMPS:
		return length == 8;
	case OPTION_MD5:
		return length == 16;
	case OPTION_AO: /* RFC 5925 §2.2: two key identifiers, then the code */
		return length >= 2;
	case OPTION_MPTCP: /* RFC 8684 §3: the subtype at least */
		return length >= 1;
	case OPTION_FAST_OPEN:
		return is_cookie(length);
	case OPTION_EXPERIMENT: /* the experiment that became Fast Open (RFC 7413 §4.1.1) */
		return length < 2 || raw16(p, at) != 0xf989 || is_cookie(length - 2);
	case OPTION_ACC_ECN_0:
	case OPTION_ACC_ECN_1:
		return length % 3 == 0 && length <= 9;
	default:
		return true;
	}
}

/* TSval as it is in memory, of `size` bytes of TCP options in `raw`; 0 without timestamps, and where an option lies
 * about its length. Of timestamps that come twice, the last count. */
__noinline int find_timestamps(void)
{
	struct packet *p = packet_at_work();
	u32 value = 0;

	if (!p)
		return 0;
	WRITE_ONCE(p->here, 0);
	WRITE_ONCE(p->spare, 0);
	for (int i = 0; i < MAX_OPTION_BYTES; i++) {
		u32 here = READ_ONCE(p->here), kind, length, size = READ_ONCE(p->options_size);

		if (here >= size)
			break;
		kind = RAW(p, here);
		if (kind == OPTION_NOP) {
			WRITE_ONCE(p->here, here + 1);
			continue;
		}
		if (kind == OPTION_END)
			break;
		if (here + 1 >= size)
			return 0;
		length = RAW(p, here + 1);
		if (length < 2 || here + length > size || !has_length(p, kind, here + 2, length - 2))
			return 0;
		if (kind == OPTION_TIMESTAMPS) {
			value = (u32)RAW(p, here + 2) | (u32)RAW(p, here + 3) << 8 | (u32)RAW(p, here + 4) << 16 |
				(u32)RAW(p, here + 5) << 24;
			WRITE_ONCE(p->spare, value);
		}
		WRITE_ONCE(p->here, here + length);
	}
	return READ_ONCE(p->spare);
}

/* The word at a place that depends on the version of IP, by constants. */
static __always_inline void set_word(struct packet *p, const u32 after_addresses, u64 value)
{
	if (p->is_v6)
		p->words[4 + after_addresses] = value;
	else
		p->words[1 + after_addresses] = value;
}

static __always_inline bool parse_tcp(SOURCE source, struct packet *p, const struct payload *ip)
{
	u32 length = ip->end - ip->start, size, ports;
	u8 header[TCP_HEADER];
	u16 id = p->is_v6 ? 0 : p->words[1] >> 32;
	u64 numbers;

	if (length < TCP_HEADER || load(source, ip->start, header, TCP_HEADER))
		return false;
	size = (header[12] >> 4) * 4;
	if (size < TCP_HEADER || length < size)
		return false;
	p->payload_at = ip->start + size - ip->network;
	p->end = ip->end - ip->network;
	p->options_size = size - TCP_HEADER;
	if (size > TCP_HEADER && load(source, ip->start + TCP_HEADER, p->raw, ((size - TCP_HEADER - 1) & 63) + 1))
		return false;
	__builtin_memcpy(&ports, header, 4);
	__builtin_memcpy(&numbers, header + 4, 8);
	set_word(p, 0, transport_word(ports, id, TCP));
	set_word(p, 1, numbers);
	set_word(p, 2, size > TCP_HEADER ? (u32)find_timestamps() : 0);
	p->used = p->is_v6 ? 7 : 4;
	p->fields = p->is_v6 ? TCP_V6 : TCP_V4;
	return true;
}

static __always_inline bool load_payload(SOURCE source, struct packet *p, u32 at, u32 length)
{
	u64 *head = (u64 *)p->raw;

	head[0] = head[1] = head[2] = 0;
	if (length >= UDP_PAYLOAD)
		return !load(source, at, p->raw, UDP_PAYLOAD);
	return length == 0 || !load(source, at, p->raw, ((length - 1) & 31) + 1);
}

static __always_inline bool parse_udp(SOURCE source, struct packet *p, const struct payload *ip)
{
	u32 length = ip->end - ip->start, datagram, ports;
	const u64 *head = (const u64 *)p->raw;
	u8 header[UDP_HEADER];

	if (length < UDP_HEADER || load(source, ip->start, header, UDP_HEADER))
		return false;
	datagram = (u32)header[4] << 8 | header[5];
	/* RFC 2675 §4: a datagram in a jumbogram. */
	if (datagram == 0 && length > 0xffff)
		datagram = length;
	if (datagram < UDP_HEADER || datagram > length)
		return false;
	p->payload_at = ip->start + UDP_HEADER - ip->network;
	p->end = ip->start + datagram - ip->network;
	if (!load_payload(source, p, ip->start + UDP_HEADER, datagram - UDP_HEADER))
		return false;
	__builtin_memcpy(&ports, header, 4);
	set_word(p, 0, transport_word(ports, __builtin_bswap16(datagram - UDP_HEADER), UDP));
	set_word(p, 1, head[0]);
	set_word(p, 2, head[1]);
	set_word(p, 3, head[2]);
	p->used = p->is_v6 ? 8 : 5;
	p->fields = UDP_FIELDS;
	return true;
}

static __always_inline bool parse_other(SOURCE source, struct packet *p, const struct payload *ip)
{
	u64 header = 0;

	p->payload_at = ip->start - ip->network;
	p->end = ip->end - ip->network;
	p->fields = NO_IDENTITY;
	p->used = p->is_v6 ? 4 : 1;
	if (ip->is_fragment || ip->protocol != ESP || ip->end - ip->start < 8 || load(source, ip->start, &header, 8))
		return true;
	set_word(p, 0, transport_word(0, 0, ESP));
	set_word(p, 1, header);
	p->used += 2;
	p->fields = ESP_FIELDS;
	return true;
}

static __always_inline bool is_vlan(u32 kind)
{
	return kind == VLAN || kind == QINQ || kind == OLD_QINQ;
}

/* Type and place of what the link carries; 0 if it cannot be read. */
static __always_inline u32 parse_link(SOURCE source, u32 *at)
{
	u32 length = length_of(source), tags = tags_of(source), kind;
	u16 type[2];

	*at = link_header;
	if (link_header == 0) {
		u8 version = byte_at(source, 0) >> 4;

		return version == 4 ? IPV4 : version == 6 ? IPV6 : 0;
	}
	if (length < 14 || load(source, 12, type, 2))
		return 0;
	kind = __builtin_bswap16(type[0]);
	for (int i = 0; i < 3 && is_vlan(kind); i++) {
		if (tags++ >= 2 || length < *at + 4 || load(source, *at, type, 4))
			return 0;
		kind = __builtin_bswap16(type[1]);
		*at += 4;
	}
	if ((kind != IPV4 && kind != IPV6) ||
	    (*at < length && byte_at(source, *at) >> 4 != (kind == IPV4 ? 4 : 6)))
		return 0;
	return kind;
}

/* Reads the packet at work; whether it could be read. */
__noinline int parse(SOURCE source)
{
	struct packet *p = packet_at_work();
	struct payload ip = {};
	u32 kind;
	bool read;

	/* An argument that nothing reads would not be set, which the verifier refuses. */
	asm volatile("" : : "r"(source));
	if (!p)
		return false;
	kind = parse_link(source, &ip.network);
	if (kind == 0)
		return false;
	if (!(kind == IPV4 ? parse_ipv4(source, p, &ip) : parse_ipv6(source, p, &ip)))
		return false;
	p->protocol = ip.protocol;
	p->network_at = ip.network;
	if (!ip.is_fragment && ip.protocol == TCP)
		read = parse_tcp(source, p, &ip);
	else if (!ip.is_fragment && ip.protocol == UDP)
		read = parse_udp(source, p, &ip);
	else
		read = parse_other(source, p, &ip);
	p->ip_bytes = max(p->ip_bytes, p->end);
	return read;
}
