//! Links, addresses, routes and neighbours of one network namespace, over a blocking rtnetlink socket
//! (rtnetlink(7)). No event loop: a lab makes a dozen requests, one after the other.
//!
//! The socket stays in the namespace in which it was opened, whichever thread uses it.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};

use linerate_sys::netlink::{self, Body, CREATE, REPLACE, link_header};
use linerate_sys::netns::NetNs;

mod bridge;
mod observe;

pub use observe::{ERROR_FIELDS, LinkCounters, LinkStatistics, QueueCounts};

/// struct ndmsg.
const NEIGHBOUR_HEADER_LEN: usize = 12;
/// linux/if_link.h.
const IFLA_GRO_IPV4_MAX_SIZE: u16 = 64;
/// linux/veth.h.
const VETH_INFO_PEER: u16 = 1;

/// A request that the kernel refused, with what was asked.
#[derive(Debug, thiserror::Error)]
#[error("{action}: {source}")]
pub struct NetlinkError {
    /// What was asked, in words.
    pub action: String,
    /// What the kernel answered.
    pub source: io::Error,
}

impl NetlinkError {
    pub(crate) fn new(action: impl Into<String>, source: io::Error) -> Self {
        Self { action: action.into(), source }
    }
}

/// One end of a veth pair that is to be made.
#[derive(Debug, Clone, Copy)]
pub struct VethEnd<'a> {
    /// The namespace that it is made in.
    pub namespace: &'a NetNs,
    /// Its name there.
    pub name: &'a str,
    /// Its Ethernet address.
    pub mac: [u8; 6],
}

/// What both ends of a veth pair share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VethShape {
    /// Bytes of layer 3 in one frame.
    pub mtu: u32,
    /// Transmit and receive queues of each end.
    pub queues: u32,
}

/// A static neighbour: the Ethernet address behind an IP one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// Index of the interface that it is on.
    pub interface: u32,
    /// Its IP address.
    pub address: IpAddr,
    /// Its Ethernet address.
    pub mac: [u8; 6],
}

/// A route through a gateway, both of one version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Destination network.
    pub network: IpAddr,
    /// Its prefix length in bits.
    pub prefix_len: u8,
    /// The next hop.
    pub gateway: IpAddr,
    /// Index of the interface that it is on.
    pub interface: u32,
}

/// linux/netfilter/nfnetlink.h and nfnetlink_conntrack.h: the message that deletes connections.
const CONNTRACK_DELETE: u16 = (1 << 8) | 2;
/// struct nfgenmsg, for all families.
const NETFILTER_HEADER: [u8; 4] = [0; 4];

/// Empties the connection table of a namespace; does nothing where the kernel tracks no connections, or cannot be asked about them.
///
/// # Errors
/// The namespace cannot be entered, or the kernel refuses.
pub fn flush_connections(namespace: &NetNs) -> io::Result<()> {
    let Ok(mut socket) = netlink::Netlink::open_in(namespace, libc::NETLINK_NETFILTER) else { return Ok(()) };
    match socket.exchange(CONNTRACK_DELETE, 0, &Body::new(&NETFILTER_HEADER)) {
        // Without nf_conntrack_netlink the kernel knows no such message.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOENT)) => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// An rtnetlink socket in one namespace.
#[derive(Debug)]
pub struct Netlink(netlink::Netlink);

impl Netlink {
    /// A socket in the calling thread's namespace.
    ///
    /// # Errors
    /// When the kernel gives no netlink socket.
    pub fn open() -> Result<Self, NetlinkError> {
        let socket = netlink::Netlink::open(libc::NETLINK_ROUTE);
        socket.map(Self).map_err(|error| NetlinkError::new("open a netlink socket", error))
    }

    /// A socket in `namespace`.
    ///
    /// # Errors
    /// When the namespace cannot be entered, or as [`Netlink::open`].
    pub fn open_in(namespace: &NetNs) -> Result<Self, NetlinkError> {
        let opened = namespace.run(Self::open);
        opened.map_err(|error| NetlinkError::new("enter a network namespace", error))?
    }

    /// Makes a veth pair, both ends set down. This socket's namespace need not be either of theirs.
    ///
    /// # Errors
    /// `EEXIST` when a name is taken, `EOPNOTSUPP` when the kernel has no veth, `EPERM` without
    /// CAP_NET_ADMIN over all three namespaces.
    pub fn create_veth(&mut self, a: VethEnd<'_>, b: VethEnd<'_>, shape: VethShape) -> Result<(), NetlinkError> {
        let peer = Body::default().with_body(VETH_INFO_PEER, end_message(b, shape));
        let info = Body::default().with(libc::IFLA_INFO_KIND, b"veth").with_body(libc::IFLA_INFO_DATA, peer);
        let message = end_message(a, shape).with_body(libc::IFLA_LINKINFO, info);
        let action = format!("create the veth pair {} - {}", a.name, b.name);
        self.request(&action, libc::RTM_NEWLINK, CREATE, &message)
    }

    /// Sets an interface up or down.
    ///
    /// # Errors
    /// `ENODEV` when there is none, `EPERM` without CAP_NET_ADMIN.
    pub fn set_up(&mut self, interface: u32, up: bool) -> Result<(), NetlinkError> {
        let mut header = link_header(interface);
        let flag = libc::IFF_UP as u32;
        header[8..12].copy_from_slice(&if up { flag } else { 0 }.to_ne_bytes());
        header[12..].copy_from_slice(&flag.to_ne_bytes());
        let action = format!("set interface {interface} {}", if up { "up" } else { "down" });
        self.request(&action, libc::RTM_SETLINK, 0, &Body::new(&header))
    }

    /// Sets the MTU of an interface, in bytes of layer 3.
    ///
    /// # Errors
    /// `EINVAL` for a size that the driver does not take, `EPERM` without CAP_NET_ADMIN.
    pub fn set_mtu(&mut self, interface: u32, mtu: u32) -> Result<(), NetlinkError> {
        let message = link_message(interface).with_u32(libc::IFLA_MTU, mtu);
        let action = format!("set the MTU of interface {interface} to {mtu}");
        self.request(&action, libc::RTM_SETLINK, 0, &message)
    }

    /// Sets how many bytes GRO may merge into one packet on an interface; kernels before 6.3 know no limit for IPv4
    /// alone and ignore that half.
    ///
    /// # Errors
    /// `EINVAL` for a size that the kernel does not take, `EPERM` without CAP_NET_ADMIN.
    pub fn set_gro_size_max(&mut self, interface: u32, bytes: u32) -> Result<(), NetlinkError> {
        let message = link_message(interface).with_u32(libc::IFLA_GRO_MAX_SIZE, bytes);
        let message = message.with_u32(IFLA_GRO_IPV4_MAX_SIZE, bytes);
        let action = format!("limit GRO of interface {interface} to {bytes} bytes");
        self.request(&action, libc::RTM_SETLINK, 0, &message)
    }

    /// Gives an interface an address. One of IPv6 can be used at once: nobody is asked whether another has it (RFC 4862 section 5.4).
    ///
    /// # Errors
    /// `EEXIST` when it has it, `EPERM` without CAP_NET_ADMIN.
    pub fn add_address(
        &mut self,
        interface: u32,
        address: impl Into<IpAddr>,
        prefix_len: u8,
    ) -> Result<(), NetlinkError> {
        let address = address.into();
        let flags = if address.is_ipv6() { libc::IFA_F_NODAD as u8 } else { 0 };
        // struct ifaddrmsg: family, prefix length, flags, scope, index.
        let mut header = [family(address), prefix_len, flags, libc::RT_SCOPE_UNIVERSE, 0, 0, 0, 0];
        header[4..].copy_from_slice(&interface.to_ne_bytes());
        let octets = octets(address);
        let message = Body::new(&header).with(libc::IFA_LOCAL, &octets).with(libc::IFA_ADDRESS, &octets);
        let action = format!("add the address {address}/{prefix_len}");
        self.request(&action, libc::RTM_NEWADDR, CREATE, &message)
    }

    /// Adds a route to the main table.
    ///
    /// # Errors
    /// `EEXIST` when there is one, `ENETUNREACH` when the gateway is not on that interface.
    pub fn add_route(&mut self, route: Route) -> Result<(), NetlinkError> {
        let action = format!("add the route {}/{} via {}", route.network, route.prefix_len, route.gateway);
        self.request(&action, libc::RTM_NEWROUTE, CREATE, &route_message(route))
    }

    /// Sets a permanent neighbour, replacing what was known of that address.
    ///
    /// # Errors
    /// `EINVAL` when the interface is down, `EPERM` without CAP_NET_ADMIN.
    pub fn set_neighbour(&mut self, neighbour: Neighbour) -> Result<(), NetlinkError> {
        let message = neighbour_message(neighbour).with(libc::NDA_LLADDR, &neighbour.mac);
        let action = format!("set the neighbour {}", neighbour.address);
        self.request(&action, libc::RTM_NEWNEIGH, REPLACE, &message)
    }

    fn request(&mut self, action: &str, kind: u16, flags: u16, message: &Body) -> Result<(), NetlinkError> {
        self.exchange(action, kind, flags, message).map(drop)
    }

    /// Sends one request and collects the bodies of the answers.
    fn exchange(&mut self, action: &str, kind: u16, flags: u16, message: &Body) -> Result<Vec<Vec<u8>>, NetlinkError> {
        self.0.exchange(kind, flags, message).map_err(|error| NetlinkError::new(action, error))
    }
}

fn link_message(interface: u32) -> Body {
    Body::new(&link_header(interface))
}

fn end_message(end: VethEnd<'_>, shape: VethShape) -> Body {
    let message = link_message(0).with_text(libc::IFLA_IFNAME, end.name);
    let message = message.with(libc::IFLA_NET_NS_FD, &end.namespace.as_fd().as_raw_fd().to_ne_bytes());
    let message = message.with(libc::IFLA_ADDRESS, &end.mac).with_u32(libc::IFLA_MTU, shape.mtu);
    message.with_u32(libc::IFLA_NUM_TX_QUEUES, shape.queues).with_u32(libc::IFLA_NUM_RX_QUEUES, shape.queues)
}

fn route_message(route: Route) -> Body {
    // struct rtmsg: family, lengths of destination and source, TOS, table, protocol, scope, type, flags.
    let (table, protocol) = (libc::RT_TABLE_MAIN, libc::RTPROT_STATIC);
    let (scope, kind) = (libc::RT_SCOPE_UNIVERSE, libc::RTN_UNICAST);
    let header = [family(route.network), route.prefix_len, 0, 0, table, protocol, scope, kind, 0, 0, 0, 0];
    let message = Body::new(&header).with(libc::RTA_DST, &octets(route.network));
    message.with(libc::RTA_GATEWAY, &octets(route.gateway)).with_u32(libc::RTA_OIF, route.interface)
}

fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn neighbour_message(neighbour: Neighbour) -> Body {
    // struct ndmsg: family, index, state, flags, type.
    let mut header = [0; NEIGHBOUR_HEADER_LEN];
    header[0] = family(neighbour.address);
    header[4..8].copy_from_slice(&neighbour.interface.to_ne_bytes());
    header[8..10].copy_from_slice(&libc::NUD_PERMANENT.to_ne_bytes());
    Body::new(&header).with(libc::NDA_DST, &octets(neighbour.address))
}
