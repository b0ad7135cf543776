/* SPDX-License-Identifier: GPL-2.0 */
/* Forgets connections that have been silent for too long, or whose port is gone. The process runs this now
 * and then. */
#pragma once

#include "open.h"

struct expiry {
	u64 now_ns;
	u64 idle_ns;
	u64 closing_ns;
	u32 gone; /* interface that is gone, 0 = none */
	u32 forgotten;
};

static long expire_one(void *map, struct key *key, struct connection *c, struct expiry *expiry)
{
	bool is_closing = (c->bits & IS_RESET) ||
			  (c->bits & (FIN_FROM_GUEST | FIN_TO_GUEST)) == (FIN_FROM_GUEST | FIN_TO_GUEST);
	u64 limit = is_closing ? expiry->closing_ns : expiry->idle_ns;

	if (elapsed_ns(expiry->now_ns, c->seen_ns) >= limit || (expiry->gone && key->interface == expiry->gone)) {
		struct key gone = *key;

		forget(&gone, expiry->now_ns);
		expiry->forgotten++;
	}
	return 0;
}
