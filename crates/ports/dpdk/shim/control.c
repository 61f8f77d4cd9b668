/* The EAL, and devices: probed, configured, started, stopped. Only threads that open or close a port call this. */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_memory.h>

/* The last lines that libdpdk logged, so that an error can say why. */
static char log_text[1024];
static size_t log_len;
static FILE *log_stream;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

static ssize_t log_write(void *cookie, const char *text, size_t size)
{
    size_t kept = size < sizeof(log_text) ? size : sizeof(log_text);

    (void)cookie;
    pthread_mutex_lock(&log_lock);
    if (log_len + kept > sizeof(log_text)) {
        size_t old = sizeof(log_text) - kept;

        memmove(log_text, log_text + log_len - old, old);
        log_len = old;
    }
    memcpy(log_text + log_len, text + size - kept, kept);
    log_len += kept;
    pthread_mutex_unlock(&log_lock);
    return (ssize_t)size;
}

/* Moves what was logged since the last call into `text`. */
void ln_log_take(char *text, size_t size)
{
    size_t len;

    if (log_stream != NULL)
        fflush(log_stream);
    pthread_mutex_lock(&log_lock);
    len = log_len < size - 1 ? log_len : size - 1;
    memcpy(text, log_text + log_len - len, len);
    text[len] = 0;
    log_len = 0;
    pthread_mutex_unlock(&log_lock);
}

/* Starts the EAL. Whatever handled SIGBUS before goes on to. */
int ln_eal_start(int argc, char **argv)
{
    cookie_io_functions_t functions = { .write = log_write };
    struct sigaction before;
    int result;

    log_stream = fopencookie(NULL, "w", functions);
    if (log_stream != NULL) {
        setvbuf(log_stream, NULL, _IOLBF, 256);
        rte_openlog_stream(log_stream);
    }
    sigaction(SIGBUS, NULL, &before);
    result = rte_eal_init(argc, argv);
    sigaction(SIGBUS, &before, NULL);
    return result < 0 ? -rte_errno : 0;
}

/* Gives the calling thread a number, without which mempools have no cache for it; returns 0 if it has one now. */
int ln_thread_register(void)
{
    return rte_lcore_id() != LCORE_ID_ANY ? 0 : rte_thread_register();
}

void ln_thread_unregister(void)
{
    rte_thread_unregister();
}

/* Drivers that reach packets by the address of their mbuf, or hand EAL's own memory to a peer, cannot send frames of a pool. */
static int needs_own_mbufs(const char *driver, const char *devargs)
{
    static const char *const drivers[] = { "net_af_xdp", "net_virtio_user" };
    unsigned int i;

    for (i = 0; i < RTE_DIM(drivers); i++)
        if (strcmp(driver, drivers[i]) == 0)
            return 1;
    return strcmp(driver, "net_memif") == 0 && strstr(devargs, "zero-copy=yes") != NULL;
}

/* Drivers that give their device virtual addresses, which the kernel translates (bifurcated drivers). */
static int is_bifurcated(const char *driver)
{
    return strncmp(driver, "mlx", 3) == 0;
}

/* Which transmit offloads are used, as the driver calls them. Merged packets are for devices that cut them by themselves: net_tap cuts with mbufs
 * that share a buffer, and finds an mbuf by its buffer's address (rte_mbuf_from_indirect), which does not work with frames of a pool. */
static uint64_t tx_offloads(struct ln_device *device, const struct rte_eth_dev_info *info)
{
    uint64_t merged = RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_TCP_CKSUM;
    uint64_t wanted = info->tx_offload_capa & (RTE_ETH_TX_OFFLOAD_UDP_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM);

    device->merged_max = RTE_MIN(info->tx_desc_lim.nb_seg_max > 0 ? info->tx_desc_lim.nb_seg_max : LN_MERGED, LN_MERGED);
    if ((info->tx_offload_capa & merged) == merged && (device->is_hardware || device->copies) && device->merged_max > 1)
        wanted |= RTE_ETH_TX_OFFLOAD_TCP_TSO | (info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM);
    device->offloads = (wanted & RTE_ETH_TX_OFFLOAD_UDP_CKSUM ? LN_TX_UDP : 0) | (wanted & RTE_ETH_TX_OFFLOAD_TCP_CKSUM ? LN_TX_TCP : 0)
                       | (wanted & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM ? LN_TX_IPV4 : 0) | (wanted & RTE_ETH_TX_OFFLOAD_TCP_TSO ? LN_TX_TSO : 0);
    return wanted;
}

static int configure(const struct ln_request *request, struct ln_device *device, const struct rte_eth_dev_info *info)
{
    /* Toeplitz with this key gives both directions of a flow the same hash (Woo and Park, "Scalable TCP Session Monitoring with
     * Symmetric Receive-side Scaling", 2012). */
    static uint8_t key[64];
    struct rte_eth_conf conf;
    unsigned int i;

    memset(&conf, 0, sizeof(conf));
    for (i = 0; i < sizeof(key); i += 2) {
        key[i] = 0x6d;
        key[i + 1] = 0x5a;
    }
    if (device->queues > 1 && info->flow_type_rss_offloads != 0) {
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf =
            info->flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP);
        if (request->symmetric && info->hash_key_size > 0 && info->hash_key_size <= sizeof(key)) {
            conf.rx_adv_conf.rss_conf.rss_key = key;
            conf.rx_adv_conf.rss_conf.rss_key_len = info->hash_key_size;
        }
        device->rss = 1;
    }
    conf.rxmode.offloads = info->rx_offload_capa & (RTE_ETH_RX_OFFLOAD_SCATTER | RTE_ETH_RX_OFFLOAD_CHECKSUM);
    conf.txmode.offloads = info->tx_offload_capa & (RTE_ETH_TX_OFFLOAD_MULTI_SEGS | tx_offloads(device, info));
    conf.rxmode.mtu = request->mtu;
    device->rx_flags = (conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_CHECKSUM) != 0;
    device->scatters = (conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_SCATTER) != 0;
    device->multi_segment = (conf.txmode.offloads & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
    return rte_eth_dev_configure(device->port, device->queues, device->queues, &conf);
}

static int set_up_queues(const struct ln_request *request, struct ln_device *device)
{
    struct rte_mempool *mempool = device->copies ? device->mempool : request->memory->mempool;
    uint16_t rx = request->descriptors, tx = request->descriptors, queue;
    int result;

    if (request->descriptors == 0)
        rx = tx = 1024;
    device->step = "the driver refuses the size of its rings";
    result = rte_eth_dev_adjust_nb_rx_tx_desc(device->port, &rx, &tx);
    device->step = "the driver refuses a queue";
    for (queue = 0; result == 0 && queue < device->queues; queue++) {
        result = rte_eth_rx_queue_setup(device->port, queue, rx, SOCKET_ID_ANY, NULL, mempool);
        if (result == 0)
            result = rte_eth_tx_queue_setup(device->port, queue, tx, SOCKET_ID_ANY, NULL);
    }
    return result;
}

static void wait_for_link(uint32_t milliseconds, struct ln_device *device)
{
    struct rte_eth_link link;
    uint32_t waited;

    memset(&link, 0, sizeof(link));
    for (waited = 0;; waited += 10) {
        rte_eth_link_get_nowait(device->port, &link);
        if (link.link_status || waited >= milliseconds)
            break;
        rte_delay_us_sleep(10000);
    }
    device->link_up = link.link_status;
    device->speed_mbps = link.link_speed;
}

static int start(const struct ln_request *request, struct ln_device *device)
{
    struct rte_eth_dev_info info;
    struct rte_ether_addr mac;
    int result;

    device->step = "the driver does not describe its device";
    result = rte_eth_dev_info_get(device->port, &info);
    if (result != 0)
        return result;
    snprintf(device->driver, sizeof(device->driver), "%s", info.driver_name);
    device->max_queues = RTE_MIN(info.max_rx_queues, info.max_tx_queues);
    device->device = info.device;
    device->is_hardware = strcmp(rte_bus_name(rte_dev_bus(info.device)), "vdev") != 0;
    device->queues = request->queues;
    device->step = "it has fewer queues";
    if (request->queues > device->max_queues)
        return -ERANGE;
    device->copies = needs_own_mbufs(device->driver, request->devargs);
    if (device->is_hardware && rte_eal_iova_mode() == RTE_IOVA_PA && !is_bifurcated(device->driver)) {
        /* Without an IOMMU the card writes to physical addresses. The kernel may move the pool's pages, but not huge pages. */
        device->step = "without an IOMMU it needs huge pages";
        if (!rte_eal_has_hugepages())
            return -ENOMEM;
        device->copies = 1;
    }
    if (device->copies) {
        char name[RTE_MEMPOOL_NAMESIZE];

        snprintf(name, sizeof(name), "linerate_c%u", device->port);
        device->mempool = rte_pktmbuf_pool_create(name, request->copy_frames, 256, 0,
                                                  (uint16_t)request->copy_room, SOCKET_ID_ANY);
        device->step = "there is no memory for its packets";
        if (device->mempool == NULL)
            return -rte_errno;
    } else if (device->is_hardware) {
        device->step = "its IOMMU does not take the packet memory";
        if (!request->memory->registered
            && rte_extmem_register(request->memory->base, request->memory->bytes, NULL, 0, request->memory->page_bytes) != 0)
            return -rte_errno;
        request->memory->registered = 1;
        result = rte_dev_dma_map(info.device, request->memory->base, (uint64_t)(uintptr_t)request->memory->base,
                                 request->memory->bytes);
        /* A driver without this operation needs none. */
        device->dma_mapped = result == 0;
        if (result != 0 && rte_errno != ENOTSUP)
            return -rte_errno;
    }
    device->step = "the driver refuses the configuration";
    result = configure(request, device, &info);
    if (result == 0)
        result = set_up_queues(request, device);
    if (result != 0)
        return result;
    if (request->promiscuous < 2) {
        result = request->promiscuous ? rte_eth_promiscuous_enable(device->port)
                                      : rte_eth_promiscuous_disable(device->port);
        device->step = "the driver does not change promiscuous mode";
        if (result != 0 && result != -ENOTSUP)
            return result;
    }
    device->step = "the device does not start";
    result = rte_eth_dev_start(device->port);
    if (result != 0)
        return result;
    if (rte_eth_macaddr_get(device->port, &mac) == 0)
        memcpy(device->mac, mac.addr_bytes, sizeof(device->mac));
    if (rte_eth_dev_get_mtu(device->port, &device->mtu) != 0)
        device->mtu = RTE_ETHER_MTU;
    wait_for_link(request->link_wait_ms, device);
    return 0;
}

/* Attaches, configures and starts a device. Returns 0, or a negative errno and sets `step`. */
int ln_device_open(const struct ln_request *request, struct ln_device *device)
{
    int result;

    memset(device, 0, sizeof(*device));
    if (rte_eth_dev_get_port_by_name(request->name, &device->port) == 0) {
        device->step = "it is open already";
        return -EBUSY;
    }
    device->step = "the driver does not find or take it";
    result = rte_dev_probe(request->devargs);
    if (result != 0)
        return result;
    result = rte_eth_dev_get_port_by_name(request->name, &device->port);
    if (result != 0) {
        device->step = "no driver made a network device of it";
        return result;
    }
    result = start(request, device);
    if (result != 0) {
        const char *step = device->step;

        ln_device_close(device, request->memory);
        device->step = step;
    }
    return result;
}

void ln_device_close(struct ln_device *device, const struct ln_memory *memory)
{
    struct rte_device *parent = device->device;

    rte_eth_dev_stop(device->port);
    if (device->dma_mapped)
        rte_dev_dma_unmap(parent, memory->base, (uint64_t)(uintptr_t)memory->base, memory->bytes);
    rte_eth_dev_close(device->port);
    if (parent != NULL)
        rte_dev_remove(parent);
    rte_mempool_free(device->mempool);
    device->mempool = NULL;
}

/* 1 if packets can pass, 0 if not, negative if the device does not say. */
int ln_device_link(uint16_t port)
{
    struct rte_eth_link link;
    int result = rte_eth_link_get_nowait(port, &link);

    return result < 0 ? result : link.link_status;
}

int ln_device_removed(uint16_t port)
{
    return rte_eth_dev_is_removed(port);
}

/* Writes up to `most` extended statistics; returns how many there are, or a negative errno. */
int ln_device_statistics(uint16_t port, uint64_t *values, char (*names)[64], unsigned int most)
{
    struct rte_eth_xstat *statistics = calloc(most, sizeof(*statistics));
    struct rte_eth_xstat_name *labels = calloc(most, sizeof(*labels));
    int count = -ENOMEM, i;

    if (statistics != NULL && labels != NULL) {
        count = rte_eth_xstats_get(port, statistics, most);
        if (count > (int)most || count < 0 || rte_eth_xstats_get_names(port, labels, most) != count)
            count = count < 0 ? count : -E2BIG;
        for (i = 0; i < count; i++) {
            values[i] = statistics[i].value;
            memcpy(names[i], labels[statistics[i].id].name, 64);
        }
    }
    free(statistics);
    free(labels);
    return count;
}
