/* SPDX-License-Identifier: GPL-2.0 */
/* What the datapath keeps of a TCP socket, in the socket. */
#pragma once

#include "flow.h"
#include "kernel.h"

/* Bytes that the kernel's Cubic has for its state: `struct bictcp` of Linux 6.18. */
#define CUBIC_BYTES 60

/* In icsk_ca_priv: Cubic's state, which begins there, the socket's slot, its counters at the last
 * ACK, and the ECN echo that it sends as a receiver. */
struct socket_private {
	u8 cubic[CUBIC_BYTES];
	u32 delivered_before; /* packets delivered as the last reduction began */
	u64 owner; /* address of the socket that `init` filled this for */
	u32 slot;
	u32 lost;
	u64 bytes_acked;
	u32 delivered_ce;
	u32 sacked_out;
	u32 rcv_nxt; /* as of the last packet that arrived with data */
	u16 echo;    /* whether that packet was marked */
	u16 undone;  /* whether a reduction was taken back since the program last ran */
};

/* For its type alone, which reaches Rust. */
struct socket_layouts {
	struct socket_private socket_private;
	enum cong_flags cong_flags;
	enum sk_pacing sk_pacing;
};
