/* SPDX-License-Identifier: GPL-2.0 */
/* What the kernel shares with the plane: one page for the plane, and a frame for each flow.
 * fairwater-exec's `frame` module is the reference for the frame; the 20, 16 and 128 bytes that it
 * leaves to the datapath are described here. `struct layouts` carries all of it to Rust, where
 * `src/layout.rs` compares it with fairwater-exec. */
#pragma once

#include "types.h"


enum event_kind { EVENT_CREATED = 1, EVENT_REPORT = 2, EVENT_CLOSED = 3, EVENT_FAULT = 4 };

enum flow_state {
	FLOW_FREE = 0,
	FLOW_STARTING = 1, /* under the fallback until the plane has chosen a program */
	FLOW_RUNNING = 2,
	FLOW_FALLBACK = 3, /* under the fallback: the plane is gone or silent */
	FLOW_FAULTED = 4,  /* under the fallback for good: its program or algorithm failed */
};

/* In the order of fairwater_lang::Signal. */
enum signal {
	BYTES_ACKED,
	BYTES_MISORDERED,
	ECN_BYTES,
	ECN_PACKETS,
	LOST_PKTS,
	NOW,
	PACKETS_ACKED,
	PACKETS_MISORDERED,
	BYTES_IN_FLIGHT,
	BYTES_PENDING,
	PACKETS_IN_FLIGHT,
	RATE_INCOMING,
	RATE_OUTGOING,
	RTT_SAMPLE_US,
	WAS_TIMEOUT,
	APP_LIMITED,
	UNDO,
	SIGNALS,
};
#define SIGNAL_ROOM 21

enum absent { NO_SLOT = 0xffffffff, NO_PROGRAM = 0xffffffff };
enum stage_set { SET_CWND = 1, SET_RATE = 2 };

/* Of all algorithms of a plane. */
#define MAX_PROGRAMS 128
#define MAX_ALGORITHMS 64

/* Of a congestion control. */
struct name {
	char bytes[NAME_BYTES];
};

/* The plane's description of itself, in a map that any root process can find and read. */
struct plane {
	u64 heartbeat_us;    /* CLOCK_MONOTONIC, written by the plane each time it has handled events */
	u64 silent_after_us; /* a heartbeat older than this puts flows under the fallback */
	u64 wakeups_until_us; /* time up to which reports have used up their wake-ups (compiled.rs) */
	u32 pid;
	u32 frame_size; /* bytes from one frame to the next */
	u32 max_flows;
	u32 next_slot; /* slots from here on were never given out */
	u32 no_slot;   /* flows that found no free slot and stay under the fallback */
	u32 lost_events; /* created, closed and fault events that the ring had no room for */
	u32 fallbacks; /* times that a flow went under the fallback */
	u32 frames_id; /* id of the map of this plane's frames */
	u32 idle_restart[MAX_PROGRAMS / 32]; /* bit per program: its flows restart after an idle period */
	struct name algorithms[MAX_ALGORITHMS]; /* congestion controls, by algorithm index */
	char programs[MAX_PROGRAMS][32]; /* names, by program index */
};

/* The sequence, odd while the plane writes, is in the frame's first line. */
struct stage {
	u32 spare;
	u32 program;
	u32 install;
	u32 set;
	u64 cwnd; /* bytes */
	u64 rate; /* bytes/s */
	u32 generation; /* flow that the stage is for */
	u32 spare2;
	u64 part;    /* of a group's windows, bytes; 0 = the flow keeps its own window (edge alone) */
	u64 part_of; /* the flow's own window as the part was found, bytes */
	u32 spare3[2];
};

struct event {
	u32 kind;
	u32 slot;
	u32 generation;
	u32 program;
	u64 time_us;
	u64 cwnd; /* bytes */
	u64 rate; /* bytes/s */
	u64 count;
	u64 ssthresh; /* bytes, all ones before the first loss; brought up to date by `observe` */
	u64 spare;
};

struct frame {
	u64 cwnd; /* bytes, as the program sees it */
	u64 rate; /* bytes/s, 0 = none */
	u64 timer_zero;
	u32 pending;
	u32 applied;
	u32 installed;
	u32 fault;
	u32 stage_sequence;
	/* 20 bytes of the datapath's own */
	u32 program;      /* index of the running program among all, NO_PROGRAM before the first */
	u32 cwnd_packets; /* `cwnd` as last applied to the socket */
	u32 mss;          /* bytes */
	u32 state;        /* enum flow_state */
	u32 observed_us;  /* low bits of the time of the last `observe` */
	u32 report_asked;
	u32 fallthrough_asked;
	u64 signals[SIGNAL_ROOM]; /* by enum signal */
	/* 16 bytes of the datapath's own, for observers */
	u32 retransmitted; /* packets since the connection began; brought up to date by `observe` */
	u32 rtt_us; /* the latest sample; brought up to date by `observe` */
	u64 cgroup; /* id of the socket's cgroup as the flow began, 0 = none */
	struct stage stage;
	/* 128 bytes of the datapath's own, for observers; brought up to date by `observe` */
	u32 local[4]; /* network order; IPv4 in the first word */
	u32 remote[4];
	u16 local_port; /* host order */
	u16 remote_port;
	u16 family;
	u16 algorithm; /* index; the plane's choice from the flow's start on */
	u32 fallbacks;
	u32 srtt_us;
	u64 bytes_acked;
	u64 born_us;
	u32 mark; /* SO_MARK */
	u32 aggregate; /* 1 + the plane's number of the aggregate, 0 = none; written by the plane */
	char aggregate_key[56]; /* UTF-8, written by the plane */
	struct event report; /* report header; the variables follow */
};

/* For its type alone, which reaches Rust. */
struct layouts {
	struct plane plane;
	struct frame frame;
	enum event_kind event_kind;
	enum flow_state flow_state;
	enum absent absent;
	enum stage_set stage_set;
	enum signal signal;
};
