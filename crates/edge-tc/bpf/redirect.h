/* SPDX-License-Identifier: GPL-2.0 */
/* Connections whose data a process buffers: their packets leave the port for a TAP device of that
 * process, which writes back what is to go on. `src/buffered` is the other side.
 *
 * In front of each frame that goes to the device or comes from it stands a header as long as
 * Ethernet's, which tells port and direction. A frame that came from the device carries a mark, by
 * which the programs at the port let it pass. */
#pragma once

#include "maps.h"
#include "open.h"

#define PORT_HEADER 14
#define ENODEV 19

/* Written by the process; the programs only read. */
struct redirection {
	u64 beat_ns;  /* when the process showed last that it lives, CLOCK_MONOTONIC */
	u64 stale_ns; /* from that age on packets pass */
	u32 device;   /* interface of the process; 0 = no policy asks for buffers */
	u32 generation; /* of what the process knows: it knows nothing of connections with another */
	u32 mark;     /* of packets that the process has written */
	u32 spare;
};

struct redirection redirection SEC(".data.redirection");

/* A connection whose packets go to the process: fw_redirected by key. */
struct redirected {
	u64 since_ns;
	u32 generation;
	u32 spare;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct key);
	__type(value, struct redirected);
} fw_redirected SEC(".maps");

/* What redirect() says of a packet. */
enum redirection_verdict { NOT_REDIRECTED = -2, LEFT_ALONE = -1 /* TC_ACT_UNSPEC */ };

/* Whether the process wrote the packet: it goes on as it is, without the mark. */
static __always_inline bool is_returned(struct __sk_buff *skb)
{
	u32 mark = READ_ONCE(redirection.mark);

	/* At its end the process writes what it holds, and gets no more. */
	if (!mark || skb->mark != mark)
		return false;
	skb->mark = 0;
	return true;
}

/* Whether the process is at work, and its device is there. */
static __always_inline bool is_buffering(struct __sk_buff *skb, u32 device)
{
	u64 age = clock_ns() - READ_ONCE(redirection.beat_ns);
	u32 mtu = 0;

	if ((s64)age >= (s64)READ_ONCE(redirection.stale_ns))
		return false;
	return bpf_check_mtu(skb, device, &mtu, 0, 0) != -ENODEV;
}

/* Whether the kernel controls or measures a connection with that key that has not ended. */
static __always_inline bool is_open_in_kernel(const struct key *key)
{
	struct connection *c = bpf_map_lookup_elem(&fw_connections, key);
	u32 both = FIN_FROM_GUEST | FIN_TO_GUEST;

	return c && (c->bits & both) != both && !(c->bits & IS_RESET);
}

/* Whether this first SYN opens a connection to be buffered. What may not be touched the rest of the
 * programs deal with. */
static __always_inline bool begins_redirected(const struct packet *p)
{
	if ((p->flags & (SYN | ACK | RST)) != SYN || (p->options & (OPTION_SIGNED | OPTION_MPTCP)))
		return false;
	if (p->direction == FROM_GUEST && (ACE(p->flags) & 3) == 3)
		return false;
	return treatment_of(&p->key).buffer && !is_open_in_kernel(&p->key);
}

/* Puts the header in front of the frame and sends it to the process. */
static __always_inline int to_process(struct __sk_buff *skb, const struct packet *p, u32 device)
{
	u32 interface = __builtin_bswap32(p->key.interface);
	u8 header[PORT_HEADER] = { 2, 'f', 'w', 'b', 0, 0, 2, 0 };

	header[4] = p->direction;
	__builtin_memcpy(header + 8, &interface, sizeof(interface));
	header[12] = p->key.is_v6 ? 0x86 : 0x08;
	header[13] = p->key.is_v6 ? 0xdd : 0x00;
	if (bpf_skb_change_head(skb, PORT_HEADER, 0))
		return LEFT_ALONE;
	bpf_skb_store_bytes(skb, 0, header, sizeof(header), 0);
	count(REDIRECTED);
	return bpf_redirect(device, 0);
}

/* Sends the packet at work to the process, if its connection is buffered. NOT_REDIRECTED if it is
 * the rest of the programs' to deal with. */
__noinline int redirect(struct __sk_buff *skb)
{
	struct packet *p = packet_at_work();
	u32 device = READ_ONCE(redirection.device), generation = READ_ONCE(redirection.generation);
	struct redirected *it;

	if (!p || !device)
		return NOT_REDIRECTED;
	it = bpf_map_lookup_elem(&fw_redirected, &p->key);
	if (it && it->generation != generation) {
		/* The process was stalled: it has missed packets of the connection. */
		bpf_map_delete_elem(&fw_redirected, &p->key);
		it = NULL;
	}
	if (!it) {
		struct redirected new = { .since_ns = clock_ns(), .generation = generation };

		if (!begins_redirected(p) || !is_buffering(skb, device))
			return NOT_REDIRECTED;
		if (bpf_map_update_elem(&fw_redirected, &p->key, &new, BPF_NOEXIST)) {
			count(BUFFER_FULL);
			return NOT_REDIRECTED;
		}
	} else if (!is_buffering(skb, device)) {
		return LEFT_ALONE;
	}
	return to_process(skb, p, device);
}

/* A frame that the process wrote: it goes on at the port and in the direction that its header says. */
static __always_inline int return_frame(struct __sk_buff *skb)
{
	u8 bytes[2 * PORT_HEADER] = {};
	u32 interface = 0, mark = READ_ONCE(redirection.mark);

	if (bpf_skb_load_bytes(skb, 0, bytes, sizeof(bytes)))
		return DROP;
	if (bytes[0] != 2 || bytes[1] != 'f' || bytes[2] != 'w' || bytes[3] != 'b')
		return DROP;
	__builtin_memcpy(&interface, bytes + 8, sizeof(interface));
	/* Removes what follows the link header, which is the port's own: it is written anew. */
	if (bpf_skb_adjust_room(skb, -PORT_HEADER, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO))
		return DROP;
	if (bpf_skb_store_bytes(skb, 0, bytes + PORT_HEADER, PORT_HEADER, 0))
		return DROP;
	skb->mark = mark;
	return bpf_redirect(__builtin_bswap32(interface), bytes[4] == FROM_GUEST ? BPF_F_INGRESS : 0);
}
