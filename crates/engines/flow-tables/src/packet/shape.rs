//! Which headers a packet has, as bits. A match of a field wants the bit of its header, because a header that is absent is not one of zeros.

/// The EtherType behind the tags is one of MPLS, and there is a label stack entry.
pub const MPLS: u32 = 1 << 0;
/// An I-TAG and customer addresses.
pub const PBB: u32 = 1 << 1;
/// ARP for IPv4 over Ethernet.
pub const ARP: u32 = 1 << 2;
/// IPv4 or IPv6.
pub const IP: u32 = 1 << 3;
/// IPv4.
pub const IPV4: u32 = 1 << 4;
/// IPv6.
pub const IPV6: u32 = 1 << 5;
/// TCP, and it is not in a later fragment. So with the others of its layer.
pub const TCP: u32 = 1 << 6;
/// UDP.
pub const UDP: u32 = 1 << 7;
/// SCTP.
pub const SCTP: u32 = 1 << 8;
/// ICMP.
pub const ICMPV4: u32 = 1 << 9;
/// ICMPv6.
pub const ICMPV6: u32 = 1 << 10;
/// A neighbour solicitation or advertisement.
pub const ND: u32 = 1 << 11;
/// The option with the source link-layer address in a neighbour solicitation.
pub const ND_SLL: u32 = 1 << 12;
/// The option with the target link-layer address in a neighbour advertisement.
pub const ND_TLL: u32 = 1 << 13;
/// No packet has this one: for matches that contradict themselves.
pub const NEVER: u32 = 1 << 30;

/// TCP, UDP or SCTP.
pub const PORTS: u32 = TCP | UDP | SCTP;
/// ICMP or ICMPv6.
pub const ICMP: u32 = ICMPV4 | ICMPV6;
/// Headers whose fields lie in the second line of a key.
pub const SECOND_LINE: u32 = IPV6 | ARP;
