// SPDX-License-Identifier: GPL-2.0
/* Moves the TCP connections of one network namespace onto a congestion control and back: an
 * iterator that sets TCP_CONGESTION on each socket, under its lock. */
#include "socket.h"

char _license[] SEC("license") = "GPL";

enum mode {
	MOVE_ONTO = 1, /* every connection that has another congestion control than `ours` */
	ADOPT = 2,     /* sockets of an earlier plane called `ours`: setting the name runs init again */
	MOVE_BACK = 3, /* every connection on `ours`, to its origin or to `otherwise` */
	INHERIT = 4,   /* nothing moves: origins that the plane called `former` noted are noted anew */
};

/* Written before each walk. */
enum mode mode = MOVE_ONTO; /* never zero, so that it is in .data */
struct name ours = {};
struct name otherwise = {};
struct name former = {};
/* Read after it. */
u32 connections = 0;
u32 listeners = 0;
u32 refused = 0;

/* The maps of the planes themselves (fairwater.bpf.c), put in place of these before load. libbpf
 * renames a map that is put in place unless the kernel's name of 15 characters begins its name. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct name);
} fw_origin_names SEC(".maps"), fw_origin_names_former SEC(".maps");

static __always_inline bool same(const struct name *a, const struct name *b)
{
	const u64 *x = (const u64 *)a, *y = (const u64 *)b;

	return x[0] == y[0] && x[1] == y[1];
}

static __always_inline bool set(struct tcp_sock *tp, struct name *to)
{
	return !bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, to->bytes, sizeof(to->bytes));
}

SEC("iter/tcp")
int fw_migrate(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct name now = {}, to = ours, *origin;
	struct tcp_sock *tp;

	if (!skc)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	if (!tp || skc->skc_state == TCP_CLOSE)
		return 0;
	/* A listener keeps the name that its owner chose, for its children. */
	bool listens = skc->skc_state == TCP_LISTEN;

	if (listens && mode != ADOPT)
		return 0;
	if (bpf_getsockopt(tp, SOL_TCP, TCP_CONGESTION, now.bytes, sizeof(now.bytes)))
		return 0;
	if (mode == INHERIT) {
		if (same(&now, &former)) {
			origin = bpf_sk_storage_get(&fw_origin_names_former, tp, 0, 0);
			if (origin) {
				to = *origin;
				bpf_sk_storage_get(&fw_origin_names, tp, &to, BPF_SK_STORAGE_GET_F_CREATE);
			}
		}
		return 0;
	}
	if (same(&now, &ours) == (mode == MOVE_ONTO))
		return 0;
	if (mode == MOVE_ONTO) {
		/* An inherited origin stays: `now` is then the name of a plane that is gone. */
		bpf_sk_storage_get(&fw_origin_names, tp, &now, BPF_SK_STORAGE_GET_F_CREATE);
	} else if (mode == MOVE_BACK) {
		origin = bpf_sk_storage_get(&fw_origin_names, tp, 0, 0);
		to = origin ? *origin : otherwise;
	}
	/* The origin may be gone by now. */
	if (!set(tp, &to) && (mode != MOVE_BACK || !set(tp, &otherwise)))
		refused++;
	else if (listens)
		listeners++;
	else
		connections++;
	return 0;
}
