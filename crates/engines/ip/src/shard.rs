//! Which of several shards owns a connection.
//!
//! Shards are stacks on cores of their own that have the same addresses. A packet belongs to the shard that its addresses and ports give.
//! The hash is the Toeplitz hash of receive side scaling under the symmetric key (`linerate_wire::entry`), of which the lower 7 bits choose
//! an entry of a table that names the shards in turn, as drivers fill it. Both directions of a connection have the same hash. A NIC that was given this key delivers to the right
//! queue by itself; elsewhere packets are steered in software. As with every such NIC, the key is known, so a peer may choose ports
//! that all lie in one shard; inside a shard the tables have secret keys.

use core::net::IpAddr;

use linerate_wire::{entry, fold6};

/// Most shards of a stack.
pub const SHARDS_MAX: u16 = 64;

/// One shard of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    number: u16,
    of: u16,
}

impl Default for Shard {
    /// The only one.
    fn default() -> Shard {
        Shard { number: 0, of: 1 }
    }
}

impl Shard {
    /// Shard `number` of `of`, which are 1 to [`SHARDS_MAX`]; `None` if there is no such shard.
    pub fn new(number: u16, of: u16) -> Option<Shard> {
        (number < of && of <= SHARDS_MAX).then_some(Shard { number, of })
    }

    /// Its number, from 0 on.
    #[inline]
    pub fn number(self) -> u16 {
        self.number
    }

    /// How many shards there are.
    #[inline]
    pub fn of(self) -> u16 {
        self.of
    }

    /// True for the one that answers for all: to ARP requests, echoes, and everything else that belongs to no connection.
    #[inline]
    pub fn is_first(self) -> bool {
        self.number == 0
    }

    /// True if packets between these ends belong to this shard, in both directions.
    #[inline]
    pub fn owns(self, one: (IpAddr, u16), other: (IpAddr, u16)) -> bool {
        self.of == 1 || self.owner(fold(one, other)) == self.number
    }

    /// The shard that packets with this fold of their addresses and ports belong to.
    #[inline]
    pub fn owner(self, fold: u16) -> u16 {
        u16::from(entry(fold)) % self.of
    }
}

fn fold(one: (IpAddr, u16), other: (IpAddr, u16)) -> u16 {
    let ports = u32::from(one.1) << 16 | u32::from(other.1);
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    fold6(bits(one.0), bits(other.0), ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(text: &str, port: u16) -> (IpAddr, u16) {
        (text.parse().unwrap(), port)
    }

    #[test]
    fn both_directions_have_one_owner_and_ports_are_spread_evenly() {
        for of in 1..=8 {
            let mut owned = vec![0; usize::from(of)];
            for port in 16_384..=u16::MAX {
                for (host, other) in [("198.18.5.1", "198.18.5.2"), ("fd00::1", "fd00::2")] {
                    let (one, other) = (end(host, 80), end(other, port));
                    let owners = (0..of).filter(|number| Shard::new(*number, of).unwrap().owns(one, other));
                    let owners: Vec<u16> = owners.collect();
                    assert_eq!(owners.len(), 1);
                    assert!(Shard::new(owners[0], of).unwrap().owns(other, one));
                    owned[usize::from(owners[0])] += 1;
                }
            }
            let (least, most) = (owned.iter().min().unwrap(), owned.iter().max().unwrap());
            assert!(most * 100 < least * 110, "{of}: {owned:?}");
        }
    }

    #[test]
    fn there_are_as_many_shards_as_were_said() {
        assert!(Shard::new(1, 1).is_none() && Shard::new(0, 0).is_none() && Shard::new(0, 65).is_none());
        let shard = Shard::new(63, 64).unwrap();
        assert_eq!((shard.number(), shard.of(), shard.is_first()), (63, 64, false));
        assert!(Shard::default().owns(end("198.18.0.1", 1), end("198.18.0.2", 2)));
    }
}
