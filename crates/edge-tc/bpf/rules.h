/* SPDX-License-Identifier: GPL-2.0 */
/* What is to be done with a connection: the first rule that matches its key. */
#pragma once

#include "maps.h"

static __always_inline bool in_prefix(const u32 *address, const u32 *prefix, const u32 *mask)
{
	return !(((address[0] & mask[0]) ^ prefix[0]) | ((address[1] & mask[1]) ^ prefix[1]) |
		 ((address[2] & mask[2]) ^ prefix[2]) | ((address[3] & mask[3]) ^ prefix[3]));
}

static __always_inline bool matches(const struct rule *rule, const struct key *key, u64 port_sets)
{
	if (rule->port_sets && !(rule->port_sets & port_sets))
		return false;
	if (rule->vlan != ANY_VLAN && rule->vlan != key->vlan[0])
		return false;
	if (rule->family && rule->family != (key->is_v6 ? ONLY_IPV6 : ONLY_IPV4))
		return false;
	if (key->guest_port < rule->guest_ports[0] || key->guest_port > rule->guest_ports[1] ||
	    key->peer_port < rule->peer_ports[0] || key->peer_port > rule->peer_ports[1])
		return false;
	return in_prefix(key->guest, rule->guest, rule->guest_mask) &&
	       in_prefix(key->peer, rule->peer, rule->peer_mask);
}

/* Writes what is to be done with the connection of that key to `out`. */
__noinline int find_treatment(const struct key *key, struct treatment *out)
{
	u32 interface, half, rules;
	u64 *sets, port_sets;

	if (!key || !out)
		return 0;
	interface = key->interface;
	half = READ_ONCE(settings.active) & 1;
	rules = READ_ONCE(settings.rule_count[half]);
	sets = bpf_map_lookup_elem(&fw_ports, &interface);
	port_sets = sets ? *sets : 0;
	for (u32 i = 0; i < MAX_RULES; i++) {
		u32 index = half * MAX_RULES + i;
		struct rule *rule;

		if (i >= rules)
			break;
		rule = bpf_map_lookup_elem(&fw_rules, &index);
		if (rule && matches(rule, key, port_sets)) {
			*out = rule->treatment;
			return 0;
		}
	}
	return 0;
}

static __always_inline struct treatment treatment_of(const struct key *key)
{
	struct treatment treatment = { .max_scale = NO_SCALE };

	find_treatment(key, &treatment);
	return treatment;
}
