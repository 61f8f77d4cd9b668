//! Own addresses: duplicate detection of IPv4 (RFC 5227) and IPv6 (RFC 4862 section 5.4), announcements, lifetimes.

use core::net::{IpAddr, Ipv6Addr};

use linerate_wire::MacAddress;

use super::{HOUSEKEEPING_NS, Ip};
use crate::address::{AddressState, Origin, Own};
use crate::event::Event;
use crate::fast::FastPath;
use crate::output::Output;

const SECOND_NS: u64 = 1_000_000_000;
/// PROBE_NUM and ANNOUNCE_NUM of RFC 5227; DupAddrDetectTransmits of RFC 4862.
const PROBES_V4: u8 = 3;
const PROBES_V6: u8 = 1;
const ANNOUNCEMENTS: u8 = 2;
/// Without duplicate detection, RFC 5227 asks for no announcement: one brings stale neighbours up to date, and nothing follows it later.
const ANNOUNCEMENTS_UNDETECTED: u8 = 1;
/// DEFEND_INTERVAL of RFC 5227.
const DEFEND_NS: u64 = 10 * SECOND_NS;

impl Ip {
    /// Adds an address; [`Ip::addresses_changed`] must follow.
    pub(super) fn add_address(&mut self, address: IpAddr, prefix_len: u8, origin: Origin) -> bool {
        let state = if self.config.duplicate_detection { AddressState::Tentative } else { AddressState::Ready };
        let own = Own {
            address,
            prefix_len,
            state,
            origin,
            preferred_until_ns: u64::MAX,
            valid_until_ns: u64::MAX,
            probes: 0,
            step_ns: 0,
            defended_ns: 0,
        };
        self.addresses_ns = 0;
        let is_new = self.addresses.add(own);
        if is_new && state == AddressState::Ready {
            self.tell(Event::AddressReady(address));
        }
        is_new
    }

    /// Adds the link-local address that the MAC address makes (RFC 4291 appendix A).
    pub(super) fn add_link_local(&mut self) {
        let bits = 0xfe80_u128 << 112 | interface_id(self.link.mac);
        self.add_address(Ipv6Addr::from_bits(bits).into(), 64, Origin::LinkLocal);
    }

    /// Makes everything anew that depends on which addresses are in use.
    pub(super) fn addresses_changed(&mut self) {
        self.sharing.lease_changed();
        self.addresses.changed();
        self.fast = FastPath::new(self.link, &self.addresses, self.dhcp.is_some());
    }

    /// Probes, announces, and begins to use addresses, as is due.
    pub(super) fn step_addresses(&mut self, out: &mut Output<'_>) {
        let mut has_changed = false;
        for index in 0..self.addresses.list().len() {
            if self.addresses.list()[index].step_ns <= out.now_ns {
                has_changed |= self.step_address(index, out);
            }
        }
        if has_changed {
            self.addresses_changed();
        }
        self.addresses_ns = self.addresses.list().iter().map(|own| own.step_ns).min().unwrap_or(u64::MAX);
    }

    /// One step of one address; true if it may be used from now on.
    fn step_address(&mut self, index: usize, out: &mut Output<'_>) -> bool {
        let now_ns = out.now_ns;
        let own = self.addresses.list()[index];
        let detects = self.config.duplicate_detection || own.address.is_ipv6();
        let announcements = if !self.config.shard.is_first() {
            0
        } else if detects {
            ANNOUNCEMENTS
        } else {
            ANNOUNCEMENTS_UNDETECTED
        };
        let probes_max = if own.address.is_ipv4() { PROBES_V4 } else { PROBES_V6 };
        let mut next = own;
        match own.state {
            AddressState::Tentative if own.step_ns == 0 => {
                // Hosts that are switched on together do not probe together.
                next.step_ns = now_ns + 1 + self.random.below(SECOND_NS);
            }
            AddressState::Tentative if own.probes < probes_max => {
                next.probes += 1;
                let is_last = next.probes == probes_max;
                next.step_ns = now_ns
                    + match own.address {
                        IpAddr::V4(_) if is_last => 2 * SECOND_NS,
                        IpAddr::V4(_) => SECOND_NS + self.random.below(SECOND_NS),
                        IpAddr::V6(_) => SECOND_NS,
                    };
                self.probe_for(own.address, out);
            }
            AddressState::Tentative => {
                (next.state, next.probes, next.step_ns) = (AddressState::Ready, 0, now_ns);
                self.tell(Event::AddressReady(own.address));
            }
            AddressState::Ready | AddressState::Deprecated if own.probes < announcements => {
                next.probes += 1;
                next.step_ns = if next.probes < announcements { now_ns + 2 * SECOND_NS } else { u64::MAX };
                self.announce(own.address, out);
            }
            _ => next.step_ns = u64::MAX,
        }
        if let Some(own) = self.addresses.at_mut(index) {
            *own = next;
        }
        let is_ready = own.state == AddressState::Tentative && next.state == AddressState::Ready;
        if is_ready {
            // Others that are ready at the same time are looked up together.
            return self.step_address(index, out) || is_ready;
        }
        false
    }

    fn probe_for(&mut self, address: IpAddr, out: &mut Output<'_>) {
        match address {
            IpAddr::V4(four) => self.send_arp_probe(four, out),
            IpAddr::V6(six) => {
                self.send_group_report(six, true, out);
                self.send_duplicate_solicitation(six, out);
            }
        }
    }

    fn announce(&mut self, address: IpAddr, out: &mut Output<'_>) {
        match address {
            IpAddr::V4(four) => self.send_arp_announcement(four, out),
            IpAddr::V6(six) => self.send_group_report(six, false, out),
        }
    }

    /// Somebody else has used the address of ours at `index` of the list, in an ARP packet or in neighbour discovery.
    pub(super) fn conflict(&mut self, index: usize, mac: MacAddress, out: &mut Output<'_>) {
        if !self.config.shard.is_first() {
            return;
        }
        let own = self.addresses.list()[index];
        match own.state {
            AddressState::Tentative => self.give_up(index, mac, out),
            AddressState::Ready | AddressState::Deprecated => {
                let is_first = own.defended_ns == 0 || out.now_ns.saturating_sub(own.defended_ns) > DEFEND_NS;
                if is_first {
                    if let Some(own) = self.addresses.at_mut(index) {
                        own.defended_ns = out.now_ns.max(1);
                    }
                    if let IpAddr::V4(four) = own.address {
                        self.send_arp_announcement(four, out);
                    }
                } else if own.origin == Origin::Dhcp {
                    // Addresses of the configuration are defended for ever (RFC 5227 section 2.4 (c)): whoever gave them meant it.
                    self.give_up(index, mac, out);
                }
            }
            AddressState::Duplicate => {}
        }
    }

    fn give_up(&mut self, index: usize, mac: MacAddress, out: &mut Output<'_>) {
        let Some(own) = self.addresses.at_mut(index) else { return };
        (own.state, own.step_ns) = (AddressState::Duplicate, u64::MAX);
        let (address, origin) = (own.address, own.origin);
        self.addresses_changed();
        self.tell(Event::AddressDuplicate(address, mac));
        if origin == Origin::Dhcp {
            self.decline_lease(out);
        }
    }

    /// Sets how long an address may be used.
    pub(super) fn set_lifetimes(&mut self, index: usize, preferred_until_ns: u64, valid_until_ns: u64) {
        if let Some(own) = self.addresses.at_mut(index) {
            (own.preferred_until_ns, own.valid_until_ns) = (preferred_until_ns, valid_until_ns);
        }
        self.lifetimes_ns = 0;
    }

    /// Deprecates and takes away addresses, prefixes and routers whose time is over.
    pub(super) fn expire_lifetimes(&mut self, now_ns: u64) {
        let mut has_changed = false;
        let mut index = 0;
        while let Some(own) = self.addresses.list().get(index).copied() {
            if own.valid_until_ns <= now_ns {
                self.addresses.remove(index);
                self.tell(Event::AddressLost(own.address));
                has_changed = true;
                continue;
            }
            let is_over = own.preferred_until_ns <= now_ns;
            let next = match own.state {
                AddressState::Ready if is_over => AddressState::Deprecated,
                AddressState::Deprecated if !is_over => AddressState::Ready,
                state => state,
            };
            has_changed |= next != own.state;
            if let Some(own) = self.addresses.at_mut(index) {
                own.state = next;
            }
            index += 1;
        }
        if has_changed {
            self.addresses_changed();
        }
        let routes_ns = self.routes.expire(now_ns);
        let later = |until_ns: u64| if until_ns <= now_ns { u64::MAX } else { until_ns };
        let list = self.addresses.list().iter();
        let addresses_ns = list.map(|own| later(own.preferred_until_ns).min(own.valid_until_ns)).min();
        let paths_ns = if self.paths.is_empty() { u64::MAX } else { now_ns + 60 * HOUSEKEEPING_NS };
        self.lifetimes_ns = routes_ns.min(addresses_ns.unwrap_or(u64::MAX)).min(paths_ns);
    }
}

/// The interface identifier of a MAC address: modified EUI-64.
pub(super) fn interface_id(mac: MacAddress) -> u128 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]).into()
}
