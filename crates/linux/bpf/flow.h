/* SPDX-License-Identifier: GPL-2.0 */
/* What the kernel shares with the plane: one page of the plane's own, and a frame a flow.
 * The frame's shape is that of fairwater-exec's `frame` module, which is the reference; the
 * 24 and 128 bytes that it leaves to the datapath are described here and in `src/flow.rs`. */
#pragma once

#include "kernel.h"

enum event_kind { EVENT_CREATED = 1, EVENT_REPORT = 2, EVENT_CLOSED = 3, EVENT_FAULT = 4 };

enum flow_state {
	FLOW_FREE = 0,
	FLOW_STARTING = 1, /* in-kernel Reno until the plane has chosen a program */
	FLOW_RUNNING = 2,
	FLOW_FALLBACK = 3, /* in-kernel Reno: the plane is gone or silent */
	FLOW_FAULTED = 4,  /* in-kernel Reno for good: its program or algorithm failed */
};

#define NO_SLOT 0xffffffff
#define NO_PROGRAM 0xffffffff
#define SET_CWND 1
#define SET_RATE 2

/* Everything that the plane says of itself, in a map that any root process can find and read. */
struct plane {
	u64 heartbeat_us;    /* CLOCK_MONOTONIC, written by the plane at each turn */
	u64 silent_after_us; /* a heartbeat older than this puts flows under Reno */
	u64 woken_us;        /* when a report last woke the plane, where that is rationed */
	u32 pid;
	u32 frame_size; /* bytes from one frame to the next */
	u32 max_flows;
	u32 next_slot; /* slots never given out begin here */
	u32 no_slot;   /* flows that found no slot and stayed under Reno */
	u32 lost_events; /* created, closed and fault events that the ring had no room for */
	u32 fallbacks; /* times that a flow went under Reno */
	u32 frames_id; /* the id of the map of this plane's frames */
	char name[TCP_CA_NAME_MAX];
	char programs[64][32]; /* names, by program index */
};

/* The sequence, odd while the plane writes, is in the frame's first line. */
struct stage {
	u32 spare;
	u32 program;
	u32 install;
	u32 set;
	u64 cwnd; /* bytes */
	u64 rate; /* bytes/s */
	u32 generation; /* the tenant that the stage is for */
	u32 spare2[7];
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
	u64 spare[2];
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
	u32 program;      /* what runs, NO_PROGRAM before the first */
	u32 cwnd_packets; /* what `cwnd` was last applied as */
	u32 mss;          /* bytes */
	u32 state;        /* enum flow_state */
	u32 observed_us;  /* low bits of the time of the last look, below */
	u64 signals[15];
	u32 asked[2]; /* the program's own */
	struct stage stage;
	/* 128 bytes of the datapath's own, for observers; brought up to date by `observe` */
	u32 local[4]; /* network order; IPv4 in the first word */
	u32 remote[4];
	u16 local_port; /* host order */
	u16 remote_port;
	u16 family;
	u16 spare16;
	u32 fallbacks;
	u32 srtt_us;
	u64 bytes_acked;
	u64 born_us;
	u32 mark; /* SO_MARK */
	u32 aggregate; /* the plane's number for it and 1, 0 = none; this and the key are the plane's */
	char aggregate_key[56]; /* UTF-8 */
	struct event report; /* the header; the variables follow */
};

_Static_assert(__builtin_offsetof(struct frame, signals) == 64, "frame: signals");
_Static_assert(__builtin_offsetof(struct frame, stage) == 192, "frame: stage");
_Static_assert(__builtin_offsetof(struct frame, local) == 256, "frame: datapath");
_Static_assert(__builtin_offsetof(struct frame, report) == 384, "frame: report");
_Static_assert(sizeof(struct frame) == 448, "frame: variables");

/* In icsk_ca_priv: which frame is this socket's, what its counters were at the last ACK, and what
 * it echoes as a receiver. */
struct priv {
	u32 slot;
	u32 generation;
	u64 bytes_acked;
	u32 lost;
	u32 delivered_ce;
	u32 sacked_out;
	u32 rcv_nxt; /* as of the last packet that arrived with data */
	u32 echo;    /* whether that packet was marked */
};
