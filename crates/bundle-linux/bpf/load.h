/* SPDX-License-Identifier: GPL-2.0 */
/* Reads bytes of a packet: at a classifier from the socket buffer; at a trace point, where no helper reads
 * one, from its linear part. */
#pragma once

#include "types.h"

#ifdef TRACED

#include "maps.h"

#define SOURCE u64
static __always_inline long load(SOURCE source, u32 at, void *to, u32 size)
{
	struct packet *p = packet_at_work();

	if (!p || at + size > p->linear)
		return -1;
	return bpf_probe_read_kernel(to, size, (const void *)(p->data + at));
}

static __always_inline u32 length_of(SOURCE source)
{
	struct packet *p = packet_at_work();

	return p ? p->length : 0;
}

static __always_inline u32 tags_of(SOURCE source)
{
	return 0;
}

#else

#define SOURCE struct __sk_buff *
static __always_inline long load(SOURCE source, u32 at, void *to, u32 size)
{
	return bpf_skb_load_bytes(source, at, to, size);
}

static __always_inline u32 length_of(SOURCE source)
{
	return source->len;
}

/* Tags that the device took off. */
static __always_inline u32 tags_of(SOURCE source)
{
	return source->vlan_present;
}

#endif

/* Bits in network order. */
#define BITS16(at) __builtin_bswap16(*(const u16 *)(at))
#define BITS32(at) __builtin_bswap32(*(const u32 *)(at))

static __always_inline u8 byte_at(SOURCE source, u32 at)
{
	u8 byte = 0;

	load(source, at, &byte, 1);
	return byte;
}
