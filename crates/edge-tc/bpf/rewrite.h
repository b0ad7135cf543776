/* SPDX-License-Identifier: GPL-2.0 */
/* Fields changed in place, checksums by difference: fairwater_wire::Rewriter. The helpers leave a
 * partial checksum as it is, and keep a complete one of the device right. */
#pragma once

#include "packet.h"

#define CHECKSUM_AT 16
#define FLAGS_AT 12
#define WINDOW_AT 14

/* Writes 16 bits at an even offset in the TCP header. */
static __always_inline void set_tcp16(struct __sk_buff *skb, const struct packet *p, u32 at, u16 before, u16 after)
{
	u16 from = __builtin_bswap16(before), to = __builtin_bswap16(after);

	if (from == to)
		return;
	bpf_l4_csum_replace(skb, p->transport_at + CHECKSUM_AT, from, to, sizeof(to));
	bpf_skb_store_bytes(skb, p->transport_at + at, &to, sizeof(to), 0);
}

static __always_inline void set_window(struct __sk_buff *skb, const struct packet *p, u16 window)
{
	set_tcp16(skb, p, WINDOW_AT, p->window, window);
}

/* Sets data offset, flags and window, which are neighbours, at once. */
static __always_inline void set_flags_and_window(struct __sk_buff *skb, const struct packet *p, u16 word, u16 window)
{
	u32 from = __builtin_bswap32((u32)p->word << 16 | p->window);
	u32 to = __builtin_bswap32((u32)word << 16 | window);

	_Static_assert(WINDOW_AT == FLAGS_AT + 2, "one word");
	if (from == to)
		return;
	bpf_l4_csum_replace(skb, p->transport_at + CHECKSUM_AT, from, to, sizeof(to));
	bpf_skb_store_bytes(skb, p->transport_at + FLAGS_AT, &to, sizeof(to), 0);
}

/* Sets and clears flags; one that is in both is set. */
static __always_inline void set_flags(struct __sk_buff *skb, const struct packet *p, u16 set, u16 clear)
{
	set_tcp16(skb, p, FLAGS_AT, p->word, (p->word & ~clear) | set);
}

/* Sets the shift of the window-scale option, which may be at an odd offset. */
static __always_inline void set_window_scale(struct __sk_buff *skb, const struct packet *p, u8 scale)
{
	u32 at = p->transport_at + p->scale_at;
	u8 before = 0;

	if (!(p->options & OPTION_SCALE) || bpf_skb_load_bytes(skb, at, &before, 1) || before == scale)
		return;
	u32 shift = p->scale_at % 2 ? 8 : 0;

	bpf_l4_csum_replace(skb, p->transport_at + CHECKSUM_AT, (u16)(before << shift), (u16)(scale << shift), 2);
	bpf_skb_store_bytes(skb, at, &scale, 1, 0);
}

/* Sets the ECN field of the IP header; IPv4's header checksum follows. */
static __always_inline void set_ecn(struct __sk_buff *skb, const struct packet *p, u8 ecn)
{
	u32 at = p->network_at;
	u16 before = p->ip_word;

	if (p->key.is_v6) {
		u16 to = __builtin_bswap16((before & ~(3 << 4)) | ecn << 4);

		bpf_skb_store_bytes(skb, at, &to, sizeof(to), BPF_F_RECOMPUTE_CSUM);
	} else {
		u16 to = __builtin_bswap16((before & ~3) | ecn);

		bpf_l3_csum_replace(skb, at + 10, __builtin_bswap16(before), to, sizeof(to));
		bpf_skb_store_bytes(skb, at, &to, sizeof(to), 0);
	}
}
