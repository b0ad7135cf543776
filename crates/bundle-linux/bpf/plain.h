/* SPDX-License-Identifier: GPL-2.0 */
/* Reads the headers of nearly every packet: IPv4 or IPv6 without options and fragments; TCP with no option but
 * timestamps, UDP with at least 24 bytes, ESP. All offsets are constants. Whatever else there is, parse() reads. */
#pragma once

#include "load.h"
#include "identity.h"

#define TCP_HEADER 20
#define TIMESTAMPS_HEADER 32 /* TCP's header with timestamps alone */
#define ALIGNED_TIMESTAMPS 0x0101080a
#define UDP_HEADER 8
#define UDP_PAYLOAD 24 /* bytes of it that identify a datagram */

/* The transport at `at`, a constant, of which there are `length` bytes; words from `first` on, a constant. */
static __always_inline bool read_plain_transport(struct packet *p, const u8 *ip, const u8 *end, const u32 at,
						 u32 length, const u32 first, u16 id, u32 protocol)
{
	const u8 *header = ip + at;
	u32 size, payload;

	p->end = at + length;
	if (protocol == TCP) {
		if (header + TCP_HEADER > end || length < TCP_HEADER)
			return false;
		size = (header[12] >> 4) * 4;
		if (length < size)
			return false;
		if (size == TIMESTAMPS_HEADER) {
			if (header + TIMESTAMPS_HEADER > end || BITS32(header + 20) != ALIGNED_TIMESTAMPS)
				return false;
			p->words[first + 2] = *(const u32 *)(header + 24);
		} else if (size == TCP_HEADER) {
			p->words[first + 2] = 0;
		} else {
			return false;
		}
		p->words[first] = transport_word(*(const u32 *)header, id, TCP);
		p->words[first + 1] = *(const u64 *)(header + 4);
		p->used = first + 3;
		p->fields = first == 1 ? TCP_V4 : TCP_V6;
		p->payload_at = at + size;
		return true;
	}
	if (protocol == UDP) {
		if (header + UDP_HEADER + UDP_PAYLOAD > end || BITS16(header + 4) != length ||
		    length < UDP_HEADER + UDP_PAYLOAD)
			return false;
		payload = length - UDP_HEADER;
		p->words[first] = transport_word(*(const u32 *)header, __builtin_bswap16(payload), UDP);
		for (u32 i = 0; i < 3; i++)
			p->words[first + 1 + i] = *(const u64 *)(header + UDP_HEADER + 8 * i);
		p->used = first + 4;
		p->fields = UDP_FIELDS;
		p->payload_at = at + UDP_HEADER;
		return true;
	}
	if (protocol != ESP || header + 8 > end || length < 8)
		return false;
	p->words[first] = transport_word(0, 0, ESP);
	p->words[first + 1] = *(const u64 *)header;
	p->used = first + 2;
	p->fields = ESP_FIELDS;
	p->payload_at = at;
	return true;
}

/* Whether the packet whose IP header is at `ip` is so plain. `length` bytes are there, `end` ends what may be read. */
static __always_inline bool read_plain(struct packet *p, const u8 *ip, const u8 *end, u32 length, u32 kind)
{
	u32 first, total;

	if (kind == 0x0800) {
		if (ip + 20 > end)
			return false;
		first = BITS32(ip);
		total = first & 0xffff;
		if (first >> 24 != 0x45 || (BITS16(ip + 6) & 0x3fff) || total < 20 || total > length)
			return false;
		p->is_v6 = 0;
		p->traffic_class = (first >> 16) & 0xff;
		p->ip_bytes = total;
		p->protocol = ip[9];
		p->words[0] = *(const u64 *)(ip + 12);
		return read_plain_transport(p, ip, end, 20, total - 20, 1, *(const u16 *)(ip + 4), ip[9]);
	}
	if (kind != 0x86dd || ip + 40 > end)
		return false;
	first = BITS32(ip);
	total = BITS16(ip + 4);
	if (first >> 28 != 6 || total == 0 || total + 40 > length)
		return false;
	p->is_v6 = 1;
	p->traffic_class = (first >> 20) & 0xff;
	p->ip_bytes = total + 40;
	p->protocol = ip[6];
	for (u32 i = 0; i < 4; i++)
		p->words[i] = *(const u64 *)(ip + 8 + 8 * i);
	return read_plain_transport(p, ip, end, 40, total, 4, 0, ip[6]);
}
