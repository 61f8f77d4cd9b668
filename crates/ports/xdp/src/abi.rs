//! The kernel's interface to AF_XDP, as far as `libc` does not name it, in the types of this backend.
//!
//! Source: Linux `include/uapi/linux/if_xdp.h`, `Documentation/networking/af_xdp.rst`.

/// `setsockopt` level of AF_XDP sockets.
pub(crate) const SOL_XDP: libc::c_int = libc::SOL_XDP;

/// `XDP_MAX_TX_SKB_BUDGET` (Linux 6.17 and later): packets that one `sendto` may send in copy mode; 32 unless set.
pub(crate) const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// Time for which a call that may sleep polls the device, in microseconds. Calls of this backend do not sleep; the kernel wants it above 0.
pub(crate) const BUSY_POLL_US: libc::c_int = 20;

/// `XDP_PACKET_HEADROOM`: bytes that the kernel keeps free at the start of each chunk that it receives into.
pub(crate) const RECEIVE_HEADROOM: usize = 256;

/// `XDP_UMEM_MIN_CHUNK_SIZE`: least size of a chunk; the most is a page.
pub(crate) const CHUNK_BYTES_MIN: usize = 2048;
pub(crate) const CHUNK_BYTES_MAX: usize = 4096;

/// Descriptor option: the packet goes on in the next descriptor.
pub(crate) const PACKET_CONTINUES: u32 = libc::XDP_PKT_CONTD;

/// Ring flag: the kernel sleeps until it is told that there is something in the ring.
pub(crate) const NEED_WAKEUP: u32 = libc::XDP_RING_NEED_WAKEUP;

/// Most descriptors of one packet in copy mode: one in the linear part of the skb and `MAX_SKB_FRAGS` (17) pages, of which
/// the kernel leaves one unused.
pub(crate) const SEGMENTS_MAX: usize = 17;

/// The four rings of a socket.
///
/// ```text
///   fill        u64 address          this process -> kernel   frames to receive into
///   receive     address, len, opt    kernel -> this process   what arrived
///   transmit    address, len, opt    this process -> kernel   what to send
///   completion  u64 address          kernel -> this process   frames that have been sent
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingKind {
    Fill,
    Receive,
    Transmit,
    Completion,
}

impl RingKind {
    /// The socket option that makes the ring.
    pub(crate) fn option(self) -> libc::c_int {
        match self {
            RingKind::Fill => libc::XDP_UMEM_FILL_RING,
            RingKind::Receive => libc::XDP_RX_RING,
            RingKind::Transmit => libc::XDP_TX_RING,
            RingKind::Completion => libc::XDP_UMEM_COMPLETION_RING,
        }
    }

    /// The offset of `mmap` that stands for the ring.
    pub(crate) fn page_offset(self) -> libc::off64_t {
        match self {
            RingKind::Fill => libc::XDP_UMEM_PGOFF_FILL_RING as libc::off64_t,
            RingKind::Receive => libc::XDP_PGOFF_RX_RING as libc::off64_t,
            RingKind::Transmit => libc::XDP_PGOFF_TX_RING as libc::off64_t,
            RingKind::Completion => libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off64_t,
        }
    }

    /// The ring's part of what `XDP_MMAP_OFFSETS` answers.
    pub(crate) fn layout(self, offsets: &libc::xdp_mmap_offsets) -> libc::xdp_ring_offset {
        match self {
            RingKind::Fill => offsets.fr,
            RingKind::Receive => offsets.rx,
            RingKind::Transmit => offsets.tx,
            RingKind::Completion => offsets.cr,
        }
    }
}

/// A packet, or a part of one, in a receive or transmit ring (`struct xdp_desc`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// First byte, counted from the start of the UMEM.
    pub(crate) address: u64,
    /// Bytes.
    pub(crate) len: u32,
    /// [`PACKET_CONTINUES`] or 0.
    pub(crate) options: u32,
}

#[cfg(test)]
mod tests {
    #[test]
    fn structures_have_the_kernels_sizes() {
        assert_eq!(size_of::<libc::sockaddr_xdp>(), 16);
        assert_eq!(size_of::<libc::xdp_mmap_offsets>(), 128);
        assert_eq!(size_of::<libc::xdp_statistics>(), 48);
        assert_eq!(size_of::<libc::xdp_umem_reg>(), 32);
    }
}
