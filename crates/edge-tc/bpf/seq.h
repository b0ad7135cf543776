/* SPDX-License-Identifier: GPL-2.0 */
/* Sequence numbers, modulo 2^32 (RFC 9293 §3.4): fairwater_wire::Seq. */
#pragma once

#include "types.h"

static __always_inline bool is_before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

static __always_inline bool is_after(u32 a, u32 b)
{
	return is_before(b, a);
}

/* All ones if `value` is negative. Without a branch, here and below: the verifier follows each way
 * through a program by itself. */
static __always_inline u32 sign_of(s32 value)
{
	u32 sign = value >> 31;

	asm volatile("" : "+r"(sign)); /* else clang makes a branch of what is done with it */
	return sign;
}

static __always_inline u32 bytes_since(u32 later, u32 earlier)
{
	u32 distance = later - earlier;

	return distance & ~sign_of(distance);
}

static __always_inline u32 seq_max(u32 a, u32 b)
{
	return a ^ ((a ^ b) & sign_of(a - b));
}

static __always_inline u32 seq_min(u32 a, u32 b)
{
	return a ^ ((a ^ b) & sign_of(b - a));
}

/* Whether `seq` is in [start, start + length). */
static __always_inline bool is_within(u32 seq, u32 start, u32 length)
{
	return seq - start < length;
}

static __always_inline u32 saturating_sub(u32 a, u32 b)
{
	u64 difference = (u64)a - b, borrow = (s64)difference >> 63;

	asm volatile("" : "+r"(borrow));
	return difference & ~borrow;
}

static __always_inline u32 saturating_inc(u32 value)
{
	return ~saturating_sub(~value, 1);
}

static __always_inline u32 div_ceil(u32 a, u32 b)
{
	u32 whole = a / b;

	return whole + (whole * b != a);
}

static __always_inline u64 elapsed_ns(u64 later, u64 earlier)
{
	return later > earlier ? later - earlier : 0;
}
