//! What rtnetlink tells about a namespace: counters and state of links, queueing disciplines, neighbours, routes.

use std::io;
use std::net::Ipv4Addr;

use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage, LinkXdp, Stats64, XdpAttached};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{RouteMessage, RouteType};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::{Netlink, NetlinkError, link_message};

/// State and counters of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkStatistics {
    /// Its counters (struct rtnl_link_stats64).
    pub counters: Stats64,
    /// Whether it is up and has a carrier.
    pub running: bool,
    /// How often its carrier went away.
    pub carrier_losses: u32,
    /// Whether an XDP program is attached.
    pub xdp: bool,
}

/// Packets of the root queueing discipline of an interface, all that is below it included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueCounts {
    /// Dropped since it was made, modulo 2^32.
    pub drops: u64,
    /// Waiting in it now.
    pub queued: u64,
}

impl LinkStatistics {
    fn of(link: LinkMessage) -> Option<Self> {
        let running = link.header.flags.contains(LinkFlags::Up | LinkFlags::LowerUp);
        let (mut counters, mut carrier_losses, mut xdp) = (None, 0, false);
        for attribute in link.attributes {
            match attribute {
                LinkAttribute::Stats64(found) => counters = Some(found),
                LinkAttribute::CarrierDownCount(count) => carrier_losses = count,
                LinkAttribute::Xdp(parts) => {
                    let attached =
                        |part: &LinkXdp| matches!(part, LinkXdp::Attached(mode) if *mode != XdpAttached::None);
                    xdp = parts.iter().any(attached);
                }
                _ => {}
            }
        }
        Some(Self { counters: counters?, running, carrier_losses, xdp })
    }
}

impl Netlink {
    /// State and 64-bit counters of an interface.
    ///
    /// # Errors
    /// `ENODEV` when there is none.
    pub fn link_statistics(&mut self, interface: u32) -> Result<LinkStatistics, NetlinkError> {
        let action = format!("read the counters of interface {interface}");
        let answers = self.exchange(&action, RouteNetlinkMessage::GetLink(link_message(interface)), 0)?;
        let statistics = answers.into_iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewLink(link) => LinkStatistics::of(link),
            _ => None,
        });
        statistics.ok_or_else(|| NetlinkError::new(action, io::Error::other("the answer has no 64-bit counters")))
    }

    /// What the root queueing discipline of an interface dropped, and what waits in it; nothing when it has none.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn queue_counts(&mut self, interface: u32) -> Result<QueueCounts, NetlinkError> {
        let action = format!("read the queueing discipline of interface {interface}");
        let index = i32::try_from(interface).map_err(|error| NetlinkError::new(&action, io::Error::other(error)))?;
        let message = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::with_index(index));
        let answers = self.exchange(&action, message, NLM_F_DUMP)?;
        let counts = |answer: RouteNetlinkMessage| match answer {
            RouteNetlinkMessage::NewQueueDiscipline(queue)
                if queue.header.index == index && queue.header.parent == TcHandle::ROOT =>
            {
                queue.attributes.into_iter().find_map(|attribute| match attribute {
                    TcAttribute::Stats(statistics) => {
                        Some(QueueCounts { drops: statistics.drops.into(), queued: statistics.qlen.into() })
                    }
                    _ => None,
                })
            }
            _ => None,
        };
        // An interface has one root.
        Ok(answers.into_iter().find_map(counts).unwrap_or_default())
    }

    /// The IPv4 addresses that were looked for on an interface and have not answered.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn unresolved_neighbours(&mut self, interface: u32) -> Result<Vec<Ipv4Addr>, NetlinkError> {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Inet;
        let answers = self.exchange("list the neighbours", RouteNetlinkMessage::GetNeighbour(message), NLM_F_DUMP)?;
        let waiting = |answer: RouteNetlinkMessage| match answer {
            RouteNetlinkMessage::NewNeighbour(found)
                if found.header.ifindex == interface
                    && matches!(found.header.state, NeighbourState::Incomplete | NeighbourState::Failed) =>
            {
                found.attributes.into_iter().find_map(|attribute| match attribute {
                    NeighbourAttribute::Destination(NeighbourAddress::Inet(address)) => Some(address),
                    _ => None,
                })
            }
            _ => None,
        };
        Ok(answers.into_iter().filter_map(waiting).collect())
    }

    /// Whether an IPv4 route exists that refuses what it matches: blackhole, unreachable or prohibit.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn has_refusing_route(&mut self) -> Result<bool, NetlinkError> {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        let answers = self.exchange("list the routes", RouteNetlinkMessage::GetRoute(message), NLM_F_DUMP)?;
        let refuses = |answer: &RouteNetlinkMessage| match answer {
            RouteNetlinkMessage::NewRoute(route) => {
                matches!(route.header.kind, RouteType::BlackHole | RouteType::Unreachable | RouteType::Prohibit)
            }
            _ => false,
        };
        Ok(answers.iter().any(refuses))
    }
}
