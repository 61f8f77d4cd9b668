//! What became of every frame.

linerate_measure::named! {
    /// Why a frame was dropped.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[repr(u8)]
    pub enum DropReason {
        /// The frame is shorter than its headers say.
        Truncated = "truncated",
        /// The frame is of another VLAN.
        Vlan = "other-vlan",
        /// The frame is for another MAC address.
        OtherMac = "other-mac",
        /// The frame's source is a group's MAC address, or our own.
        SourceMac = "source-mac",
        /// The EtherType is none of IPv4, IPv6 and ARP, or of a family that is switched off.
        EtherType = "ethertype",
        /// A field of a header has a value that the standard does not allow.
        Malformed = "malformed",
        /// The checksum of the IPv4 header is wrong.
        HeaderChecksum = "header-checksum",
        /// The checksum of TCP, UDP or ICMP is wrong, or absent where it may not be.
        TransportChecksum = "transport-checksum",
        /// No host can have the source address, or it is one of ours.
        SourceAddress = "source-address",
        /// The destination is none of our addresses.
        OtherAddress = "other-address",
        /// The destination is one of our addresses, but is not to be used yet (duplicate detection), or any more.
        NotReady = "address-not-ready",
        /// A unicast packet came in a broadcast frame (RFC 1122 section 3.3.6).
        LinkBroadcast = "unicast-in-broadcast",
        /// The packet has a source route.
        SourceRoute = "source-route",
        /// An option or extension header is not known, and says that the packet must then be dropped.
        Option = "option",
        /// No transport of that number is here.
        Protocol = "unknown-protocol",
        /// A fragment that was refused: it overlaps another one, or its lengths do not fit.
        Fragment = "fragment",
        /// ARP for other addresses, or with addresses that no host can have.
        Arp = "arp",
        /// An ICMP message of no use to a host.
        Icmp = "icmp",
        /// A neighbour discovery message that fails a check of RFC 4861.
        NeighbourDiscovery = "neighbour-discovery",
        /// A redirect that is refused.
        Redirect = "redirect",
        /// An ICMP error that quotes no packet of ours.
        IcmpQuote = "icmp-quote",
        /// A DHCP message that is none of our exchange.
        Dhcp = "dhcp",
    }
}

/// Counts of frames. Each frame that was received is delivered, handled or dropped:
/// `received = delivered_tcp + delivered_udp + delivered_errors + handled + the sum of dropped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that came in, those of the fast path included.
    pub received: u64,
    /// Frames that held, or completed, a segment for TCP.
    pub delivered_tcp: u64,
    /// Frames that held, or completed, a datagram for UDP.
    pub delivered_udp: u64,
    /// Frames with an ICMP error about a packet of ours.
    pub delivered_errors: u64,
    /// Frames for this layer: ARP, ICMP, neighbour discovery, DHCP, fragments that are kept.
    pub handled: u64,
    /// Frames that were dropped, by the number of the reason.
    pub dropped: [u64; DropReason::COUNT],
    /// Frames that this layer sent on its own: requests, answers, errors, parked packets.
    pub sent: u64,
    /// Frames that this layer could not send, because the batch or the pool had no room.
    pub send_failed: u64,
    /// Packets that were parked for a neighbour.
    pub parked: u64,
    /// Parked packets that left.
    pub parked_sent: u64,
    /// Parked packets that were dropped: a newer one came, the neighbour did not answer, or there was no room.
    pub parked_dropped: u64,
    /// Neighbours that made room for others.
    pub neighbours_evicted: u64,
    /// Neighbours that were not taken, because all others were in use.
    pub neighbours_refused: u64,
    /// ICMP errors that the rate limits held back.
    pub errors_limited: u64,
}

impl Counters {
    /// Frames dropped because of `reason`.
    pub fn dropped_by(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }

    /// Frames dropped for any reason.
    pub fn dropped_all(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// True if every frame that was received is accounted for once.
    pub fn balance(&self) -> bool {
        let delivered = self.delivered_tcp + self.delivered_udp + self.delivered_errors;
        self.received == delivered + self.handled + self.dropped_all()
    }
}
