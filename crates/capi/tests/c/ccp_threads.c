/* Calls libccp's interface from several threads at once. Standard input gives lines in
 * hexadecimal: messages of the agent's that put the connections 1 to WORKERS under a program
 * which reports a sum of bytes.
 *
 * Each worker has one of these connections; other threads start and end connections of their
 * own, and one takes in messages all the while. Prints the reports and sums of each worker's, and
 * how many callbacks were wrong: on another thread than the one that invoked, or about a
 * connection that cannot be looked up.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ccp.h>

enum { WORKERS = 4, CHURNERS = 2, CONNECTIONS = 8, ACKS = 20000, TURNS = 2000, BYTES = 5 };

struct owner {
    pthread_t thread;
    struct ccp_connection *conn;
};

static struct ccp_connection connections[CONNECTIONS];
static struct ccp_datapath dp;
static u64 reports[CONNECTIONS + 1], sums[CONNECTIONS + 1];
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static atomic_int wrong, working = WORKERS + CHURNERS;
static atomic_int windows_set;

static u64 now(void) { return 1; }
static u64 since_usecs(u64 then) { return 1000 + then; }
static u64 after_usecs(u64 usecs) { return usecs; }

static void set_control(struct ccp_connection *conn, u32 value) {
    struct owner *owner = ccp_get_impl(conn);
    if (value == 0 || !pthread_equal(owner->thread, pthread_self()) ||
        ccp_connection_lookup(&dp, conn->index) != conn)
        atomic_fetch_add(&wrong, 1);
    atomic_fetch_add(&windows_set, 1);
}

static int send_msg(struct ccp_datapath *to, char *msg, int size) {
    u16 type;
    u32 sid, fields;
    u64 sum;
    if (to != &dp || size < 12)
        atomic_fetch_add(&wrong, 1);
    memcpy(&type, msg, sizeof type);
    memcpy(&sid, msg + 4, sizeof sid);
    if (type != 1 || size < 24)
        return 0;
    memcpy(&fields, msg + 12, sizeof fields);
    memcpy(&sum, msg + 16, sizeof sum);
    if (fields != 1 || sid == 0 || sid > CONNECTIONS) {
        atomic_fetch_add(&wrong, 1);
        return 0;
    }
    pthread_mutex_lock(&counting);
    reports[sid] += 1;
    sums[sid] += sum;
    pthread_mutex_unlock(&counting);
    return 0;
}

static struct ccp_connection *begin(struct owner *owner) {
    struct ccp_datapath_info info = {.init_cwnd = 14600, .mss = 1460};
    owner->thread = pthread_self();
    owner->conn = ccp_connection_start(&dp, owner, &info);
    if (owner->conn == NULL)
        abort();
    return owner->conn;
}

static void acknowledge(struct ccp_connection *conn) {
    conn->prims.bytes_acked = BYTES;
    conn->prims.rtt_sample_us = 10000;
    if (ccp_invoke(conn) < 0)
        atomic_fetch_add(&wrong, 1);
}

static void *work(void *argument) {
    struct owner *owner = argument;
    owner->thread = pthread_self();
    for (int i = 0; i < ACKS; i++)
        acknowledge(owner->conn);
    atomic_fetch_sub(&working, 1);
    return NULL;
}

static void *churn(void *unused) {
    (void)unused;
    for (int i = 0; i < TURNS; i++) {
        struct owner owner;
        struct ccp_connection *conn = begin(&owner);
        acknowledge(conn);
        ccp_connection_free(&dp, conn->index);
    }
    atomic_fetch_sub(&working, 1);
    return NULL;
}

/* Windows for the workers' connections, and what is to be refused. */
static void *command(void *unused) {
    (void)unused;
    for (u64 turn = 1; atomic_load(&working) > 0; turn++) {
        unsigned char update[25] = {3, 0, sizeof update};
        u64 cwnd = 10000 + turn % 1000;
        update[4] = (unsigned char)(1 + turn % WORKERS);
        update[8] = 1, update[12] = 2, update[13] = 4;
        memcpy(update + 17, &cwnd, sizeof cwnd);
        if (ccp_read_msg(&dp, (char *)update, sizeof update) < 0)
            atomic_fetch_add(&wrong, 1);
        update[12] = 7;
        if (ccp_read_msg(&dp, (char *)update, sizeof update) >= 0)
            atomic_fetch_add(&wrong, 1);
    }
    return NULL;
}

int main(void) {
    static char line[20000];
    static unsigned char message[sizeof line / 2];
    static struct owner owners[WORKERS];
    pthread_t threads[WORKERS + CHURNERS + 1];

    dp.set_cwnd = set_control;
    dp.set_rate_abs = set_control;
    dp.send_msg = send_msg;
    dp.now = now;
    dp.since_usecs = since_usecs;
    dp.after_usecs = after_usecs;
    dp.max_connections = CONNECTIONS;
    dp.ccp_active_connections = connections;
    dp.fto_us = 1000000000;
    dp.max_programs = 10;
    if (ccp_init(&dp, 9) < 0)
        return 1;
    for (int i = 0; i < WORKERS; i++)
        if (begin(&owners[i])->index != i + 1)
            return 2;
    while (fgets(line, sizeof line, stdin) != NULL) {
        int size = (int)(strcspn(line, "\n") / 2);
        for (int i = 0; i < size; i++) {
            unsigned byte;
            sscanf(line + 2 * i, "%2x", &byte);
            message[i] = (unsigned char)byte;
        }
        if (ccp_read_msg(&dp, (char *)message, size) < 0)
            return 3;
    }
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&threads[i], NULL, work, &owners[i]);
    for (int i = 0; i < CHURNERS; i++)
        pthread_create(&threads[WORKERS + i], NULL, churn, NULL);
    pthread_create(&threads[WORKERS + CHURNERS], NULL, command, NULL);
    for (int i = 0; i < WORKERS + CHURNERS + 1; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i <= WORKERS; i++)
        printf("%d %llu %llu\n", i, (unsigned long long)reports[i], (unsigned long long)sums[i]);
    printf("wrong %d, set %d\n", atomic_load(&wrong), atomic_load(&windows_set) > 0);
    ccp_free(&dp);
    return 0;
}
