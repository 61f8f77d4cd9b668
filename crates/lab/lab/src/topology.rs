//! Paths of network namespaces joined by veth pairs.
//!
//! ```text
//!  router:   generator               DUT                         receiver
//!           [lr-gen   198.18.0.2]--[lr-in 198.18.0.1
//!                                   lr-out 198.18.1.1]--[lr-recv 198.18.1.2]
//!  direct:   generator                                           receiver
//!           [lr-gen   198.18.0.2]-----------------------[lr-recv 198.18.0.1]
//! ```
//!
//! The addresses of the links are from RFC 2544's block 198.18.0.0/15. Test flows go from 192.0.2.1-100 to
//! 192.0.2.101-200; the DUT has a route for each network of the exact cover of both ranges, destinations towards the
//! receiver and sources back towards the generator, and reverse path filtering off. Nothing else is routed.
//!
//! What keeps the counters clean:
//! - IPv6 is off in all namespaces before any interface exists: no neighbour discovery, no MLD.
//! - Neighbours are static: no ARP. The addresses behind 198.18.0.2 and 198.18.1.2 are Ethernet addresses that no
//!   device has, so the stacks of generator and receiver drop what arrives as "other host" at once, after AF_PACKET
//!   and before IP counts anything.
//! - Segmentation offloads are off on every interface, and GRO may not merge ([`GRO_SIZE_MAX`]): one frame is one packet
//!   in every counter. They also have to be off for a socket's frame to reach the peer's NAPI at all
//!   (`veth_skb_is_eligible_for_gro` in drivers/net/veth.c).
//!
//! Namespaces are anonymous unless names are asked for: a killed run leaves nothing.

use std::io;
use std::net::Ipv4Addr;

use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;

use crate::netlink::{Neighbour, Netlink, NetlinkError, Route, VethEnd, VethShape};
use crate::placement::{self, Mode, Placement};
use crate::prefixes;
use crate::sysctl;

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

const GENERATOR_LINK: LinkAddresses = LinkAddresses {
    outer: Ipv4Addr::new(198, 18, 0, 2),
    dut: Ipv4Addr::new(198, 18, 0, 1),
    outer_mac: [0x02, 0x4c, 0x52, 0, 0, 0x02],
    dut_mac: [0x02, 0x4c, 0x52, 0, 0, 0x01],
    nobody_mac: [0x02, 0x4c, 0x52, 0, 0, 0xf2],
};
const RECEIVER_LINK: LinkAddresses = LinkAddresses {
    outer: Ipv4Addr::new(198, 18, 1, 2),
    dut: Ipv4Addr::new(198, 18, 1, 1),
    outer_mac: [0x02, 0x4c, 0x52, 0, 1, 0x02],
    dut_mac: [0x02, 0x4c, 0x52, 0, 1, 0x01],
    nobody_mac: [0x02, 0x4c, 0x52, 0, 1, 0xf2],
};
const LINK_PREFIX_LEN: u8 = 24;

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
struct LinkAddresses {
    outer: Ipv4Addr,
    dut: Ipv4Addr,
    outer_mac: [u8; 6],
    dut_mac: [u8; 6],
    /// The Ethernet address under which the DUT reaches `outer`: nobody's.
    nobody_mac: [u8; 6],
}

/// What to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologySpec {
    /// Bytes of layer 3 in one frame, on every link.
    pub mtu: u32,
    /// Queues of every interface.
    pub queues: u32,
    /// Where the work of the DUT (or, without one, of the receiver's interface) shall run.
    pub placement: Placement,
    /// First and last source address of the test flows.
    pub sources: (Ipv4Addr, Ipv4Addr),
    /// First and last destination address of the test flows.
    pub destinations: (Ipv4Addr, Ipv4Addr),
    /// Whether the namespaces get names (`linerate-PID-ROLE`, for `ip netns exec`). They then outlive a killed run;
    /// [`crate::cleanup`] finds them.
    pub named: bool,
}

impl Default for TopologySpec {
    fn default() -> Self {
        Self {
            mtu: 1500,
            queues: 1,
            placement: Placement::SenderContext,
            sources: (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 100)),
            destinations: (Ipv4Addr::new(192, 0, 2, 101), Ipv4Addr::new(192, 0, 2, 200)),
            named: false,
        }
    }
}

/// Why a topology could not be built.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step}: {source}")]
pub struct TopologyError {
    /// What was being done.
    pub step: String,
    /// What the kernel answered.
    pub source: io::Error,
}

impl From<NetlinkError> for TopologyError {
    fn from(error: NetlinkError) -> Self {
        Self { step: error.action, source: error.source }
    }
}

fn step<E: Into<io::Error>>(step: impl Into<String>) -> impl FnOnce(E) -> TopologyError {
    move |error| TopologyError { step: step.into(), source: error.into() }
}

/// An interface of the topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name in its namespace.
    pub name: &'static str,
    /// Its index in its namespace.
    pub index: u32,
    /// Its Ethernet address.
    pub mac: [u8; 6],
}

/// The tester's end of a path.
#[derive(Debug)]
pub struct Side {
    /// Its namespace.
    pub namespace: NetNs,
    /// The interface on which frames are sent or received.
    pub interface: Interface,
}

/// The Linux router in the middle.
#[derive(Debug)]
pub struct Dut {
    /// Its namespace.
    pub namespace: NetNs,
    /// Its interface towards the generator.
    pub ingress: Interface,
    /// Its interface towards the receiver.
    pub egress: Interface,
}

/// A path from a generator to a receiver. Dropping it removes everything.
#[derive(Debug)]
pub struct Topology {
    /// Where frames are sent.
    pub generator: Side,
    /// The device under test; none in a baseline.
    pub dut: Option<Dut>,
    /// Where frames are received.
    pub receiver: Side,
    mode: Mode,
    next_hop_mac: [u8; 6],
}

impl Topology {
    /// Generator, DUT, receiver.
    ///
    /// # Errors
    /// The first step that the kernel refused. Nothing stays behind.
    pub fn router(spec: &TopologySpec) -> Result<Self, TopologyError> {
        let generator_namespace = quiet_namespace(spec, "generator")?;
        let dut_namespace = quiet_namespace(spec, "dut")?;
        let receiver_namespace = quiet_namespace(spec, "receiver")?;
        enable_forwarding(&dut_namespace)?;

        let outer =
            VethEnd { namespace: &generator_namespace, name: GENERATOR_INTERFACE, mac: GENERATOR_LINK.outer_mac };
        let inner = VethEnd { namespace: &dut_namespace, name: INGRESS_INTERFACE, mac: GENERATOR_LINK.dut_mac };
        let (generator_interface, ingress) = join(outer, inner, spec)?;
        let outer = VethEnd { namespace: &receiver_namespace, name: RECEIVER_INTERFACE, mac: RECEIVER_LINK.outer_mac };
        let inner = VethEnd { namespace: &dut_namespace, name: EGRESS_INTERFACE, mac: RECEIVER_LINK.dut_mac };
        let (receiver_interface, egress) = join(outer, inner, spec)?;

        let generator = Side { namespace: generator_namespace, interface: generator_interface };
        let receiver = Side { namespace: receiver_namespace, interface: receiver_interface };
        let dut = Dut { namespace: dut_namespace, ingress, egress };
        address_outer(&generator, GENERATOR_LINK, GENERATOR_LINK.dut_mac, spec.destinations)?;
        address_outer(&receiver, RECEIVER_LINK, RECEIVER_LINK.dut_mac, spec.sources)?;
        address_dut(&dut, spec)?;
        let mode = placement::place(&dut.namespace, dut.ingress.name, dut.ingress.index, spec.placement);
        let mode = mode.map_err(step("turn on NAPI of the DUT's ingress"))?;
        Ok(Self { generator, dut: Some(dut), receiver, mode, next_hop_mac: GENERATOR_LINK.dut_mac })
    }

    /// Generator and receiver on one veth pair, with the receiver's interface placed as the DUT's ingress would be:
    /// the baseline of [`Topology::router`].
    ///
    /// # Errors
    /// The first step that the kernel refused. Nothing stays behind.
    pub fn direct(spec: &TopologySpec) -> Result<Self, TopologyError> {
        let generator_namespace = quiet_namespace(spec, "generator")?;
        let receiver_namespace = quiet_namespace(spec, "receiver")?;
        let outer =
            VethEnd { namespace: &generator_namespace, name: GENERATOR_INTERFACE, mac: GENERATOR_LINK.outer_mac };
        let inner = VethEnd { namespace: &receiver_namespace, name: RECEIVER_INTERFACE, mac: GENERATOR_LINK.dut_mac };
        let (generator_interface, receiver_interface) = join(outer, inner, spec)?;
        let generator = Side { namespace: generator_namespace, interface: generator_interface };
        let receiver = Side { namespace: receiver_namespace, interface: receiver_interface };
        let next_hop_mac = GENERATOR_LINK.nobody_mac;
        address_outer(&generator, GENERATOR_LINK, next_hop_mac, spec.destinations)?;
        let placed =
            placement::place(&receiver.namespace, receiver.interface.name, receiver.interface.index, spec.placement);
        let mode = placed.map_err(step("turn on NAPI of the receiver's interface"))?;
        Ok(Self { generator, dut: None, receiver, mode, next_hop_mac })
    }

    /// Where the receive work of the path's first hop runs.
    pub fn mode(&self) -> &Mode {
        &self.mode
    }

    /// Where the work runs, in one sentence for people.
    pub fn mode_text(&self) -> String {
        let worker = if self.dut.is_some() { "the DUT" } else { "the receiver's interface" };
        match (&self.dut, &self.mode) {
            (Some(_), Mode::SenderContext { .. }) | (None, _) => format!("{worker} works {}", self.mode),
            // Its frames are received by the receiver's kernel side in the same context (see crate::placement).
            (Some(_), _) => format!("{worker} and the receiver's kernel side work {}", self.mode),
        }
    }

    /// The Ethernet address that the generator's frames have to be sent to.
    pub fn next_hop_mac(&self) -> [u8; 6] {
        self.next_hop_mac
    }

    /// The interface that takes the generator's frames, and its namespace: the DUT's ingress, or the receiver's
    /// interface when there is no DUT.
    pub fn first_hop(&self) -> (&NetNs, &Interface) {
        match &self.dut {
            Some(dut) => (&dut.namespace, &dut.ingress),
            None => (&self.receiver.namespace, &self.receiver.interface),
        }
    }

    /// Pins the NAPI threads again and brings [`Topology::mode`] up to date: an interface that went down and up, or
    /// got or lost an XDP program, has new ones.
    ///
    /// # Errors
    /// When the interface has no NAPI any more though it should.
    pub fn place_again(&mut self, placement: Placement) -> Result<&Mode, TopologyError> {
        let (namespace, interface) = self.first_hop();
        let placed = placement::place(namespace, interface.name, interface.index, placement);
        self.mode = placed.map_err(step("turn on NAPI again"))?;
        Ok(&self.mode)
    }
}

/// A namespace in which nothing speaks unasked.
fn quiet_namespace(spec: &TopologySpec, role: &str) -> Result<NetNs, TopologyError> {
    let made = match spec.named {
        true => NetNs::create_named(&crate::cleanup::namespace_name(role)),
        false => NetNs::anonymous(),
    };
    let namespace = made.map_err(step("make a network namespace"))?;
    let quiet = namespace.run(|| {
        for scope in ["all", "default"] {
            sysctl::set_if_present(&format!("net/ipv6/conf/{scope}/disable_ipv6"), "1")?;
        }
        Ok(())
    });
    quiet.and_then(|result| result).map_err(step("turn off IPv6 in a network namespace"))?;
    Ok(namespace)
}

/// Forwarding on, reverse path filtering and redirects off, for interfaces that are there and that will come.
fn enable_forwarding(namespace: &NetNs) -> Result<(), TopologyError> {
    let enabled = namespace.run(|| {
        // First, because changing it resets other settings.
        sysctl::set("net/ipv4/ip_forward", "1")?;
        for scope in ["all", "default"] {
            sysctl::set(&format!("net/ipv4/conf/{scope}/rp_filter"), "0")?;
            sysctl::set(&format!("net/ipv4/conf/{scope}/send_redirects"), "0")?;
        }
        Ok(())
    });
    enabled.and_then(|result| result).map_err(step("turn on IPv4 forwarding in the DUT"))
}

/// Makes a veth pair, sets its offloads and both ends up.
fn join(a: VethEnd<'_>, b: VethEnd<'_>, spec: &TopologySpec) -> Result<(Interface, Interface), TopologyError> {
    let shape = VethShape { mtu: spec.mtu, queues: spec.queues };
    Netlink::open_in(a.namespace)?.create_veth(a, b, shape)?;
    Ok((prepare(a)?, prepare(b)?))
}

fn prepare(end: VethEnd<'_>) -> Result<Interface, TopologyError> {
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
    netlink.set_up(index, true)?;
    Ok(Interface { name, index, mac })
}

fn static_name(name: &str) -> &'static str {
    let names = [GENERATOR_INTERFACE, INGRESS_INTERFACE, EGRESS_INTERFACE, RECEIVER_INTERFACE];
    names.into_iter().find(|known| *known == name).unwrap_or(GENERATOR_INTERFACE)
}

/// Address, next hop and routes of a tester's side, for what its own stack sends.
fn address_outer(
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

fn address_dut(dut: &Dut, spec: &TopologySpec) -> Result<(), TopologyError> {
    let mut netlink = Netlink::open_in(&dut.namespace)?;
    let links = [(&dut.ingress, GENERATOR_LINK, spec.sources), (&dut.egress, RECEIVER_LINK, spec.destinations)];
    for (interface, link, reached) in links {
        let index = interface.index;
        netlink.add_address(index, link.dut, LINK_PREFIX_LEN)?;
        netlink.set_neighbour(Neighbour { interface: index, address: link.outer, mac: link.nobody_mac })?;
        add_routes(&mut netlink, reached, link.outer, index)?;
    }
    Ok(())
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
