/* A toy transport that is written for libccp, and builds with either library.
 *
 *     ccp_toy [path of the agent's socket]
 *
 * The network is a counter: each 2 ms a window's worth is acknowledged, and what exceeds 60
 * packets is lost. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <ccp.h>

enum { MSS = 1200, CAPACITY = 60, CONNECTIONS = 4, ROUNDS = 300 };

static int agent = -1;               /* the socket to the agent */
static struct sockaddr_un to = {.sun_family = AF_UNIX};

static u64 now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (u64)time.tv_sec * 1000000 + (u64)time.tv_nsec / 1000;
}

static u64 since_usecs(u64 then) { return now() - then; }
static u64 after_usecs(u64 usecs) { return now() + usecs; }

static void set_cwnd(struct ccp_connection *conn, u32 cwnd) { *(u32 *)ccp_get_impl(conn) = cwnd; }

static void set_rate_abs(struct ccp_connection *conn, u32 rate) {
    (void)conn, (void)rate;          /* this transport does not pace */
}

static int send_msg(struct ccp_datapath *dp, char *msg, int msg_size) {
    (void)dp;
    const struct sockaddr *path = (struct sockaddr *)&to;
    ssize_t sent = sendto(agent, msg, (size_t)msg_size, MSG_DONTWAIT, path, sizeof to);
    return sent == msg_size ? 0 : -1;
}

/* An agent answers to the path that a message came from. */
static void open_socket(const char *path, struct sockaddr_un *own) {
    own->sun_family = AF_UNIX;
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    snprintf(own->sun_path, sizeof own->sun_path, "/tmp/ccp_toy.%d", (int)getpid());
    agent = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (agent < 0 || bind(agent, (struct sockaddr *)own, sizeof *own) < 0) {
        perror("ccp_toy");
        exit(1);
    }
}

int main(int argc, char **argv) {
    static struct ccp_connection connections[CONNECTIONS];
    static char message[32768];
    struct sockaddr_un own = {0};
    open_socket(argc > 1 ? argv[1] : "/tmp/ccp/portus", &own);

    struct ccp_datapath dp = {
        .set_cwnd = set_cwnd,
        .set_rate_abs = set_rate_abs,
        .send_msg = send_msg,
        .now = now,
        .since_usecs = since_usecs,
        .after_usecs = after_usecs,
        .max_connections = CONNECTIONS,
        .ccp_active_connections = connections,
        .fto_us = 1000000,
        .max_programs = 10,
    };
    int error = ccp_init(&dp, 7);
    if (error < 0)
        return fprintf(stderr, "ccp_toy: ccp_init: %d\n", error), 1;

    u32 cwnd = 10 * MSS;
    struct ccp_datapath_info info = {.init_cwnd = cwnd, .mss = MSS, .src_port = 4, .dst_port = 5};
    struct ccp_connection *conn = ccp_connection_start(&dp, &cwnd, &info);
    if (conn == NULL)
        return fprintf(stderr, "ccp_toy: no connection\n"), 1;

    u64 acked = 0, lost_in_all = 0;
    for (int round = 0; round < ROUNDS; round++) {
        u64 sent_at = now();
        usleep(2000);
        u32 packets = cwnd / MSS > 0 ? cwnd / MSS : 1;
        u32 lost = packets > CAPACITY ? packets - CAPACITY : 0;
        for (u32 i = lost; i < packets; i++) {
            conn->prims = (struct ccp_primitives){
                .bytes_acked = MSS,
                .packets_acked = 1,
                .lost_pkts_sample = i == lost ? lost : 0,
                .rtt_sample_us = since_usecs(sent_at),
                .bytes_in_flight = (packets - i) * MSS,
                .packets_in_flight = packets - i,
                .snd_cwnd = cwnd,
            };
            ccp_invoke(conn);
            acked += MSS;
        }
        lost_in_all += lost;
        ssize_t size;
        while ((size = recv(agent, message, sizeof message, MSG_DONTWAIT)) > 0)
            ccp_read_msg(&dp, message, (int)size);
    }
    printf("acknowledged %llu bytes, lost %llu packets, cwnd %u bytes\n",
           (unsigned long long)acked, (unsigned long long)lost_in_all, cwnd);
    ccp_connection_free(&dp, conn->index);
    ccp_free(&dp);
    unlink(own.sun_path);
    return close(agent);
}
