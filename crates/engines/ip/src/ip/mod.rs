//! [`Ip`]: everything below the transports of one shard, put together.
//!
//! ```text
//! mod.rs         the type, its calls, what is due          receive4.rs, receive6.rs   checks of packets, transports
//! arp.rs, nd.rs  neighbours ask and answer                 icmp4.rs, icmp6.rs         echoes, errors in and out
//! resolve.rs     routes, hops, questions, parked packets   addresses.rs               duplicate detection, lifetimes
//! router.rs      advertisements of routers, SLAAC          send.rs                    packets of this layer's own, fragments
//! checks.rs      checks and codes that these share            lease.rs                   DHCP
//! ```

mod addresses;
mod arp;
mod checks;
mod icmp4;
mod icmp6;
mod lease;
mod nd;
mod receive4;
mod receive6;
mod resolve;
mod router;
mod send;

use std::collections::VecDeque;

use core::net::IpAddr;

use linerate_mem::{Batch, Checksum, Pool};
use linerate_reassembly::{GivenUp, Reassembler, ReassemblyLimits};
use linerate_wire::EtherType;

use crate::address::{AddressState, Addresses, Origin};
use crate::config::{ConfigError, DhcpMode, IpConfig};
use crate::counters::{Counters, DropReason};
use crate::dhcp::{CLIENT_PORT, Dhcp};
use crate::error_limit::ErrorLimit;
use crate::event::Event;
use crate::fast::{Fast4, Fast6, FastPath, UsualDatagram4};
use crate::inbound::{Inbound, Packet};
use crate::link::{Link, LinkHeader, NotForUs};
use crate::neighbour::{Action, HopId, Neighbours};
use crate::output::Output;
use crate::path_mtu::PathMtus;
use crate::random::Random;
use crate::routes::Routes;

/// Events that wait at most.
const EVENTS_MAX: usize = 1024;
/// Time after the first fragment at which a packet is given up (RFC 8200 section 4.5, RFC 1122 section 3.3.2).
const REASSEMBLY_NS: u64 = 60_000_000_000;
/// Time between two looks for paths and lifetimes that are over.
const HOUSEKEEPING_NS: u64 = 1_000_000_000;

/// The layer below TCP and UDP of one shard.
///
/// Frames that it sends on its own (answers, requests, errors, parked packets) go to the batch `out`, whose frames are of `pool`; what does
/// not fit is counted and lost, as on any link.
pub struct Ip {
    config: IpConfig,
    link: Link,
    addresses: Addresses,
    fast: FastPath,
    routes: Routes,
    neighbours: Neighbours,
    paths: PathMtus,
    reassembler: Reassembler,
    error_limit: ErrorLimit,
    random: Random,
    counters: Counters,
    events: VecDeque<Event>,
    /// When an address of ours has something to do.
    addresses_ns: u64,
    /// When lifetimes are looked at; `u64::MAX` if there are none.
    lifetimes_ns: u64,
    solicit: router::Solicit,
    dhcp: Option<Dhcp>,
    sharing: lease::Sharing,
    /// Hop limit of IPv6 packets of ours (RFC 4861 section 6.3.4).
    hop_limit: u8,
    /// Identification of IPv4 packets that may be fragmented.
    identification: u16,
    /// The packet that was put together last.
    assembled: Vec<u8>,
    /// A packet that is being built.
    scratch: Vec<u8>,
    actions: Vec<Action>,
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
        let mut random = Random::new(config.secret, "ip");
        let seed = random.next();
        let neighbours = Neighbours::new(link, limits.neighbours, limits.parked, usize::from(config.mtu), seed);
        let dhcp = lease::client(&config);
        let fast = FastPath::new(link, &addresses, dhcp.is_some());
        let reassembly = ReassemblyLimits { packets: limits.reassemblies, timeout_ns: REASSEMBLY_NS };
        let mut ip = Ip {
            link,
            addresses,
            fast,
            routes: Routes::default(),
            neighbours,
            paths: PathMtus::new(config.mtu, limits.paths),
            reassembler: Reassembler::new(reassembly),
            error_limit: ErrorLimit::new(limits.icmp_errors_per_second, config.secret),
            identification: random.next() as u16,
            random,
            counters: Counters::default(),
            events: VecDeque::with_capacity(EVENTS_MAX),
            addresses_ns: u64::MAX,
            lifetimes_ns: u64::MAX,
            solicit: router::Solicit::new(config.ipv6),
            dhcp,
            sharing: lease::Sharing::new(&config),
            hop_limit: 64,
            assembled: Vec::new(),
            scratch: Vec::new(),
            actions: Vec::with_capacity(limits.neighbours),
            config,
        };
        ip.configure();
        Ok(ip)
    }

    /// Takes the addresses, prefixes and gateways of the configuration.
    fn configure(&mut self) {
        if self.config.ipv6 {
            self.add_link_local();
        }
        for range in self.config.addresses.clone() {
            self.routes.set_on_link(range.first, range.prefix_len, u64::MAX);
            for address in range.iter() {
                self.add_address(address, range.prefix_len, Origin::Static);
            }
        }
        for (prefix, len) in self.config.on_link.clone() {
            self.routes.set_on_link(prefix, len, u64::MAX);
        }
        for gateway in self.config.gateways.clone() {
            self.routes.set_router(gateway, u64::MAX);
        }
        self.addresses_changed();
    }

    /// Recognises a plain TCP segment or UDP datagram over IPv4 for one of our addresses; anything else takes [`Ip::receive`]. `checksum` is
    /// what the slot says: the IP header is not summed if this process made the packet, or the kernel has verified it. Frames that were
    /// recognised are counted by [`Ip::count_fast`].
    #[inline]
    pub fn fast4(&self, frame: &[u8], checksum: Checksum) -> Option<Fast4> {
        self.fast.fast4(frame, checksum)
    }

    /// Recognises a usual TCP segment over IPv4 for one of our addresses, and says how many bytes of data it has ([`crate::Usual4`]). The
    /// caller looks for a connection of these addresses; if there is none, it asks [`Ip::may_send4`] about the source address, too.
    #[inline(always)]
    pub fn usual4(&self, frame: &[u8], checksum: Checksum) -> Option<u16> {
        self.fast.usual4(frame, checksum)
    }

    /// Recognises a usual SYN over IPv4 for one of our addresses ([`crate::UsualSyn4`]); anything else takes another way. `checksum` as for
    /// [`Ip::fast4`].
    #[inline]
    pub fn is_usual_syn4(&self, frame: &[u8], checksum: Checksum) -> bool {
        self.fast.is_usual_syn4(frame, checksum)
    }

    /// See [`crate::Udp::receive_usual4`].
    #[inline(always)]
    pub(crate) fn usual_datagram4<'a>(&self, frame: &'a [u8], checksum: Checksum) -> Option<UsualDatagram4<'a>> {
        self.fast.usual_datagram4(frame, checksum)
    }

    /// True if the frame is probably a datagram that [`crate::Udp::receive_usual4`] takes; one compare tells.
    #[inline(always)]
    pub fn may_be_datagram4(&self, frame: &[u8]) -> bool {
        self.fast.may_be_datagram4(frame)
    }

    /// True for addresses that another host can have.
    #[inline]
    pub fn may_send4(&self, src: u32) -> bool {
        self.fast.may_send4(src)
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

    /// Takes any frame in, with all checks.
    pub fn receive(
        &mut self,
        frame: &[u8],
        checksum: Checksum,
        now_ns: u64,
        out: &mut Batch,
        pool: &mut Pool,
    ) -> Inbound {
        let mut out = Output { now_ns, batch: out, pool };
        let inbound = self.frame(frame, checksum, &mut out).unwrap_or_else(Inbound::Dropped);
        self.counters.received += 1;
        match &inbound {
            Inbound::Tcp(_) => self.counters.delivered_tcp += 1,
            Inbound::Udp(_) => self.counters.delivered_udp += 1,
            Inbound::Error(_) => self.counters.delivered_errors += 1,
            Inbound::Handled => self.counters.handled += 1,
            Inbound::Dropped(reason) => self.counters.dropped[*reason as usize] += 1,
        }
        inbound
    }

    fn frame(&mut self, frame: &[u8], checksum: Checksum, out: &mut Output<'_>) -> Result<Inbound, DropReason> {
        let arrived = self.link.receive(frame).map_err(|why| match why {
            NotForUs::Truncated => DropReason::Truncated,
            NotForUs::Vlan => DropReason::Vlan,
            NotForUs::Mac => DropReason::OtherMac,
            NotForUs::Source => DropReason::SourceMac,
        })?;
        match arrived.ethertype {
            EtherType::IPV4 => self.receive4(frame, &arrived, checksum, out),
            EtherType::IPV6 if self.config.ipv6 => self.receive6(frame, &arrived, checksum, out),
            EtherType::ARP => self.receive_arp(&frame[arrived.offset..], &arrived, out),
            _ => Err(DropReason::EtherType),
        }
    }

    /// The bytes of the packet that was put together last, from its IP header on; see [`Packet::reassembled`].
    pub fn reassembled(&self) -> &[u8] {
        &self.assembled
    }

    /// Header and data of a packet's transport, of the frame that it came in or of the packet that was put together last.
    #[inline]
    pub fn payload<'a>(&'a self, packet: &Packet, frame: &'a [u8]) -> &'a [u8] {
        self.bytes(packet, frame).get(packet.payload.clone()).unwrap_or_default()
    }

    /// The bytes that a packet lies in: the frame that it came in, or those of the packet that was put together last.
    #[inline]
    pub fn bytes<'a>(&'a self, packet: &Packet, frame: &'a [u8]) -> &'a [u8] {
        if packet.reassembled { self.reassembled() } else { frame }
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
        self.resolve(src, dst, &mut Output { now_ns, batch: out, pool })
    }

    /// True if the address can be that of one host: no group, broadcast, loopback or unspecified address.
    pub fn is_host(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.is_host4(address),
            IpAddr::V6(address) => checks::is_host6(address),
        }
    }

    /// The link header of packets to a neighbour, to copy in front of the IP header. `None` while the neighbour is being resolved
    /// ([`Ip::park`] the packet then), and for a number that is not valid any more (ask [`Ip::hop`] again).
    #[inline]
    pub fn header(&self, hop: HopId) -> Option<&LinkHeader> {
        self.neighbours.header(hop)
    }

    /// True if the neighbour was asked three times in vain, by ARP or neighbour discovery, and has not been heard of since.
    pub fn has_failed(&self, hop: HopId) -> bool {
        self.neighbours.has_failed(hop)
    }

    /// Notes that packets to the neighbour arrive, because the transport made progress; then it is not probed.
    #[inline]
    pub fn confirm(&self, hop: HopId) {
        self.neighbours.confirm(hop);
    }

    /// Parks a packet, which begins with its IP header, until the neighbour's link address is known. One packet a neighbour is kept, the
    /// newest. False if it was not taken, and is lost.
    pub fn park(&mut self, hop: HopId, packet: &[u8], checksum: Checksum) -> bool {
        let is_taken = self.neighbours.park(hop, packet, checksum);
        self.counters.parked += u64::from(is_taken);
        is_taken
    }

    /// Hop limit of IPv6 packets: 64, or more if a router says so (RFC 4861 section 6.3.4).
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.hop_limit
    }

    /// Longest IP packet to `dst` that passes, as far as is known, in bytes.
    #[inline]
    pub fn path_mtu(&self, dst: IpAddr) -> u16 {
        self.paths.get(dst)
    }

    /// True if IPv4 packets of `len` bytes pass to every destination, as far as is known.
    #[inline]
    pub(crate) fn passes4(&self, len: usize) -> bool {
        self.paths.passes4(len)
    }

    /// Takes in that a packet to `dst` was longer than `mtu`, from an ICMP error that the transport believes (a TCP sequence number in
    /// flight). Returns the path MTU from now on.
    pub fn packet_too_big(&mut self, dst: IpAddr, mtu: u16, now_ns: u64) -> u16 {
        self.lifetimes_ns = self.lifetimes_ns.min(now_ns + HOUSEKEEPING_NS);
        self.paths.too_big(dst, mtu, now_ns)
    }

    /// Takes in that packets of `len` bytes to `dst` vanish. Returns the path MTU from now on; if they are longer than every path should pass,
    /// a search for the real one begins ([`Ip::mtu_probe`]).
    pub fn path_black_hole(&mut self, dst: IpAddr, len: u16, now_ns: u64) -> u16 {
        self.lifetimes_ns = self.lifetimes_ns.min(now_ns + HOUSEKEEPING_NS);
        self.paths.black_hole(dst, len, now_ns)
    }

    /// Length of the IP packet that is to be sent to `dst` as a probe of the path MTU now (RFC 8899, RFC 4821); `None` if none is due. The
    /// transport reports its fate by [`Ip::mtu_probe_acked`] or [`Ip::mtu_probe_lost`].
    pub fn mtu_probe(&mut self, dst: IpAddr, now_ns: u64) -> Option<u16> {
        self.paths.probe(dst, now_ns)
    }

    /// A probe of `len` bytes arrived; returns the path MTU from now on.
    pub fn mtu_probe_acked(&mut self, dst: IpAddr, len: u16) -> u16 {
        self.paths.probe_acked(dst, len)
    }

    /// A probe of `len` bytes was lost.
    pub fn mtu_probe_lost(&mut self, dst: IpAddr, len: u16) {
        self.paths.probe_lost(dst, len);
    }

    /// Sends an ICMP error about a packet that [`Ip::receive`] or the fast path handed up, unless the standard forbids it or a rate limit
    /// holds it back. `packet` begins with its IP header.
    pub fn send_error(&mut self, error: ErrorOut, packet: &[u8], now_ns: u64, out: &mut Batch, pool: &mut Pool) {
        let mut out = Output { now_ns, batch: out, pool };
        match packet.first().map(|first| first >> 4) {
            Some(4) => self.error4(checks::error4_of(error), packet, &mut out),
            Some(6) => self.error6(checks::error6_of(error), packet, &mut out),
            _ => {}
        }
    }

    /// When [`Ip::tick`] has something to do, in nanoseconds; `u64::MAX` if nothing is due.
    pub fn next_deadline_ns(&self) -> u64 {
        let fixed = [
            self.neighbours.next_deadline_ns(),
            self.reassembler.next_deadline_ns(),
            self.addresses_ns,
            self.lifetimes_ns,
            self.solicit.next_ns,
            self.dhcp.as_ref().map_or(u64::MAX, Dhcp::next_deadline_ns),
            self.sharing.next_deadline_ns(),
        ];
        fixed.into_iter().fold(u64::MAX, u64::min)
    }

    /// Does what is due.
    pub fn tick(&mut self, now_ns: u64, out: &mut Batch, pool: &mut Pool) {
        let mut out = Output { now_ns, batch: out, pool };
        if now_ns >= self.neighbours.next_deadline_ns() {
            self.sweep_neighbours(&mut out);
        }
        if now_ns >= self.addresses_ns {
            self.step_addresses(&mut out);
        }
        if now_ns >= self.solicit.next_ns {
            self.solicit_routers(&mut out);
        }
        self.tick_dhcp(&mut out);
        if now_ns >= self.reassembler.next_deadline_ns() {
            self.expire_fragments(&mut out);
        }
        if now_ns >= self.lifetimes_ns {
            self.paths.expire(now_ns);
            self.expire_lifetimes(now_ns);
        }
        // Last, because what it tells is what all else made of the lease.
        self.share_lease(now_ns);
    }

    /// The oldest event that was not asked for yet. When 1,024 wait, new ones are lost.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn tell(&mut self, event: Event) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        }
    }

    /// Counts of frames.
    pub fn counters(&self) -> Counters {
        let neighbours = &self.neighbours;
        Counters {
            parked_dropped: neighbours.parked_dropped,
            neighbours_evicted: neighbours.evicted,
            neighbours_refused: neighbours.refused,
            ..self.counters
        }
    }

    /// Fragments that are held now, and those that were given up.
    pub fn fragments(&self) -> (u64, GivenUp) {
        (self.reassembler.held(), self.reassembler.given_up())
    }

    /// Our addresses, with the bits of their prefixes and their states.
    pub fn addresses(&self) -> impl Iterator<Item = (IpAddr, u8, AddressState)> + '_ {
        self.addresses.list().iter().map(|own| (own.address, own.prefix_len, own.state))
    }

    /// True if the address is ours and in use.
    #[inline]
    pub fn is_ours(&self, address: IpAddr) -> bool {
        self.addresses.is_ours(address)
    }

    /// True for the UDP port of the DHCP client, if there is one, here or in the first shard.
    pub(crate) fn is_port_of_dhcp(&self, port: u16) -> bool {
        port == CLIENT_PORT && self.config.dhcp != DhcpMode::Off
    }

    /// Addresses of ours from which `dst` can be reached, as many as there are: the pool of sources of a load generator. The order stays
    /// the same while no address changes its state.
    pub fn sources(&self, dst: IpAddr) -> impl Iterator<Item = IpAddr> + '_ {
        self.addresses.sources(dst)
    }

    /// The neighbours that are known: address, link address if it is known, and a word for the state.
    pub fn neighbours(&self) -> impl Iterator<Item = (IpAddr, linerate_wire::MacAddress, &'static str)> + '_ {
        self.neighbours.iter().map(|(address, mac, state)| (address, mac, state.name()))
    }
}
