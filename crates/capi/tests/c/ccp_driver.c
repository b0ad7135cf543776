/* Does what a script on standard input says with libccp's interface, and prints what the library
 * does: built against libccp and against ours, it shows where they differ.
 *
 *     start MSS                        free INDEX
 *     msg BYTES IN HEXADECIMAL         time MICROSECONDS
 *     ack INDEX BYTES PACKETS LOST RTT_US TIMEOUT
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ccp.h>

enum { CONNECTIONS = 8 };

static struct ccp_connection connections[CONNECTIONS];
static u32 cwnds[CONNECTIONS], rates[CONNECTIONS];
static u64 clock_us = 1000000;

static u64 now(void) { return clock_us; }
static u64 since_usecs(u64 then) { return clock_us - then; }
static u64 after_usecs(u64 usecs) { return clock_us + usecs; }

static void set_cwnd(struct ccp_connection *conn, u32 cwnd) {
    u32 *current = ccp_get_impl(conn);
    if (*current != cwnd)
        printf("cwnd %u %u\n", conn->index, cwnd);
    *current = cwnd;
}

static void set_rate_abs(struct ccp_connection *conn, u32 rate) {
    u32 *current = &rates[conn - connections];
    if (*current != rate)
        printf("rate %u %u\n", conn->index, rate);
    *current = rate;
}

static int send_msg(struct ccp_datapath *dp, char *msg, int msg_size) {
    (void)dp;
    printf("send ");
    for (int i = 0; i < msg_size; i++)
        printf("%02x", (unsigned char)msg[i]);
    printf("\n");
    return 0;
}

static void read_hex(struct ccp_datapath *dp, const char *hex) {
    size_t size = strlen(hex) / 2;
    /* Exactly as long as the message, so that a sanitizer sees a read beyond it. */
    char *message = malloc(size > 0 ? size : 1);
    for (size_t i = 0; i < size; i++) {
        unsigned byte;
        sscanf(hex + 2 * i, "%2x", &byte);
        message[i] = (char)byte;
    }
    int result = ccp_read_msg(dp, message, (int)size);
    printf("read %s\n", result < 0 ? "refused" : "taken");
    free(message);
}

int main(void) {
    struct ccp_datapath dp = {
        .set_cwnd = set_cwnd,
        .set_rate_abs = set_rate_abs,
        .send_msg = send_msg,
        .now = now,
        .since_usecs = since_usecs,
        .after_usecs = after_usecs,
        .max_connections = CONNECTIONS,
        .ccp_active_connections = connections,
        .fto_us = 1000000000,
        .max_programs = 10,
    };
    if (ccp_init(&dp, 9) < 0)
        return 1;
    static char line[200000], hex[200000];
    while (fgets(line, sizeof line, stdin) != NULL) {
        unsigned a, b, c, d, e, f;
        if (sscanf(line, "start %u", &a) == 1) {
            struct ccp_datapath_info info = {.init_cwnd = 10 * a, .mss = a};
            info.src_ip = 1, info.src_port = 2, info.dst_ip = 3, info.dst_port = 4;
            struct ccp_connection *conn = ccp_connection_start(&dp, NULL, &info);
            if (conn == NULL)
                return 2;
            cwnds[conn - connections] = info.init_cwnd;
            ccp_set_impl(conn, &cwnds[conn - connections]);
            if (ccp_connection_lookup(&dp, conn->index) != conn)
                return 3;
        } else if (sscanf(line, "free %u", &a) == 1) {
            ccp_connection_free(&dp, (u16)a);
        } else if (sscanf(line, "msg %199998s", hex) == 1) {
            read_hex(&dp, hex);
        } else if (sscanf(line, "time %u", &a) == 1) {
            clock_us += a;
        } else if (sscanf(line, "ack %u %u %u %u %u %u", &a, &b, &c, &d, &e, &f) == 6) {
            struct ccp_connection *conn = ccp_connection_lookup(&dp, (u16)a);
            if (conn == NULL)
                return 4;
            memset(&conn->prims, 0, sizeof conn->prims);
            conn->prims.bytes_acked = b;
            conn->prims.packets_acked = c;
            conn->prims.lost_pkts_sample = d;
            conn->prims.rtt_sample_us = e;
            conn->prims.was_timeout = f != 0;
            conn->prims.snd_cwnd = *(u32 *)ccp_get_impl(conn);
            conn->prims.snd_rate = rates[a - 1];
            ccp_invoke(conn);
        } else {
            return 5;
        }
    }
    ccp_free(&dp);
    return 0;
}
