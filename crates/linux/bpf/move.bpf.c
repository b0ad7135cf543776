// SPDX-License-Identifier: GPL-2.0
/* Moves the TCP connections of one network namespace onto a congestion control and back: an
 * iterator that sets TCP_CONGESTION on each socket, under its lock. */
#include "kernel.h"

char _license[] SEC("license") = "GPL";

struct name {
	char bytes[TCP_CA_NAME_MAX];
};

enum mode {
	MOVE_ONTO = 1, /* every connection that is not on `ours` */
	ADOPT = 2,     /* connections on an earlier, dead `ours`: setting the name runs init again */
	MOVE_BACK = 3, /* every connection on `ours`, to where it came from or to `otherwise` */
};

/* Written before each walk. */
u32 mode = MOVE_ONTO; /* never zero, so that it is in .data */
struct name ours = {};
struct name otherwise = {};
/* Read after it. */
u32 moved = 0;
u32 refused = 0;

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct name);
} came_from SEC(".maps");

static __always_inline bool same(const struct name *a, const struct name *b)
{
	const u64 *x = (const u64 *)a, *y = (const u64 *)b;

	return x[0] == y[0] && x[1] == y[1];
}

SEC("iter/tcp")
int fw_move(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct name now = {}, to = ours, *from;
	struct tcp_sock *tp;

	if (!skc)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	if (!tp || skc->skc_state == TCP_LISTEN || skc->skc_state == TCP_CLOSE)
		return 0;
	if (bpf_getsockopt(tp, SOL_TCP, TCP_CONGESTION, now.bytes, sizeof(now.bytes)))
		return 0;
	bool is_ours = same(&now, &ours);

	if (is_ours == (mode == MOVE_ONTO))
		return 0;
	if (mode == MOVE_ONTO) {
		from = bpf_sk_storage_get(&came_from, tp, &now, BPF_SK_STORAGE_GET_F_CREATE);
		if (from)
			*from = now;
	} else if (mode == MOVE_BACK) {
		from = bpf_sk_storage_get(&came_from, tp, 0, 0);
		to = from ? *from : otherwise;
	}
	if (bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, to.bytes, sizeof(to.bytes)))
		refused++;
	else
		moved++;
	return 0;
}
