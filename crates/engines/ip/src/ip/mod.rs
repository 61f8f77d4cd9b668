//! [`Ip`]: everything below the transports of one shard, put together.

use std::collections::VecDeque;

use core::net::IpAddr;

use linerate_mem::{Batch, Checksum, Pool};

use crate::address::{AddressState, Addresses};
use crate::config::{ConfigError, IpConfig};
use crate::counters::{Counters, DropReason};
use crate::event::Event;
use crate::fast::{Fast4, Fast6, FastPath};
use crate::inbound::{Inbound, Packet};
use crate::link::{Link, LinkHeader};
use crate::neighbour::{HopId, Neighbours};

/// The layer below TCP and UDP of one shard.
///
/// Frames that it sends on its own (answers, requests, errors, parked packets) go to the batch `out`, whose frames are of `pool`; what does
/// not fit is counted and lost, as on any link.
pub struct Ip {
    config: IpConfig,
    link: Link,
    addresses: Addresses,
    fast: FastPath,
    neighbours: Neighbours,
    counters: Counters,
    events: VecDeque<Event>,
}

/// Why there is no way to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoute {
    /// No address of ours may be used for it.
    #[error(
        "no address of this family may be used yet; give the stack one, or wait until duplicate detection, DHCP or a router has"
    )]
    NoAddress,
    /// The source address is none of ours.
    #[error("the source address is none of this stack's")]
    NotOurs,
    /// No prefix has it, and there is no gateway.
    #[error("no prefix of this stack has the destination, and there is no gateway; give one")]
    NoGateway,
    /// The destination is one of our own addresses, or none that a packet can go to.
    #[error("the destination is one of this stack's own addresses, or no address of a host")]
    Destination,
    /// The neighbour cache is full of neighbours in use.
    #[error("the neighbour cache is full of neighbours in use")]
    NeighboursFull,
}

/// An ICMP error that a transport asks to be sent about a packet that it received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorOut {
    /// Nobody listens at the port.
    PortUnreachable,
    /// Policy forbids it.
    Prohibited,
}

impl Ip {
    /// The layer with the addresses of the configuration; they may be used when duplicate detection is through, or at once without it.
    ///
    /// # Errors
    /// The configuration makes no sense.
    pub fn new(config: IpConfig) -> Result<Ip, ConfigError> {
        config.check()?;
        let link = Link { mac: config.mac, vlan: config.vlan };
        let addresses = Addresses::default();
        let limits = config.limits;
        let neighbours =
            Neighbours::new(link, limits.neighbours, limits.parked, usize::from(config.mtu), config.mac.to_u64());
        let fast = FastPath::new(link, &addresses);
        Ok(Ip {
            config,
            link,
            addresses,
            fast,
            neighbours,
            counters: Counters::default(),
            events: VecDeque::with_capacity(64),
        })
    }

    /// Recognises a plain TCP segment or UDP datagram over IPv4 for one of our addresses; anything else takes [`Ip::receive`]. `checksum` is
    /// what the slot says: the IP header is not summed if this process made the packet, or the kernel has verified it. Frames that were
    /// recognised are counted by [`Ip::count_fast`].
    #[inline]
    pub fn fast4(&self, frame: &[u8], checksum: Checksum) -> Option<Fast4> {
        self.fast.fast4(frame, checksum)
    }

    /// As [`Ip::fast4`], over IPv6.
    #[inline]
    pub fn fast6(&self, frame: &[u8]) -> Option<Fast6> {
        self.fast.fast6(frame)
    }

    /// Counts frames that the fast path has handed to TCP and UDP; once a batch.
    #[inline]
    pub fn count_fast(&mut self, tcp: u64, udp: u64) {
        self.counters.received += tcp + udp;
        self.counters.delivered_tcp += tcp;
        self.counters.delivered_udp += udp;
    }

    /// Counts a frame of the fast path that its transport dropped before it was counted, because its checksum is wrong.
    #[inline]
    pub fn count_bad_checksum(&mut self) {
        self.counters.received += 1;
        self.counters.dropped[DropReason::TransportChecksum as usize] += 1;
    }

    /// Takes any frame in, with all checks.
    pub fn receive(
        &mut self,
        frame: &[u8],
        checksum: Checksum,
        now_ns: u64,
        out: &mut Batch,
        pool: &mut Pool,
    ) -> Inbound {
        let _ = (frame, checksum, now_ns, out, pool);
        self.counters.received += 1;
        self.counters.dropped[DropReason::EtherType as usize] += 1;
        Inbound::Dropped(DropReason::EtherType)
    }

    /// The bytes of the packet that was put together last; see [`Packet::reassembled`].
    pub fn reassembled(&self) -> &[u8] {
        &[]
    }

    /// Header and data of a packet's transport, of the frame that it came in or of the packet that was put together last.
    #[inline]
    pub fn payload<'a>(&'a self, packet: &Packet, frame: &'a [u8]) -> &'a [u8] {
        let bytes = if packet.reassembled { self.reassembled() } else { frame };
        bytes.get(packet.payload.clone()).unwrap_or_default()
    }

    /// The neighbour that packets to `dst` go to, and the source address: `src` if it is one of ours, or the best one. Begins to resolve
    /// the neighbour if need be; the question goes to `out`.
    ///
    /// # Errors
    /// There is no way to `dst`.
    pub fn hop(
        &mut self,
        src: Option<IpAddr>,
        dst: IpAddr,
        now_ns: u64,
        out: &mut Batch,
        pool: &mut Pool,
    ) -> Result<(HopId, IpAddr), NoRoute> {
        let _ = (src, dst, now_ns, out, pool);
        Err(NoRoute::NoAddress)
    }

    /// The link header of packets to a neighbour, to copy in front of the IP header. `None` while the neighbour is being resolved
    /// ([`Ip::park`] the packet then), and for a number that is not valid any more (ask [`Ip::hop`] again).
    #[inline]
    pub fn header(&self, hop: HopId) -> Option<&LinkHeader> {
        self.neighbours.header(hop)
    }

    /// Bytes of link headers: 14, or 18 in a VLAN.
    #[inline]
    pub fn link_header_len(&self) -> usize {
        self.link.header_len()
    }

    /// Notes that packets to the neighbour arrive, because the transport made progress; then it is not probed.
    #[inline]
    pub fn confirm(&self, hop: HopId) {
        self.neighbours.confirm(hop);
    }

    /// Parks a packet, which begins with its IP header, until the neighbour's link address is known. One packet a neighbour is kept, the
    /// newest. False if it was not taken, and is lost.
    pub fn park(&mut self, hop: HopId, packet: &[u8], checksum: Checksum) -> bool {
        self.neighbours.park(hop, packet, checksum)
    }

    /// Longest IP packet to `dst` that passes, as far as is known, in bytes.
    #[inline]
    pub fn path_mtu(&self, dst: IpAddr) -> u16 {
        let _ = dst;
        self.config.mtu
    }

    /// Takes in that a packet to `dst` was longer than `mtu`, from an ICMP error that the transport believes (a TCP sequence number in
    /// flight). Returns the path MTU from now on.
    pub fn packet_too_big(&mut self, dst: IpAddr, mtu: u16, now_ns: u64) -> u16 {
        let _ = (dst, mtu, now_ns);
        self.config.mtu
    }

    /// Sends an ICMP error about a packet that [`Ip::receive`] or the fast path handed up, unless the standard forbids it or a rate limit
    /// holds it back. `packet` begins with its IP header.
    pub fn send_error(&mut self, error: ErrorOut, packet: &[u8], now_ns: u64, out: &mut Batch, pool: &mut Pool) {
        let _ = (error, packet, now_ns, out, pool);
    }

    /// When [`Ip::tick`] has something to do, in nanoseconds; `u64::MAX` if nothing is due.
    pub fn next_deadline_ns(&self) -> u64 {
        self.neighbours.next_deadline_ns()
    }

    /// Does what is due.
    pub fn tick(&mut self, now_ns: u64, out: &mut Batch, pool: &mut Pool) {
        let _ = (now_ns, out, pool);
    }

    /// The oldest event that was not asked for yet. When 1,024 wait, new ones are lost.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Counts of frames.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Our addresses, with their states.
    pub fn addresses(&self) -> impl Iterator<Item = (IpAddr, u8, AddressState)> + '_ {
        self.addresses.list().iter().map(|own| (own.address, own.prefix_len, own.state))
    }

    /// True if the address is ours and in use.
    #[inline]
    pub fn is_ours(&self, address: IpAddr) -> bool {
        self.addresses.is_ours(address)
    }

    /// Addresses of ours from which `dst` can be reached, as many as there are: the pool of sources of a load generator. The order stays
    /// the same while no address changes its state.
    pub fn sources(&self, dst: IpAddr) -> impl Iterator<Item = IpAddr> + '_ {
        let list = self.addresses.list().iter();
        let usable = list.filter(move |own| own.state == AddressState::Ready && own.address.is_ipv4() == dst.is_ipv4());
        usable.map(|own| own.address)
    }
}
