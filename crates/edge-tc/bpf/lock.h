/* SPDX-License-Identifier: GPL-2.0 */
/* The lock of a controlled flow. bpf_spin_lock() turns interrupts off and on, which costs 40 ns a time; no
 * interrupt takes this lock, and programs at a port run with bottom halves off, so none is kept from going on
 * by another on its CPU. */
#pragma once

#include "edge.h"

/* Turns until waiting is given up: some 100 ms. So long a holder is away only if the machine's hypervisor, or a
 * real-time kernel, has taken the CPU from it. */
#define LOCK_TURNS (1 << 23)

static __always_inline bool try_lock(struct controlled *more)
{
	return __sync_val_compare_and_swap(&more->lock, 0, 1) == 0;
}

struct waiting {
	struct controlled *more;
	bool is_locked;
};

static long wait_once(u32 turn, struct waiting *waiting)
{
	waiting->is_locked = try_lock(waiting->more);
	return waiting->is_locked; /* 1 ends the waiting */
}

/* Takes the lock; whether it did. Whoever did not, lets the packet pass as it came. */
static __always_inline bool lock(struct controlled *more)
{
	struct waiting waiting = { .more = more };

	if (try_lock(more))
		return true;
	bpf_loop(LOCK_TURNS, wait_once, &waiting, 0);
	return waiting.is_locked;
}

/* An exchange is ordered behind all that was written before, on every machine; on x86 every store is. */
static __always_inline void unlock(struct controlled *more)
{
#ifdef __TARGET_ARCH_x86
	asm volatile("" ::: "memory");
	WRITE_ONCE(more->lock, 0);
#else
	__sync_lock_test_and_set(&more->lock, 0);
#endif
}
