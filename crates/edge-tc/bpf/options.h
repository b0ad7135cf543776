/* SPDX-License-Identifier: GPL-2.0 */
/* TCP options, one after the other: fairwater_wire::OptionSummary. Of a kind that comes twice the
 * last counts; one that lies about its length makes the packet unreadable. */
#pragma once

#include "load.h"
#include "packet.h"
#include "seq.h"

enum option_kind {
	OPTION_END = 0,
	OPTION_NOP = 1,
	KIND_MSS = 2,
	KIND_SCALE = 3,
	KIND_SACK_PERMITTED = 4,
	KIND_SACK = 5,
	KIND_TIMESTAMPS = 8,
	KIND_MD5 = 19,
	KIND_AO = 29,
	KIND_MPTCP = 30,
	KIND_FAST_OPEN = 34,
	KIND_ACC_ECN_0 = 172,
	KIND_ACC_ECN_1 = 174,
	KIND_EXPERIMENT = 254,
};

#define RAW(p, at) ((p)->raw[(at) & 63])

static __always_inline u32 raw16(const struct packet *p, u32 at)
{
	return (u32)RAW(p, at) << 8 | RAW(p, at + 1);
}

static __always_inline u32 raw32(const struct packet *p, u32 at)
{
	return raw16(p, at) << 16 | raw16(p, at + 2);
}

/* RFC 7413 §4.1.1: empty, or 4 to 16 bytes, even. */
static __always_inline bool is_cookie(u32 length)
{
	return length == 0 || (length >= 4 && length <= 16 && length % 2 == 0);
}

static __always_inline bool read_sack(struct packet *p, u32 at, u32 length)
{
	u32 blocks = length / 8;

	if (length % 8 || blocks < 1 || blocks > 4)
		return false;
	for (int i = 0; i < 4; i++) {
		p->sack[i].start = raw32(p, at + 8 * i);
		p->sack[i].end = raw32(p, at + 8 * i + 4);
	}
	p->sack_count = blocks;
	return true;
}

/* Takes the option of a kind whose `length` bytes of data begin at `at`; whether the length is one
 * that the kind has. */
__noinline bool read_option(struct packet *p, u32 kind, u32 at, u32 length)
{
	if (!p)
		return false;
	switch (kind) {
	case KIND_MSS:
		p->mss = raw16(p, at);
		p->options |= OPTION_MSS;
		return length == 2;
	case KIND_SCALE:
		if (!(p->options & OPTION_SCALE))
			p->scale_at = TCP_HEADER + at;
		p->scale = RAW(p, at);
		p->options |= OPTION_SCALE;
		return length == 1;
	case KIND_SACK_PERMITTED:
		p->options |= OPTION_SACK_PERMITTED;
		return length == 0;
	case KIND_SACK:
		return read_sack(p, at, length);
	case KIND_TIMESTAMPS:
		p->tsval = raw32(p, at);
		p->tsecr = raw32(p, at + 4);
		p->options |= OPTION_TIMESTAMPS;
		return length == 8;
	case KIND_MD5:
		p->options |= OPTION_SIGNED;
		return length == 16;
	case KIND_AO: /* RFC 5925 §2.2: two key identifiers, then the code */
		p->options |= OPTION_SIGNED;
		return length >= 2;
	case KIND_MPTCP: /* RFC 8684 §3: the subtype at least */
		p->options |= OPTION_MPTCP;
		return length >= 1;
	case KIND_FAST_OPEN:
		return is_cookie(length);
	case KIND_EXPERIMENT: /* the experiment that became Fast Open (RFC 7413 §4.1.1) */
		return length < 2 || raw16(p, at) != 0xf989 || is_cookie(length - 2);
	case KIND_ACC_ECN_0:
	case KIND_ACC_ECN_1:
		return length % 3 == 0 && length <= 9;
	default:
		return true;
	}
}

/* The options of nearly every segment: timestamps alone, as hosts align them (RFC 7323 appendix A). */
static __always_inline bool are_timestamps(struct __sk_buff *skb, struct packet *p)
{
	u16 words[6];

	if (p->options_size != 12 || load16(skb, p->transport_at + TCP_HEADER, words, 6))
		return false;
	if (word(words, 0) != (OPTION_NOP << 24 | OPTION_NOP << 16 | KIND_TIMESTAMPS << 8 | 10))
		return false;
	p->options = OPTION_TIMESTAMPS;
	p->tsval = word(words, 4);
	p->tsecr = word(words, 8);
	return true;
}

/* Reads the options of the packet at work. The reason, or READABLE. The place is kept in memory: the
 * verifier then sees the same state at each turn of the loop. */
__noinline int parse_options(struct __sk_buff *skb)
{
	struct packet *p = packet_at_work();
	u32 size;

	if (!p)
		return TCP_TRUNCATED;
	p->options = 0;
	p->sack_count = 0;
	size = p->options_size;
	if (size == 0 || are_timestamps(skb, p))
		return READABLE;
	if (size > MAX_OPTION_BYTES || bpf_skb_load_bytes(skb, p->transport_at + TCP_HEADER, p->raw, size))
		return TCP_TRUNCATED;
	WRITE_ONCE(p->here, 0);
	for (int i = 0; i < MAX_OPTION_BYTES; i++) {
		u32 here = READ_ONCE(p->here), kind, length;

		size = READ_ONCE(p->options_size);
		if (here >= size)
			return READABLE;
		kind = RAW(p, here);
		if (kind == OPTION_NOP) {
			WRITE_ONCE(p->here, here + 1);
			continue;
		}
		if (kind == OPTION_END)
			return READABLE;
		if (here + 1 >= size)
			return TCP_OPTION_TRUNCATED;
		length = RAW(p, here + 1);
		if (length < 2)
			return TCP_OPTION_LENGTH;
		if (here + length > size)
			return TCP_OPTION_TRUNCATED;
		if (!read_option(p, kind, here + 2, length - 2))
			return TCP_OPTION_LENGTH;
		WRITE_ONCE(p->here, here + length);
	}
	return READABLE;
}
