// SPDX-License-Identifier: GPL-2.0
/* A receivebox's port: counts the packets of bundles, and tells user space of boundary packets. It changes nothing. */
#define MAX_EQUAL 1
#include "bundles.h"
#include "parse.h"
#include "message.h"
#include "count.h"
#include "skb.h"

char _license[] SEC("license") = "GPL";

extern void *bpf_cast_to_kern_ctx(void *) __ksym;

/* A destination of a bundle: the bundle's place is the prefix's first 32 bits. */
struct destination_v4 {
	u32 bits;
	u32 bundle;
	u32 address;
};

struct destination_v6 {
	u32 bits;
	u32 bundle;
	u32 address[4];
};

PREFIXES(fw_to_v4, struct destination_v4);
PREFIXES(fw_to_v6, struct destination_v6);

static __always_inline bool is_to_bundle(const struct packet *p, u32 bundle)
{
	if (p->is_v6) {
		struct destination_v6 key = { .bits = 32 + 128, .bundle = bundle };

		__builtin_memcpy(key.address, &p->words[2], 16);
		return bpf_map_lookup_elem(&fw_to_v6, &key);
	}
	struct destination_v4 key = { .bits = 32 + 32, .bundle = bundle, .address = p->words[0] >> 32 };

	return bpf_map_lookup_elem(&fw_to_v4, &key);
}

SEC("tc")
int fw_receive(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct packet *p = packet_at_work();
	const struct settings *settings;
	u32 bundle, size, kind = 0, network = link_header;
	bool is_plain = false;

	if (!p)
		return GO_ON;
	if (link_header == 14 && data + 14 <= end)
		is_plain = read_plain(p, data + 14, end, skb->len - 14, BITS16(data + 12));
	if (!is_plain) {
		if (!parse(skb))
			return GO_ON;
		network = p->network_at;
	}
	if (carries_message(p, message_port))
		return GO_ON;
	bundle = p->is_v6 ? bundle_of_v6(p->words) : bundle_of_v4(p->words[0]);
	settings = bpf_map_lookup_elem(&fw_settings, &bundle);
	if (!settings || (!settings->any_destination && !is_to_bundle(p, bundle)))
		return GO_ON;
	size = skb->gso_size;
	if (size) {
		if (test_run)
			kind = skb->mark;
		else
			read_segmentation(bpf_cast_to_kern_ctx(skb), &size, &kind);
	}
	count_packet(skb, p, bundle, settings, size, kind, is_fixed_id(kind), network);
	return GO_ON;
}
