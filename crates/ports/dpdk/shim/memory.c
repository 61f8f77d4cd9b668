/* Frames of Linerate's pool as mbufs with pinned external buffers. The mempool keeps no free mbufs of its own, but for the caches of
 * threads: its operations take free frames from the pool, and give them back, so that frames move between both sides in bulk. */
#include "shim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_memory.h>
#include <rte_memzone.h>

/* Frames that a thread keeps in hand; a cache is emptied when it has half as many more. */
#define CACHE 256

static int ops_alloc(struct rte_mempool *mempool)
{
    mempool->pool_data = mempool->pool_config;
    return 0;
}

static void ops_free(struct rte_mempool *mempool)
{
    (void)mempool;
}

static int ops_enqueue(struct rte_mempool *mempool, void *const *mbufs, unsigned int count)
{
    struct ln_memory *memory = mempool->pool_data;

    return memory->ready ? memory->put(memory->store, mbufs, count) : 0;
}

static int ops_dequeue(struct rte_mempool *mempool, void **mbufs, unsigned int count)
{
    struct ln_memory *memory = mempool->pool_data;

    /* A mempool that is freed takes each mbuf once more. */
    return memory->ready ? memory->take(memory->store, mbufs, count) : 0;
}

static unsigned int ops_count(const struct rte_mempool *mempool)
{
    (void)mempool;
    return 0;
}

static const struct rte_mempool_ops linerate_ops = {
    .name = "linerate",
    .alloc = ops_alloc,
    .free = ops_free,
    .enqueue = ops_enqueue,
    .dequeue = ops_dequeue,
    .get_count = ops_count,
};

RTE_MEMPOOL_REGISTER_OPS(linerate_ops);

/* Makes mbuf `index` the one of frame `index`. */
static void init_mbuf(struct rte_mempool *mempool, void *opaque, void *object, unsigned int index)
{
    struct ln_memory *memory = opaque;
    struct rte_mbuf *mbuf = object;
    uint8_t *frame = memory->base + ((uint64_t)index << memory->frame_shift);

    memset(mbuf, 0, sizeof(*mbuf));
    mbuf->buf_addr = frame;
    rte_mbuf_iova_set(mbuf, rte_mem_virt2iova(frame));
    mbuf->buf_len = (uint16_t)(1u << memory->frame_shift);
    mbuf->data_off = RTE_PKTMBUF_HEADROOM;
    mbuf->pool = mempool;
    mbuf->nb_segs = 1;
    mbuf->port = RTE_MBUF_PORT_INVALID;
    rte_mbuf_refcnt_set(mbuf, 1);
    if (index == 0)
        memory->mbufs = object;
    if ((uint8_t *)object != memory->mbufs + (uint64_t)index * memory->stride)
        memory->stride = 0;
}

static struct rte_mempool *make_mempool(struct ln_memory *memory, uint32_t frames)
{
    static int number;
    char name[RTE_MEMPOOL_NAMESIZE];
    const struct rte_memzone *zone;
    struct rte_mempool *mempool;
    struct rte_pktmbuf_pool_private private = {
        .mbuf_data_room_size = (uint16_t)(1u << memory->frame_shift),
        .flags = RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF,
    };
    uint64_t bytes;

    snprintf(name, sizeof(name), "linerate%d", __atomic_fetch_add(&number, 1, __ATOMIC_RELAXED));
    /* A small pool must not end in the caches. */
    mempool = rte_mempool_create_empty(name, frames, sizeof(struct rte_mbuf), RTE_MIN(frames / 8, (uint32_t)CACHE),
                                       sizeof(private), SOCKET_ID_ANY,
                                       RTE_MEMPOOL_F_NO_SPREAD | RTE_MEMPOOL_F_NO_IOVA_CONTIG);
    if (mempool == NULL)
        return NULL;
    if (rte_mempool_set_ops_byname(mempool, "linerate", memory) != 0)
        goto failed;
    rte_pktmbuf_pool_init(mempool, &private);
    memory->stride = mempool->header_size + mempool->elt_size + mempool->trailer_size;
    bytes = (uint64_t)memory->stride * frames + RTE_MEMPOOL_ALIGN;
    zone = rte_memzone_reserve_aligned(name, bytes, SOCKET_ID_ANY, 0, RTE_MEMPOOL_ALIGN);
    if (zone == NULL)
        goto failed;
    memory->zone = zone;
    /* No device reads or writes the mbufs themselves, so it does not matter whether they are contiguous for one. */
    if (rte_mempool_populate_iova(mempool, zone->addr, rte_mem_virt2iova(zone->addr), bytes, NULL, NULL) != (int)frames)
        goto failed;
    memory->mempool = mempool;
    if (rte_mempool_obj_iter(mempool, init_mbuf, memory) != frames || memory->stride == 0)
        goto failed;
    return mempool;
failed:
    rte_mempool_free(mempool);
    return NULL;
}

struct ln_memory *ln_memory_new(uint8_t *base, uint64_t bytes, uint32_t frames, uint32_t frame_shift, uint64_t page_bytes,
                                void *store, int (*put)(void *, void *const *, unsigned int),
                                int (*take)(void *, void **, unsigned int))
{
    struct ln_memory *memory = calloc(1, sizeof(*memory));

    if (memory == NULL)
        return NULL;
    memory->base = base;
    memory->bytes = (uint64_t)frames << frame_shift;
    memory->frame_shift = frame_shift;
    memory->store = store;
    memory->put = put;
    memory->take = take;
    memory->page_bytes = page_bytes;
    if (make_mempool(memory, frames) == NULL) {
        rte_memzone_free(memory->zone);
        free(memory);
        return NULL;
    }
    memory->bytes = bytes;
    memory->ready = 1;
    return memory;
}

/* Gives the frames that this thread's cache keeps back to the pool. */
void ln_memory_flush_thread(struct ln_memory *memory)
{
    struct rte_mempool_cache *cache = rte_mempool_default_cache(memory->mempool, rte_lcore_id());

    if (cache != NULL)
        rte_mempool_cache_flush(cache, memory->mempool);
}

/* Nobody uses the memory any more: no device is open on it. */
void ln_memory_free(struct ln_memory *memory)
{
    unsigned int lcore;

    for (lcore = 0; lcore < RTE_MAX_LCORE; lcore++) {
        struct rte_mempool_cache *cache = rte_mempool_default_cache(memory->mempool, lcore);

        if (cache != NULL && cache->len > 0)
            rte_mempool_cache_flush(cache, memory->mempool);
    }
    memory->ready = 0;
    rte_mempool_free(memory->mempool);
    rte_memzone_free(memory->zone);
    if (memory->registered)
        rte_extmem_unregister(memory->base, memory->bytes);
    free(memory);
}
