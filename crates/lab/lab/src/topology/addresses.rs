//! Addresses, neighbours and routes of a path.

use std::net::Ipv4Addr;

use super::links::{GENERATOR_LINK, LINK_PREFIX_LEN, LinkAddresses, RECEIVER_LINK};
use super::{Dut, Interface, Side, TopologyError, TopologySpec};
use crate::netlink::{Neighbour, Netlink, Route};
use crate::prefixes;

/// Address, next hop and routes of a tester's side, for what its own stack sends.
pub(super) fn address_outer(
    side: &Side,
    link: LinkAddresses,
    next_hop_mac: [u8; 6],
    reached: (Ipv4Addr, Ipv4Addr),
) -> Result<(), TopologyError> {
    let interface = side.interface.index;
    let mut netlink = Netlink::open_in(&side.namespace)?;
    netlink.add_address(interface, link.outer, LINK_PREFIX_LEN)?;
    netlink.set_neighbour(Neighbour { interface, address: link.dut, mac: next_hop_mac })?;
    add_routes(&mut netlink, reached, link.dut, interface)
}

/// Addresses, neighbours and routes of the router.
pub(super) fn address_dut(dut: &Dut, spec: &TopologySpec) -> Result<(), TopologyError> {
    let mut netlink = Netlink::open_in(&dut.namespace)?;
    for (interface, link, _) in links(dut, spec) {
        netlink.add_address(interface.index, link.dut, LINK_PREFIX_LEN)?;
    }
    direct_flows(dut, spec)
}

/// Neighbours and routes of the router, which an interface that goes down loses; its addresses stay.
pub(super) fn direct_flows(dut: &Dut, spec: &TopologySpec) -> Result<(), TopologyError> {
    let mut netlink = Netlink::open_in(&dut.namespace)?;
    for (interface, link, reached) in links(dut, spec) {
        let interface = interface.index;
        netlink.set_neighbour(Neighbour { interface, address: link.outer, mac: link.nobody_mac })?;
        add_routes(&mut netlink, reached, link.outer, interface)?;
    }
    Ok(())
}

type RoutedLink<'a> = (&'a Interface, LinkAddresses, (Ipv4Addr, Ipv4Addr));

fn links<'a>(dut: &'a Dut, spec: &TopologySpec) -> [RoutedLink<'a>; 2] {
    [(&dut.ingress, GENERATOR_LINK, spec.sources), (&dut.egress, RECEIVER_LINK, spec.destinations)]
}

fn add_routes(
    netlink: &mut Netlink,
    (first, last): (Ipv4Addr, Ipv4Addr),
    gateway: Ipv4Addr,
    interface: u32,
) -> Result<(), TopologyError> {
    for (network, prefix_len) in prefixes::cover(first, last) {
        netlink.add_route(Route { network, prefix_len, gateway, interface })?;
    }
    Ok(())
}
