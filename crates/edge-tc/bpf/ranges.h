/* SPDX-License-Identifier: GPL-2.0 */
/* A bounded set of ranges of sequence numbers: fairwater_edge's `track/ranges.rs`. Loops have a
 * constant bound, and indices that vary are masked, so that the verifier follows. */
#pragma once

#include "packet.h"
#include "seq.h"

_Static_assert((MAX_RANGES & (MAX_RANGES - 1)) == 0, "masked indices");
#define RANGE(ranges, at) ((ranges)->of[(at) & (MAX_RANGES - 1)])

static __always_inline u32 total_of(const struct ranges *ranges)
{
	u32 total = 0;

	for (u32 i = 0; i < MAX_RANGES; i++) {
		if (i >= ranges->count)
			break;
		total += bytes_since(ranges->of[i].end, ranges->of[i].start);
	}
	return total;
}

/* Bytes of [start, end) that are in the set. */
static __always_inline u32 overlap(const struct ranges *ranges, u32 start, u32 end)
{
	u32 bytes = 0;

	for (u32 i = 0; i < MAX_RANGES; i++) {
		if (i >= ranges->count)
			break;
		bytes += bytes_since(seq_min(ranges->of[i].end, end), seq_max(ranges->of[i].start, start));
	}
	return bytes;
}

/* Bytes of [start, end) that are not in the set. */
static __always_inline u32 missing(const struct ranges *ranges, u32 start, u32 end)
{
	return saturating_sub(bytes_since(end, start), overlap(ranges, start, end));
}

/* Adds [start, end); the bytes that were not in the set, 0 if there is no room. */
__noinline u32 insert_range(struct packet *p, struct ranges *ranges, u32 start, u32 end)
{
	if (!p || !ranges)
		return 0;
	u32 new = missing(ranges, start, end), total = ranges->count, first = 0, touched = 0;

	if (!new)
		return 0;
	/* Those before it; then those that it touches, which become one with it. */
	for (u32 i = 0; i < MAX_RANGES; i++) {
		if (i >= total || !is_before(ranges->of[i].end, start))
			break;
		first = i + 1;
	}
	first = opaque(p, first);
	for (u32 i = 0; i < MAX_RANGES; i++) {
		if (i < first)
			continue;
		if (i >= total || is_before(end, ranges->of[i].start))
			break;
		touched++;
	}
	touched = opaque(p, touched);
	if (touched == 0) {
		if (total >= MAX_RANGES)
			return 0;
		for (u32 i = MAX_RANGES - 1; i > 0; i--) {
			if (i > first && i <= total)
				ranges->of[i] = ranges->of[i - 1];
		}
		ranges->count = total + 1;
	} else {
		start = seq_min(start, RANGE(ranges, first).start);
		end = seq_max(end, RANGE(ranges, first + touched - 1).end);
		for (u32 i = 1; i < MAX_RANGES; i++) {
			if (i > first && i + touched - 1 < total)
				ranges->of[i] = RANGE(ranges, i + touched - 1);
		}
		ranges->count = total - touched + 1;
	}
	RANGE(ranges, first).start = start;
	RANGE(ranges, first).end = end;
	return new;
}

/* Takes out all before `seq`. */
static __always_inline void trim_before(struct packet *p, struct ranges *ranges, u32 seq)
{
	u32 total = ranges->count, gone = 0;

	if (!total)
		return;
	for (u32 i = 0; i < MAX_RANGES; i++) {
		if (i >= total || is_after(ranges->of[i].end, seq))
			break;
		gone = i + 1;
	}
	gone = opaque(p, gone);
	if (gone) {
		for (u32 i = 0; i < MAX_RANGES; i++) {
			if (i + gone < total)
				ranges->of[i] = RANGE(ranges, i + gone);
		}
		ranges->count = total - gone;
	}
	ranges->of[0].start = seq_max(ranges->of[0].start, seq);
}
