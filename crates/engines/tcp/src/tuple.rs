//! Addresses and ports of a connection.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use linerate_wire::fold6;
use linerate_wire::{Protocol, Sum};

/// Both ends of a connection. IPv4 addresses lie in the lower 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tuple {
    pub(crate) local: u128,
    pub(crate) remote: u128,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    pub(crate) v6: bool,
}

impl Tuple {
    pub(crate) fn new(local: SocketAddr, remote: SocketAddr) -> Tuple {
        Tuple {
            local: bits(local.ip()),
            remote: bits(remote.ip()),
            local_port: local.port(),
            remote_port: remote.port(),
            v6: remote.is_ipv6(),
        }
    }

    /// Local port in the upper half, remote one in the lower.
    #[inline]
    pub(crate) fn ports(&self) -> u32 {
        u32::from(self.local_port) << 16 | u32::from(self.remote_port)
    }

    /// What shards are told apart by.
    #[inline]
    pub(crate) fn fold(&self) -> u16 {
        fold6(self.local, self.remote, self.ports())
    }

    pub(crate) fn local_ip(&self) -> IpAddr {
        address(self.local, self.v6)
    }

    pub(crate) fn remote_ip(&self) -> IpAddr {
        address(self.remote, self.v6)
    }

    pub(crate) fn local_address(&self) -> SocketAddr {
        SocketAddr::new(self.local_ip(), self.local_port)
    }

    pub(crate) fn remote_address(&self) -> SocketAddr {
        SocketAddr::new(self.remote_ip(), self.remote_port)
    }

    /// Sum of the pseudo-header of a segment of `len` bytes; the same in both directions.
    pub(crate) fn pseudo_sum(&self, len: usize) -> Sum {
        let sum = Sum::new().add_u16(Protocol::TCP.0.into()).add_u32(len as u32);
        if self.v6 {
            sum.add_u128(self.local).add_u128(self.remote)
        } else {
            sum.add_u32(self.local as u32).add_u32(self.remote as u32)
        }
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn address(bits: u128, v6: bool) -> IpAddr {
    if v6 { Ipv6Addr::from_bits(bits).into() } else { Ipv4Addr::from_bits(bits as u32).into() }
}
