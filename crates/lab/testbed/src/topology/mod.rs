//! Paths of network namespaces joined by veth pairs.
//!
//! ```text
//!  router:   generator               DUT                         receiver
//!           [lr-gen   198.18.0.2]--[lr-in 198.18.0.1
//!                                   lr-out 198.18.1.1]--[lr-recv 198.18.1.2]
//!  switched: the same without addresses in the DUT, which carries frames as they are
//!  direct:   generator                                           receiver
//!           [lr-gen   198.18.0.2]-----------------------[lr-recv 198.18.0.1]
//! ```
//!
//! The addresses of the links are from RFC 2544's block 198.18.0.0/15. Test flows go from 192.0.2.1-100 to
//! 192.0.2.101-200; the DUT has a route for each network of the exact cover of both ranges, destinations towards the
//! receiver and sources back towards the generator, and reverse path filtering off. Nothing else is routed.
//!
//! With flows of IPv6 the links of the DUT also have 2001:2::/64 and 2001:2:0:1::/64, of RFC 5180's block for benchmarking, with the
//! same host numbers, and routes for the flows' addresses.
//!
//! What keeps the counters clean:
//! - IPv6 is off in all namespaces before any interface exists, but for a router with flows of IPv6: no neighbour discovery, no MLD.
//!   That router has no link-local addresses, does not look for other users of its addresses, and solicits no routers; it still
//!   reports the multicast groups of its addresses (MLD), which are packets of its own.
//! - Neighbours are static: no ARP. The addresses behind 198.18.0.2 and 198.18.1.2 are Ethernet addresses that no
//!   device has, so the stacks of generator and receiver drop what arrives as "other host" at once, after AF_PACKET
//!   and before IP counts anything.
//! - Segmentation offloads are off on every interface, and GRO may not merge ([`GRO_SIZE_MAX`]): one frame is one packet
//!   in every counter. They also have to be off for a socket's frame to reach the peer's NAPI at all
//!   (`veth_skb_is_eligible_for_gro` in drivers/net/veth.c).
//!
//! Namespaces are anonymous unless names are asked for: a killed run leaves nothing.

mod addresses;
mod forwarding;
mod links;
mod memory;
mod names;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use linerate_experiment::{FlowSpec, IpVersion, TopologyKind};
use linerate_sys::netns::NetNs;

use crate::netlink::{NetlinkError, VethEnd};
use crate::placement::{self, Mode, Placement};
use crate::prefixes::Range;
use crate::sysctl;

use addresses::{address_dut, address_outer};
use links::join;

pub use forwarding::{Cut, Forwarding, Remainder};
pub use links::{EGRESS_INTERFACE, GENERATOR_INTERFACE, GRO_SIZE_MAX, INGRESS_INTERFACE, RECEIVER_INTERFACE};
pub use links::{GENERATOR_LINK, LINK_PREFIX_LEN, LinkAddresses, RECEIVER_LINK};
pub use memory::{MemoryEnd, MemoryPath};
pub use names::namespace_name;
pub(crate) use names::owner_of;

/// What to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologySpec {
    /// Between which ends packets go. What is said below is of namespaces only.
    pub ends: TopologyKind,
    /// What joins the ends to the DUT, and to each other where there is none.
    pub link: LinkKind,
    /// Bytes of layer 3 in one frame, on every link.
    pub mtu: u32,
    /// Queues of every interface.
    pub queues: u32,
    /// Where the work of the DUT (or, without one, of the receiver's interface) shall run.
    pub placement: Placement,
    /// Cores that the DUT's processes may use; empty: all that this process may.
    pub dut_cores: Vec<usize>,
    /// First and last source address of the test flows of IPv4.
    pub sources: (Ipv4Addr, Ipv4Addr),
    /// First and last destination address of the test flows of IPv4.
    pub destinations: (Ipv4Addr, Ipv4Addr),
    /// Whether there are flows of IPv4.
    pub ipv4: bool,
    /// The addresses of the test flows of IPv6, where there are some.
    pub ipv6: Option<Ranges6>,
    /// Whether the namespaces get names (`linerate-PID-ROLE`, in a container `linerate-PID.NAMESPACE-ROLE`, for `ip netns exec`). They then outlive a killed run;
    /// [`crate::cleanup`] finds them.
    pub named: bool,
}

/// The addresses of test flows of IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranges6 {
    /// First and last source address.
    pub sources: (Ipv6Addr, Ipv6Addr),
    /// First and last destination address.
    pub destinations: (Ipv6Addr, Ipv6Addr),
}

impl TopologySpec {
    /// With the addresses of these flows.
    pub fn for_flows(self, flows: &FlowSpec) -> Self {
        let last = |first: Ipv4Addr, count: u64| {
            let more = u32::try_from(count.saturating_sub(1)).unwrap_or(u32::MAX);
            (first, Ipv4Addr::from(u32::from(first).saturating_add(more)))
        };
        let last6 = |first: Ipv6Addr, count: u64| {
            (first, Ipv6Addr::from(first.to_bits().saturating_add(count.saturating_sub(1).into())))
        };
        Self {
            sources: last(flows.source, flows.sources),
            destinations: last(flows.destination, flows.destinations),
            ipv4: flows.ip.has(IpVersion::V4),
            ipv6: flows.ip.addresses6().map(|first| Ranges6 {
                sources: last6(first.source, flows.sources),
                destinations: last6(first.destination, flows.destinations),
            }),
            ..self
        }
    }

    /// The addresses of sources and of destinations: a range for each version of IP that the flows have.
    pub(crate) fn ranges(&self) -> [Vec<Range>; 2] {
        let of = |(first, last), ranges6: Option<(Ipv6Addr, Ipv6Addr)>| {
            let of_ipv4 = self.ipv4.then_some(Range::V4(first, last));
            of_ipv4.into_iter().chain(ranges6.map(|(first, last)| Range::V6(first, last))).collect()
        };
        [
            of(self.sources, self.ipv6.map(|ranges| ranges.sources)),
            of(self.destinations, self.ipv6.map(|ranges| ranges.destinations)),
        ]
    }
}

/// What joins the parts of a path that the lab makes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LinkKind {
    /// Virtual Ethernet pairs between namespaces.
    #[default]
    Veth,
    /// Memory that both parts share, by memif: a path of processes, without namespaces, interfaces and the kernel's stack.
    Memif,
}

impl Default for TopologySpec {
    fn default() -> Self {
        Self {
            ends: TopologyKind::Namespaces,
            link: LinkKind::Veth,
            mtu: 1500,
            queues: 1,
            placement: Placement::SenderContext,
            dut_cores: Vec::new(),
            sources: (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 100)),
            destinations: (Ipv4Addr::new(192, 0, 2, 101), Ipv4Addr::new(192, 0, 2, 200)),
            ipv4: true,
            ipv6: None,
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

/// The device in the middle.
#[derive(Debug)]
pub struct Dut {
    /// Its namespace.
    pub namespace: NetNs,
    /// Its interface towards the generator.
    pub ingress: Interface,
    /// Its interface towards the receiver.
    pub egress: Interface,
    /// What carries packets between them.
    pub forwarding: Forwarding,
}

impl Dut {
    /// Another handle of the same device.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn try_clone(&self) -> io::Result<Dut> {
        Ok(Self {
            namespace: self.namespace.try_clone()?,
            ingress: self.ingress.clone(),
            egress: self.egress.clone(),
            forwarding: self.forwarding.clone(),
        })
    }

    /// Sets a router's neighbours and routes anew: an interface that went down lost them.
    ///
    /// # Errors
    /// What the kernel refused; `EEXIST` when they are there.
    pub fn direct_flows(&self, spec: &TopologySpec) -> Result<(), TopologyError> {
        addresses::direct_flows(self, spec)
    }
}

/// The Ethernet addresses of test frames that go one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameAddresses {
    /// From.
    pub source: [u8; 6],
    /// To.
    pub destination: [u8; 6],
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
    forward: FrameAddresses,
    backward: FrameAddresses,
}

impl Topology {
    /// Generator, router, receiver.
    ///
    /// # Errors
    /// The first step that the kernel refused. Nothing stays behind.
    pub fn router(spec: &TopologySpec) -> Result<Self, TopologyError> {
        let (generator, dut, receiver) = three(spec, Forwarding::routed())?;
        address_outer(&generator, GENERATOR_LINK, GENERATOR_LINK.dut_mac, spec.destinations)?;
        address_outer(&receiver, RECEIVER_LINK, RECEIVER_LINK.dut_mac, spec.sources)?;
        address_dut(&dut, spec)?;
        let to = |side: &Side, destination| FrameAddresses { source: side.interface.mac, destination };
        let forward = to(&generator, GENERATOR_LINK.dut_mac);
        let backward = to(&receiver, RECEIVER_LINK.dut_mac);
        let mode = place_dut(&dut, spec)?;
        Ok(Self { generator, dut: Some(dut), receiver, mode, forward, backward })
    }

    /// Generator, a device that carries frames as they are, receiver. The device itself is not made here.
    ///
    /// # Errors
    /// The first step that the kernel refused. Nothing stays behind.
    pub fn switched(spec: &TopologySpec, forwarding: Forwarding) -> Result<Self, TopologyError> {
        let (generator, dut, receiver) = three(spec, forwarding)?;
        let (here, there) = (GENERATOR_LINK.nobody_mac, RECEIVER_LINK.nobody_mac);
        address_outer(&generator, GENERATOR_LINK, there, spec.destinations)?;
        address_outer(&receiver, RECEIVER_LINK, here, spec.sources)?;
        let forward = FrameAddresses { source: here, destination: there };
        let backward = FrameAddresses { source: there, destination: here };
        let mode = place_dut(&dut, spec)?;
        Ok(Self { generator, dut: Some(dut), receiver, mode, forward, backward })
    }

    /// Generator and receiver on one veth pair, with the receiver's interface placed as the DUT's ingress would be:
    /// the baseline of [`Topology::router`] and [`Topology::switched`].
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
        let to_nobody = |side: &Side, destination| FrameAddresses { source: side.interface.mac, destination };
        let forward = to_nobody(&generator, GENERATOR_LINK.nobody_mac);
        let backward = to_nobody(&receiver, RECEIVER_LINK.nobody_mac);
        address_outer(&generator, GENERATOR_LINK, forward.destination, spec.destinations)?;
        let placed =
            placement::place(&receiver.namespace, receiver.interface.name, receiver.interface.index, spec.placement);
        let mode = placed.map_err(step("turn on NAPI of the receiver's interface"))?;
        Ok(Self { generator, dut: None, receiver, mode, forward, backward })
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
        self.forward.destination
    }

    /// Addresses of test frames from the generator to the receiver.
    pub fn forward(&self) -> FrameAddresses {
        self.forward
    }

    /// Addresses of test frames from the receiver to the generator.
    pub fn backward(&self) -> FrameAddresses {
        self.backward
    }

    /// The interface that takes the generator's frames, and its namespace: the DUT's ingress, or the receiver's
    /// interface when there is no DUT.
    pub fn first_hop(&self) -> (&NetNs, &Interface) {
        match &self.dut {
            Some(dut) => (&dut.namespace, &dut.ingress),
            None => (&self.receiver.namespace, &self.receiver.interface),
        }
    }

    /// The same for the way back: the DUT's egress, or the generator's interface when there is no DUT.
    pub fn first_hop_back(&self) -> (&NetNs, &Interface) {
        match &self.dut {
            Some(dut) => (&dut.namespace, &dut.egress),
            None => (&self.generator.namespace, &self.generator.interface),
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

/// Generator, DUT and receiver, joined by two veth pairs.
fn three(spec: &TopologySpec, forwarding: Forwarding) -> Result<(Side, Dut, Side), TopologyError> {
    let generator_namespace = quiet_namespace(spec, "generator")?;
    let dut_namespace = quiet_namespace(spec, "dut")?;
    let receiver_namespace = quiet_namespace(spec, "receiver")?;
    if forwarding.cut == Cut::Routed {
        enable_forwarding(&dut_namespace)?;
        if spec.ipv6.is_some() {
            enable_forwarding_6(&dut_namespace)?;
        }
    }
    let outer = VethEnd { namespace: &generator_namespace, name: GENERATOR_INTERFACE, mac: GENERATOR_LINK.outer_mac };
    let inner = VethEnd { namespace: &dut_namespace, name: INGRESS_INTERFACE, mac: GENERATOR_LINK.dut_mac };
    let (generator_interface, ingress) = join(outer, inner, spec)?;
    let outer = VethEnd { namespace: &receiver_namespace, name: RECEIVER_INTERFACE, mac: RECEIVER_LINK.outer_mac };
    let inner = VethEnd { namespace: &dut_namespace, name: EGRESS_INTERFACE, mac: RECEIVER_LINK.dut_mac };
    let (receiver_interface, egress) = join(outer, inner, spec)?;
    let generator = Side { namespace: generator_namespace, interface: generator_interface };
    let receiver = Side { namespace: receiver_namespace, interface: receiver_interface };
    Ok((generator, Dut { namespace: dut_namespace, ingress, egress, forwarding }, receiver))
}

fn place_dut(dut: &Dut, spec: &TopologySpec) -> Result<Mode, TopologyError> {
    let placed = placement::place(&dut.namespace, dut.ingress.name, dut.ingress.index, spec.placement);
    placed.map_err(step("turn on NAPI of the DUT's ingress"))
}

/// A namespace in which nothing speaks unasked.
fn quiet_namespace(spec: &TopologySpec, role: &str) -> Result<NetNs, TopologyError> {
    let made = match spec.named {
        true => NetNs::create_named(&namespace_name(role)),
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

/// IPv6 on, with forwarding, for interfaces that will come: addresses that are given stay through a reset, and no others are made.
fn enable_forwarding_6(namespace: &NetNs) -> Result<(), TopologyError> {
    let enabled = namespace.run(|| {
        for scope in ["all", "default"] {
            let set = |name: &str, value| sysctl::set(&format!("net/ipv6/conf/{scope}/{name}"), value);
            set("forwarding", "1")?;
            set("accept_ra", "0")?;
            set("accept_dad", "0")?;
            set("keep_addr_on_down", "1")?;
            set("disable_ipv6", "0")?;
        }
        // IN6_ADDR_GEN_MODE_NONE of linux/if_link.h: no link-local address.
        sysctl::set("net/ipv6/conf/default/addr_gen_mode", "1")
    });
    enabled.and_then(|result| result).map_err(step("turn on IPv6 forwarding in the DUT"))
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
