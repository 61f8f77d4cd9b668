/* The packet path: one call from Rust for all packets of a batch, one call of the driver for each 64 of them. */
#include "slot.h"

#include <rte_memcpy.h>
#include <rte_prefetch.h>

static inline uint64_t rearm_data(const struct rte_mbuf *mbuf)
{
    uint64_t bits;

    memcpy(&bits, &mbuf->rearm_data, sizeof(bits));
    return bits;
}

/* What the driver says about the checksum of a packet, as flags of its first slot. "None" stands for one that its sender left to others
 * (RTE_MBUF_F_RX_L4_CKSUM_NONE), as virtio has it of a kernel at its far side. */
static inline uint64_t checksum_flags(const struct ln_queue *queue, const struct rte_mbuf *mbuf)
{
    uint64_t said = mbuf->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;

    if (said == RTE_MBUF_F_RX_L4_CKSUM_GOOD && queue->verifies)
        return LN_VERIFIED;
    return said == RTE_MBUF_F_RX_L4_CKSUM_NONE ? LN_PARTIAL : 0;
}

/* Hands out a copy of a packet whose mbufs are not frames of this pool, or have other owners, too; returns the number of its slots. */
static unsigned int receive_foreign(struct ln_queue *queue, struct rte_mbuf *packet, uint64_t *words, unsigned int *packets)
{
    struct rte_mbuf *copy = rte_pktmbuf_alloc(queue->mempool);
    uint32_t len = rte_pktmbuf_pkt_len(packet);
    unsigned int slots = 0;

    if (copy != NULL && len <= rte_pktmbuf_tailroom(copy)) {
        char *room = rte_pktmbuf_append(copy, (uint16_t)len);
        const void *bytes = rte_pktmbuf_read(packet, 0, len, room);

        if (bytes != NULL && bytes != room)
            rte_memcpy(room, bytes, len);
        words[0] = (uint64_t)((uint8_t *)copy->buf_addr - queue->base) << (32 - queue->frame_shift)
                   | (uint64_t)copy->data_off << 16 | len | checksum_flags(queue, packet);
        queue->moved_bytes += len;
        (*packets)++;
        slots = 1;
    } else {
        queue->foreign++;
        rte_pktmbuf_free(copy);
    }
    rte_pktmbuf_free(packet);
    return slots;
}

/* Hands out a packet that is not one mbuf of this pool alone; there is room for its slots. Returns their number: 0 for a packet that is
 * dropped and counted. */
static unsigned int receive_unusual(struct ln_queue *queue, struct rte_mbuf *first, uint64_t *words, unsigned int *packets)
{
    struct rte_mbuf *mbuf, *next;
    unsigned int slots = 0;

    if (first->nb_segs > queue->frags_max) {
        queue->too_long++;
        rte_pktmbuf_free(first);
        return 0;
    }
    for (mbuf = first; mbuf != NULL; mbuf = mbuf->next) {
        uint64_t offset = (uint64_t)((uint8_t *)mbuf->buf_addr - queue->base);

        if (offset >= queue->bytes || rte_mbuf_refcnt_read(mbuf) != 1
            || (uint32_t)mbuf->data_off + mbuf->data_len > 1u << queue->frame_shift) {
            return receive_foreign(queue, first, words, packets);
        }
    }
    for (mbuf = first; mbuf != NULL; mbuf = next) {
        uint64_t offset = (uint64_t)((uint8_t *)mbuf->buf_addr - queue->base);

        next = mbuf->next;
        words[slots] = offset << (32 - queue->frame_shift) | (uint64_t)mbuf->data_off << 16 | mbuf->data_len;
        if (mbuf == first)
            words[slots] |= checksum_flags(queue, mbuf);
        if (next != NULL)
            words[slots] |= LN_MORE;
        queue->moved_bytes += mbuf->data_len;
        mbuf->next = NULL;
        mbuf->nb_segs = 1;
        slots++;
    }
    (*packets)++;
    return slots;
}

/* Turns mbufs into slots; those for which there is no room are held. */
static unsigned int hand_out(struct ln_queue *queue, struct rte_mbuf **mbufs, unsigned int count, uint64_t *words,
                             unsigned int room, unsigned int *packets)
{
    uint8_t *base = queue->base;
    uint64_t total = queue->bytes, bytes = 0;
    unsigned int shift = 32 - queue->frame_shift, slots = 0, plain = 0, i;
    uint32_t frame = 1u << queue->frame_shift;
    uint8_t has_flags = queue->rx_flags;

    for (i = 0; i < count; i++) {
        struct rte_mbuf *mbuf = mbufs[i];
        uint64_t offset = (uint64_t)((uint8_t *)mbuf->buf_addr - base), rearm = rearm_data(mbuf);
        uint32_t len = mbuf->data_len, start = (uint16_t)rearm;

        if (unlikely(slots + mbuf->nb_segs > room && mbuf->nb_segs <= queue->frags_max))
            break;
        if (unlikely((rearm & SHAPE) != PLAIN || offset >= total || start + len > frame)) {
            slots += receive_unusual(queue, mbuf, words + slots, packets);
            continue;
        }
        words[slots] = offset << shift | (uint64_t)start << 16 | len;
        if (unlikely(has_flags))
            words[slots] |= checksum_flags(queue, mbuf);
        bytes += len;
        slots++;
        plain++;
    }
    queue->moved_bytes += bytes;
    *packets += plain;
    queue->held = count - i;
    if (unlikely(i < count))
        memmove(queue->holding, mbufs + i, (count - i) * sizeof(*mbufs));
    return slots;
}

unsigned int ln_receive(struct ln_queue *queue, uint64_t *words, unsigned int room, unsigned int *packets)
{
    struct rte_mbuf *mbufs[LN_BURST];
    unsigned int slots = 0;

    queue->moved_bytes = 0;
    *packets = 0;
    if (unlikely(queue->held > 0)) {
        slots = hand_out(queue, queue->holding, queue->held, words, room, packets);
        if (queue->held > 0)
            return slots;
    }
    while (slots < room) {
        unsigned int wanted = RTE_MIN(room - slots, (unsigned int)LN_BURST);
        unsigned int count = rte_eth_rx_burst(queue->port, queue->queue, mbufs, wanted);

        slots += hand_out(queue, mbufs, count, words + slots, room - slots, packets);
        if (count < wanted || queue->held > 0)
            break;
    }
    return slots;
}

/* The bytes of a packet's last byte and of all before it in one word after the other; its slots, or 0 if it is not whole. */
static unsigned int span_of(const uint64_t *words, unsigned int count, uint32_t *len)
{
    unsigned int slots = 0;
    uint32_t sum = 0;

    while (slots < count) {
        uint64_t word = words[slots++];

        sum += (uint16_t)word;
        if ((word & LN_MORE) == 0) {
            *len = sum;
            return slots;
        }
    }
    return 0;
}

/* Sends one packet of several frames; returns whether it went. */
static int transmit_chain(struct ln_queue *queue, const uint64_t *words, unsigned int slots, uint32_t len)
{
    struct rte_mbuf *packet = chain_mbufs(queue, words, slots, len);
    int is_ready = 1;

    if (unlikely((words[0] & LN_PARTIAL) != 0)) {
        is_ready = ln_leave_checksum(queue->offloads, packet)
                   && rte_eth_tx_prepare(queue->port, queue->queue, &packet, 1) == 1;
        queue->not_left = !is_ready;
    }
    if (is_ready && rte_eth_tx_burst(queue->port, queue->queue, &packet, 1) == 1)
        return 1;
    unchain_mbufs(queue, words, slots);
    return 0;
}

/* Leaves the partial checksums among some packets to the device; returns how many packets from the first on can be sent so. */
static __rte_noinline unsigned int leave_checksums(struct ln_queue *queue, struct rte_mbuf **mbufs, const uint64_t *words, unsigned int count)
{
    unsigned int ready, i;

    for (i = 0; i < count; i++)
        if ((words[i] & LN_PARTIAL) != 0 && !ln_leave_checksum(queue->offloads, mbufs[i]))
            break;
    ready = rte_eth_tx_prepare(queue->port, queue->queue, mbufs, (uint16_t)i);
    queue->not_left = ready < count;
    return ready;
}

/* Sends slots from the front of `words`; returns how many the driver took. Partial checksums are left to the device. At a packet for which that is
 * impossible it stops, and sets `not_left`: they have to be completed. */
unsigned int ln_transmit(struct ln_queue *queue, const uint64_t *words, unsigned int count, unsigned int *packets)
{
    struct rte_mbuf *mbufs[LN_BURST];
    uint32_t len_max = queue->len_max;
    unsigned int taken = 0, plain = 0;

    queue->moved_bytes = 0;
    *packets = 0;
    queue->not_left = 0;
    while (taken < count && !queue->not_left) {
        unsigned int wanted = RTE_MIN(count - taken, (unsigned int)LN_BURST), made, sent, i;
        uint64_t bytes = 0;
        int is_partial = 0;

        for (made = 0; made < wanted; made++) {
            uint64_t word = words[taken + made];

            if (unlikely((word & (LN_MORE | LN_PARTIAL)) != 0 || (uint16_t)word > len_max)) {
                if ((word & LN_MORE) != 0 || (uint16_t)word > len_max)
                    break;
                is_partial = 1;
            }
            mbufs[made] = mbuf_of(queue, word);
            set_mbuf(mbufs[made], word);
            bytes += (uint16_t)word;
        }
        if (unlikely(is_partial)) {
            unsigned int ready = leave_checksums(queue, mbufs, words + taken, made);

            for (i = ready; i < made; i++)
                bytes -= (uint16_t)words[taken + i];
            made = ready;
            if (made == 0)
                break;
        }
        if (unlikely(made == 0)) {
            uint32_t len;
            unsigned int slots = span_of(words + taken, count - taken, &len);

            if (slots == 0 || slots > queue->frags_max || len > len_max || !transmit_chain(queue, words + taken, slots, len))
                break;
            queue->moved_bytes += len;
            taken += slots;
            (*packets)++;
            continue;
        }
        sent = rte_eth_tx_burst(queue->port, queue->queue, mbufs, (uint16_t)made);
        for (i = sent; unlikely(i < made); i++)
            bytes -= (uint16_t)words[taken + i];
        queue->moved_bytes += bytes;
        taken += sent;
        plain += sent;
        if (sent < made)
            break;
    }
    *packets += plain;
    return taken;
}

/* As ln_receive, for mbufs of the device's own memory: `words` are `room` free slots, which packets are copied into. Each packet takes
 * as few of them as hold it. Returns the number of slots written. */
unsigned int ln_receive_copy(struct ln_queue *queue, uint64_t *words, unsigned int room, unsigned int *packets)
{
    unsigned int slots = 0, at, count;

    queue->moved_bytes = 0;
    *packets = 0;
    if (queue->held == 0)
        queue->held = rte_eth_rx_burst(queue->port, queue->queue, queue->holding, RTE_MIN(room, (unsigned int)LN_BURST));
    count = queue->held;
    for (at = 0; at < count; at++) {
        struct rte_mbuf *mbuf = queue->holding[at];
        uint32_t len = rte_pktmbuf_pkt_len(mbuf), copied = 0;
        unsigned int needed = 0, i;

        if (slots < room)
            needed = len == 0 ? 1 : (len + (uint16_t)words[slots] - 1) / (uint16_t)words[slots];
        if (needed == 0 || (slots + needed > room && needed <= queue->frags_max))
            break;
        if (needed > queue->frags_max) {
            queue->too_long++;
            rte_pktmbuf_free(mbuf);
            continue;
        }
        for (i = 0; i < needed; i++, slots++) {
            uint32_t part = RTE_MIN(len - copied, (uint32_t)(uint16_t)words[slots]);
            uint8_t *frame = frame_of(queue, words[slots]);
            const void *bytes = rte_pktmbuf_read(mbuf, copied, part, frame);

            if (bytes != NULL && bytes != frame)
                rte_memcpy(frame, bytes, part);
            words[slots] = (words[slots] & ~UINT64_C(0xffff)) | part | (i + 1 < needed ? LN_MORE : 0);
            if (i == 0)
                words[slots] |= checksum_flags(queue, mbuf);
            copied += part;
        }
        queue->moved_bytes += len;
        (*packets)++;
        rte_pktmbuf_free(mbuf);
    }
    queue->held = count - at;
    memmove(queue->holding, queue->holding + at, queue->held * sizeof(*queue->holding));
    return slots;
}

/* As ln_transmit, with a copy of each packet into mbufs of the device's own memory. */
unsigned int ln_transmit_copy(struct ln_queue *queue, const uint64_t *words, unsigned int count, unsigned int *packets)
{
    unsigned int taken = 0;

    queue->moved_bytes = 0;
    *packets = 0;
    queue->not_left = 0;
    while (taken < count && !queue->not_left) {
        uint32_t len, lens[LN_BURST];
        unsigned int spans[LN_BURST], made = 0, sent, i, at = taken;
        struct rte_mbuf *mbufs[LN_BURST];

        while (made < LN_BURST && at < count) {
            unsigned int slots = span_of(words + at, count - at, &len);
            struct rte_mbuf *mbuf;

            if (slots == 0 || len > queue->len_max || slots > queue->frags_max)
                break;
            mbuf = rte_pktmbuf_alloc(queue->mempool);
            if (mbuf == NULL)
                break;
            for (i = 0; i < slots; i++) {
                uint64_t word = words[at + i];
                char *room = rte_pktmbuf_append(mbuf, (uint16_t)word);

                if (room == NULL)
                    break;
                rte_memcpy(room, frame_of(queue, word), (uint16_t)word);
            }
            queue->not_left = i == slots && (words[at] & LN_PARTIAL) != 0
                              && (!ln_leave_checksum(queue->offloads, mbuf)
                                  || rte_eth_tx_prepare(queue->port, queue->queue, &mbuf, 1) != 1);
            if (i < slots || queue->not_left) {
                rte_pktmbuf_free(mbuf);
                break;
            }
            mbufs[made] = mbuf;
            lens[made] = len;
            spans[made++] = slots;
            at += slots;
        }
        if (made == 0)
            break;
        sent = rte_eth_tx_burst(queue->port, queue->queue, mbufs, (uint16_t)made);
        for (i = 0; i < sent; i++) {
            taken += spans[i];
            queue->moved_bytes += lens[i];
        }
        *packets += sent;
        if (sent < made) {
            rte_pktmbuf_free_bulk(mbufs + sent, made - sent);
            break;
        }
    }
    return taken;
}

/* Hands packets that have arrived on to another device, unseen; returns how many. Those that it does not take are held. */
unsigned int ln_hand_on(struct ln_queue *from, struct ln_queue *to)
{
    unsigned int count = from->held, sent;

    if (likely(count == 0))
        count = rte_eth_rx_burst(from->port, from->queue, from->holding, LN_BURST);
    if (count == 0)
        return 0;
    sent = rte_eth_tx_burst(to->port, to->queue, from->holding, (uint16_t)count);
    if (unlikely((count - sent) | from->held)) {
        from->held = count - sent;
        memmove(from->holding, from->holding + sent, from->held * sizeof(*from->holding));
    }
    return sent;
}

/* Returns the number of packets that can be received now; they are held until then. */
unsigned int ln_queue_poll(struct ln_queue *queue)
{
    if (queue->held == 0)
        queue->held = rte_eth_rx_burst(queue->port, queue->queue, queue->holding, LN_BURST);
    return queue->held;
}

/* Frees what waits in the receive queue, at most so many packets: rings of software drop mbufs that are in them when they are closed. */
void ln_queue_drain(struct ln_queue *queue, unsigned int most)
{
    struct rte_mbuf *mbufs[LN_BURST];

    rte_pktmbuf_free_bulk(queue->holding, queue->held);
    queue->held = 0;
    while (most > 0) {
        unsigned int count = rte_eth_rx_burst(queue->port, queue->queue, mbufs, RTE_MIN(most, (unsigned int)LN_BURST));

        if (count == 0)
            return;
        rte_pktmbuf_free_bulk(mbufs, count);
        most -= count;
    }
}
