//! What a shard is told: its addresses, gateways and limits.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use linerate_wire::MacAddress;

use crate::shard::Shard;
use crate::shared_lease::SharedLease;

/// Smallest MTU that IPv6 allows (RFC 8200 section 5), in bytes.
pub const MTU_MIN_V6: u16 = 1280;
/// Smallest MTU that IPv4 allows (RFC 791), in bytes.
pub const MTU_MIN_V4: u16 = 68;

/// Configuration of an [`Ip`](crate::Ip).
#[derive(Clone, Debug)]
pub struct IpConfig {
    /// Own MAC address.
    pub mac: MacAddress,
    /// Longest IP packet of the link in bytes, headers included.
    pub mtu: u16,
    /// VLAN that all frames are of; without one, frames with a VLAN ID are dropped.
    pub vlan: Option<u16>,
    /// Own addresses. An address is used when duplicate detection has found nobody else with it.
    pub addresses: Vec<AddressRange>,
    /// Prefixes beside those of the addresses whose hosts are reached without a gateway.
    pub on_link: Vec<(IpAddr, u8)>,
    /// Default gateways, of both families. The first one that answers is used.
    pub gateways: Vec<IpAddr>,
    /// True if IPv6 runs at all: a link-local address, neighbour discovery, routers that advertise themselves.
    pub ipv6: bool,
    /// True if addresses are made of the prefixes that routers advertise (RFC 4862). Needs `ipv6`.
    pub slaac: bool,
    /// Whether an IPv4 address is asked for (RFC 2131). Of several shards the first one asks, and the others use what it gets.
    pub dhcp: DhcpMode,
    /// Where the first of several shards tells the others of the address that it got; all have clones of one.
    pub lease: SharedLease,
    /// True if own addresses are probed for before they are used (RFC 5227, RFC 4862 section 5.4).
    pub duplicate_detection: bool,
    /// What happens to redirects of routers.
    pub redirects: Redirects,
    /// Secret of this run, from the system's source of random numbers. Keys hashes and makes numbers that others must not guess.
    pub secret: [u8; 16],
    /// Which of several shards with these addresses it is. Those behind the first answer nothing that belongs to no connection.
    pub shard: Shard,
    /// Bounds of the tables.
    pub limits: Limits,
}

impl Default for IpConfig {
    /// MTU 1,500, IPv6 with a link-local address and no other, duplicate detection, redirects refused, a secret of zeroes.
    fn default() -> IpConfig {
        IpConfig {
            mac: MacAddress([2, 0, 0, 0, 0, 1]),
            mtu: 1500,
            vlan: None,
            addresses: Vec::new(),
            on_link: Vec::new(),
            gateways: Vec::new(),
            ipv6: true,
            slaac: false,
            dhcp: DhcpMode::Off,
            lease: SharedLease::default(),
            duplicate_detection: true,
            redirects: Redirects::Refuse,
            secret: [0; 16],
            shard: Shard::default(),
            limits: Limits::default(),
        }
    }
}

/// Whether an IPv4 address is asked for by DHCP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DhcpMode {
    /// No.
    #[default]
    Off,
    /// Yes, under this host name (RFC 2132 option 12; empty: none).
    On {
        /// Name that the server is told.
        host_name: String,
    },
}

/// What happens to redirects of routers (RFC 792, RFC 4861 section 8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redirects {
    /// They are dropped, because anybody on the link could divert traffic by them.
    #[default]
    Refuse,
    /// They are followed if they come from the gateway in use for that destination.
    Follow,
}

/// Bounds of the tables of a shard. All memory that they need is taken when the shard is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Neighbours that are known at a time, 4 to 16,383.
    pub neighbours: usize,
    /// Packets that wait for addresses of neighbours at a time; half of them may wait for one neighbour, so that a burst of connections
    /// to it loses no SYN.
    pub parked: usize,
    /// Destinations of which the path MTU is known at a time.
    pub paths: usize,
    /// Packets that are put together of fragments at a time; each takes 65,792 bytes of memory once it is used.
    pub reassemblies: usize,
    /// ICMP errors sent a second, at most.
    pub icmp_errors_per_second: u32,
}

impl Default for Limits {
    /// 1,024 neighbours, 2,048 parked packets, 4,096 paths, 32 reassemblies, 1,000 errors a second.
    fn default() -> Limits {
        Limits { neighbours: 1024, parked: 2048, paths: 4096, reassemblies: 32, icmp_errors_per_second: 1000 }
    }
}

/// Addresses that follow each other, in one prefix.
///
/// Text is `FIRST/LEN`, `FIRST-LAST/LEN` or an address alone, which has a prefix of its own length.
///
/// ```
/// use linerate_ip::AddressRange;
/// let pool: AddressRange = "198.18.1.1-198.18.1.95/24".parse().unwrap();
/// assert_eq!((pool.count, pool.prefix_len), (95, 24));
/// assert_eq!(pool.to_string(), "198.18.1.1-198.18.1.95/24");
/// assert!("198.18.1.1/33".parse::<AddressRange>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// The first address.
    pub first: IpAddr,
    /// Number of addresses, at most 65,536.
    pub count: u32,
    /// Bits of the prefix whose hosts are reached without a gateway.
    pub prefix_len: u8,
}

/// Most addresses of a range, and of a shard.
pub const ADDRESSES_MAX: u32 = 65_536;

impl AddressRange {
    /// One address.
    pub fn one(address: IpAddr, prefix_len: u8) -> AddressRange {
        AddressRange { first: address, count: 1, prefix_len }
    }

    /// Address `index` of the range; `None` behind its end.
    pub fn nth(&self, index: u32) -> Option<IpAddr> {
        if index >= self.count {
            return None;
        }
        match self.first {
            IpAddr::V4(first) => first.to_bits().checked_add(index).map(|bits| Ipv4Addr::from_bits(bits).into()),
            IpAddr::V6(first) => first.to_bits().checked_add(index.into()).map(|bits| Ipv6Addr::from_bits(bits).into()),
        }
    }

    /// The addresses, in their order.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> + use<> {
        let range = *self;
        (0..self.count).map_while(move |index| range.nth(index))
    }

    /// Says what is wrong with the range.
    ///
    /// # Errors
    /// Addresses that no host can have, or too many of them.
    pub fn check(&self) -> Result<(), ConfigError> {
        let bits = if self.first.is_ipv4() { 32 } else { 128 };
        if self.prefix_len > bits {
            return Err(ConfigError::Prefix { range: self.to_string(), bits });
        }
        if self.count == 0 || self.count > ADDRESSES_MAX {
            return Err(ConfigError::Count { range: self.to_string() });
        }
        let last = self.nth(self.count - 1).ok_or_else(|| ConfigError::Count { range: self.to_string() })?;
        let is_host = |address: IpAddr| match address {
            IpAddr::V4(address) => {
                let first = address.octets()[0];
                (1..224).contains(&first) && first != 127 && !self.is_network_or_broadcast(address)
            }
            IpAddr::V6(address) => !address.is_multicast() && !address.is_unspecified() && !address.is_loopback(),
        };
        match [self.first, last].into_iter().find(|address| !is_host(*address)) {
            Some(address) => Err(ConfigError::NotAHost { address }),
            None => Ok(()),
        }
    }

    /// True for the network's own address and its broadcast address, where a prefix has them (RFC 3021: /31 and /32 have none).
    fn is_network_or_broadcast(&self, address: Ipv4Addr) -> bool {
        let host_bits = u32::MAX.checked_shr(self.prefix_len.into()).unwrap_or(0);
        let host = address.to_bits() & host_bits;
        self.prefix_len < 31 && (host == 0 || host == host_bits)
    }
}

impl core::fmt::Display for AddressRange {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.nth(self.count.saturating_sub(1)) {
            Some(last) if self.count > 1 => write!(out, "{}-{last}/{}", self.first, self.prefix_len),
            _ => write!(out, "{}/{}", self.first, self.prefix_len),
        }
    }
}

impl FromStr for AddressRange {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<AddressRange, ConfigError> {
        let error = || ConfigError::Text { text: text.chars().take(100).collect() };
        let (addresses, prefix_len) = match text.split_once('/') {
            Some((addresses, len)) => (addresses, Some(len.parse::<u8>().map_err(|_| error())?)),
            None => (text, None),
        };
        let (first, last) = addresses.split_once('-').unwrap_or((addresses, addresses));
        let [first, last]: [IpAddr; 2] = [first.parse().map_err(|_| error())?, last.parse().map_err(|_| error())?];
        let distance = match (first, last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => last.to_bits().checked_sub(first.to_bits()).map(u128::from),
            (IpAddr::V6(first), IpAddr::V6(last)) => last.to_bits().checked_sub(first.to_bits()),
            _ => None,
        };
        let count = distance.and_then(|distance| u32::try_from(distance).ok()?.checked_add(1)).ok_or_else(error)?;
        let prefix_len = prefix_len.unwrap_or(if first.is_ipv4() { 32 } else { 128 });
        let range = AddressRange { first, count, prefix_len };
        range.check().map(|()| range)
    }
}

/// What is wrong with a configuration, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Text that is no address.
    #[error("not an address: {text} (write 198.18.5.1/24, a range 198.18.5.1-198.18.5.95/24, or the same of IPv6)")]
    Text {
        /// The text.
        text: String,
    },
    /// A prefix that is longer than an address.
    #[error("{range}: the prefix is longer than an address, which has {bits} bits")]
    Prefix {
        /// The range.
        range: String,
        /// Bits of an address.
        bits: u8,
    },
    /// Too many addresses, or none.
    #[error("{range}: a range has 1 to 65,536 addresses, and a stack as many in all")]
    Count {
        /// The range.
        range: String,
    },
    /// An address that no host can have.
    #[error(
        "{address} is no address of a host; give one that is neither multicast, loopback, network nor broadcast address"
    )]
    NotAHost {
        /// The address.
        address: IpAddr,
    },
    /// A gateway that no prefix reaches.
    #[error(
        "the gateway {gateway} lies in no prefix of this stack's addresses; give an address in its network, or on-link prefixes"
    )]
    Gateway {
        /// The gateway.
        gateway: IpAddr,
    },
    /// An MTU that IP does not allow.
    #[error("an MTU of {mtu} bytes is too small: IPv4 needs 68, IPv6 1,280 (or switch IPv6 off)")]
    Mtu {
        /// The MTU in bytes.
        mtu: u16,
    },
    /// A VLAN ID that no frame can have.
    #[error("not a VLAN ID: {vlan} (1 to 4094)")]
    Vlan {
        /// The number.
        vlan: u16,
    },
    /// A MAC address that no host can have.
    #[error("{mac} is no MAC address of a host: it is a group address, or zero")]
    Mac {
        /// The address.
        mac: MacAddress,
    },
}

impl IpConfig {
    /// Says what is wrong with the configuration.
    ///
    /// # Errors
    /// The first thing that is wrong, with what to write instead.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.mac.is_multicast() || self.mac == MacAddress::ZERO {
            return Err(ConfigError::Mac { mac: self.mac });
        }
        if self.mtu < if self.ipv6 { MTU_MIN_V6 } else { MTU_MIN_V4 } {
            return Err(ConfigError::Mtu { mtu: self.mtu });
        }
        if let Some(vlan) = self.vlan.filter(|vlan| !(1..=4094).contains(vlan)) {
            return Err(ConfigError::Vlan { vlan });
        }
        self.addresses.iter().try_for_each(AddressRange::check)?;
        if self.addresses.iter().map(|range| u64::from(range.count)).sum::<u64>() > ADDRESSES_MAX.into() {
            return Err(ConfigError::Count { range: "all ranges together".into() });
        }
        for (address, prefix_len) in &self.on_link {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            if *prefix_len > bits {
                return Err(ConfigError::Prefix { range: format!("{address}/{prefix_len}"), bits });
            }
        }
        let prefixes = || self.addresses.iter().map(|range| (range.first, range.prefix_len));
        let reached = |gateway: &IpAddr| {
            let is_link_local = matches!(gateway, IpAddr::V6(gateway) if gateway.is_unicast_link_local());
            let mut all = prefixes().chain(self.on_link.iter().copied());
            is_link_local && self.ipv6 || all.any(|(address, len)| in_prefix(*gateway, address, len))
        };
        match self.gateways.iter().find(|gateway| !reached(gateway)) {
            Some(gateway) => Err(ConfigError::Gateway { gateway: *gateway }),
            None => Ok(()),
        }
    }
}

/// True if `address` is in the prefix of `len` bits that `prefix` begins with.
#[inline]
pub fn in_prefix(address: IpAddr, prefix: IpAddr, len: u8) -> bool {
    match (address, prefix) {
        (IpAddr::V4(address), IpAddr::V4(prefix)) => {
            let differ = address.to_bits() ^ prefix.to_bits();
            differ.checked_shr(32_u32.saturating_sub(len.into())).unwrap_or(0) == 0
        }
        (IpAddr::V6(address), IpAddr::V6(prefix)) => {
            let differ = address.to_bits() ^ prefix.to_bits();
            differ.checked_shr(128_u32.saturating_sub(len.into())).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_every_length() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        for (one, other, len, expected) in [
            ("10.1.2.3", "10.1.2.4", 24, true),
            ("10.1.2.3", "10.1.3.3", 24, false),
            ("10.1.2.3", "192.0.2.1", 0, true),
            ("10.1.2.3", "10.1.2.3", 32, true),
            ("10.1.2.3", "10.1.2.2", 32, false),
            ("fd00::1", "fd00::2", 64, true),
            ("fd00::1", "fd01::2", 64, false),
            ("fd00::1", "::", 0, true),
            ("fd00::1", "fd00::1", 128, true),
            ("fd00::1", "10.0.0.1", 0, false),
        ] {
            assert_eq!(in_prefix(address(one), address(other), len), expected, "{one} {other}/{len}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let good = || IpConfig { addresses: vec!["198.18.5.1/24".parse().unwrap()], ..IpConfig::default() };
        assert_eq!(good().check(), Ok(()));
        let gateway = |text: &str| IpConfig { gateways: vec![text.parse().unwrap()], ..good() };
        assert_eq!(gateway("198.18.5.254").check(), Ok(()));
        assert_eq!(gateway("fe80::1").check(), Ok(()));
        assert!(matches!(gateway("198.18.6.1").check(), Err(ConfigError::Gateway { .. })));
        assert!(matches!(IpConfig { mtu: 1000, ..good() }.check(), Err(ConfigError::Mtu { .. })));
        assert_eq!(IpConfig { mtu: 1000, ipv6: false, ..good() }.check(), Ok(()));
        assert!(matches!(IpConfig { vlan: Some(4095), ..good() }.check(), Err(ConfigError::Vlan { .. })));
        assert!(matches!(IpConfig { mac: MacAddress::BROADCAST, ..good() }.check(), Err(ConfigError::Mac { .. })));
        for text in [
            "224.0.0.1/24",
            "10.0.0.0/24",
            "10.0.0.255/24",
            "127.0.0.1/8",
            "ff02::1/64",
            "::1",
            "10.0.0.1-10.0.0.255/24",
        ] {
            assert!(matches!(text.parse::<AddressRange>(), Err(ConfigError::NotAHost { .. })), "{text}");
        }
        for text in ["", "10.0.0.1/", "10.0.0.1-fd00::1/24", "10.0.0.2-10.0.0.1/24", "host/24", "10.0.0.1/24/2"] {
            assert!(matches!(text.parse::<AddressRange>(), Err(ConfigError::Text { .. })), "{text}");
        }
        assert!("10.0.0.0/31".parse::<AddressRange>().is_ok() && "10.0.0.255".parse::<AddressRange>().is_ok());
        assert!(matches!("10.0.0.1-10.2.0.1/8".parse::<AddressRange>(), Err(ConfigError::Count { .. })));
    }
}
