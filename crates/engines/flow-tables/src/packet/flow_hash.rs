//! The hash by which a SELECT group spreads flows over its buckets.

use linerate_classify::Key;

use super::{Fragment, Headers, shape};

impl Headers {
    /// A hash of the flow that a packet belongs to: Ethernet addresses, type and VLAN, MPLS label and service ID, IP addresses and protocol, ports
    /// or type and code of ICMP. DSCP, ECN and TTL may change within a flow and do not count. All fragments of a packet have one hash.
    ///
    /// `key` is the key of the packet. The hash is the same everywhere and always, so whoever chooses the packets can choose the bucket.
    pub fn flow_hash(&self, key: &Key) -> u64 {
        let words = &key.words;
        let transport = if self.fragment == Fragment::Whole { words[3] & 0xffff_ffff } else { 0 };
        let others = words[4] & !(0xff << 48);
        let mut hash = mix(words[0] ^ SEEDS[0], words[1] ^ SEEDS[1]);
        hash ^= mix(words[2] ^ SEEDS[2], others ^ transport.rotate_left(32) ^ SEEDS[3]);
        if self.visible & shape::IPV6 != 0 {
            hash ^= mix(words[8] ^ SEEDS[1], words[9] ^ SEEDS[3]);
            hash = mix(hash ^ words[10], words[11] ^ SEEDS[0]);
        }
        mix(hash, SEEDS[2])
    }
}

/// Odd constants: the fractional bits of the square roots of 11, 13, 17 and 19.
const SEEDS: [u64; 4] = [0x510e_527f_ade6_82d1, 0x9b05_688c_2b3e_6c1f, 0x1f83_d9ab_fb41_bd6b, 0x5be0_cd19_137e_2179];

/// Both halves of a 128-bit product, folded.
#[inline]
const fn mix(left: u64, right: u64) -> u64 {
    let product = left as u128 * right as u128;
    (product >> 64) as u64 ^ product as u64
}
