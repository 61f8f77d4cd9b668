//! The IPv4 address that a DHCP server leases.

use core::net::{IpAddr, Ipv4Addr};

use linerate_mem::Checksum;
use linerate_wire::{EtherType, MacAddress, Protocol, Sum, ipv4, udp};

use super::Ip;
use crate::address::Origin;
use crate::counters::DropReason;
use crate::dhcp::{CLIENT_PORT, Change, Message, SERVER_PORT};
use crate::event::Event;
use crate::inbound::Inbound;
use crate::output::Output;

impl Ip {
    /// True if a datagram is for the DHCP client.
    pub(super) fn is_for_dhcp(&self, datagram: &[u8]) -> bool {
        let ports = [SERVER_PORT.to_be_bytes(), CLIENT_PORT.to_be_bytes()].concat();
        self.dhcp.is_some() && datagram.starts_with(&ports)
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
