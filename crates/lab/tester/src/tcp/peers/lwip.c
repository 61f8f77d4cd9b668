/* Echoes of single bytes between two copies of lwIP, joined by queues in memory.
 *
 * Compiled twice: with END into a shared object that is one end (and brings lwIP along), and without into the program, which loads that object
 * into two namespaces of the linker (dlmopen(3)), so that each end has variables of its own.
 *
 *     lwip-echo END.so CONNECTIONS SECONDS CLIENT-CORE SERVER-CORE ORDER...
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 8192, PACKET_MAX = 248 };

struct packet {
    uint16_t len;
    uint8_t bytes[PACKET_MAX];
};

/* One writer, one reader. */
struct queue {
    _Alignas(64) _Atomic uint32_t head;
    _Alignas(64) _Atomic uint32_t tail;
    _Alignas(64) struct packet places[PLACES];
};

enum order { STAND, REPLY, ROUND_ROBIN };

/* What an end counts, and what the program asks of the client. */
struct end {
    struct queue *in, *out;
    int is_server;
    enum order order;
    uint32_t connections, begun, connected, closing, closed, failed, next;
    uint64_t sent, came, written, segments, received, data;
    void **pcbs;
};

#ifdef END

#include <lwip/init.h>
#include <lwip/ip.h>
#include <lwip/netif.h>
#include <lwip/tcp.h>
#include <lwip/timeouts.h>

static struct netif netif;
static struct end *me;

static void ips(ip4_addr_t *own, ip4_addr_t *other) {
    IP4_ADDR(own, 198, 18, 0, me->is_server ? 1 : 2);
    IP4_ADDR(other, 198, 18, 0, me->is_server ? 2 : 1);
}

static err_t leave(struct netif *to, struct pbuf *packet, const ip4_addr_t *address) {
    (void)to, (void)address;
    uint32_t tail = atomic_load_explicit(&me->out->tail, memory_order_relaxed);
    uint32_t head = atomic_load_explicit(&me->out->head, memory_order_acquire);
    if (tail - head >= PLACES || packet->tot_len > PACKET_MAX)
        return ERR_MEM;
    struct packet *place = &me->out->places[tail % PLACES];
    place->len = pbuf_copy_partial(packet, place->bytes, packet->tot_len, 0);
    uint32_t headers = (place->bytes[0] & 15u) * 4;
    headers += (place->bytes[headers + 12] >> 4) * 4;
    me->segments++;
    me->data += place->len > headers;
    atomic_store_explicit(&me->out->tail, tail + 1, memory_order_release);
    return ERR_OK;
}

static err_t begin(struct netif *made) {
    made->name[0] = 'm', made->name[1] = 'm';
    made->mtu = 1500;
    made->output = leave;
    return ERR_OK;
}

static void send_bytes(struct tcp_pcb *pcb, uint16_t count) {
    static const char bytes[64];
    if (tcp_write(pcb, bytes, count, TCP_WRITE_FLAG_COPY) == ERR_OK) {
        me->sent += count;
        me->written++;
        tcp_output(pcb);
    }
}

static void send_in_turn(void) {
    struct tcp_pcb *pcb = me->pcbs[me->next];
    me->next = me->next + 1 == me->connections ? 0 : me->next + 1;
    send_bytes(pcb, 1);
}

static err_t arrived(void *number, struct tcp_pcb *pcb, struct pbuf *data, err_t error) {
    (void)number, (void)error;
    if (!data) {
        /* The other end closed. */
        if (me->is_server || me->order == STAND) {
            tcp_recv(pcb, NULL);
            me->closed++;
            tcp_close(pcb);
        }
        return ERR_OK;
    }
    uint16_t count = data->tot_len;
    tcp_recved(pcb, count);
    pbuf_free(data);
    me->came += count;
    if (me->is_server)
        send_bytes(pcb, count < 64 ? count : 64);
    else
        for (uint16_t at = 0; at < count; at++) {
            if (me->order == REPLY)
                send_bytes(pcb, 1);
            else if (me->order == ROUND_ROBIN)
                send_in_turn();
        }
    return ERR_OK;
}

static void broken(void *number, err_t error) {
    (void)number, (void)error;
    me->failed++;
}

static void prepare(struct tcp_pcb *pcb) {
    tcp_nagle_disable(pcb);
    tcp_recv(pcb, arrived);
    tcp_err(pcb, broken);
}

static err_t accepted(void *number, struct tcp_pcb *pcb, err_t error) {
    (void)number;
    if (error != ERR_OK || !pcb)
        return ERR_VAL;
    prepare(pcb);
    me->connected++;
    return ERR_OK;
}

static err_t stands(void *number, struct tcp_pcb *pcb, err_t error) {
    (void)error;
    me->pcbs[(uintptr_t)number] = pcb;
    me->connected++;
    return ERR_OK;
}

int end_new(struct end *end) {
    me = end;
    ip4_addr_t own, other, mask;
    ips(&own, &other);
    IP4_ADDR(&mask, 255, 255, 255, 0);
    lwip_init();
    if (!netif_add(&netif, &own, &mask, &other, NULL, begin, ip_input))
        return -1;
    netif_set_default(&netif);
    netif_set_up(&netif);
    netif_set_link_up(&netif);
    if (!me->is_server)
        return 0;
    struct tcp_pcb *pcb = tcp_new();
    if (!pcb || tcp_bind(pcb, IP_ANY_TYPE, 7) != ERR_OK)
        return -1;
    pcb = tcp_listen_with_backlog(pcb, 255);
    if (!pcb)
        return -1;
    tcp_accept(pcb, accepted);
    return 0;
}

/* Takes the packets that have arrived; returns how many. */
int end_round(int look_at_timers) {
    uint32_t head = atomic_load_explicit(&me->in->head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&me->in->tail, memory_order_acquire);
    int count = 0;
    for (; head != tail && count < 64; count++) {
        struct packet *place = &me->in->places[head % PLACES];
        struct pbuf *packet = pbuf_alloc(PBUF_RAW, place->len, PBUF_RAM);
        if (packet) {
            pbuf_take(packet, place->bytes, place->len);
            me->received++;
        }
        atomic_store_explicit(&me->in->head, ++head, memory_order_release);
        if (packet && netif.input(packet, &netif) != ERR_OK)
            pbuf_free(packet);
    }
    if (look_at_timers)
        sys_check_timeouts();
    return count;
}

int end_open(uint32_t count) {
    ip4_addr_t own, other;
    ips(&own, &other);
    ip_addr_t to;
    ip_addr_copy_from_ip4(to, other);
    for (; count > 0; count--) {
        struct tcp_pcb *pcb = tcp_new();
        if (!pcb)
            return -1;
        prepare(pcb);
        tcp_arg(pcb, (void *)(uintptr_t)me->begun++);
        if (tcp_connect(pcb, &to, 7, stands) != ERR_OK)
            return -1;
    }
    return 0;
}

void end_start(enum order order, uint32_t window) {
    me->order = order;
    for (; window > 0; window--)
        send_in_turn();
}

/* Closes this direction; the other end then closes its own. */
void end_close(uint32_t count) {
    for (; count > 0 && me->closing < me->connections; count--)
        tcp_shutdown(me->pcbs[me->closing++], 0, 1);
}

#else

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

enum { AT_A_TIME = 200, WINDOW_MAX = 1024 };

struct loaded {
    struct end end;
    int (*new)(struct end *);
    int (*round)(int);
    int (*open)(uint32_t);
    void (*start)(enum order, uint32_t);
    void (*close)(uint32_t);
};

static struct loaded *client, *server;
static _Atomic int stop;
static int cores[2];

static uint64_t now_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (core >= 0) {
        CPU_SET(core, &set);
        sched_setaffinity(0, sizeof set, &set);
    }
}

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static struct loaded *load(const char *path, uint32_t connections) {
    struct loaded *it = aligned_alloc(64, (sizeof *it + 63) / 64 * 64);
    void *library = dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL);
    if (!it || !library)
        fail(dlerror());
    memset(it, 0, sizeof *it);
    *(void **)&it->new = dlsym(library, "end_new");
    *(void **)&it->round = dlsym(library, "end_round");
    *(void **)&it->open = dlsym(library, "end_open");
    *(void **)&it->start = dlsym(library, "end_start");
    *(void **)&it->close = dlsym(library, "end_close");
    if (!it->new || !it->round || !it->open || !it->start || !it->close)
        fail("a function of the end is missing");
    it->end.connections = connections;
    it->end.pcbs = calloc(connections, sizeof *it->end.pcbs);
    return it;
}

static void *serve(void *nothing) {
    pin(cores[1]);
    for (uint32_t round = 0; !atomic_load_explicit(&stop, memory_order_relaxed); round++)
        if (server->round(round % 256 == 0) == 0)
            sched_yield();
    return nothing;
}

static uint32_t rounds;
static int is_apart;

static void both(void) {
    int look = rounds++ % 256 == 0;
    int moved = client->round(look);
    if (!is_apart)
        moved += server->round(look);
    if (!moved)
        sched_yield();
}

/* Rounds until a count of the client has come to a number. */
static void until(const uint32_t *count, uint32_t wanted, void begin(uint32_t)) {
    uint32_t begun = 0, last = 0;
    uint64_t since = now_ns(CLOCK_MONOTONIC);
    while (*count < wanted) {
        uint32_t room = begun - *count < AT_A_TIME ? AT_A_TIME - (begun - *count) : 0;
        if (room > wanted - begun)
            room = wanted - begun;
        if (room > 0) {
            begin(room);
            begun += room;
        }
        both();
        if (*count != last)
            last = *count, since = now_ns(CLOCK_MONOTONIC);
        else if (rounds % 1024 == 0 && now_ns(CLOCK_MONOTONIC) - since > 5000000000u)
            return;
    }
}

static void begin_open(uint32_t count) {
    if (client->open(count) < 0)
        fail("a connection could not be begun");
}

static void begin_close(uint32_t count) { client->close(count); }

static void rounds_for(uint64_t time_ns) {
    uint64_t start = now_ns(CLOCK_MONOTONIC);
    do {
        for (int round = 0; round < 64; round++)
            both();
    } while (now_ns(CLOCK_MONOTONIC) - start < time_ns);
}

static void echo(const char *word, double seconds) {
    struct end *c = &client->end, *s = &server->end;
    uint64_t sent = c->sent, came = c->came, time_ns = (uint64_t)(seconds * 1e9);
    uint64_t again = c->data + s->data - c->written - s->written;
    client->start(strcmp(word, "reply") ? ROUND_ROBIN : REPLY, c->connections < WINDOW_MAX ? c->connections : WINDOW_MAX);
    rounds_for(time_ns / 5);
    uint64_t echoes = c->came, segments = c->segments + s->segments, data = c->data + s->data;
    uint64_t wall = now_ns(CLOCK_MONOTONIC), core = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    rounds_for(time_ns);
    wall = now_ns(CLOCK_MONOTONIC) - wall, core = now_ns(CLOCK_PROCESS_CPUTIME_ID) - core;
    echoes = c->came - echoes, segments = c->segments + s->segments - segments, data = c->data + s->data - data;
    c->order = STAND;
    for (int wait = 0; wait < 500 && c->came < c->sent; wait++)
        rounds_for(10000000);
    again = c->data + s->data - c->written - s->written - again;
    printf("%s %lu %lu %lu %lu %lu %lu %lu %lu\n", word, (unsigned long)echoes, (unsigned long)wall, (unsigned long)core,
           (unsigned long)segments, (unsigned long)data, (unsigned long)(c->sent - sent), (unsigned long)(c->came - came),
           (unsigned long)again);
}

int main(int count, char **words) {
    if (count < 7)
        fail("lwip-echo END.so CONNECTIONS SECONDS CLIENT-CORE SERVER-CORE ORDER...");
    uint32_t connections = (uint32_t)atoi(words[2]);
    cores[0] = atoi(words[4]), cores[1] = atoi(words[5]);
    is_apart = cores[0] >= 0 && cores[1] >= 0 && cores[0] != cores[1];
    struct queue *there = aligned_alloc(64, sizeof *there), *back = aligned_alloc(64, sizeof *back);
    if (!there || !back)
        fail("no memory for the queues");
    memset(there, 0, sizeof *there), memset(back, 0, sizeof *back);
    client = load(words[1], connections), server = load(words[1], connections);
    client->end.in = server->end.out = back;
    client->end.out = server->end.in = there;
    server->end.is_server = 1;
    if (server->new(&server->end) || client->new(&client->end))
        fail("an end could not be made");
    pthread_t thread;
    pin(cores[0]);
    if (is_apart && pthread_create(&thread, NULL, serve, NULL))
        fail("no thread for the server");
    uint64_t core = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    until(&client->end.connected, connections, begin_open);
    uint64_t set_up = now_ns(CLOCK_PROCESS_CPUTIME_ID) - core;
    if (client->end.connected < connections)
        fail("connections did not come to stand");
    rounds_for(1000000);
    for (int at = 6; at < count; at++)
        echo(words[at], atof(words[3]));
    core = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    until(&client->end.closed, connections, begin_close);
    core = now_ns(CLOCK_PROCESS_CPUTIME_ID) - core;
    rounds_for(20000000);
    atomic_store(&stop, 1);
    if (is_apart)
        pthread_join(thread, NULL);
    printf("connections %u %u %lu %lu\n", client->end.connected, client->end.closed, (unsigned long)set_up, (unsigned long)core);
    printf("packets %lu %lu %lu %lu\n", (unsigned long)client->end.segments, (unsigned long)client->end.received,
           (unsigned long)server->end.segments, (unsigned long)server->end.received);
    return 0;
}

#endif
