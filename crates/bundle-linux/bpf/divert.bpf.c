// SPDX-License-Identifier: GPL-2.0
/* The sendbox's detour. `fw_divert` is for the ingress of a site's port: packets to the bundles'
 * destinations leave it for the device of the process that schedules them. `fw_return` is for the
 * ingress of that device: what the process writes goes on at the port, as if it had just come in.
 * `src/tap/diversion.rs` is the other side.
 *
 * When the process has not shown for a while that it lives, or its device is gone, packets pass. */
#include "bundles.h"
#include "load.h"
#include "message.h"

char _license[] SEC("license") = "GPL";

#define ENODEV 19
#define ETHERNET 14 /* bytes of its header */
#define PASS (-1) /* TCX_NEXT: the next program decides */
#define DROP 2

/* Written by the process; the programs only read, but for the counters. */
struct diversion {
	u64 beat_ns;  /* when the process showed last that it lives, CLOCK_MONOTONIC */
	u64 stale_ns; /* from that age on packets pass */
	u64 diverted; /* packets, super-packets counted once */
	u64 passed;   /* packets that passed as the process was late or gone */
	u32 mark;     /* of packets that the process has written */
	u16 message_port; /* in network byte order */
	u16 spare;
};

struct diversion diversion SEC(".data.diversion");

/* From a port to its device and back, by number of the interface. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, u32);
	__type(value, u32);
} fw_devices SEC(".maps");

/* Whether the packet belongs to a bundle. Ports carry Ethernet. */
static __always_inline bool is_bundled(struct __sk_buff *skb)
{
	u16 port = READ_ONCE(diversion.message_port);
	u32 transport = ETHERNET, bytes, ports = 0;
	u64 words[5] = {};
	const u8 *head = (const u8 *)words;
	u8 protocol;

	if (skb->vlan_present)
		return false;
	if (skb->protocol == __builtin_bswap16(IPV4)) {
		if (load(skb, ETHERNET, words, 20) || bundle_of_v4(words[2]) == NO_BUNDLE)
			return false;
		protocol = BITS16(head + 6) & 0x3fff ? 0 : head[9]; /* a fragment has no ports */
		transport += (head[0] & 0xf) * 4;
		bytes = BITS16(head + 2);
	} else if (skb->protocol == __builtin_bswap16(IPV6)) {
		if (load(skb, ETHERNET, words, 40) || bundle_of_v6(&words[3]) == NO_BUNDLE)
			return false;
		protocol = head[6];
		transport += 40;
		bytes = 40 + BITS16(head + 4);
	} else {
		return false;
	}
	return protocol != UDP || load(skb, transport, &ports, 4) || !is_message(ports, bytes, port);
}

SEC("tcx/ingress")
int fw_divert(struct __sk_buff *skb)
{
	u32 mark = READ_ONCE(diversion.mark), port = skb->ifindex, mtu = 0, *device;
	u64 age;

	if (mark && skb->mark == mark) {
		skb->mark = 0;
		return PASS;
	}
	if (!is_bundled(skb))
		return PASS;
	device = bpf_map_lookup_elem(&fw_devices, &port);
	age = bpf_ktime_get_ns() - READ_ONCE(diversion.beat_ns);
	if (!device || (s64)age >= (s64)READ_ONCE(diversion.stale_ns) ||
	    bpf_check_mtu(skb, *device, &mtu, 0, 0) == -ENODEV) {
		__sync_fetch_and_add(&diversion.passed, 1);
		return PASS;
	}
	__sync_fetch_and_add(&diversion.diverted, 1);
	return bpf_redirect(*device, 0);
}

SEC("tcx/ingress")
int fw_return(struct __sk_buff *skb)
{
	u32 device = skb->ifindex, *port = bpf_map_lookup_elem(&fw_devices, &device);

	if (!port)
		return DROP;
	skb->mark = READ_ONCE(diversion.mark);
	return bpf_redirect(*port, BPF_F_INGRESS);
}
