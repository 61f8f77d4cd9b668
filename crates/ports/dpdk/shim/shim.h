/* What the crate asks of libdpdk, in a form that does not change with its version: src/sys.rs declares the same. */
#ifndef LINERATE_DPDK_SHIM_H
#define LINERATE_DPDK_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

/* Packets that one call of a driver moves, at most. */
#define LN_BURST 64

/* Bits of a slot's word, as crates/base/mem/src/slot.rs lays it out. */
#define LN_MORE (UINT64_C(1) << 56)
#define LN_PARTIAL (UINT64_C(1) << 57)
#define LN_VERIFIED (UINT64_C(1) << 58)

/* Bits of `offloads`: checksums that a device computes on transmit, and cutting of merged TCP packets. */
#define LN_TX_UDP 1
#define LN_TX_TCP 2
#define LN_TX_IPV4 4
#define LN_TX_TSO 8
/* TCP segments that are sent as one packet, at most. */
#define LN_MERGED 24

/* Frames of a pool as mbufs: mbuf N describes frame N for good. */
struct ln_memory {
    uint8_t *base;              /* first byte of frame 0 */
    uint64_t bytes;             /* of all frames */
    uint8_t *mbufs;             /* mbuf of frame 0 */
    struct rte_mempool *mempool;
    uint32_t stride;            /* bytes from one mbuf to the next */
    uint32_t frame_shift;       /* log2 of the bytes of a frame */
    void *store;                /* where free frames come from and go to */
    int (*put)(void *store, void *const *mbufs, unsigned int count);
    int (*take)(void *store, void **mbufs, unsigned int count);
    int ready;                  /* false while the mempool is made and while it is freed */
    const void *zone;
    uint64_t page_bytes;
    int registered;             /* as external memory, for hardware; net_virtio_user does not work beside such memory */
};

/* One queue pair. The first line is what a burst needs. */
struct ln_queue {
    uint8_t *base;
    uint64_t bytes;
    uint8_t *mbufs;
    uint32_t stride;
    uint32_t frame_shift;
    struct rte_mempool *mempool; /* of the frames; of the device's own mbufs if all packets are copied */
    uint16_t port;
    uint16_t queue;
    uint8_t frags_max;
    uint8_t rx_flags;           /* the driver says something about checksums of received packets */
    uint8_t verifies;           /* the device is hardware, whose word on checksums is believed */
    uint8_t offloads;           /* LN_TX_... */
    uint32_t len_max;
    uint32_t held;              /* mbufs in `holding` that wait for room */
    uint64_t moved_bytes;       /* bytes of the packets that the last call moved */
    /* Totals of what was received and could not be handed out. */
    uint64_t foreign;           /* packets of other memory, that found no frame */
    uint64_t too_long;          /* packets of more segments than the batch has slots */
    uint32_t not_left;          /* the last call stopped at a packet whose partial checksum cannot be left to the device */
    struct rte_mbuf *holding[LN_BURST];
} __rte_cache_aligned;

int ln_eal_start(int argc, char **argv);
void ln_log_take(char *text, size_t size);
int ln_thread_register(void);
void ln_thread_unregister(void);

struct ln_memory *ln_memory_new(uint8_t *base, uint64_t bytes, uint32_t frames, uint32_t frame_shift, uint64_t page_bytes,
                                void *store, int (*put)(void *, void *const *, unsigned int),
                                int (*take)(void *, void **, unsigned int));
void ln_memory_flush_thread(struct ln_memory *memory);
void ln_memory_free(struct ln_memory *memory);

unsigned int ln_receive(struct ln_queue *queue, uint64_t *words, unsigned int room, unsigned int *packets);
unsigned int ln_receive_copy(struct ln_queue *queue, uint64_t *words, unsigned int room, unsigned int *packets);
unsigned int ln_hand_on(struct ln_queue *from, struct ln_queue *to);
unsigned int ln_transmit(struct ln_queue *queue, const uint64_t *words, unsigned int count, unsigned int *packets);
unsigned int ln_transmit_copy(struct ln_queue *queue, const uint64_t *words, unsigned int count, unsigned int *packets);
int ln_transmit_merged(struct ln_queue *queue, const uint64_t *segments, unsigned int slots, unsigned int ip_len, unsigned int headers_len,
                       unsigned int size);
int ln_transmit_merged_copy(struct ln_queue *queue, const uint64_t *segments, unsigned int slots, unsigned int ip_len,
                            unsigned int headers_len, unsigned int size);
int ln_leave_checksum(uint8_t offloads, struct rte_mbuf *mbuf);
/* How a device is to be opened. */
struct ln_request {
    const char *name;           /* of the device: net_null0, 0000:01:00.0 */
    const char *devargs;        /* name and the options of the driver */
    uint16_t queues;            /* queue pairs */
    uint16_t descriptors;       /* of each ring; 0 for the driver's own choice */
    uint16_t mtu;               /* 0 for the driver's own */
    uint8_t promiscuous;        /* 0 no, 1 yes, 2 as the driver has it */
    uint8_t symmetric;          /* the RSS key spreads both directions of a flow alike */
    uint32_t link_wait_ms;
    uint32_t copy_frames;       /* mbufs of the device's own memory, if packets are copied */
    uint32_t copy_room;         /* bytes of each */
    struct ln_memory *memory;
};

/* What was opened. */
struct ln_device {
    uint16_t port;
    uint16_t queues;
    uint16_t mtu;
    uint16_t max_queues;
    uint32_t speed_mbps;        /* UINT32_MAX: unknown */
    uint8_t mac[6];
    uint8_t link_up;
    uint8_t is_hardware;        /* it stands on a bus, not on software */
    uint8_t multi_segment;      /* it sends packets of several mbufs */
    uint8_t scatters;           /* it receives them */
    uint8_t copies;             /* packets are copied into mbufs of the device's own memory */
    uint8_t rss;
    uint8_t dma_mapped;
    uint8_t offloads;           /* LN_TX_... */
    uint8_t rx_flags;           /* it says something about checksums of received packets */
    uint8_t merged_max;         /* segments in a packet that the device cuts, at most */
    char driver[48];
    struct rte_mempool *mempool; /* of the device's own mbufs */
    struct rte_device *device;
    const char *step;           /* what failed */
};

int ln_device_open(const struct ln_request *request, struct ln_device *device);
void ln_device_close(struct ln_device *device, const struct ln_memory *memory);
int ln_device_link(uint16_t port);
int ln_device_removed(uint16_t port);
int ln_device_statistics(uint16_t port, uint64_t *values, char (*names)[64], unsigned int most);

unsigned int ln_queue_poll(struct ln_queue *queue);
void ln_queue_drain(struct ln_queue *queue, unsigned int most);

#endif
