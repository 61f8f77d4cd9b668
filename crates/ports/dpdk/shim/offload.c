/* What is left to the device on transmit: checksums, and cutting merged TCP packets into segments (TSO). */
#include "slot.h"

#include <netinet/in.h>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_memcpy.h>
#include <rte_tcp.h>
#include <rte_udp.h>

/* Bits of the first 16 bits behind an IPv4 header's identification that fragments have: MF, and the offset. */
#define IPV4_FRAGMENT 0x3fff

static uint16_t be16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

/* Length and flags of the IP header at `bytes`, with its protocol and the length that it says, its own included; 0 if it is of another kind. */
static unsigned int read_ip(const uint8_t *bytes, uint32_t room, uint16_t type, uint64_t *flags, uint8_t *protocol, uint32_t *len)
{
    if (type == RTE_ETHER_TYPE_IPV4 && room >= sizeof(struct rte_ipv4_hdr)) {
        unsigned int header = (bytes[0] & 15) * 4u;

        *flags = RTE_MBUF_F_TX_IPV4;
        *protocol = bytes[9];
        *len = be16(bytes + 2);
        return header >= sizeof(struct rte_ipv4_hdr) && (be16(bytes + 6) & IPV4_FRAGMENT) == 0 ? header : 0;
    }
    if (type == RTE_ETHER_TYPE_IPV6 && room >= sizeof(struct rte_ipv6_hdr)) {
        *flags = RTE_MBUF_F_TX_IPV6;
        *protocol = bytes[6];
        *len = sizeof(struct rte_ipv6_hdr) + be16(bytes + 4);
        return sizeof(struct rte_ipv6_hdr);
    }
    return 0;
}

/* Leaves the partial checksum of a packet to the device. Returns 0 if it has to be completed before: the device does not compute it, headers lie in
 * several mbufs, or bytes follow behind the IP packet, which some devices would add. */
int ln_leave_checksum(uint8_t offloads, struct rte_mbuf *mbuf)
{
    const uint8_t *bytes = rte_pktmbuf_mtod(mbuf, const uint8_t *);
    uint32_t room = mbuf->data_len, l2 = RTE_ETHER_HDR_LEN, ip_len;
    unsigned int l3, l4;
    uint64_t flags;
    uint8_t protocol;
    uint16_t type;

    if (room < l2)
        return 0;
    type = be16(bytes + 12);
    while ((type == RTE_ETHER_TYPE_VLAN || type == RTE_ETHER_TYPE_QINQ) && l2 < 22 && room >= l2 + RTE_VLAN_HLEN) {
        type = be16(bytes + l2 + 2);
        l2 += RTE_VLAN_HLEN;
    }
    l3 = read_ip(bytes + l2, room - l2, type, &flags, &protocol, &ip_len);
    if (l3 == 0 || l2 + ip_len != mbuf->pkt_len)
        return 0;
    if (protocol == IPPROTO_TCP && (offloads & LN_TX_TCP) != 0) {
        if (room < l2 + l3 + sizeof(struct rte_tcp_hdr))
            return 0;
        l4 = (bytes[l2 + l3 + 12] >> 4) * 4u;
        flags |= RTE_MBUF_F_TX_TCP_CKSUM;
    } else if (protocol == IPPROTO_UDP && (offloads & LN_TX_UDP) != 0) {
        l4 = sizeof(struct rte_udp_hdr);
        flags |= RTE_MBUF_F_TX_UDP_CKSUM;
    } else {
        return 0;
    }
    if (l4 < sizeof(struct rte_udp_hdr) || room < l2 + l3 + l4)
        return 0;
    mbuf->tx_offload = 0;
    mbuf->l2_len = l2;
    mbuf->l3_len = l3;
    mbuf->l4_len = l4;
    mbuf->ol_flags |= flags;
    return 1;
}

/* Sends one packet that the device cuts into segments with `size` bytes of data; returns whether it went. */
static int transmit_merged(struct ln_queue *queue, struct rte_mbuf *packet, unsigned int ip_len, unsigned int headers_len, unsigned int size)
{
    packet->tx_offload = 0;
    packet->l2_len = RTE_ETHER_HDR_LEN;
    packet->l3_len = ip_len;
    packet->l4_len = headers_len - RTE_ETHER_HDR_LEN - ip_len;
    packet->tso_segsz = size;
    packet->ol_flags = RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_TCP_CKSUM;
    if (ip_len == sizeof(struct rte_ipv6_hdr))
        packet->ol_flags |= RTE_MBUF_F_TX_IPV6;
    else
        packet->ol_flags |= RTE_MBUF_F_TX_IPV4 | ((queue->offloads & LN_TX_IPV4) != 0 ? RTE_MBUF_F_TX_IP_CKSUM : 0);
    return rte_eth_tx_prepare(queue->port, queue->queue, &packet, 1) == 1
           && rte_eth_tx_burst(queue->port, queue->queue, &packet, 1) == 1;
}

/* Sends `slots` TCP segments as one packet: the first has the merged packet's headers in front of its data, the others lose theirs. Returns whether
 * it went; else nothing but the bytes of the headers has changed. */
int ln_transmit_merged(struct ln_queue *queue, const uint64_t *segments, unsigned int slots, unsigned int ip_len, unsigned int headers_len,
                       unsigned int size)
{
    uint64_t words[LN_MERGED];
    unsigned int i;
    uint32_t len;

    if (slots > LN_MERGED)
        return 0;
    words[0] = segments[0];
    len = (uint16_t)segments[0];
    for (i = 1; i < slots; i++) {
        words[i] = segments[i] + ((uint64_t)headers_len << 16) - headers_len;
        len += (uint16_t)words[i];
    }
    if (transmit_merged(queue, chain_mbufs(queue, words, slots, len), ip_len, headers_len, size))
        return 1;
    unchain_mbufs(queue, words, slots);
    return 0;
}

/* As ln_transmit_merged, with a copy of each segment into an mbuf of the device's own memory. */
int ln_transmit_merged_copy(struct ln_queue *queue, const uint64_t *segments, unsigned int slots, unsigned int ip_len,
                            unsigned int headers_len, unsigned int size)
{
    struct rte_mbuf *mbufs[LN_MERGED];
    uint32_t total = 0;
    unsigned int i;

    if (slots > LN_MERGED || rte_pktmbuf_alloc_bulk(queue->mempool, mbufs, slots) != 0)
        return 0;
    for (i = 0; i < slots; i++) {
        unsigned int skipped = i == 0 ? 0 : headers_len;
        uint16_t len = (uint16_t)((uint16_t)segments[i] - skipped);
        char *room = rte_pktmbuf_append(mbufs[i], len);

        if (room == NULL) {
            rte_pktmbuf_free_bulk(mbufs, slots);
            return 0;
        }
        rte_memcpy(room, frame_of(queue, segments[i]) + skipped, len);
        total += len;
    }
    for (i = 1; i < slots; i++)
        mbufs[i - 1]->next = mbufs[i];
    mbufs[0]->nb_segs = (uint16_t)slots;
    mbufs[0]->pkt_len = total;
    if (transmit_merged(queue, mbufs[0], ip_len, headers_len, size))
        return 1;
    rte_pktmbuf_free(mbufs[0]);
    return 0;
}
