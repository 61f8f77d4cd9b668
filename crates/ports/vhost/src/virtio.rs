//! Numbers of the virtio specification (version 1.2; sections in brackets) and of the vhost-user protocol that this backend uses.

/// Feature bits (5.1.3, 6).
pub(crate) mod feature {
    /// A packet may go on in further buffers (5.1.6.3.1).
    pub const MERGEABLE_BUFFERS: u64 = 1 << 15;
    /// Several queue pairs (5.1.3).
    pub const MULTIPLE_QUEUES: u64 = 1 << 22;
    /// Descriptors may be laid out in any way (6.1).
    pub const ANY_LAYOUT: u64 = 1 << 27;
    /// Tables of descriptors (2.7.5.3).
    pub const INDIRECT: u64 = 1 << 28;
    /// Notifications by index (2.7.7, 2.7.10).
    pub const EVENT_INDEX: u64 = 1 << 29;
    /// The front-end knows the protocol features of vhost-user.
    pub const PROTOCOL_FEATURES: u64 = 1 << 30;
    /// Not a legacy device (6).
    pub const VERSION_1: u64 = 1 << 32;
    /// Buffers are used in the order in which they were made available (2.7.9).
    pub const IN_ORDER: u64 = 1 << 35;

    /// What this backend does in full. No checksum and no segmentation offload among them: a packet that is forwarded must be
    /// complete.
    pub const OFFERED: u64 =
        MERGEABLE_BUFFERS | ANY_LAYOUT | INDIRECT | EVENT_INDEX | PROTOCOL_FEATURES | VERSION_1 | IN_ORDER;
}

/// Flags of a descriptor (2.7.5).
pub(crate) mod descriptor {
    /// The packet goes on in descriptor `next`.
    pub const NEXT: u16 = 1;
    /// The device writes to the buffer.
    pub const WRITE: u16 = 2;
    /// The buffer is a table of descriptors.
    pub const INDIRECT: u16 = 4;
}

/// Flag of the available ring: the driver wants no interrupts (2.7.7).
pub(crate) const NO_INTERRUPT: u16 = 1;
/// Flag of the used ring: the device wants no notifications (2.7.10).
pub(crate) const NO_NOTIFY: u16 = 1;

/// Bytes of the header in front of each packet (5.1.6), with and without its field `num_buffers`.
pub(crate) const HEADER_BYTES: usize = 12;
/// As above, of a legacy driver without mergeable buffers.
pub(crate) const LEGACY_HEADER_BYTES: usize = 10;

/// Bytes of the header under the features that were agreed on.
pub(crate) fn header_bytes(features: u64) -> usize {
    if features & (feature::VERSION_1 | feature::MERGEABLE_BUFFERS) != 0 { HEADER_BYTES } else { LEGACY_HEADER_BYTES }
}

/// Entries of a split ring at most (2.7).
pub(crate) const RING_SIZE_MAX: u32 = 32768;

/// True when the driver or device asked to be told of an index among those from `old` (not included) to `new` (2.7.7.1).
#[inline]
pub(crate) fn crosses(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_crossed_once() {
        assert!(crosses(5, 6, 5) && !crosses(6, 6, 5) && !crosses(4, 6, 5));
        assert!(crosses(65535, 1, 65534) && crosses(0, 1, 65535) && !crosses(1, 1, 65535));
        assert!(!crosses(3, 7, 7));
    }

    #[test]
    fn the_header_is_short_for_legacy_drivers_only() {
        assert_eq!(header_bytes(0), 10);
        assert_eq!(header_bytes(feature::MERGEABLE_BUFFERS), 12);
        assert_eq!(header_bytes(feature::VERSION_1), 12);
    }
}
