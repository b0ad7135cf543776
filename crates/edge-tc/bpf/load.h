/* SPDX-License-Identifier: GPL-2.0 */
/* Reads bytes of a packet: from its linear part where they are there, as headers mostly are, else by
 * the helper, which costs as much as the rest of the reading. */
#pragma once

#include "types.h"

#define MAX_LINEAR 255 /* greatest offset that is read without the helper */

/* Copies `words` × 2 bytes, a constant; 0 if they are there. */
static __always_inline long load16(struct __sk_buff *skb, u32 at, u16 *to, const u32 words)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	const u16 *from = data + (at & MAX_LINEAR);

	if (at > MAX_LINEAR || (void *)(from + words) > end)
		return bpf_skb_load_bytes(skb, at, to, 2 * words);
	for (u32 i = 0; i < words; i++)
		to[i] = from[i];
	return 0;
}

/* The 16 bits of that place in what load16() copied. */
static __always_inline u16 half(const u16 *words, u32 byte)
{
	return __builtin_bswap16(words[byte / 2]);
}

static __always_inline u32 word(const u16 *words, u32 byte)
{
	return (u32)half(words, byte) << 16 | half(words, byte + 2);
}

/* The byte of that place in what load16() copied. */
static __always_inline u8 byte_of(const u16 *words, u32 byte)
{
	return byte % 2 ? words[byte / 2] >> 8 : words[byte / 2] & 0xff;
}

/* A byte of a packet, 0 beyond its end. */
static __always_inline u8 byte_at(struct __sk_buff *skb, u32 at)
{
	u8 byte = 0;

	bpf_skb_load_bytes(skb, at, &byte, 1);
	return byte;
}
