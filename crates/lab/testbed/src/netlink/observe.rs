//! What rtnetlink tells about a namespace: counters and state of links, queueing disciplines, neighbours, routes.

use std::io;
use std::net::IpAddr;

use linerate_experiment::IpVersion;
use linerate_sys::netlink::{Attributes, Body, DUMP, u16_at, u32_at, u64_at};

use super::{NEIGHBOUR_HEADER_LEN, Netlink, NetlinkError, link_message};

/// struct ifinfomsg.
const LINK_HEADER_LEN: usize = 16;
/// struct rtmsg.
const ROUTE_HEADER_LEN: usize = 12;
/// struct tcmsg.
const QUEUE_HEADER_LEN: usize = 20;
/// linux/if_link.h.
const IFLA_XDP_ATTACHED: u16 = 2;
/// linux/pkt_sched.h.
const TC_H_ROOT: u32 = 0xffff_ffff;

/// Fields of struct rtnl_link_stats64 that count errors and drops, with their offsets in bytes. The kernel adds what its stack drops to
/// `rx_dropped` and `tx_dropped`.
pub const ERROR_FIELDS: [(&str, usize); 10] = [
    ("rx_errors", 32),
    ("tx_errors", 40),
    ("rx_dropped", 48),
    ("tx_dropped", 56),
    ("rx_length_errors", 80),
    ("rx_over_errors", 88),
    ("rx_crc_errors", 96),
    ("rx_frame_errors", 104),
    ("rx_fifo_errors", 112),
    ("rx_missed_errors", 120),
];

/// Counters of an interface: a part of struct rtnl_link_stats64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets received.
    pub rx_packets: u64,
    /// Packets transmitted.
    pub tx_packets: u64,
    /// Packets dropped on reception.
    pub rx_dropped: u64,
    /// Packets dropped on transmission.
    pub tx_dropped: u64,
    /// Packets dropped because their destination MAC address is another's; 0 on kernels before 5.19.
    pub rx_otherhost_dropped: u64,
    /// Errors and drops, by the names in [`ERROR_FIELDS`].
    pub errors: [u64; ERROR_FIELDS.len()],
}

/// State and counters of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkStatistics {
    /// Its counters.
    pub counters: LinkCounters,
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
    fn of(answer: &[u8]) -> Option<Self> {
        let attributes = Attributes::behind(LINK_HEADER_LEN, answer);
        let flags = u32_at(answer, 8)?;
        let wanted = (libc::IFF_UP | libc::IFF_LOWER_UP) as u32;
        let statistics = attributes.find(libc::IFLA_STATS64)?;
        let counters = LinkCounters {
            rx_packets: u64_at(statistics, 0)?,
            tx_packets: u64_at(statistics, 8)?,
            rx_dropped: u64_at(statistics, 48)?,
            tx_dropped: u64_at(statistics, 56)?,
            rx_otherhost_dropped: u64_at(statistics, 192).unwrap_or(0),
            errors: ERROR_FIELDS.map(|(_, offset)| u64_at(statistics, offset).unwrap_or(0)),
        };
        let xdp = attributes.nested(libc::IFLA_XDP).and_then(|xdp| xdp.find(IFLA_XDP_ATTACHED));
        Some(Self {
            counters,
            running: flags & wanted == wanted,
            carrier_losses: attributes.u32(libc::IFLA_CARRIER_DOWN_COUNT).unwrap_or(0),
            xdp: xdp.is_some_and(|attached| attached != [0]),
        })
    }
}

impl Netlink {
    /// State and 64-bit counters of an interface.
    ///
    /// # Errors
    /// `ENODEV` when there is none.
    pub fn link_statistics(&mut self, interface: u32) -> Result<LinkStatistics, NetlinkError> {
        let action = format!("read the counters of interface {interface}");
        let answers = self.exchange(&action, libc::RTM_GETLINK, 0, &link_message(interface))?;
        let statistics = answers.iter().find_map(|answer| LinkStatistics::of(answer));
        statistics.ok_or_else(|| NetlinkError::new(action, io::Error::other("the answer has no 64-bit counters")))
    }

    /// Every interface of the namespace by index and name, with what it has transmitted.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn links(&mut self) -> Result<Vec<(u32, String, u64)>, NetlinkError> {
        let answers = self.exchange("list the interfaces", libc::RTM_GETLINK, DUMP, &link_message(0))?;
        let link = |answer: &Vec<u8>| {
            let name = Attributes::behind(LINK_HEADER_LEN, answer).text(libc::IFLA_IFNAME)?;
            Some((u32_at(answer, 4)?, name, LinkStatistics::of(answer)?.counters.tx_packets))
        };
        Ok(answers.iter().filter_map(link).collect())
    }

    /// What the root queueing discipline of an interface dropped, and what waits in it; nothing when it has none.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn queue_counts(&mut self, interface: u32) -> Result<QueueCounts, NetlinkError> {
        let action = format!("read the queueing discipline of interface {interface}");
        let mut header = [0; QUEUE_HEADER_LEN];
        header[4..8].copy_from_slice(&interface.to_ne_bytes());
        let answers = self.exchange(&action, libc::RTM_GETQDISC, DUMP, &Body::new(&header))?;
        let counts = |answer: &Vec<u8>| {
            let is_root = u32_at(answer, 4) == Some(interface) && u32_at(answer, 12) == Some(TC_H_ROOT);
            // struct tc_stats.
            let statistics = Attributes::behind(QUEUE_HEADER_LEN, answer).find(libc::TCA_STATS).filter(|_| is_root)?;
            Some(QueueCounts { drops: u32_at(statistics, 12)?.into(), queued: u32_at(statistics, 28)?.into() })
        };
        // An interface has one root.
        Ok(answers.iter().find_map(counts).unwrap_or_default())
    }

    /// The addresses of the namespace that were looked for and have not answered.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn unresolved_neighbours(&mut self) -> Result<Vec<IpAddr>, NetlinkError> {
        let mut answers = self.list("list the neighbours", libc::RTM_GETNEIGH, NEIGHBOUR_HEADER_LEN, libc::AF_INET)?;
        // A kernel without IPv6 has none.
        let of_ipv6 = self.list("list the neighbours", libc::RTM_GETNEIGH, NEIGHBOUR_HEADER_LEN, libc::AF_INET6);
        answers.extend(of_ipv6.unwrap_or_default());
        let waiting = |answer: &Vec<u8>| {
            let waits = [Some(libc::NUD_INCOMPLETE), Some(libc::NUD_FAILED)].contains(&u16_at(answer, 8));
            let address = Attributes::behind(NEIGHBOUR_HEADER_LEN, answer).find(libc::NDA_DST)?;
            let of_ipv4 = <[u8; 4]>::try_from(address).ok().map(IpAddr::from);
            let address = of_ipv4.or_else(|| <[u8; 16]>::try_from(address).ok().map(IpAddr::from))?;
            waits.then_some(address)
        };
        Ok(answers.iter().filter_map(waiting).collect())
    }

    /// Whether a route of this version of IP exists that refuses what it matches: blackhole, unreachable or prohibit.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn has_refusing_route(&mut self, version: IpVersion) -> Result<bool, NetlinkError> {
        let answers = match version {
            IpVersion::V4 => self.list("list the routes", libc::RTM_GETROUTE, ROUTE_HEADER_LEN, libc::AF_INET)?,
            // A kernel without IPv6 has none.
            IpVersion::V6 => {
                self.list("list the routes", libc::RTM_GETROUTE, ROUTE_HEADER_LEN, libc::AF_INET6).unwrap_or_default()
            }
        };
        let refusing = [libc::RTN_BLACKHOLE, libc::RTN_UNREACHABLE, libc::RTN_PROHIBIT];
        // The kernel's own route to nowhere is behind all others.
        let is_last = |answer: &[u8]| {
            let priority = Attributes::behind(ROUTE_HEADER_LEN, answer).u32(libc::RTA_PRIORITY);
            priority == Some(u32::MAX)
        };
        Ok(answers.iter().any(|answer| answer.get(7).is_some_and(|kind| refusing.contains(kind)) && !is_last(answer)))
    }

    /// All of one family.
    fn list(
        &mut self,
        action: &str,
        kind: u16,
        header_len: usize,
        family: libc::c_int,
    ) -> Result<Vec<Vec<u8>>, NetlinkError> {
        let mut header = vec![0; header_len];
        header[0] = family as u8;
        self.exchange(action, kind, DUMP, &Body::new(&header))
    }
}
