//! Links, addresses, routes and neighbours of one network namespace, over a blocking rtnetlink socket
//! (rtnetlink(7)). No event loop: a lab makes a dozen requests, one after the other.
//!
//! The socket stays in the namespace in which it was opened, whichever thread uses it.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};

use linerate_sys::netns::NetNs;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage, AddressScope};
use netlink_packet_route::link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

mod bridge;
mod observe;

pub use observe::{LinkStatistics, QueueCounts};

/// The largest datagram that the kernel sends for a dump is 32 KiB (NLMSG_GOODSIZE doubled).
pub(crate) const DATAGRAM_LEN_MAX: usize = 65_536;

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

/// A static neighbour: the Ethernet address behind an IPv4 one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// Index of the interface that it is on.
    pub interface: u32,
    /// Its IPv4 address.
    pub address: Ipv4Addr,
    /// Its Ethernet address.
    pub mac: [u8; 6],
}

/// An IPv4 route through a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Destination network.
    pub network: Ipv4Addr,
    /// Its prefix length in bits.
    pub prefix_len: u8,
    /// The next hop.
    pub gateway: Ipv4Addr,
    /// Index of the interface that it is on.
    pub interface: u32,
}

/// An rtnetlink socket in one namespace.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// A socket in the calling thread's namespace.
    ///
    /// # Errors
    /// When the kernel gives no netlink socket.
    pub fn open() -> Result<Self, NetlinkError> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(socket)
        };
        let socket = open().map_err(|error| NetlinkError::new("open a netlink socket", error))?;
        Ok(Self { socket, sequence: 0 })
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
        let peer = InfoData::Veth(InfoVeth::Peer(end_message(b, shape)));
        let mut message = end_message(a, shape);
        let info = vec![LinkInfo::Kind(InfoKind::Veth), LinkInfo::Data(peer)];
        message.attributes.push(LinkAttribute::LinkInfo(info));
        let action = format!("create the veth pair {} - {}", a.name, b.name);
        self.request(&action, RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Deletes an interface; the other end of a veth goes with it.
    ///
    /// # Errors
    /// `ENODEV` when there is none, `EPERM` without CAP_NET_ADMIN.
    pub fn delete_link(&mut self, interface: u32) -> Result<(), NetlinkError> {
        let action = format!("delete interface {interface}");
        self.request(&action, RouteNetlinkMessage::DelLink(link_message(interface)), 0)
    }

    /// Sets an interface up or down.
    ///
    /// # Errors
    /// `ENODEV` when there is none, `EPERM` without CAP_NET_ADMIN.
    pub fn set_up(&mut self, interface: u32, up: bool) -> Result<(), NetlinkError> {
        let mut message = link_message(interface);
        message.header.change_mask = LinkFlags::Up;
        if up {
            message.header.flags = LinkFlags::Up;
        }
        let action = format!("set interface {interface} {}", if up { "up" } else { "down" });
        self.request(&action, RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Sets the MTU of an interface, in bytes of layer 3.
    ///
    /// # Errors
    /// `EINVAL` for a size that the driver does not take, `EPERM` without CAP_NET_ADMIN.
    pub fn set_mtu(&mut self, interface: u32, mtu: u32) -> Result<(), NetlinkError> {
        let mut message = link_message(interface);
        message.attributes.push(LinkAttribute::Mtu(mtu));
        let action = format!("set the MTU of interface {interface} to {mtu}");
        self.request(&action, RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Sets how many bytes GRO may merge into one packet on an interface; kernels before 6.3 know no limit for IPv4
    /// alone and ignore that half.
    ///
    /// # Errors
    /// `EINVAL` for a size that the kernel does not take, `EPERM` without CAP_NET_ADMIN.
    pub fn set_gro_size_max(&mut self, interface: u32, bytes: u32) -> Result<(), NetlinkError> {
        let mut message = link_message(interface);
        message.attributes.push(LinkAttribute::GroMaxSize(bytes));
        message.attributes.push(LinkAttribute::GroIpv4MaxSize(bytes));
        let action = format!("limit GRO of interface {interface} to {bytes} bytes");
        self.request(&action, RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Gives an interface an IPv4 address.
    ///
    /// # Errors
    /// `EEXIST` when it has it, `EPERM` without CAP_NET_ADMIN.
    pub fn add_address(&mut self, interface: u32, address: Ipv4Addr, prefix_len: u8) -> Result<(), NetlinkError> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = prefix_len;
        message.header.scope = AddressScope::Universe;
        message.header.index = interface;
        message.attributes = vec![AddressAttribute::Local(address.into()), AddressAttribute::Address(address.into())];
        let action = format!("add the address {address}/{prefix_len}");
        self.request(&action, RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Adds a route to the main table.
    ///
    /// # Errors
    /// `EEXIST` when there is one, `ENETUNREACH` when the gateway is not on that interface.
    pub fn add_route(&mut self, route: Route) -> Result<(), NetlinkError> {
        let action = format!("add the route {}/{} via {}", route.network, route.prefix_len, route.gateway);
        let message = RouteNetlinkMessage::NewRoute(route_message(route));
        self.request(&action, message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Deletes a route from the main table.
    ///
    /// # Errors
    /// `ESRCH` when there is none such.
    pub fn delete_route(&mut self, route: Route) -> Result<(), NetlinkError> {
        let action = format!("delete the route {}/{} via {}", route.network, route.prefix_len, route.gateway);
        self.request(&action, RouteNetlinkMessage::DelRoute(route_message(route)), 0)
    }

    /// Sets a permanent neighbour, replacing what was known of that address.
    ///
    /// # Errors
    /// `EINVAL` when the interface is down, `EPERM` without CAP_NET_ADMIN.
    pub fn set_neighbour(&mut self, neighbour: Neighbour) -> Result<(), NetlinkError> {
        let mut message = neighbour_message(neighbour);
        message.attributes.push(NeighbourAttribute::LinkLayerAddress(neighbour.mac.to_vec()));
        let action = format!("set the neighbour {}", neighbour.address);
        self.request(&action, RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Forgets a neighbour.
    ///
    /// # Errors
    /// `ENOENT` when it is not known.
    pub fn delete_neighbour(&mut self, neighbour: Neighbour) -> Result<(), NetlinkError> {
        let action = format!("delete the neighbour {}", neighbour.address);
        self.request(&action, RouteNetlinkMessage::DelNeighbour(neighbour_message(neighbour)), 0)
    }

    fn request(&mut self, action: &str, message: RouteNetlinkMessage, flags: u16) -> Result<(), NetlinkError> {
        self.exchange(action, message, flags).map(drop)
    }

    /// Sends one request and collects the answers up to its acknowledgement.
    fn exchange(
        &mut self,
        action: &str,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<Vec<RouteNetlinkMessage>, NetlinkError> {
        self.sequence += 1;
        let mut packet = NetlinkMessage::from(message);
        packet.header.flags = NLM_F_REQUEST | flags;
        if flags & NLM_F_DUMP != NLM_F_DUMP {
            packet.header.flags |= NLM_F_ACK;
        }
        packet.header.sequence_number = self.sequence;
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        self.send_and_collect(&bytes).map_err(|error| NetlinkError::new(action, error))
    }

    fn send_and_collect(&self, request: &[u8]) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.socket.send(request, 0)?;
        let mut answers = Vec::new();
        let mut datagram = Vec::with_capacity(DATAGRAM_LEN_MAX);
        loop {
            datagram.clear();
            self.socket.recv(&mut datagram, 0)?;
            let mut rest = datagram.as_slice();
            while !rest.is_empty() {
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map_err(io::Error::other)?;
                // Messages start at multiples of four bytes (NLMSG_ALIGN).
                let len = (message.header.length as usize).next_multiple_of(4);
                rest = rest.get(len..).unwrap_or_default();
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                match message.payload {
                    NetlinkPayload::InnerMessage(inner) => answers.push(inner),
                    NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                    NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(answers),
                    NetlinkPayload::Overrun(_) => return Err(io::Error::other("the kernel's answer was cut")),
                    _ => {}
                }
            }
        }
    }
}

fn link_message(interface: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = interface;
    message
}

fn end_message(end: VethEnd<'_>, shape: VethShape) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(end.name.to_owned()),
        LinkAttribute::NetNsFd(end.namespace.as_fd().as_raw_fd()),
        LinkAttribute::Address(end.mac.to_vec()),
        LinkAttribute::Mtu(shape.mtu),
        LinkAttribute::NumTxQueues(shape.queues),
        LinkAttribute::NumRxQueues(shape.queues),
    ];
    message
}

fn route_message(route: Route) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: AddressFamily::Inet,
        destination_prefix_length: route.prefix_len,
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::Static,
        scope: RouteScope::Universe,
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    message.attributes = vec![
        RouteAttribute::Destination(RouteAddress::Inet(route.network)),
        RouteAttribute::Gateway(RouteAddress::Inet(route.gateway)),
        RouteAttribute::Oif(route.interface),
    ];
    message
}

fn neighbour_message(neighbour: Neighbour) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.ifindex = neighbour.interface;
    message.header.state = NeighbourState::Permanent;
    message.attributes = vec![NeighbourAttribute::Destination(NeighbourAddress::Inet(neighbour.address))];
    message
}
