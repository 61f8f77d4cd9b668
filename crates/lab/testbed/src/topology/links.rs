//! The veth pairs of a path: their addresses, and how each end is prepared.

use std::net::{Ipv4Addr, Ipv6Addr};

use linerate_sys::netdev::Netdev;

use super::{Interface, TopologyError, TopologySpec, step};
use crate::netlink::{Netlink, VethEnd, VethShape};

/// The generator's interface.
pub const GENERATOR_INTERFACE: &str = "lr-gen";
/// The DUT's interface towards the generator.
pub const INGRESS_INTERFACE: &str = "lr-in";
/// The DUT's interface towards the receiver.
pub const EGRESS_INTERFACE: &str = "lr-out";
/// The receiver's interface.
pub const RECEIVER_INTERFACE: &str = "lr-recv";

/// GRO gives up merging a packet that would grow beyond this, so it never merges. NAPI on a veth needs GRO on.
pub const GRO_SIZE_MAX: u32 = 1;

/// The addresses of the generator's link.
pub const GENERATOR_LINK: LinkAddresses = LinkAddresses {
    outer: Ipv4Addr::new(198, 18, 0, 2),
    dut: Ipv4Addr::new(198, 18, 0, 1),
    outer6: Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2),
    dut6: Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1),
    outer_mac: [0x02, 0x4c, 0x52, 0, 0, 0x02],
    dut_mac: [0x02, 0x4c, 0x52, 0, 0, 0x01],
    nobody_mac: [0x02, 0x4c, 0x52, 0, 0, 0xf2],
};
/// The addresses of the receiver's link.
pub const RECEIVER_LINK: LinkAddresses = LinkAddresses {
    outer: Ipv4Addr::new(198, 18, 1, 2),
    dut: Ipv4Addr::new(198, 18, 1, 1),
    outer6: Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 2),
    dut6: Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 1),
    outer_mac: [0x02, 0x4c, 0x52, 0, 1, 0x02],
    dut_mac: [0x02, 0x4c, 0x52, 0, 1, 0x01],
    nobody_mac: [0x02, 0x4c, 0x52, 0, 1, 0xf2],
};
/// Length of the IPv4 prefix of both links.
pub const LINK_PREFIX_LEN: u8 = 24;
pub(crate) const LINK_PREFIX_LEN_6: u8 = 64;

/// Offloads that are off on every interface; those a kernel does not know are passed over.
const OFFLOADS_OFF: [&str; 9] = [
    "tx-tcp-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-tcp6-segmentation",
    "tx-udp-segmentation",
    "tx-generic-segmentation",
    "rx-gro-list",
    "rx-udp-gro-forwarding",
    "rx-gro",
];

/// The two ends of one link, seen from the tester ("outer") and the DUT.
#[derive(Debug, Clone, Copy)]
pub struct LinkAddresses {
    /// The tester's IPv4 address.
    pub outer: Ipv4Addr,
    /// The DUT's IPv4 address.
    pub dut: Ipv4Addr,
    /// The tester's IPv6 address.
    pub outer6: Ipv6Addr,
    /// The DUT's IPv6 address.
    pub dut6: Ipv6Addr,
    /// The tester's Ethernet address.
    pub outer_mac: [u8; 6],
    /// The DUT's Ethernet address.
    pub dut_mac: [u8; 6],
    /// The Ethernet address under which the DUT reaches `outer`: nobody's.
    pub nobody_mac: [u8; 6],
}

/// Makes a veth pair, sets its offloads and both ends up; returns when both carry packets.
pub(super) fn join(
    a: VethEnd<'_>,
    b: VethEnd<'_>,
    spec: &TopologySpec,
) -> Result<(Interface, Interface), TopologyError> {
    let shape = VethShape { mtu: spec.mtu, queues: spec.queues };
    Netlink::open_in(a.namespace)?.create_veth(a, b, shape)?;
    let ((a, device_a), (b, device_b)) = (prepare(a)?, prepare(b)?);
    let failed = |name: &str| step(format!("bring up {name}"));
    linerate_sys::veth::bring_up(&device_a, &device_b).map_err(failed(a.name))?;
    Ok((a, b))
}

fn prepare(end: VethEnd<'_>) -> Result<(Interface, Netdev), TopologyError> {
    let (name, mac): (&'static str, _) = (static_name(end.name), end.mac);
    let failed = |what: &str| step(format!("{what} of {name}"));
    let opened = end.namespace.run(|| Netdev::open(name)).and_then(|result| result);
    let device = opened.map_err(failed("read the index"))?;
    let known = device.features().map_err(failed("read the offloads"))?;
    let wanted: Vec<(&str, bool)> = OFFLOADS_OFF
        .into_iter()
        .filter(|name| known.iter().any(|feature| feature.name == *name && feature.active))
        .map(|name| (name, false))
        .collect();
    device.set_features(&wanted).map_err(failed("turn off the offloads"))?;
    let index = device.index().map_err(failed("read the index"))?;
    let mut netlink = Netlink::open_in(end.namespace)?;
    netlink.set_gro_size_max(index, GRO_SIZE_MAX)?;
    Ok((Interface { name, index, mac }, device))
}

fn static_name(name: &str) -> &'static str {
    let names = [GENERATOR_INTERFACE, INGRESS_INTERFACE, EGRESS_INTERFACE, RECEIVER_INTERFACE];
    names.into_iter().find(|known| *known == name).unwrap_or(GENERATOR_INTERFACE)
}
