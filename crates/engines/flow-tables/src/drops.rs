//! Reasons for which packets, or copies of them, go no further.

linerate_measure::named! {
    /// Why a packet, or a copy of it, went no further. The names are those that users see.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[repr(u8)]
    pub enum DropReason {
        /// The packet is shorter than an Ethernet header, or its last slot is missing.
        Runt = "runt",
        /// The packet lies in several frames, and its headers do not end in the first of them.
        HeadersCut = "headers-cut",
        /// The ingress port is down by its configuration.
        IngressDown = "ingress-down",
        /// The ingress port's configuration says that it receives nothing.
        NoReceive = "no-receive",
        /// The packet arrived by a port that was removed.
        PortRemoved = "port-removed",
        /// The packet is an IP fragment, and the configuration drops these.
        Fragment = "fragment",
        /// A fragment was not put together: others of its packet did not come in time, or do not fit.
        FragmentLost = "fragment-lost",
        /// No entry of a table matched, and the table has no table-miss entry.
        TableMiss = "table-miss",
        /// The entries that matched send the packet nowhere.
        NoOutput = "no-output",
        /// The packet was to leave by the port by which it arrived, without `IN_PORT`.
        Hairpin = "hairpin",
        /// A band of a meter dropped it.
        Meter = "meter",
        /// Its TTL would have become 0.
        InvalidTtl = "invalid-ttl",
        /// An action does not fit the packet, for example a pop without a tag.
        ActionFailed = "action-failed",
        /// The frame has no room for another header.
        NoHeadroom = "no-headroom",
        /// The group does not exist any more.
        NoGroup = "no-group",
        /// No bucket of the group is live, or it has none.
        NoBucket = "no-live-bucket",
        /// The egress port does not exist.
        NoPort = "no-such-port",
        /// The egress port is down by its configuration, or it forwards nothing.
        NoForward = "no-forward",
        /// The egress port has no link.
        LinkDown = "link-down",
        /// The egress queue, or the ring behind it, is full.
        EgressFull = "egress-full",
        /// The packet is longer than the egress port takes.
        TooLong = "too-long",
        /// There is no free frame for a copy.
        NoBuffer = "no-buffer",
        /// The packet was to be copied more often than a packet may.
        TooManyCopies = "too-many-copies",
        /// The queue of packets for the controllers is full.
        ControllerFull = "controller-full",
        /// The ingress port's configuration forbids packet-ins.
        NoPacketIn = "no-packet-in",
        /// A flood found no other port.
        FloodSetEmpty = "flood-set-empty",
        /// The source address of a packet that is forwarded without OpenFlow is a multicast address.
        MulticastSource = "multicast-source",
        /// A packet that is forwarded without OpenFlow is for an address that bridges do not forward to.
        LinkLocal = "link-local",
        /// The port did not take packets for a second or longer.
        Stuck = "stuck",
        /// The packet-out could not be given to a worker, because its queue is full.
        PacketOutFull = "packet-out-full",
    }
}
