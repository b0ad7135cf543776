/* A toy transport over UDP whose congestion control is Fairwater's.
 *
 *     toy [path of the plane's socket]
 *
 * It sends itself 4,000 chunks over loopback. Packets have numbers that are never used again, as
 * QUIC's; each is acknowledged, but for one in 250 that the receiver loses. What concerns
 * Fairwater is marked (1) to (6); the rest is what your transport has already. */
#define _DEFAULT_SOURCE
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <fairwater.h>

enum { PAYLOAD = 1200, CHUNKS = 4000, RING = 8192, REORDERING = 3, TIMEOUT_US = 200000 };

struct packet { uint32_t number, chunk; char payload[PAYLOAD]; };
struct sent { uint32_t chunk; uint64_t at_us; bool in_flight; };
struct sender {
    int fd;
    uint64_t cwnd, rate;             /* what Fairwater says: bytes, bytes/s */
    uint64_t in_flight, next_us, last_ack_us; /* bytes; when pacing allows the next packet */
    uint32_t next, lowest, new_chunk, again[CHUNKS], agains, delivered, lost;
    struct sent ring[RING];          /* by packet number; those from lowest to next count */
};

static uint64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void check(const char *what, fw_error error) {
    if (error != FW_OK)
        fprintf(stderr, "toy: %s: %s\n", what, fw_strerror(error)), exit(1);
}

/* (1) Apply what Fairwater says. It calls only when the value has changed. */
static void set_cwnd(void *user, uint64_t bytes) { ((struct sender *)user)->cwnd = bytes; }
static void set_rate(void *user, uint64_t rate) { ((struct sender *)user)->rate = rate; }

static void send_packets(struct sender *s) {
    while ((s->agains > 0 || s->new_chunk < CHUNKS) && s->in_flight + PAYLOAD <= s->cwnd
           && s->next - s->lowest < RING && (s->rate == 0 || now_us() >= s->next_us)) {
        uint64_t now = now_us();
        struct packet packet = {s->next, s->agains ? s->again[--s->agains] : s->new_chunk++, ""};
        s->ring[s->next++ % RING] = (struct sent){packet.chunk, now, true};
        s->in_flight += PAYLOAD;
        if (s->rate > 0)
            s->next_us = (now > s->next_us ? now : s->next_us) + PAYLOAD * 1000000 / s->rate;
        (void)!send(s->fd, &packet, sizeof packet, 0); /* what does not go is lost */
    }
}

/* Packets below this number that are still in flight are lost (RFC 9002, section 6.1.1). */
static uint32_t lose_below(struct sender *s, uint32_t number) {
    uint32_t lost = 0;
    for (; s->lowest < number; s->lowest++) {
        struct sent *sent = &s->ring[s->lowest % RING];
        if (!sent->in_flight)
            continue;
        sent->in_flight = false;
        s->in_flight -= PAYLOAD;
        s->again[s->agains++] = sent->chunk;
        s->lost++, lost++;
    }
    return lost;
}

/* (2) At each ACK, and at each timeout, say what was measured. */
static void tell(struct sender *s, fw_datapath *dp, fw_flow flow, const struct sent *acked,
                 uint32_t lost) {
    fw_signals signals = {.size = sizeof signals, .now_us = now_us(), .lost_packets = lost};
    signals.was_timeout = acked == NULL;
    signals.bytes_acked = acked != NULL ? PAYLOAD : 0;
    signals.packets_acked = acked != NULL;
    signals.rtt_sample_us = acked != NULL ? signals.now_us - acked->at_us + 1 : 0;
    signals.bytes_in_flight = s->in_flight;
    signals.packets_in_flight = s->in_flight / PAYLOAD;
    check("fw_flow_ack", fw_flow_ack(dp, flow, &signals));
    s->last_ack_us = signals.now_us;
}

static void on_ack(struct sender *s, fw_datapath *dp, fw_flow flow, uint32_t number) {
    struct sent *sent = &s->ring[number % RING];
    if (number < s->lowest || number >= s->next || !sent->in_flight)
        return;
    sent->in_flight = false;
    s->in_flight -= PAYLOAD;
    s->delivered++;
    tell(s, dp, flow, sent, lose_below(s, number > REORDERING ? number - REORDERING : 0));
}

int main(int argc, char **argv) {
    static struct sender s;
    struct sockaddr_in self = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof self;
    s.fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (bind(s.fd, (struct sockaddr *)&self, len) < 0
        || getsockname(s.fd, (struct sockaddr *)&self, &len) < 0
        || connect(s.fd, (struct sockaddr *)&self, len) < 0)
        return perror("toy"), 1;

    /* (3) One datapath for each thread that sends; it finds its plane by a path. That none is
     * there is not fatal: the fallback controls until one comes. */
    fw_options options = {.size = sizeof options, .name = "toy", .callbacks = {set_cwnd, set_rate}};
    fw_datapath *dp;
    check("fw_datapath_new", fw_datapath_new(&options, &dp));
    const char *path = argc > 1 ? argv[1] : "/run/fairwater/plane";
    fw_error error = fw_datapath_connect(dp, FW_LINK_SEQPACKET, path, now_us());
    printf("%s: %s\n", path, fw_strerror(error));

    /* (4) A flow for each connection. */
    fw_flow_info info = {.size = sizeof info, .mss = PAYLOAD, .cwnd = 10 * PAYLOAD};
    check("address", fw_address_from_sockaddr(&self, sizeof self, &info.local));
    info.remote = info.local;
    info.now_us = s.last_ack_us = now_us();
    s.cwnd = info.cwnd;
    fw_flow flow;
    check("fw_flow_start", fw_flow_start(dp, &info, &s, &flow));

    for (uint32_t arrived = 0; s.delivered < CHUNKS;) {
        send_packets(&s);
        usleep(1000);                /* the path's delay */
        struct packet packet;
        for (ssize_t got; (got = recv(s.fd, &packet, sizeof packet, 0)) > 0;) {
            if (got == sizeof packet.number)
                on_ack(&s, dp, flow, packet.number);
            else if (++arrived % 250 != 0) /* the receiver */
                (void)!send(s.fd, &packet, sizeof packet.number, 0);
        }
        if (s.in_flight > 0 && now_us() - s.last_ack_us > TIMEOUT_US)
            tell(&s, dp, flow, NULL, lose_below(&s, s.next));
        /* (5) Let the library hear its plane: when fw_datapath_fd is readable, or often. */
        check("fw_datapath_service", fw_datapath_service(dp, now_us()));
    }

    fw_flow_state state = {.size = sizeof state};
    check("fw_flow_status", fw_flow_status(dp, flow, &state));
    printf("delivered %u bytes, lost %u packets, cwnd %llu bytes, under %s\n",
           s.delivered * PAYLOAD, s.lost, (unsigned long long)state.cwnd,
           state.controller == FW_CONTROLLER_PROGRAM ? "the plane's program" : "the fallback");
    check("fw_flow_close", fw_flow_close(dp, flow)); /* (6) Say what ends. */
    check("fw_datapath_free", fw_datapath_free(dp));
    return close(s.fd);
}
