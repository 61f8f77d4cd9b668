//! Hashes over addresses and ports that nobody without the secret can predict: SipHash-1-3 (Aumasson, Bernstein), and two products for
//! the table of connections, which every IPv4 segment pays for.

use crate::tuple::Tuple;

/// A secret.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    k0: u64,
    k1: u64,
}

impl Key {
    /// The secret of one use, derived from the one of the stack.
    pub(crate) fn derive(secret: [u8; 16], purpose: u64) -> Key {
        let [a, b] = [0, 8].map(|at| secret[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)));
        let base = Key { k0: a, k1: b };
        Key { k0: base.words([purpose, 0]), k1: base.words([purpose, 1]) }
    }

    /// Hash of an IPv4 connection. `ports` is the local port in the upper half, the remote one in the lower.
    #[inline]
    pub(crate) fn v4(self, local: u32, remote: u32, ports: u32) -> u64 {
        self.words([u64::from(local) << 32 | u64::from(remote), 12 << 56 | u64::from(ports)])
    }

    /// Hash of a connection.
    pub(crate) fn tuple(self, tuple: &Tuple) -> u64 {
        if !tuple.v6 {
            return self.v4(tuple.local as u32, tuple.remote as u32, tuple.ports());
        }
        let halves = |address: u128| [(address >> 64) as u64, address as u64];
        let ([a, b], [c, d]) = (halves(tuple.local), halves(tuple.remote));
        self.words([a, b, c, d, 36 << 56 | u64::from(tuple.ports())])
    }

    /// Hash of some words, of which the last has the length in its upper byte.
    #[inline]
    pub(crate) fn words<const COUNT: usize>(self, words: [u64; COUNT]) -> u64 {
        let mut state = State {
            v0: self.k0 ^ 0x736f_6d65_7073_6575,
            v1: self.k1 ^ 0x646f_7261_6e64_6f6d,
            v2: self.k0 ^ 0x6c79_6765_6e65_7261,
            v3: self.k1 ^ 0x7465_6462_7974_6573,
        };
        for word in words {
            state.v3 ^= word;
            state.round();
            state.v0 ^= word;
        }
        state.v2 ^= 0xff;
        state.round();
        state.round();
        state.round();
        state.v0 ^ state.v1 ^ state.v2 ^ state.v3
    }
}

/// The secret of the table of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableKey {
    long: Key,
    addends: [u64; 4],
}

impl TableKey {
    /// The secret of one use, derived from the one of the stack.
    pub(crate) fn derive(secret: [u8; 16], purpose: u64) -> TableKey {
        let long = Key::derive(secret, purpose);
        TableKey { long, addends: [0, 1, 2, 3].map(|number| long.words([number, 8 << 56])) }
    }

    /// Hash of an IPv4 connection. `ports` is the local port in the upper half, the remote one in the lower.
    ///
    /// The first product is NH of UMAC (Black, Halevi, Krawczyk, Krovetz, Rogaway 1999, theorem 4.2): of two connections that are chosen
    /// without knowing the secret, the 128 bits are the same with a probability of 2^-64. The second one, with secrets of its own, mixes
    /// them into 64 bits; that it is no linear function keeps one collision, should it be found by measuring times, from showing others.
    /// The hash itself never leaves the stack.
    #[inline]
    pub(crate) fn v4(&self, local: u32, remote: u32, ports: u32) -> u64 {
        let [a, b, c, d] = self.addends;
        let addresses = u64::from(local) << 32 | u64::from(remote);
        let (high, low) = product(addresses.wrapping_add(a), u64::from(ports).wrapping_add(b));
        let (high, low) = product(high.wrapping_add(c), low.wrapping_add(d));
        high ^ low
    }

    /// Hash of a connection.
    pub(crate) fn tuple(&self, tuple: &Tuple) -> u64 {
        if tuple.v6 { self.long.tuple(tuple) } else { self.v4(tuple.local as u32, tuple.remote as u32, tuple.ports()) }
    }
}

/// The upper and the lower half of a product.
#[inline]
fn product(a: u64, b: u64) -> (u64, u64) {
    let product = u128::from(a) * u128::from(b);
    ((product >> 64) as u64, product as u64)
}

struct State {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl State {
    #[inline]
    fn round(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.rotate_left(32);
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v0 = self.v0.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The standard library's hasher is SipHash-1-3 with a key of zeroes.
    #[test]
    fn it_is_the_siphash_of_the_standard_library() {
        use std::hash::Hasher;
        for value in [0u64, 1, 0x0123_4567_89ab_cdef, u64::MAX] {
            let mut hasher = std::collections::hash_map::DefaultHasher::new();
            hasher.write_u64(value);
            hasher.write_u32(7);
            let key = Key { k0: 0, k1: 0 };
            assert_eq!(key.words([value, 12 << 56 | 7]), hasher.finish());
        }
    }

    /// Connections that differ in few bits, or by the same distance, share buckets and tags no more often than random ones would.
    #[test]
    fn related_connections_spread_over_the_table() {
        const BUCKETS: usize = 1 << 12;
        let key = TableKey::derive([5; 16], 1);
        type Family = fn(u32) -> (u32, u32, u32);
        let families: [Family; 6] = [
            |number| (1, 2, number),
            |number| (1, number, 0x50_0400),
            |number| (1, number << 16, 0x50_0400),
            |number| (number.reverse_bits(), 7, 0x50_0400),
            |number| (1, number & 0xff, number >> 8 << 16),
            |number| (1, number.wrapping_mul(0x0101_0101), number.wrapping_mul(0x0001_0001)),
        ];
        for (number, family) in families.iter().enumerate() {
            let mut load = vec![0u32; BUCKETS];
            let mut tags = std::collections::HashSet::new();
            for member in 0..8 * BUCKETS as u32 {
                let (local, remote, ports) = family(member);
                let hash = key.v4(local, remote, ports);
                load[(hash >> 52) as usize] += 1;
                tags.insert(hash as u16);
            }
            // Eight on average; a random function comes to about 23 at most, and to 39.3 % of all tags.
            let most = load.iter().max().copied().unwrap_or(0);
            assert!(most < 30 && (24_500..27_000).contains(&tags.len()), "family {number}: {most}, {}", tags.len());
        }
    }

    /// Connections that all fall into one bucket under one secret are no worse than random ones under another: whoever does not know the
    /// secret cannot choose a flood that collides.
    #[test]
    fn connections_chosen_to_collide_spread_under_another_secret() {
        const BITS: u32 = 6;
        let (known, unknown) = (TableKey::derive([1; 16], 1), TableKey::derive([2; 16], 1));
        let hash = |key: &TableKey, number: u32| key.v4(1, number >> 16, number << 16 | 80);
        let chosen: Vec<u32> = (0..).filter(|number| hash(&known, *number) >> (64 - BITS) == 5).take(4096).collect();
        let most = |key: &TableKey, bits: u32| {
            let mut load = vec![0u32; 1 << bits];
            chosen.iter().for_each(|number| load[(hash(key, *number) >> (64 - bits)) as usize] += 1);
            load.into_iter().max()
        };
        // All in one bucket, and eight on average; random ones come to about 21 at most.
        assert_eq!(most(&known, BITS), Some(4096));
        assert!(most(&unknown, 9) < Some(28), "{:?}", most(&unknown, 9));
    }

    #[test]
    fn uses_and_directions_differ() {
        let (a, b) = (Key::derive([1; 16], 1), Key::derive([1; 16], 2));
        let tuple = Tuple { local: 1, remote: 2, local_port: 3, remote_port: 4, v6: false };
        assert_eq!(a.tuple(&tuple), a.v4(1, 2, 3 << 16 | 4));
        assert_ne!(a.tuple(&tuple), b.tuple(&tuple));
        assert_ne!(a.tuple(&tuple), a.v4(2, 1, 3 << 16 | 4));
        assert_ne!(a.tuple(&tuple), a.tuple(&Tuple { v6: true, ..tuple }));
    }
}
