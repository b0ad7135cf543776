/* libccp's interface, over libfairwater: a transport written for libccp 1.x builds with this
 * header, without a change to its source, and links with -lfairwater instead of -lccp.
 *
 * It talks to the same agents, in the same encoding. What differs:
 *
 * - send_msg is given a message in Fairwater's own encoding before each READY, which Fairwater's plane
 *   answers in that encoding, and which agents written for libccp drop. Under Fairwater's plane
 *   programs are not bound by libccp's 255 instructions and 110 registers.
 * - set_cwnd and set_rate_abs are called when the window or the rate changed, not at every
 *   invocation. What is above UINT32_MAX is given as UINT32_MAX; a rate that is taken back, so
 *   that the window alone limits, is given as UINT32_MAX too.
 * - When the agent is gone or silent for fto_us, ccp_invoke goes on under a Reno within the
 *   library, and so it does before the agent's first answer. LIBCCP_FALLBACK_TIMED_OUT is never
 *   returned.
 * - A running flow is announced again when an agent comes back or a new one takes its place.
 * - Arithmetic in programs saturates, and a division by zero yields zero; an invocation is never
 *   aborted by it.
 * - Whatever an agent sends, memory outside of the library's is not touched. A message that is
 *   refused changes nothing.
 * - The functions may be called from several threads at once, and a callback may call them too.
 *   The callbacks of one invocation are called on its thread after its work is done.
 */
#ifndef CCP_H
#define CCP_H

#include <pthread.h> /* libccp's header brings it in, and some transports rely on that */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ccp_error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

/* What the transport measured, to be filled in before ccp_invoke: "acked", "misordered", "ecn",
 * "lost" and "timeout" since the invocation before, the others as they are now. */
struct ccp_primitives {
    u32 bytes_acked;        /* newly acknowledged in order */
    u32 packets_acked;
    u32 bytes_misordered;   /* newly acknowledged out of order */
    u32 packets_misordered;
    u32 ecn_bytes;          /* marked CE */
    u32 ecn_packets;

    u32 lost_pkts_sample;   /* newly taken for lost */
    bool was_timeout;       /* a retransmission timeout fired */

    u64 rtt_sample_us;      /* the last RTT sample; 0 before the first */
    u64 rate_outgoing;      /* bytes/s */
    u64 rate_incoming;      /* bytes/s, at the receiver */
    u32 bytes_in_flight;
    u32 packets_in_flight;
    u32 snd_cwnd;           /* the window that the transport now applies, bytes */
    u64 snd_rate;           /* the rate that it now applies, bytes/s; 0 for none */

    u32 bytes_pending;      /* written by the application and not sent yet */
};

/* The size of an algorithm's name, its terminating zero included. */
#define MAX_CONG_ALG_SIZE 64

/* What is known of a connection when it starts. Addresses and ports go to the agent as
 * they are: an address as its four bytes lie in memory. */
struct ccp_datapath_info {
    u32 init_cwnd;          /* bytes */
    u32 mss;                /* bytes */
    u32 src_ip;
    u32 src_port;
    u32 dst_ip;
    u32 dst_port;
    char congAlg[MAX_CONG_ALG_SIZE];
};

/* One connection. The transport allocates them, in an array that is zero at first, and touches
 * `prims` and, by ccp_set_impl, `impl`. */
struct ccp_connection {
    u16 index;                          /* from 1; 0 when the place is free */
    u64 last_create_msg_sent;           /* not used */
    struct ccp_primitives prims;
    struct ccp_datapath_info flow_info;
    void *state;                        /* the library's */
    void *impl;                         /* the transport's */
    struct ccp_datapath *datapath;
};

enum ccp_log_level {
    TRACE,
    DEBUG,
    INFO,
    WARN,
    ERROR,
};

/* A datapath: allocated and, but for what is the library's, filled in by the transport. */
struct ccp_datapath {
    /* Apply a window, bytes. */
    void (*set_cwnd)(struct ccp_connection *conn, u32 cwnd);
    /* Apply a rate, bytes/s. */
    void (*set_rate_abs)(struct ccp_connection *conn, u32 rate);

    /* Send one message to the agent, without blocking; negative when it was not sent. */
    int (*send_msg)(struct ccp_datapath *dp, char *msg, int msg_size);

    /* May be NULL. `msg` ends in a zero byte, which msg_size does not count. */
    void (*log)(struct ccp_datapath *dp, enum ccp_log_level level, const char *msg, int msg_size);

    u64 time_zero;                      /* the library's: now() at ccp_init */
    u64 (*now)(void);                   /* a time in units of the transport's choice */
    u64 (*since_usecs)(u64 then);       /* microseconds that have passed since that time */
    u64 (*after_usecs)(u64 usecs);      /* the time that is so many microseconds ahead */

    size_t max_connections;             /* how many there are in the array: 1 to 65535 */
    struct ccp_connection *ccp_active_connections;

    u64 fto_us;                         /* how long an agent may be silent; not 0 */
    u64 last_msg_sent;                  /* not used */
    bool _in_fallback;                  /* not used */

    size_t max_programs;                /* not 0 */
    void *programs;                     /* the library's */

    void *impl;                         /* the transport's */
};

/* Takes a datapath into use and sends READY with this id; that it could not be sent is not an
 * error. LIBCCP_MISSING_ARG when something is not filled in that must be. */
int ccp_init(struct ccp_datapath *dp, u32 id);

/* Takes it out of use and frees what is the library's. Nothing is sent. */
void ccp_free(struct ccp_datapath *datapath);

/* Starts a connection: finds it a place in the array and tells the agent. NULL when all places
 * are taken. */
struct ccp_connection *ccp_connection_start(
    struct ccp_datapath *datapath, void *impl, struct ccp_datapath_info *flow_info);

/* Ends a connection, by its index, and tells the agent. */
void ccp_connection_free(struct ccp_datapath *datapath, u16 sid);

/* The connection of that index, or NULL. */
struct ccp_connection *ccp_connection_lookup(struct ccp_datapath *datapath, u16 sid);

/* The transport's own pointer of a connection. */
void *ccp_get_impl(struct ccp_connection *conn);
void ccp_set_impl(struct ccp_connection *conn, void *ptr);

/* Takes in bytes from the agent: one message, or several on end. What they ask for is applied at
 * each connection's next ccp_invoke. Negative when one was refused: the first reason. */
int ccp_read_msg(struct ccp_datapath *datapath, char *buf, int bufsize);

/* Runs the connection's program on its `prims`. To be called at each ACK and each timeout. */
int ccp_invoke(struct ccp_connection *conn);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
