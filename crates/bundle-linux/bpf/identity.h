/* SPDX-License-Identifier: GPL-2.0 */
/* The words that identify a packet (fairwater_bundle::Identity), and their keyed hash. A word is what eight
 * bytes of the identity are in memory, which is how SipHash reads them. */
#pragma once

#include "types.h"

#define WORDS_OF_ADDRESSES(p) ((p)->is_v6 ? 4 : 1)

/* The word after the addresses; `ports` and `middle` as they are in memory. */
static __always_inline u64 transport_word(u32 ports, u16 middle, u32 protocol)
{
	return ports | (u64)middle << 32 | (u64)protocol << 48;
}

#define ROTATE(value, bits) ((value) << (bits) | (value) >> (64 - (bits)))
#define SIP_ROUND(v)                                                        \
	do {                                                                \
		v[0] += v[1], v[2] += v[3];                                 \
		v[1] = ROTATE(v[1], 13), v[3] = ROTATE(v[3], 16);           \
		v[1] ^= v[0], v[3] ^= v[2], v[0] = ROTATE(v[0], 32);        \
		v[2] += v[1], v[0] += v[3];                                 \
		v[1] = ROTATE(v[1], 17), v[3] = ROTATE(v[3], 21);           \
		v[1] ^= v[2], v[3] ^= v[0], v[2] = ROTATE(v[2], 32);        \
	} while (0)

#define ABSORB(i)                       \
	if ((i) < used) {               \
		v[3] ^= words[i];       \
		SIP_ROUND(v);           \
		v[0] ^= words[i];       \
	}

/* SipHash-1-3 (Aumasson and Bernstein, 2012) of whole words, of which there are at most eight. */
static __always_inline u64 siphash13(const u64 *words, u32 used, u64 key0, u64 key1)
{
	u64 v[4] = {
		key0 ^ 0x736f6d6570736575,
		key1 ^ 0x646f72616e646f6d,
		key0 ^ 0x6c7967656e657261,
		key1 ^ 0x7465646279746573,
	};
	u64 last = (u64)used << 59; /* bytes in the last byte */

	ABSORB(0)
	ABSORB(1)
	ABSORB(2)
	ABSORB(3)
	ABSORB(4)
	ABSORB(5)
	ABSORB(6)
	ABSORB(7)
	v[3] ^= last;
	SIP_ROUND(v);
	v[0] ^= last;
	v[2] ^= 0xff;
	SIP_ROUND(v);
	SIP_ROUND(v);
	SIP_ROUND(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
