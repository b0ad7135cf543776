// SPDX-License-Identifier: GPL-2.0
/* Linux TCP as a datapath. Loaded once for each algorithm of a plane, over the same maps. A
 * socket's frame is filled with the signals of each ACK and the flow's program is tail-called; when
 * there is none, or the plane is silent, the fallback goes on. */
#include "fallback.h"
#include "frames.h"

char _license[] SEC("license") = "GPL";

/* Set before load: the verifier then drops the code of signals that no program reads. */
const volatile u32 needed_signals = 0xffffffff;
const volatile u16 algorithm = 0; /* index of the algorithm that is registered with these programs */
const volatile bool needs_ecn = false;

const volatile struct layouts layouts = {};
const volatile struct socket_layouts socket_layouts = {};

/* Congestion controls that moved connections had before (migrate.bpf.c). Here the map lives as
 * long as a connection has this congestion control, so that a later plane can read it. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct name);
} fw_origin_names SEC(".maps");

#define OBSERVE_US 1000

/* One array per callback: the kernel lets only programs of one callback share an array. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, MAX_PROGRAMS);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u32));
} fw_on_ack SEC(".maps"), fw_on_timeout SEC(".maps");

static __always_inline bool needs(u32 signal)
{
	return needed_signals & (1u << signal);
}

static __always_inline struct socket_private *priv_of(struct sock *sk)
{
	_Static_assert(sizeof(struct socket_private) <= 104, "icsk_ca_priv");
	return (struct socket_private *)inet_csk(sk)->icsk_ca_priv;
}

/* Whether `init` has filled the private area, and for this very socket. Other callbacks come
 * before `init`: cong_control() for the ACK of a SYN, set_state() at a SYN's timeout, cwnd_event()
 * for data in a SYN. The area is zero then, or a copy of a listener's. A socket's address is never
 * zero, and differs from the address of the socket that the area was copied from. */
static __always_inline bool is_initialised(struct sock *sk, const struct socket_private *ca)
{
	return ca->owner == (u64)sk;
}

/* The socket's frame; NULL before `init`, after `release` and where no slot was free. */
static __always_inline struct frame *frame_of(struct sock *sk, struct socket_private *ca)
{
	u32 slot = ca->slot;

	return is_initialised(sk, ca) ? bpf_map_lookup_elem(&fw_frames, &slot) : NULL;
}

/* With `cong_control` the kernel never updates sk_pacing_rate, which also sizes TSO bursts. A
 * flow without a rate gets what tcp_update_pacing_rate() would give it, and no pacing. */
static __always_inline void pace_by_window(struct sock *sk, struct tcp_sock *tp)
{
	u32 cwnd = tp->snd_cwnd, srtt = tp->srtt_us; /* srtt is 8 × µs */

	if (!srtt)
		return;
	u64 percent = cwnd < tp->snd_ssthresh / 2 ? 200 : 120;
	u64 rate = (u64)tp->mss_cache * (1000000 / 100 * 8) * percent * max(cwnd, tp->packets_out);
	rate /= srtt;
	sk->sk_pacing_rate = min(rate, sk->sk_max_pacing_rate);
	if (sk->sk_pacing_status == SK_PACING_NEEDED && sk->sk_max_pacing_rate == ~0UL)
		sk->sk_pacing_status = SK_PACING_NONE;
}

static __always_inline void note_ssthresh(struct frame *f, const struct tcp_sock *tp)
{
	u32 packets = tp->snd_ssthresh;

	f->report.ssthresh = packets < TCP_INFINITE_SSTHRESH ? (u64)packets * tp->mss_cache : ~0ull;
}

/* Work that need not be done at each ACK: four times per RTT, at most each millisecond. */
static __always_inline void observe(struct sock *sk, struct tcp_sock *tp, struct frame *f, u32 now)
{
	u32 since = now - f->observed_us;

	if (since < OBSERVE_US || since < tp->srtt_us >> 5)
		return;
	f->observed_us = now;
	f->srtt_us = tp->srtt_us >> 3;
	f->bytes_acked = tp->bytes_acked;
	f->retransmitted = tp->total_retrans;
	f->rtt_us = tp->rack.rtt_us;
	note_ssthresh(f, tp);
	if (!f->rate)
		pace_by_window(sk, tp);
}

/* Id of the socket's cgroup, the inode of its directory; 0 where the kernel keeps none. */
static __always_inline u64 cgroup_of(struct sock *sk)
{
	struct cgroup *cgroup;

	if (!bpf_core_field_exists(sk->sk_cgrp_data.cgroup))
		return 0;
	cgroup = sk->sk_cgrp_data.cgroup;
	return cgroup && cgroup->kn ? cgroup->kn->id : 0;
}

static __always_inline void read_controls(struct frame *f, const struct tcp_sock *tp, u32 mss)
{
	/* Bytes below a whole segment survive as long as nobody else moved snd_cwnd. */
	if (tp->snd_cwnd != f->cwnd_packets || mss != f->mss) {
		f->cwnd_packets = tp->snd_cwnd;
		f->mss = mss;
		f->cwnd = (u64)tp->snd_cwnd * mss;
	}
}

/* Signals that are as true at a timeout as at an ACK (CCP Table 3). */
static __always_inline void read_flow(struct frame *f, struct socket_private *ca, const struct tcp_sock *tp,
				      u32 mss, u64 now)
{
	f->signals[NOW] = now;
	if (needs(LOST_PKTS)) {
		/* rate_sample.losses misses most of the losses of a timeout */
		f->signals[LOST_PKTS] = (u32)(tp->lost - ca->lost);
		ca->lost = tp->lost;
	}
	if (needs(PACKETS_IN_FLIGHT) || needs(BYTES_IN_FLIGHT)) {
		u32 packets = packets_in_flight(tp);

		f->signals[PACKETS_IN_FLIGHT] = packets;
		f->signals[BYTES_IN_FLIGHT] = (u64)packets * mss;
	}
	if (needs(BYTES_PENDING))
		f->signals[BYTES_PENDING] = (u32)(tp->write_seq - tp->snd_nxt);
	if (needs(UNDO)) {
		f->signals[UNDO] = ca->undone;
		ca->undone = 0;
	}
}

static __always_inline void read_ack(struct frame *f, struct socket_private *ca, const struct tcp_sock *tp,
				     const struct rate_sample *rs, u32 mss)
{
	u64 bytes_acked = tp->bytes_acked;
	f->signals[BYTES_ACKED] = bytes_acked - ca->bytes_acked;
	ca->bytes_acked = bytes_acked;

	if (needs(BYTES_MISORDERED) || needs(PACKETS_MISORDERED) || needs(PACKETS_ACKED)) {
		s32 sacked = tp->sacked_out - ca->sacked_out;
		s32 acked = rs->acked_sacked - sacked; /* acked_sacked counts each packet once */

		ca->sacked_out = tp->sacked_out;
		f->signals[PACKETS_ACKED] = max(acked, 0);
		f->signals[PACKETS_MISORDERED] = max(sacked, 0);
		f->signals[BYTES_MISORDERED] = (u64)max(sacked, 0) * mss;
	}
	if (needs(ECN_PACKETS) || needs(ECN_BYTES)) {
		u32 marked = tp->delivered_ce - ca->delivered_ce;

		ca->delivered_ce = tp->delivered_ce;
		f->signals[ECN_PACKETS] = marked;
		f->signals[ECN_BYTES] = (u64)marked * mss;
	}
	if (needs(RTT_SAMPLE_US) && rs->rtt_us > 0)
		f->signals[RTT_SAMPLE_US] = rs->rtt_us;
	if ((needs(RATE_INCOMING) || needs(RATE_OUTGOING)) && rs->delivered > 0 &&
	    rs->interval_us > 0) {
		u64 bytes = (u64)(u32)rs->delivered * mss * 1000000;

		if (needs(RATE_INCOMING) && rs->rcv_interval_us)
			f->signals[RATE_INCOMING] = bytes / rs->rcv_interval_us;
		if (needs(RATE_OUTGOING) && rs->snd_interval_us)
			f->signals[RATE_OUTGOING] = bytes / rs->snd_interval_us;
	}
	if (needs(WAS_TIMEOUT))
		f->signals[WAS_TIMEOUT] = 0;
	if (needs(APP_LIMITED) && rs->delivered > 0)
		f->signals[APP_LIMITED] = rs->is_app_limited;
}

/* Whether the flow's program may run now: not after a fault, nor while the plane is silent. */
static __always_inline bool may_run(struct sock *sk, struct tcp_sock *tp, struct frame *f, u64 now)
{
	if (f->fault) {
		if (f->state != FLOW_FAULTED) {
			if (f->state == FLOW_RUNNING)
				enter_fallback(sk, tp, f);
			f->state = FLOW_FAULTED;
			f->report.count = f->fault;
			send_event(f, EVENT_FAULT);
		}
		return false;
	}
	return !plane_is_silent(now);
}

static __always_inline void note_fallback(struct sock *sk, struct tcp_sock *tp, struct frame *f)
{
	if (f->state == FLOW_RUNNING) {
		enter_fallback(sk, tp, f);
		f->state = FLOW_FALLBACK;
		f->fallbacks++;
		__sync_fetch_and_add(&plane.fallbacks, 1);
	}
	f->rate = 0;
}

SEC("struct_ops")
void BPF_PROG(fw_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct socket_private *ca = priv_of(sk);
	struct frame *f = frame_of(sk, ca);
	u64 now = tp->tcp_mstamp;

	if (!f) {
		if (is_initialised(sk, ca))
			fallback_ack(sk, tp, ca, ack, flag, rs);
		pace_by_window(sk, tp);
		return;
	}
	u32 mss = tp->mss_cache;

	read_controls(f, tp, mss);
	read_flow(f, ca, tp, mss, now);
	read_ack(f, ca, tp, rs, mss);
	observe(sk, tp, f, now);
	if (may_run(sk, tp, f, now)) {
		u32 was = f->state;

		accept_stage(f);
		if (was != FLOW_RUNNING)
			f->state = FLOW_RUNNING;
		run_program(ctx, &fw_on_ack, f->program);
		f->state = was; /* no such program */
	}
	note_fallback(sk, tp, f);
	fallback_ack(sk, tp, ca, ack, flag, rs);
}

/* No ACK arrives at a retransmission timeout, so the program runs from here (CCP §5.1). The
 * kernel has marked the losses and set cwnd to 1 by now. */
SEC("struct_ops")
void BPF_PROG(fw_set_state, struct sock *sk, u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct socket_private *ca = priv_of(sk);
	struct frame *f;
	u64 now = tp->tcp_mstamp;

	if (!is_initialised(sk, ca))
		return;
	f = frame_of(sk, ca);
	if (!f || f->state != FLOW_RUNNING)
		fallback_set_state(sk, tp, new_state);
	if (!f || new_state != TCP_CA_Loss || !may_run(sk, tp, f, now))
		return;
	read_controls(f, tp, tp->mss_cache);
	read_flow(f, ca, tp, tp->mss_cache, now);
	f->signals[BYTES_ACKED] = 0;
	f->signals[PACKETS_ACKED] = 0;
	f->signals[BYTES_MISORDERED] = 0;
	f->signals[PACKETS_MISORDERED] = 0;
	f->signals[ECN_BYTES] = 0;
	f->signals[ECN_PACKETS] = 0;
	f->signals[WAS_TIMEOUT] = 1;
	accept_stage(f);
	run_program(ctx, &fw_on_timeout, f->program);
}

static __always_inline void set_echo(struct tcp_sock *tp, bool marked)
{
	u8 flags = tp->ecn_flags;

	tp->ecn_flags = marked ? flags | TCP_ECN_DEMAND_CWR : flags & ~TCP_ECN_DEMAND_CWR;
}

/* RFC 8257 §3.2: ECE tells of the packets that the ACK acknowledges, so an ACK that was delayed
 * leaves with the former state before the state changes. */
static __always_inline void echo_mark(struct sock *sk, struct tcp_sock *tp, struct socket_private *ca,
				      bool marked)
{
	struct inet_connection_sock *icsk = inet_csk(sk);

	if (ca->echo != marked) {
		if (icsk->icsk_ack.pending & ICSK_ACK_TIMER) {
			set_echo(tp, ca->echo);
			bpf_tcp_send_ack(tp, ca->rcv_nxt);
		}
		icsk->icsk_ack.pending |= ICSK_ACK_NOW;
		ca->echo = marked;
	}
	ca->rcv_nxt = tp->rcv_nxt;
	set_echo(tp, marked);
}

/* What the plane staged for an idle flow, which no ACK applies. */
static __always_inline void apply_staged_controls(struct sock *sk, struct tcp_sock *tp, struct frame *f)
{
	u32 mss = tp->mss_cache;

	if (f->stage_sequence == f->applied || (f->stage_sequence & 1) ||
	    f->stage.generation != f->report.generation)
		return;
	if ((f->stage.set & SET_CWND) && mss) {
		u64 packets = f->stage.cwnd / mss;

		tp->snd_cwnd = min(max(packets, 1ull), (u64)tp->snd_cwnd_clamp);
	}
	if ((f->stage.set & SET_RATE) && f->stage.rate)
		sk->sk_pacing_rate = min(f->stage.rate, sk->sk_max_pacing_rate);
}

/* A flow restarts from a window that its path can be trusted to bear (RFC 5681 §4.1, halved per
 * RTO as RFC 2861 §3, where the threshold remembers the window). The kernel leaves this too to a
 * congestion control that has `cong_control`. */
static __always_inline void restart_after_idle(struct sock *sk, struct tcp_sock *tp)
{
	s32 idle = (u32)bpf_jiffies64() - tp->lsndtime;
	s32 rto = inet_csk(sk)->icsk_rto;
	u32 cwnd = tp->snd_cwnd;

	for (int i = 0; i < 32; i++) {
		idle -= rto;
		if (idle <= 0 || cwnd <= TCP_INIT_CWND)
			break;
		cwnd >>= 1;
	}
	if (cwnd < tp->snd_cwnd) {
		u32 remembered = (tp->snd_cwnd >> 1) + (tp->snd_cwnd >> 2);

		tp->snd_ssthresh = max(tp->snd_ssthresh, remembered);
		tp->snd_cwnd = max(cwnd, min((u32)TCP_INIT_CWND, tp->snd_cwnd));
	}
}

static __always_inline bool restarts_after_idle(const struct frame *f)
{
	u32 program = f->program;

	if (program >= MAX_PROGRAMS)
		return true; /* the fallback */
	return plane.idle_restart[program / 32 % (MAX_PROGRAMS / 32)] & (1u << (program % 32));
}

SEC("struct_ops")
void BPF_PROG(fw_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct socket_private *ca = priv_of(sk);
	struct frame *f;

	if (!is_initialised(sk, ca))
		return;
	if (needs_ecn && (event == CA_EVENT_ECN_IS_CE || event == CA_EVENT_ECN_NO_CE)) {
		echo_mark(sk, tp, ca, event == CA_EVENT_ECN_IS_CE);
		return;
	}
	if (event != CA_EVENT_TX_START)
		return;
	f = frame_of(sk, ca);
	bool runs = f && f->state == FLOW_RUNNING;

	if (runs)
		apply_staged_controls(sk, tp, f);
	else
		fallback_tx_start(sk);
	if (!runs || restarts_after_idle(f))
		restart_after_idle(sk, tp);
}

SEC("struct_ops")
void BPF_PROG(fw_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct socket_private *ca = priv_of(sk);
	u32 slot;

	/* Packets would be ECN-capable, and the peer would not echo their marks. */
	if (needs_ecn && !(tp->ecn_flags & TCP_ECN_OK)) {
		char reno[] = "reno";

		bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
		return;
	}
	ca->owner = (u64)sk;
	ca->slot = NO_SLOT;
	ca->rcv_nxt = tp->rcv_nxt;
	ca->echo = 0;
	ca->undone = 0;
	fallback_init(sk);
	slot = take_slot();
	struct frame *f = bpf_map_lookup_elem(&fw_frames, &slot);

	if (!f)
		return;
	ca->slot = slot;
	ca->bytes_acked = tp->bytes_acked;
	ca->lost = tp->lost;
	ca->delivered_ce = tp->delivered_ce;
	ca->sacked_out = tp->sacked_out;

	__builtin_memset(f->signals, 0, sizeof(f->signals));
	f->signals[RTT_SAMPLE_US] = tp->srtt_us ? tp->srtt_us >> 3 : ~0ull;
	f->mss = tp->mss_cache;
	f->cwnd_packets = tp->snd_cwnd;
	f->cwnd = (u64)tp->snd_cwnd * tp->mss_cache;
	f->rate = 0;
	f->timer_zero = tp->tcp_mstamp;
	f->applied = f->pending = READ_ONCE(f->stage_sequence);
	f->fault = 0;
	f->program = NO_PROGRAM;
	f->observed_us = (u32)tp->tcp_mstamp - (1u << 30); /* long ago */
	f->family = sk->__sk_common.skc_family;
	f->local_port = sk->__sk_common.skc_num;
	f->remote_port = __builtin_bswap16(sk->__sk_common.skc_dport);
	if (f->family == AF_INET6) {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			f->local[i] = sk->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[i];
			f->remote[i] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[i];
		}
	} else {
		f->local[0] = sk->__sk_common.skc_rcv_saddr;
		f->remote[0] = sk->__sk_common.skc_daddr;
	}
	f->fallbacks = 0;
	f->bytes_acked = tp->bytes_acked;
	f->born_us = tp->tcp_mstamp;
	f->srtt_us = tp->srtt_us >> 3;
	f->mark = sk->sk_mark;
	f->cgroup = cgroup_of(sk);
	f->retransmitted = tp->total_retrans;
	f->rtt_us = tp->rack.rtt_us;
	f->algorithm = algorithm;
	f->aggregate = 0;
	f->state = FLOW_STARTING;
	f->report.slot = slot;
	f->report.generation++;
	f->report.program = NO_PROGRAM;
	f->report.time_us = tp->tcp_mstamp;
	f->report.cwnd = f->cwnd;
	f->report.rate = 0;
	f->report.count = 0;
	note_ssthresh(f, tp);
	send_event(f, EVENT_CREATED);
}

SEC("struct_ops")
void BPF_PROG(fw_release, struct sock *sk)
{
	struct socket_private *ca = priv_of(sk);
	u32 slot = ca->slot;
	struct frame *f = frame_of(sk, ca);

	ca->owner = 0;
	bpf_sk_storage_delete(&fw_origin_names, sk);
	if (!f)
		return;
	f->state = FLOW_FREE;
	send_event(f, EVENT_CLOSED);
	bpf_map_push_elem(&fw_free, &slot, 0);
}

/* Called by the kernel as it enters recovery, loss or CWR. The program decides cwnd; this value
 * serves the fallback and TSO sizing. */
SEC("struct_ops")
u32 BPF_PROG(fw_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct socket_private *ca = priv_of(sk);

	if (!is_initialised(sk, ca))
		return max(tp->snd_cwnd >> 1, 2u);
	return fallback_ssthresh(sk, tp, ca);
}

/* A reduction that proves spurious is taken back (RFC 9438 §4.9); the program sees Ack.undo and
 * its Cwnd raised. The kernel calls this before cong_control() for the same ACK. */
SEC("struct_ops")
u32 BPF_PROG(fw_undo_cwnd, struct sock *sk)
{
	priv_of(sk)->undone = 1;
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops fw_ops = {
	.ssthresh = (void *)fw_ssthresh,
	.set_state = (void *)fw_set_state,
	.cwnd_event = (void *)fw_cwnd_event,
	.cong_control = (void *)fw_cong_control,
	.undo_cwnd = (void *)fw_undo_cwnd,
	.init = (void *)fw_init,
	.release = (void *)fw_release,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "fw_",
};
