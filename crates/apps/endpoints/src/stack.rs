//! From what a user says of the network to a stack's configuration.

use std::net::IpAddr;

use linerate_ip::{AddressRange, DhcpMode, IpConfig};
use linerate_port::PortSpec;
use linerate_tcp::{Shard, StackConfig};
use linerate_wire::MacAddress;

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET_BYTES: usize = 14;
/// Bytes of a VLAN tag.
pub(crate) const VLAN_BYTES: usize = 4;

/// Where a program's stack is in the network.
#[derive(Clone, Debug, Default)]
pub struct NetworkConfig {
    /// Spec of the port.
    pub port: String,
    /// Addresses with the lengths of their prefixes.
    pub addresses: Vec<AddressRange>,
    /// Gateways, of both families.
    pub gateways: Vec<IpAddr>,
    /// VLAN of all frames.
    pub vlan: Option<u16>,
    /// MAC address; made of the first address if there is none.
    pub mac: Option<MacAddress>,
    /// An IPv4 address is asked for by DHCP.
    pub dhcp: bool,
    /// IPv6 addresses are made of the prefixes that routers advertise.
    pub slaac: bool,
    /// Name servers, beside those that DHCP and routers tell.
    pub name_servers: Vec<IpAddr>,
    /// Names that are looked up before the program starts.
    pub names: Vec<String>,
    /// Addresses are used without asking whether somebody else has them.
    pub no_duplicate_detection: bool,
}

/// What a stack is made for.
#[derive(Clone, Copy, Debug)]
pub struct StackOptions {
    /// Most connections, and most UDP sockets, at a time, on all cores together.
    pub connections_max: usize,
    /// Connections whose memory is taken at the start, on all cores together; at most `connections_max`.
    pub preallocated_connections: usize,
}

/// A MAC address of the kind that everybody may give (locally administered), made of an address that no other host of the link has.
fn mac_of(addresses: &[AddressRange], secret: &[u8; 16]) -> MacAddress {
    let tail = match addresses.first().map(|range| range.first) {
        Some(IpAddr::V4(address)) => address.octets(),
        Some(IpAddr::V6(address)) => {
            let octets = address.octets();
            std::array::from_fn(|at| octets[at] ^ octets[at + 4] ^ octets[at + 8] ^ octets[at + 12])
        }
        None => std::array::from_fn(|at| secret[at]),
    };
    MacAddress([0x02, 0x1c, tail[0], tail[1], tail[2], tail[3]])
}

impl NetworkConfig {
    /// The configuration of the layer below TCP.
    pub(crate) fn ip(&self, secret: [u8; 16], shard: Shard) -> IpConfig {
        let mtu = self
            .port
            .parse::<PortSpec>()
            .map_or(1500, |spec| linerate_ports::len_max([&spec]) - linerate_ports::HEADERS);
        // The tag of a VLAN is a part of the frames that the port takes.
        let mtu = mtu - self.vlan.map_or(0, |_| VLAN_BYTES);
        IpConfig {
            mac: self.mac.unwrap_or_else(|| mac_of(&self.addresses, &secret)),
            mtu: u16::try_from(mtu).unwrap_or(u16::MAX),
            vlan: self.vlan,
            addresses: self.addresses.clone(),
            gateways: self.gateways.clone(),
            slaac: self.slaac,
            dhcp: if self.dhcp { DhcpMode::On { host_name: String::new() } } else { DhcpMode::Off },
            // The first one asks for all.
            duplicate_detection: !self.no_duplicate_detection && shard.is_first(),
            shard,
            secret,
            ..IpConfig::default()
        }
    }

    /// All addresses that are given.
    pub fn all_addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.addresses.iter().flat_map(AddressRange::iter)
    }
}

/// The configuration of the stack.
pub(crate) fn config(options: &StackOptions, port: &PortSpec, ip: IpConfig, secret: [u8; 16]) -> StackConfig {
    let partial_checksums = linerate_ports::offloads(&port.completed(&linerate_control::open_options(None, true)));
    let connections_max = part_of(options.connections_max, ip.shard);
    // A load over UDP has a socket where one over TCP has a connection.
    let udp_sockets_max = connections_max;
    let preallocated_connections = part_of(options.preallocated_connections, ip.shard).min(connections_max);
    StackConfig {
        ip,
        connections_max,
        preallocated_connections,
        udp_sockets_max,
        secret,
        partial_checksums,
        ..StackConfig::default()
    }
}

/// Connections of one shard: its part, and a quarter more, because they are not spread evenly.
fn part_of(connections: usize, shard: Shard) -> usize {
    let of = usize::from(shard.of());
    if of == 1 { connections } else { (connections / of + connections / of / 4 + 64).min(connections) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_takes_its_bytes_from_the_packets() {
        let plain = NetworkConfig { port: "null:".into(), ..NetworkConfig::default() };
        let tagged = NetworkConfig { vlan: Some(7), ..plain.clone() };
        let mtu = |network: &NetworkConfig| network.ip([0; 16], Shard::default()).mtu;
        assert_eq!(mtu(&tagged) + 4, mtu(&plain));
    }
}
