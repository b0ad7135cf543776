/* SPDX-License-Identifier: GPL-2.0 */
/* Reads the headers of nearly every packet: Ethernet without a tag in band, IPv4 or IPv6 without options, TCP
 * with no option but timestamps. All offsets are constants, so whole words are read and written: the flow's key
 * is hashed by words, and a word that was written in parts would have to reach the cache first. Whatever else a
 * packet has, parse() and parse_options() read. */
#pragma once

#include "candidate.h"
#include "parse.h"

#define PLAIN_IP ETHERNET_HEADER
#define PLAIN_IPV4_TCP (PLAIN_IP + 20)
#define PLAIN_IPV6_TCP (PLAIN_IP + 40)
#define TIMESTAMPS_HEADER (TCP_HEADER + TIMESTAMPS_BYTES) /* TCP's header with timestamps alone */
#define ALIGNED_TIMESTAMPS (OPTION_NOP << 24 | OPTION_NOP << 16 | KIND_TIMESTAMPS << 8 | 10)

/* A word of a key of which the parts come in this order in memory. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WORDS(first, second) ((u64)(first) | (u64)(second) << 32)
#define HALVES(first, second) ((u32)(first) | (u32)(second) << 16)
#else
#define WORDS(first, second) ((u64)(first) << 32 | (u64)(second))
#define HALVES(first, second) ((u32)(first) << 16 | (u32)(second))
#endif

/* Bits of a packet in network order, at a place whose alignment is that of the header's field. */
#define BITS16(at) __builtin_bswap16(*(const u16 *)(at))
#define BITS32(at) __builtin_bswap32(*(const u32 *)(at))

/* Words of `struct key`. */
enum key_word { KEY_PORT, KEY_PORTS_AND_FAMILY, KEY_GUEST, KEY_PEER = 4 };
_Static_assert(__builtin_offsetof(struct key, guest_port) == 8 * KEY_PORTS_AND_FAMILY, "word of the ports");
_Static_assert(__builtin_offsetof(struct key, guest) == 8 * KEY_GUEST, "words of the guest");
_Static_assert(__builtin_offsetof(struct key, peer) == 8 * KEY_PEER, "words of the peer");

/* A segment of `length` bytes whose TCP header is at `tcp`, a constant. */
static __always_inline bool read_plain_tcp(struct __sk_buff *skb, struct packet *p, const u32 tcp, u32 length,
					   u32 direction, u32 is_v6)
{
	void *header = (void *)(long)skb->data + tcp, *end = (void *)(long)skb->data_end;
	u32 ports, guest, peer, last, size;

	if (header + TCP_HEADER > end)
		return false;
	last = BITS32(header + 12);
	size = (last >> 28) * 4;
	if (length < size)
		return false;
	p->options = 0;
	if (size == TIMESTAMPS_HEADER) {
		if (header + TIMESTAMPS_HEADER > end || BITS32(header + TCP_HEADER) != ALIGNED_TIMESTAMPS)
			return false;
		p->options = OPTION_TIMESTAMPS;
		p->tsval = BITS32(header + TCP_HEADER + 4);
		p->tsecr = BITS32(header + TCP_HEADER + 8);
	} else if (size != TCP_HEADER) {
		return false;
	}
	ports = BITS32(header);
	guest = direction == TO_GUEST ? ports & 0xffff : ports >> 16;
	peer = direction == TO_GUEST ? ports >> 16 : ports & 0xffff;
	((u64 *)&p->key)[KEY_PORTS_AND_FAMILY] = WORDS(HALVES(guest, peer), is_v6);
	p->transport_at = tcp;
	p->seq = BITS32(header + 4);
	p->ack = BITS32(header + 8);
	p->word = last >> 16;
	p->flags = (last >> 16) & TCP_FLAGS;
	p->window = last & 0xffff;
	p->payload = length - size;
	p->sack_count = 0;
	return true;
}

static __always_inline bool read_plain_ipv4(struct __sk_buff *skb, struct packet *p, u32 direction)
{
	void *ip = (void *)(long)skb->data + PLAIN_IP, *end = (void *)(long)skb->data_end;
	u64 *key = (u64 *)&p->key;
	bool to = direction == TO_GUEST;
	u32 first, total;

	if (ip + 20 + TCP_HEADER > end)
		return false;
	first = BITS32(ip);
	total = first & 0xffff;
	if (first >> 24 != 0x45 || (BITS16(ip + 6) & 0x3fff) || *(const u8 *)(ip + 9) != TCP ||
	    total < 20 + TCP_HEADER || total > skb->len - PLAIN_IP)
		return false;
	p->ecn = (first >> 16) & 3;
	p->ip_word = first >> 16;
	key[KEY_GUEST] = WORDS(*(const u32 *)(ip + (to ? 16 : 12)), 0);
	key[KEY_PEER] = WORDS(*(const u32 *)(ip + (to ? 12 : 16)), 0);
	key[KEY_GUEST + 1] = key[KEY_PEER + 1] = 0;
	return read_plain_tcp(skb, p, PLAIN_IPV4_TCP, total - 20, direction, 0);
}

static __always_inline bool read_plain_ipv6(struct __sk_buff *skb, struct packet *p, u32 direction)
{
	void *ip = (void *)(long)skb->data + PLAIN_IP, *end = (void *)(long)skb->data_end;
	u64 *key = (u64 *)&p->key;
	bool to = direction == TO_GUEST;
	u32 first, length;

	if (ip + 40 + TCP_HEADER > end)
		return false;
	first = BITS32(ip);
	length = BITS16(ip + 4);
	if (first >> 28 != 6 || *(const u8 *)(ip + 6) != TCP || length < TCP_HEADER ||
	    length > skb->len - PLAIN_IPV6_TCP)
		return false;
	p->ecn = (first >> 20) & 3;
	p->ip_word = first >> 16;
	key[KEY_GUEST] = *(const u64 *)(ip + (to ? 24 : 8));
	key[KEY_GUEST + 1] = *(const u64 *)(ip + (to ? 32 : 16));
	key[KEY_PEER] = *(const u64 *)(ip + (to ? 8 : 24));
	key[KEY_PEER + 1] = *(const u64 *)(ip + (to ? 16 : 32));
	return read_plain_tcp(skb, p, PLAIN_IPV6_TCP, length, direction, 1);
}

/* Whether the packet is so plain; it is the packet at work then, as parse() and parse_options() leave it. */
static __always_inline bool read_plain(struct __sk_buff *skb, struct packet *p, u32 direction)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	u32 tag = skb->vlan_present ? (skb->vlan_tci & 0xfff) | VLAN_PRESENT : 0, kind;

	if (data + ETHERNET_HEADER > end)
		return false;
	kind = BITS16(data + 12);
	p->direction = direction;
	p->network_at = PLAIN_IP;
	((u64 *)&p->key)[KEY_PORT] = WORDS(skb->ifindex, HALVES(tag, 0));
	if (kind == IPV4)
		return read_plain_ipv4(skb, p, direction);
	return kind == IPV6 && read_plain_ipv6(skb, p, direction);
}
