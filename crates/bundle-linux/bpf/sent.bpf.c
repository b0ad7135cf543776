// SPDX-License-Identifier: GPL-2.0
/* A sendbox's port, behind its queue: counts the packets of bundles as they leave, and tells user space of boundary
 * packets. A program at the interface's egress would see them before they wait. */
#define TRACED
#define MAX_EQUAL 2
#include "bundles.h"
#include "parse.h"
#include "message.h"
#include "count.h"
#include "skb.h"
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

const volatile u32 interface = 0;
const volatile u32 namespace = 0; /* inode of the interface's: numbers of interfaces are unique in one only */

#define HEAD 96 /* bytes that a plain packet's headers take at most, and what identifies it */

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(fw_sent, const struct sk_buff *skb, const struct net_device *device)
{
	struct packet *p = packet_at_work();
	const struct settings *settings;
	u32 bundle, size = 0, kind = 0, network = link_header;
	bool is_plain = false;

	if (device->ifindex != interface || device->nd_net.net->ns.inum != namespace || !p)
		return 0;
	p->data = (u64)skb->data;
	p->length = skb->len;
	p->linear = skb->len - skb->data_len;
	if (link_header == 14 && p->linear >= HEAD && !bpf_probe_read_kernel(p->head, HEAD, skb->data))
		is_plain = read_plain(p, p->head + 14, p->head + HEAD, p->length - 14, BITS16(p->head + 12));
	if (!is_plain) {
		if (!parse(0))
			return 0;
		network = p->network_at;
	}
	if (carries_message(p, message_port))
		return 0;
	bundle = p->is_v6 ? bundle_of_v6(&p->words[2]) : bundle_of_v4(p->words[0] >> 32);
	settings = bpf_map_lookup_elem(&fw_settings, &bundle);
	if (!settings)
		return 0;
	read_segmentation(skb, &size, &kind);
	count_packet(0, p, bundle, settings, size, kind, is_fixed_id(kind), network);
	return 0;
}
