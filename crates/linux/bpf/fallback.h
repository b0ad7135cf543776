/* SPDX-License-Identifier: GPL-2.0 */
/* The congestion control of a socket that no program controls: the kernel's own Cubic, and Reno
 * where the kernel does not offer its Cubic to eBPF.
 *
 * Cubic keeps its state at the start of icsk_ca_priv, as in the kernel's own `cubic`. The kernel
 * leaves to `cong_control` what it does itself for other congestion controls: it reduces the window
 * neither during recovery nor at its end (tcp_cwnd_reduction(), tcp_end_cwnd_reduction()). Both are
 * done here. */
#pragma once

#include "socket.h"
#include <bpf/bpf_core_read.h>

/* Largest window that a flow may have grown to in its first slow start for the fallback to go on
 * with slow start, segments. */
#define SMALL_WINDOW 100
/* The kernel's default of net.ipv4.tcp_reordering. */
#define DEFAULT_REORDERING 3

/* Known before the verifier runs, which drops the other branch. */
static __always_inline bool has_cubic(void)
{
	return bpf_ksym_exists(cubictcp_init) && bpf_ksym_exists(cubictcp_recalc_ssthresh) &&
	       bpf_ksym_exists(cubictcp_cong_avoid) && bpf_ksym_exists(cubictcp_state) &&
	       bpf_ksym_exists(cubictcp_acked) && bpf_ksym_exists(cubictcp_cwnd_event) &&
	       bpf_core_type_size(struct bictcp) <= CUBIC_BYTES;
}

static __always_inline u32 packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

static __always_inline bool is_reducing(u8 state)
{
	return state == TCP_CA_CWR || state == TCP_CA_Recovery;
}

/* A socket that the fallback controls from its start. */
static __always_inline void fallback_init(struct sock *sk)
{
	if (has_cubic())
		cubictcp_init(sk);
}

/* Takes a flow over from its program, or from a program that has failed.
 *
 * Window: the flow goes on with the program's, which the path has borne. A paced flow is the
 * exception: its rate bounds it and its window may be far above what the path holds. It gets the
 * window that it has used.
 *
 * Slow-start threshold: while a program runs, the kernel sets the threshold at a loss and nobody
 * lowers it afterwards; without a loss it is infinite. Slow start up to such a threshold would
 * double a window that may fill the path. So the threshold is at most the window, and Cubic grows
 * it from there by its curve, with two exceptions. After a timeout the threshold is that of this
 * very loss, and the window 1: slow start is due (RFC 5681 §3.1). And a flow that never had a loss
 * and whose window is small goes on with slow start as any young flow would: growth by a curve
 * would take it seconds, and HyStart ends slow start when the delay rises. */
static __always_inline void enter_fallback(struct sock *sk, struct tcp_sock *tp, const struct frame *f)
{
	u32 cwnd = tp->snd_cwnd, threshold = tp->snd_ssthresh;

	if (f->rate) {
		cwnd = min(cwnd, max(tp->max_packets_out, (u32)TCP_INIT_CWND));
		tp->snd_cwnd = cwnd;
	}
	bool young = threshold >= TCP_INFINITE_SSTHRESH && cwnd <= SMALL_WINDOW;

	if (!young && inet_csk(sk)->icsk_ca_state != TCP_CA_Loss)
		tp->snd_ssthresh = min(threshold, max(cwnd, 2u));
	fallback_init(sk);
}

/* The kernel enters recovery, loss or CWR. */
static __always_inline u32 fallback_ssthresh(struct sock *sk, struct tcp_sock *tp,
					     struct socket_private *ca)
{
	ca->delivered_before = tp->delivered;
	if (has_cubic())
		return cubictcp_recalc_ssthresh(sk);
	return max(tp->snd_cwnd >> 1, 2u); /* RFC 5681 §3.1 (4) */
}

/* Proportional rate reduction (RFC 6937 §3) with the kernel's counters. `prr_out` is the kernel's
 * own; its count of what arrived stands still under `cong_control`. */
static __always_inline void reduce(struct tcp_sock *tp, const struct socket_private *ca, int flag,
				   const struct rate_sample *rs)
{
	u32 in_flight = packets_in_flight(tp), prior = tp->prior_cwnd, sent = tp->prr_out;
	u32 delivered = tp->delivered - ca->delivered_before;
	s32 room = tp->snd_ssthresh - in_flight;
	s32 acked = rs->acked_sacked, send;

	if (acked <= 0 || !prior)
		return;
	if (room < 0) {
		send = ((u64)tp->snd_ssthresh * delivered + prior - 1) / prior - sent;
	} else {
		send = max((s32)(delivered - sent), acked);
		if ((flag & FLAG_SND_UNA_ADVANCED) && !rs->losses)
			send++;
		send = min(send, room);
	}
	/* The first retransmission leaves at once. */
	tp->snd_cwnd = in_flight + max(send, sent ? 0 : 1);
}

/* One ACK. */
static __always_inline void fallback_ack(struct sock *sk, struct tcp_sock *tp,
					 const struct socket_private *ca, u32 ack, int flag,
					 const struct rate_sample *rs)
{
	/* With much reordering data that arrives out of order is progress too, as in the kernel's
	 * tcp_may_raise_cwnd(). */
	int progress = tp->reordering > DEFAULT_REORDERING ? FLAG_FORWARD_PROGRESS : FLAG_DATA_ACKED;

	if (has_cubic()) {
		struct ack_sample sample = { .pkts_acked = rs->acked_sacked, .rtt_us = rs->rtt_us };

		cubictcp_acked(sk, &sample); /* HyStart, and the least RTT */
	}
	if (is_reducing(inet_csk(sk)->icsk_ca_state))
		reduce(tp, ca, flag, rs);
	else if (!(flag & progress))
		return;
	else if (has_cubic())
		cubictcp_cong_avoid(sk, ack, rs->acked_sacked);
	else
		tcp_reno_cong_avoid(sk, ack, rs->acked_sacked);
}

/* The state is about to change. A reduction ends at the threshold, unless it was taken back. */
static __always_inline void fallback_set_state(struct sock *sk, struct tcp_sock *tp, u8 next)
{
	u8 state = inet_csk(sk)->icsk_ca_state;

	if (is_reducing(state) && next < TCP_CA_CWR &&
	    tp->snd_ssthresh < TCP_INFINITE_SSTHRESH && (state == TCP_CA_CWR || tp->undo_marker))
		tp->snd_cwnd = tp->snd_ssthresh;
	if (has_cubic())
		cubictcp_state(sk, next);
}

/* Data is sent after an idle period. */
static __always_inline void fallback_tx_start(struct sock *sk)
{
	if (has_cubic())
		cubictcp_cwnd_event(sk, CA_EVENT_TX_START);
}
