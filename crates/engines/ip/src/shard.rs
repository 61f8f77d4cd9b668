//! Which of several shards owns a connection.
//!
//! Shards are stacks on cores of their own that have the same addresses. A packet belongs to the shard that its addresses and ports give.
//! The hash is the Toeplitz hash of receive side scaling under the key that repeats `6d:5a` (Woo and Park, "Scalable TCP session
//! monitoring with symmetric receive-side scaling", 2012), of which the lower 7 bits choose an entry of a table that names the shards
//! in turn, as drivers fill it. Both directions of a connection have the same hash. A NIC that was given this key delivers to the right
//! queue by itself; elsewhere packets are steered in software. As with every such NIC, the key is known, so a peer may choose ports
//! that all lie in one shard; inside a shard the tables have secret keys.

use core::net::IpAddr;

/// Entries of the table that names the shards.
pub const STEERING_ENTRIES: usize = 128;
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

/// The entry of the table, of [`STEERING_ENTRIES`], that packets with this fold of their addresses and ports have.
#[inline]
pub fn entry(fold: u16) -> u8 {
    UPPER[usize::from(fold >> 8)] ^ LOWER[usize::from(fold & 0xff)]
}

/// All 16-bit words of addresses and ports together: under a key of two bytes that repeat, the hash depends on nothing else. `ports` are
/// both ports, in any order.
#[inline]
pub fn fold4(one: u32, other: u32, ports: u32) -> u16 {
    let all = one ^ other ^ ports;
    (all >> 16 ^ all) as u16
}

/// The same over IPv6.
#[inline]
pub fn fold6(one: u128, other: u128, ports: u32) -> u16 {
    let all = one ^ other;
    let half = (all >> 64) as u64 ^ all as u64;
    fold4((half >> 32) as u32, half as u32, ports)
}

fn fold(one: (IpAddr, u16), other: (IpAddr, u16)) -> u16 {
    let ports = u32::from(one.1) << 16 | u32::from(other.1);
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    fold6(bits(one.0), bits(other.0), ports)
}

/// The key, as far as one window sees it.
const KEY: u32 = 0x6d5a_6d5a;
const UPPER: [u8; 256] = table(0);
const LOWER: [u8; 256] = table(8);

/// Part of the hash that a byte adds whose first bit is bit `from` of the fold, counted from its upper end.
const fn table(from: u32) -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut hash, mut bit) = (0, 0);
        while bit < 8 {
            if byte & (0x80 >> bit) != 0 {
                hash ^= KEY.rotate_left(from + bit);
            }
            bit += 1;
        }
        table[byte] = (hash % STEERING_ENTRIES as u32) as u8;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(text: &str, port: u16) -> (IpAddr, u16) {
        (text.parse().unwrap(), port)
    }

    /// The Toeplitz hash, bit by bit, as the standard of receive side scaling defines it.
    fn toeplitz(input: &[u8]) -> u32 {
        let key: Vec<u8> = [0x6d, 0x5a].repeat(20);
        let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
        let mut hash = 0;
        for at in (0..input.len() * 8).filter(|at| bit(input, *at) == 1) {
            hash ^= (0..32).fold(0, |window, next| window << 1 | u32::from(bit(&key, at + next)));
        }
        hash
    }

    #[test]
    fn it_is_the_hash_of_a_nic_with_the_symmetric_key() {
        for seed in 0..200_u32 {
            let [src, dst] = [1, 2].map(|way: u32| (seed * 7 + way).wrapping_mul(0x9e37_79b9));
            let ports = seed.wrapping_mul(0x85eb_ca6b);
            let four = [src.to_be_bytes(), dst.to_be_bytes(), ports.to_be_bytes()].concat();
            assert_eq!(u32::from(entry(fold4(src, dst, ports))), toeplitz(&four) % 128);
            let [src6, dst6] =
                [src, dst].map(|word| u128::from(word).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
            let six = [&src6.to_be_bytes()[..], &dst6.to_be_bytes(), &ports.to_be_bytes()].concat();
            assert_eq!(u32::from(entry(fold6(src6, dst6, ports))), toeplitz(&six) % 128);
        }
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
