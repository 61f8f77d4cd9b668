//! The IPv4 address that a DHCP server leases: asked for by the first shard, used by all.

use core::net::{IpAddr, Ipv4Addr};

use linerate_mem::Checksum;
use linerate_wire::{EtherType, MacAddress, Protocol, Sum, ipv4, udp};

use super::Ip;
use crate::address::{AddressState, Origin};
use crate::config::{DhcpMode, IpConfig};
use crate::counters::DropReason;
use crate::dhcp::{CLIENT_PORT, Change, Dhcp, Message, SERVER_PORT, is_for_client};
use crate::event::Event;
use crate::inbound::Inbound;
use crate::output::Output;

/// Time between two looks of another shard at what the first one told: while it has no address, and later. A lease is renewed when half of
/// it is left, 30 s at least.
const LOOK_FIRST_NS: u64 = 20_000_000;
const LOOK_NS: u64 = 1_000_000_000;

/// What a shard has to do with the lease that all shards use.
#[derive(Debug)]
pub(super) enum Sharing {
    /// Nothing: there is one shard, or no DHCP.
    Off,
    /// It tells the others.
    Tells {
        /// The address may be another one, or may be used or not by now.
        has_news: bool,
    },
    /// It looks what the first one told.
    Follows {
        /// What it has seen.
        version: u64,
        /// When it looks.
        look_ns: u64,
    },
}

impl Sharing {
    pub(super) fn new(config: &IpConfig) -> Sharing {
        match (&config.dhcp, config.shard.is_first()) {
            (DhcpMode::On { .. }, true) if config.shard.of() > 1 => Sharing::Tells { has_news: false },
            (DhcpMode::On { .. }, false) => Sharing::Follows { version: 0, look_ns: 0 },
            _ => Sharing::Off,
        }
    }

    /// Notes that there may be something to tell.
    pub(super) fn lease_changed(&mut self) {
        if let Sharing::Tells { has_news } = self {
            *has_news = true;
        }
    }

    /// When [`Ip::share_lease`] has something to do.
    pub(super) fn next_deadline_ns(&self) -> u64 {
        match self {
            Sharing::Tells { has_news: true } => 0,
            Sharing::Follows { look_ns, .. } => *look_ns,
            _ => u64::MAX,
        }
    }
}

/// The client of a shard that asks for an address by itself.
pub(super) fn client(config: &IpConfig) -> Option<Dhcp> {
    match &config.dhcp {
        DhcpMode::On { host_name } if config.shard.is_first() => Some(Dhcp::new(config.mac, host_name, config.secret)),
        _ => None,
    }
}

impl Ip {
    /// Tells the other shards of an address that may be used by now, or that may not any more; or does as the first one told.
    pub(super) fn share_lease(&mut self, now_ns: u64) {
        match &mut self.sharing {
            Sharing::Tells { has_news } if *has_news => {
                *has_news = false;
                let lease = self.dhcp.as_ref().and_then(Dhcp::lease).filter(|lease| {
                    let own = self.addresses.find(lease.address.into());
                    own.is_some_and(|own| matches!(own.state, AddressState::Ready | AddressState::Deprecated))
                });
                self.config.lease.tell(lease.cloned());
            }
            Sharing::Follows { version, look_ns } if *look_ns <= now_ns => {
                let news = self.config.lease.news(version);
                let has_address = match &news {
                    Some(told) => told.is_some(),
                    None => self.addresses.list().iter().any(|own| own.origin == Origin::Dhcp),
                };
                *look_ns = now_ns + if has_address { LOOK_NS } else { LOOK_FIRST_NS };
                match news {
                    Some(Some(lease)) => self.lease_changed(Change::Bound(lease)),
                    Some(None) => self.forget_lease(),
                    None => {}
                }
            }
            _ => {}
        }
    }

    /// True if a datagram is for the DHCP client.
    pub(super) fn is_for_dhcp(&self, datagram: &[u8]) -> bool {
        self.dhcp.is_some() && is_for_client(datagram)
    }

    /// Takes a datagram for the DHCP client.
    pub(super) fn receive_dhcp(&mut self, datagram: &[u8], out: &mut Output<'_>) -> Result<Inbound, DropReason> {
        let dhcp = self.dhcp.as_mut().ok_or(DropReason::Dhcp)?;
        let change = dhcp.receive(&datagram[udp::HEADER_LEN..], out.now_ns).ok_or(DropReason::Dhcp)?;
        self.lease_changed(change);
        self.tick_dhcp(out);
        Ok(Inbound::Handled)
    }

    /// Sends what the DHCP client has to say now.
    pub(super) fn tick_dhcp(&mut self, out: &mut Output<'_>) {
        let Some(dhcp) = &mut self.dhcp else { return };
        let (message, change) = dhcp.tick(out.now_ns);
        self.lease_changed(change);
        if let Some(message) = message {
            self.send_dhcp(&message, out);
        }
    }

    /// Tells the server that somebody else has the address that it leased.
    pub(super) fn decline_lease(&mut self, out: &mut Output<'_>) {
        let message = self.dhcp.as_mut().and_then(|dhcp| dhcp.decline(out.now_ns));
        if let Some(message) = message {
            self.send_dhcp(&message, out);
            self.forget_lease();
        }
    }

    fn lease_changed(&mut self, change: Change) {
        let lease = match change {
            Change::Nothing => return,
            Change::Lost => return self.forget_lease(),
            Change::Bound(lease) => lease,
        };
        let address = IpAddr::V4(lease.address);
        let is_new = self.addresses.find(address).is_none();
        if is_new {
            self.forget_lease();
            self.add_address(address, lease.prefix_len, Origin::Dhcp);
        }
        if let Some(index) = self.addresses.position(address) {
            self.set_lifetimes(index, u64::MAX, lease.until_ns);
        }
        self.routes.set_on_link(address, lease.prefix_len, lease.until_ns);
        if let Some(router) = lease.router {
            self.routes.set_router(router.into(), lease.until_ns);
        }
        if is_new {
            for server in lease.name_servers {
                self.tell(Event::NameServer(server.into()));
            }
        }
        self.addresses_changed();
    }

    /// Takes the leased address away.
    fn forget_lease(&mut self) {
        let Some(index) = self.addresses.list().iter().position(|own| own.origin == Origin::Dhcp) else { return };
        let own = self.addresses.list()[index];
        self.addresses.remove(index);
        self.routes.set_on_link(own.address, own.prefix_len, 0);
        self.tell(Event::AddressLost(own.address));
        self.addresses_changed();
    }

    fn send_dhcp(&mut self, message: &Message, out: &mut Output<'_>) {
        let udp_len = (udp::HEADER_LEN + message.bytes.len()) as u16;
        let header = ipv4::Header {
            total_len: ipv4::HEADER_LEN as u16 + udp_len,
            identification: self.next_identification(),
            protocol: Protocol::UDP,
            src: message.src,
            dst: message.dst,
            ..Default::default()
        };
        let mut packet = vec![0; ipv4::HEADER_LEN + udp::HEADER_LEN];
        header.emit(&mut packet);
        udp::Header { src_port: CLIENT_PORT, dst_port: SERVER_PORT, length: udp_len, checksum: 0 }
            .emit(&mut packet[ipv4::HEADER_LEN..]);
        packet.extend_from_slice(&message.bytes);
        let pseudo = Sum::pseudo_ipv4(message.src, message.dst, Protocol::UDP.0, udp_len);
        udp::Packet::new_unchecked(&mut packet[ipv4::HEADER_LEN..]).fill_checksum(pseudo);
        if message.dst == Ipv4Addr::BROADCAST {
            let link = self.link.header(MacAddress::BROADCAST, EtherType::IPV4);
            self.emit(&[link.as_slice(), &packet], Checksum::Unknown, out);
        } else if let Ok((hop, _)) = self.resolve(Some(message.src.into()), message.dst.into(), out) {
            self.send_packet(hop, message.dst.into(), &packet, Checksum::Unknown, out);
        }
    }
}
