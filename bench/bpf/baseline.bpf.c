// SPDX-License-Identifier: GPL-2.0
/* The floor: a congestion control whose `cong_control` does nothing. Its window is fixed, so
 * that it carries the same traffic as what is compared with it. */
#include "kernel.h"

char _license[] SEC("license") = "GPL";

const volatile u32 window = 200;

SEC("struct_ops")
void BPF_PROG(empty_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
}

SEC("struct_ops")
void BPF_PROG(empty_init, struct sock *sk)
{
	tcp_sk(sk)->snd_cwnd = window;
}

SEC("struct_ops")
u32 BPF_PROG(empty_ssthresh, struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

SEC("struct_ops")
u32 BPF_PROG(empty_undo_cwnd, struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops empty_ops = {
	.ssthresh = (void *)empty_ssthresh,
	.cong_control = (void *)empty_cong_control,
	.undo_cwnd = (void *)empty_undo_cwnd,
	.init = (void *)empty_init,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bench_empty",
};
