//! ARP (RFC 826, RFC 5227).

use core::net::{IpAddr, Ipv4Addr};

use linerate_mem::Checksum;
use linerate_wire::{EtherType, MacAddress, ParseError, arp};

use super::Ip;
use crate::address::AddressState;
use crate::counters::DropReason;
use crate::inbound::Inbound;
use crate::link::Arrived;
use crate::neighbour::{Learned, State};
use crate::output::Output;

impl Ip {
    pub(super) fn receive_arp(
        &mut self,
        bytes: &[u8],
        arrived: &Arrived,
        out: &mut Output<'_>,
    ) -> Result<Inbound, DropReason> {
        let packet = arp::Packet::new_checked(bytes).map_err(|error| match error {
            ParseError::Truncated { .. } => DropReason::Truncated,
            ParseError::Malformed { .. } => DropReason::Arp,
        })?;
        let (mac, sender, target) = (packet.sender_mac(), packet.sender_ip(), packet.target_ip());
        let first = sender.octets()[0];
        let no_host = first == 127 || first >= 224 || self.addresses.is_broadcast4(sender.to_bits());
        if mac.is_multicast() || mac == MacAddress::ZERO || mac == self.link.mac || no_host {
            return Err(DropReason::Arp);
        }
        if let Some(index) = self.addresses.position(sender.into()) {
            self.conflict(index, mac, out);
            return Ok(Inbound::Handled);
        }
        let of_target = self.addresses.find(target.into()).map(|own| own.state);
        match (packet.operation(), of_target) {
            (arp::REQUEST, Some(AddressState::Tentative)) if sender.is_unspecified() => {
                // Somebody else probes for the same address at the same time.
                if let Some(index) = self.addresses.position(target.into()) {
                    self.conflict(index, mac, out);
                }
            }
            (arp::REQUEST, Some(AddressState::Ready | AddressState::Deprecated)) => {
                self.send_arp(arp::REPLY, mac, target, mac, sender, out);
                if !sender.is_unspecified() && self.routes.is_on_link(sender.into()) {
                    self.learned(sender.into(), mac, Learned::Heard, out);
                }
            }
            (arp::REPLY, Some(_)) if arrived.dst == self.link.mac => {
                let known = self.neighbours.find(sender.into()).map(|(_, state)| state);
                let was_asked = matches!(known, Some(State::Incomplete | State::Probe));
                let learned = if was_asked { Learned::Answered } else { Learned::Announced };
                self.learned(sender.into(), mac, learned, out);
            }
            // Announcements, and requests for others: what is known is brought up to date (RFC 826), and nothing is made.
            (arp::REQUEST | arp::REPLY, _) if self.neighbours.find(sender.into()).is_some() => {
                self.learned(sender.into(), mac, Learned::Announced, out);
            }
            _ => return Err(DropReason::Arp),
        }
        Ok(Inbound::Handled)
    }

    /// Asks for the link address of a neighbour: everybody, or the neighbour alone.
    pub(super) fn ask_arp(&mut self, target: Ipv4Addr, to: Option<MacAddress>, out: &mut Output<'_>) {
        let Some(IpAddr::V4(sender)) = self.addresses.source_for(target.into()) else { return };
        self.send_arp(arp::REQUEST, to.unwrap_or(MacAddress::BROADCAST), sender, MacAddress::ZERO, target, out);
    }

    /// Asks whether anybody has an address that is to be ours (RFC 5227 section 2.1.1).
    pub(super) fn send_arp_probe(&mut self, target: Ipv4Addr, out: &mut Output<'_>) {
        let nobody = Ipv4Addr::UNSPECIFIED;
        self.send_arp(arp::REQUEST, MacAddress::BROADCAST, nobody, MacAddress::ZERO, target, out);
    }

    /// Tells everybody that an address is ours (RFC 5227 section 2.3).
    pub(super) fn send_arp_announcement(&mut self, own: Ipv4Addr, out: &mut Output<'_>) {
        self.send_arp(arp::REQUEST, MacAddress::BROADCAST, own, MacAddress::ZERO, own, out);
    }

    fn send_arp(
        &mut self,
        operation: u16,
        to: MacAddress,
        sender_ip: Ipv4Addr,
        target_mac: MacAddress,
        target_ip: Ipv4Addr,
        out: &mut Output<'_>,
    ) {
        let header = arp::Header { operation, sender_mac: self.link.mac, sender_ip, target_mac, target_ip };
        let mut bytes = [0; arp::HEADER_LEN];
        header.emit(&mut bytes);
        let link = self.link.header(to, EtherType::ARP);
        self.emit(&[link.as_slice(), &bytes], Checksum::Unknown, out);
    }
}
