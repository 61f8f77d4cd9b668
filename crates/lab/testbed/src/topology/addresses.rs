//! Addresses, neighbours and routes of a path.

use std::net::{IpAddr, Ipv4Addr};

use super::links::{GENERATOR_LINK, LINK_PREFIX_LEN, LINK_PREFIX_LEN_6, LinkAddresses, RECEIVER_LINK};
use super::{Dut, Interface, Side, TopologyError, TopologySpec};
use crate::netlink::{Neighbour, Netlink, Route};
use crate::prefixes::{self, Range};

/// Address, next hop and routes of a tester's side, for what its own stack sends: of IPv4 alone.
pub(super) fn address_outer(
    side: &Side,
    link: LinkAddresses,
    next_hop_mac: [u8; 6],
    reached: (Ipv4Addr, Ipv4Addr),
) -> Result<(), TopologyError> {
    let interface = side.interface.index;
    let mut netlink = Netlink::open_in(&side.namespace)?;
    netlink.add_address(interface, link.outer, LINK_PREFIX_LEN)?;
    netlink.set_neighbour(Neighbour { interface, address: link.dut.into(), mac: next_hop_mac })?;
    add_routes(&mut netlink, Range::V4(reached.0, reached.1), link.dut.into(), interface)
}

/// Addresses, neighbours and routes of the router.
pub(super) fn address_dut(dut: &Dut, spec: &TopologySpec) -> Result<(), TopologyError> {
    let mut netlink = Netlink::open_in(&dut.namespace)?;
    for (interface, link, _) in links(dut, spec) {
        netlink.add_address(interface.index, link.dut, LINK_PREFIX_LEN)?;
        if spec.ipv6.is_some() {
            netlink.add_address(interface.index, link.dut6, LINK_PREFIX_LEN_6)?;
        }
    }
    direct_flows(dut, spec)
}

/// Neighbours and routes of the router, which an interface that goes down loses; its addresses stay.
pub(super) fn direct_flows(dut: &Dut, spec: &TopologySpec) -> Result<(), TopologyError> {
    let mut netlink = Netlink::open_in(&dut.namespace)?;
    for (interface, link, reached) in links(dut, spec) {
        let interface = interface.index;
        for range in reached {
            let gateway = match range {
                Range::V4(..) => IpAddr::from(link.outer),
                Range::V6(..) => link.outer6.into(),
            };
            netlink.set_neighbour(Neighbour { interface, address: gateway, mac: link.nobody_mac })?;
            add_routes(&mut netlink, range, gateway, interface)?;
        }
    }
    Ok(())
}

/// A link with the ranges of addresses behind it.
type RoutedLink<'a> = (&'a Interface, LinkAddresses, Vec<Range>);

fn links<'a>(dut: &'a Dut, spec: &TopologySpec) -> [RoutedLink<'a>; 2] {
    let [sources, destinations] = spec.ranges();
    [(&dut.ingress, GENERATOR_LINK, sources), (&dut.egress, RECEIVER_LINK, destinations)]
}

fn add_routes(netlink: &mut Netlink, range: Range, gateway: IpAddr, interface: u32) -> Result<(), TopologyError> {
    for (network, prefix_len) in prefixes::cover_range(range) {
        netlink.add_route(Route { network, prefix_len, gateway, interface })?;
    }
    Ok(())
}
