/* From a slot's word to the mbuf of its frame. */
#ifndef LINERATE_DPDK_SLOT_H
#define LINERATE_DPDK_SLOT_H

#include "shim.h"

#include <string.h>

/* refcnt and nb_segs in the eight bytes of an mbuf that drivers rearm, and their value in an mbuf of one segment. */
#define SHAPE UINT64_C(0x0000ffffffff0000)
#define PLAIN UINT64_C(0x0000000100010000)

static inline struct rte_mbuf *mbuf_of(const struct ln_queue *queue, uint64_t word)
{
    return (struct rte_mbuf *)(queue->mbufs + (uint64_t)((uint32_t)(word >> 32) & 0xffffff) * queue->stride);
}

/* The packet's first byte in its frame. */
static inline uint8_t *frame_of(const struct ln_queue *queue, uint64_t word)
{
    return queue->base + (((uint64_t)((uint32_t)(word >> 32) & 0xffffff)) << queue->frame_shift) + (uint16_t)(word >> 16);
}

static inline void set_mbuf(struct rte_mbuf *mbuf, uint64_t word)
{
    uint64_t rearm = (word >> 16 & 0xffff) | PLAIN | (uint64_t)RTE_MBUF_PORT_INVALID << 48;

    memcpy(&mbuf->rearm_data, &rearm, sizeof(rearm));
    mbuf->ol_flags = 0;
    mbuf->pkt_len = (uint16_t)word;
    mbuf->data_len = (uint16_t)word;
}

/* Makes one packet of the mbufs of several slots; returns its first mbuf. */
static inline struct rte_mbuf *chain_mbufs(const struct ln_queue *queue, const uint64_t *words, unsigned int slots, uint32_t len)
{
    struct rte_mbuf *first = mbuf_of(queue, words[0]), *last = NULL;
    unsigned int i;

    for (i = 0; i < slots; i++) {
        struct rte_mbuf *mbuf = mbuf_of(queue, words[i]);

        set_mbuf(mbuf, words[i]);
        if (last != NULL)
            last->next = mbuf;
        last = mbuf;
    }
    first->nb_segs = (uint16_t)slots;
    first->pkt_len = len;
    return first;
}

/* Takes such a packet apart that was not sent. */
static inline void unchain_mbufs(const struct ln_queue *queue, const uint64_t *words, unsigned int slots)
{
    unsigned int i;

    for (i = 0; i < slots; i++) {
        struct rte_mbuf *mbuf = mbuf_of(queue, words[i]);

        mbuf->next = NULL;
        mbuf->nb_segs = 1;
    }
}

#endif
