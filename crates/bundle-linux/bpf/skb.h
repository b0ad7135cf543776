/* SPDX-License-Identifier: GPL-2.0 */
/* What the programs read of the kernel's socket buffers; offsets come from the kernel's BTF. */
#pragma once

#include <bpf/bpf_core_read.h>
#include "types.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
};

struct sk_buff {
	struct net_device *dev;
	unsigned int len;
	unsigned int data_len;
	unsigned int end; /* an offset on machines of 64 bits */
	unsigned char *head;
	unsigned char *data;
};

struct skb_shared_info {
	unsigned short gso_size;
	unsigned int gso_type;
};
#pragma clang attribute pop

/* SKB_GSO_TCP_FIXEDID, up to Linux 6.17 and since: the kernel's enumeration has no name to ask BTF for. */
#define GSO_FIXED_ID (1u << 3 | 1u << 30)

/* How a super-packet is segmented; `gso_size` is 0 for others. */
static __always_inline void read_segmentation(const struct sk_buff *skb, u32 *size, u32 *kind)
{
	const struct skb_shared_info *info = (const void *)(skb->head + skb->end);
	u16 gso_size = 0;

	bpf_core_read(&gso_size, sizeof(gso_size), &info->gso_size);
	*size = gso_size;
	if (gso_size)
		bpf_core_read(kind, sizeof(*kind), &info->gso_type);
}

static __always_inline bool is_fixed_id(u32 kind)
{
	return kind & GSO_FIXED_ID;
}
