//! Things that happen below the transports, and that programs may want to know.

use core::net::IpAddr;

use linerate_wire::MacAddress;

use crate::neighbour::HopId;

/// Something that happened, from [`Ip::next_event`](crate::Ip::next_event).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The address may be used now.
    AddressReady(IpAddr),
    /// Somebody else has the address; it is not used, or not any more.
    AddressDuplicate(IpAddr, MacAddress),
    /// The address ran out: a lease or a prefix was not renewed.
    AddressLost(IpAddr),
    /// The neighbour does not answer. Packets that were parked for it were dropped.
    NeighbourUnreachable(HopId, IpAddr),
    /// DHCP or a router gave a server of names.
    NameServer(IpAddr),
}
