//! Receive side scaling: which queue a network card puts a packet into. Hash function, key, indirection table, hashed fields, by
//! SIOCETHTOOL (linux/ethtool.h: `struct ethtool_rxfh`, `struct ethtool_rxnfc`).
//!
//! A driver without RSS (veth, TAP, loopback) answers `None`, not an error.
#![allow(unsafe_code)]

use std::io;

use crate::ethtool::supported;
use crate::netdev::Netdev;

const GET_RSS: u32 = 0x46;
const SET_RSS: u32 = 0x47;
const GET_HASH_FIELDS: u32 = 0x29;

/// Words of `struct ethtool_rxfh` before the table: command, context, length of the table, length of the key, four bytes (function,
/// transformation, reserved), reserved.
const HEAD_WORDS: usize = 6;
/// More entries, or bytes of a key, than any driver has; a count beyond it is not believed.
const LEN_MAX: u32 = 65_536;
/// `ETH_RXFH_INDIR_NO_CHANGE`: the table stays as it is.
const TABLE_STAYS: u32 = u32::MAX;
/// Words of `struct ethtool_rxnfc`, 192 bytes, and some more.
const FLOW_WORDS: usize = 64;

/// How packets are spread over receive queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rss {
    /// Hash functions in use, a bit each (`ETH_RSS_HASH_*`).
    pub functions: u8,
    /// What is done to addresses and ports before they are hashed (`RXH_XFRM_*`, Linux 6.8 and later).
    pub transformation: u8,
    /// Key of the hash function; empty if the driver does not tell.
    pub key: Vec<u8>,
    /// Queue for each value of the lower bits of the hash; empty if the driver does not tell.
    pub table: Vec<u32>,
}

/// A kind of packets that a driver hashes in a way of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowType {
    /// TCP over IPv4.
    TcpV4 = 0x01,
    /// UDP over IPv4.
    UdpV4 = 0x02,
    /// TCP over IPv6.
    TcpV6 = 0x05,
    /// UDP over IPv6.
    UdpV6 = 0x06,
}

/// What of a packet is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashFields {
    /// `RXH_*` bits.
    bits: u64,
}

impl HashFields {
    /// The fields of `RXH_*` bits (linux/ethtool.h).
    pub fn from_bits(bits: u64) -> HashFields {
        HashFields { bits }
    }

    /// Both addresses.
    pub fn addresses(self) -> bool {
        self.bits & 0x30 == 0x30
    }

    /// Both ports.
    pub fn ports(self) -> bool {
        self.bits & 0xc0 == 0xc0
    }
}

impl Rss {
    /// A key of `len` bytes that gives both directions of a flow the same hash: it repeats every 16 bits (Woo and Park, "Scalable TCP
    /// session monitoring with symmetric receive-side scaling", 2012).
    pub fn symmetric_key(len: usize) -> Vec<u8> {
        [0x6d, 0x5a].into_iter().cycle().take(len).collect()
    }

    /// The key as ethtool(8) writes it: `6d:5a:...`.
    pub fn key_text(&self) -> String {
        self.key.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
    }

    /// Name of the hash function.
    pub fn function(&self) -> &'static str {
        match self.functions {
            0x01 => "Toeplitz",
            0x02 => "XOR",
            0x04 => "CRC32",
            _ => "unknown",
        }
    }

    /// Whether both directions of a flow get the same queue: by the key, by the function, or by a transformation of the input.
    pub fn is_symmetric(&self) -> bool {
        let repeats = !self.key.is_empty() && self.key.chunks(2).all(|pair| self.key.starts_with(pair));
        repeats && self.functions == 0x01 || self.functions == 0x02 || self.transformation & 0x03 != 0
    }

    /// Entries of the table for each queue, from queue 0 on.
    pub fn shares(&self) -> Vec<usize> {
        let queues = self.table.iter().max().map_or(0, |last| *last as usize + 1);
        let mut shares = vec![0; queues];
        self.table.iter().for_each(|queue| shares[*queue as usize] += 1);
        shares
    }

    /// What the driver answered: the head, the table, the key.
    fn decode(words: &[u32]) -> Option<Rss> {
        let [_, _, table_len, key_len, bytes, _, ..] = *words else { return None };
        let (table_len, key_len) = (table_len as usize, key_len as usize);
        let [functions, transformation, ..] = bytes.to_ne_bytes();
        let rest = &words[HEAD_WORDS..];
        let table = rest.get(..table_len)?;
        let key: Vec<u8> = rest[table_len..].iter().flat_map(|word| word.to_ne_bytes()).take(key_len).collect();
        let plausible = key.len() == key_len && table.iter().all(|queue| *queue < LEN_MAX);
        plausible.then(|| Rss { functions, transformation, key, table: table.to_vec() })
    }

    /// The request that sets a key and leaves everything else.
    fn encode_key(&self, key: &[u8]) -> Vec<u32> {
        let bytes = u32::from_ne_bytes([0, self.transformation, 0, 0]);
        let mut words = vec![SET_RSS, 0, TABLE_STAYS, key.len() as u32, bytes, 0];
        words.extend(key.chunks(4).map(|chunk| {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            u32::from_ne_bytes(word)
        }));
        words
    }
}

impl Netdev {
    /// How the card spreads packets over its receive queues; `None` when the driver has no RSS, or does not tell.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn rss(&self) -> io::Result<Option<Rss>> {
        let mut head = [0_u32; HEAD_WORDS];
        head[0] = GET_RSS;
        // SAFETY: with lengths of 0, ETHTOOL_GRSSH reads and writes the head alone.
        if supported(unsafe { self.ethtool(head.as_mut_ptr().cast()) })?.is_none() {
            return Ok(None);
        }
        let (table_len, key_len) = (head[2], head[3]);
        if table_len > LEN_MAX || key_len > LEN_MAX || table_len + key_len == 0 {
            return Ok(None);
        }
        let mut words = vec![0_u32; HEAD_WORDS + table_len as usize + (key_len as usize).div_ceil(4)];
        words[..4].copy_from_slice(&[GET_RSS, 0, table_len, key_len]);
        // SAFETY: ETHTOOL_GRSSH writes the head, as many words as the table is said to have, and as many bytes as the key; it refuses
        // lengths that are not the driver's.
        match supported(unsafe { self.ethtool(words.as_mut_ptr().cast()) }) {
            Ok(answered) => Ok(answered.and_then(|()| Rss::decode(&words))),
            // The number of queues changed in between.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives the card another key; its length is that of [`Rss::key`].
    ///
    /// # Errors
    /// `Unsupported` when the driver has no RSS or takes no key, `EPERM` without CAP_NET_ADMIN, `EINVAL` for another length.
    pub fn set_rss_key(&self, key: &[u8]) -> io::Result<()> {
        let refused = || {
            let text = format!("the driver of {} takes no key for RSS", self.name());
            io::Error::new(io::ErrorKind::Unsupported, text)
        };
        let now = self.rss()?.filter(|rss| !rss.key.is_empty()).ok_or_else(refused)?;
        let mut words = now.encode_key(key);
        // SAFETY: ETHTOOL_SRSSH reads the head, no table, and as many bytes as the key is said to have.
        supported(unsafe { self.ethtool(words.as_mut_ptr().cast()) })?.ok_or_else(refused)
    }

    /// What of packets of one kind is hashed; `None` when the driver does not tell.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn hash_fields(&self, flow: FlowType) -> io::Result<Option<HashFields>> {
        let mut words = [0_u32; FLOW_WORDS];
        (words[0], words[1]) = (GET_HASH_FIELDS, flow as u32);
        // SAFETY: ETHTOOL_GRXFH reads and writes one ethtool_rxnfc, which is shorter than the buffer.
        let answered = supported(unsafe { self.ethtool(words.as_mut_ptr().cast()) });
        let bits = u64::from_ne_bytes(
            [words[2].to_ne_bytes(), words[3].to_ne_bytes()].concat().try_into().unwrap_or_default(),
        );
        match answered {
            Ok(answered) => Ok(answered.map(|()| HashFields { bits })),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::NetNs;

    /// Microsoft's key for verification, the first 40 bytes that many drivers begin with.
    const KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca,
        0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b,
        0xbe, 0xac, 0x01, 0xfa,
    ];

    /// An answer of ETHTOOL_GRSSH as it lies in memory.
    fn answer(functions: u8, transformation: u8, table: &[u32], key: &[u8]) -> Vec<u32> {
        let bytes = u32::from_ne_bytes([functions, transformation, 0, 0]);
        let mut words = vec![GET_RSS, 0, table.len() as u32, key.len() as u32, bytes, 0];
        words.extend(table);
        words.extend(key.chunks(4).map(|chunk| u32::from_ne_bytes(chunk.try_into().unwrap())));
        words
    }

    #[test]
    fn an_answer_is_taken_apart() {
        // As ixgbe answers with four queues: 128 entries in turn, a key of 40 bytes.
        let table: Vec<u32> = (0..128).map(|entry| entry % 4).collect();
        let rss = Rss::decode(&answer(1, 0, &table, &KEY)).unwrap();
        assert_eq!((rss.function(), &rss.key[..], rss.shares()), ("Toeplitz", &KEY[..], vec![32; 4]));
        assert!(!rss.is_symmetric() && rss.key_text().starts_with("6d:5a:56:da:25"));
        let lopsided = Rss { table: vec![0, 2, 2, 2], ..rss };
        assert_eq!(lopsided.shares(), [1, 0, 3]);
    }

    #[test]
    fn what_makes_it_symmetric() {
        let symmetric = |functions, transformation, key: &[u8]| {
            Rss::decode(&answer(functions, transformation, &[0, 1], key)).unwrap().is_symmetric()
        };
        assert!(symmetric(1, 0, &Rss::symmetric_key(40)) && symmetric(1, 0, &Rss::symmetric_key(52)));
        assert!(symmetric(2, 0, &KEY) && symmetric(1, 1, &KEY) && symmetric(1, 2, &KEY));
        assert!(!symmetric(1, 0, &KEY) && !symmetric(4, 0, &Rss::symmetric_key(40)) && !symmetric(1, 0, &[]));
    }

    #[test]
    fn answers_that_cannot_be_are_none() {
        let whole = answer(1, 0, &[0, 1, 0, 1], &KEY);
        assert!((0..whole.len()).all(|len| Rss::decode(&whole[..len]).is_none()));
        assert!(Rss::decode(&answer(1, 0, &[0, u32::MAX], &KEY)).is_none(), "a queue that no card has");
        assert_eq!(Rss::decode(&answer(1, 0, &[], &[])).unwrap().shares(), [0; 0]);
    }

    #[test]
    fn a_request_for_a_key_leaves_the_table() {
        let rss = Rss { functions: 1, transformation: 2, ..Rss::default() };
        let words = rss.encode_key(&Rss::symmetric_key(6));
        let pair = u32::from_ne_bytes([0x6d, 0x5a, 0x6d, 0x5a]);
        let half = u32::from_ne_bytes([0x6d, 0x5a, 0, 0]);
        assert_eq!(words, [SET_RSS, 0, u32::MAX, 6, u32::from_ne_bytes([0, 2, 0, 0]), 0, pair, half]);
    }

    #[test]
    fn fields_by_their_bits() {
        let fields = |bits| (HashFields { bits }.addresses(), HashFields { bits }.ports());
        assert_eq!(
            [fields(0xf0), fields(0x30), fields(0x10), fields(0)],
            [(true, true), (true, false), (false, false), (false, false)]
        );
    }

    #[test]
    fn the_loopback_has_none_and_says_so() {
        let namespace = match NetNs::anonymous() {
            Ok(namespace) => namespace,
            Err(error) => return eprintln!("skipped: no network namespace: {error}"),
        };
        let lo = namespace.run(|| Netdev::open("lo")).expect("enter").expect("lo");
        assert_eq!(lo.rss().expect("rss"), None);
        assert_eq!(lo.hash_fields(FlowType::UdpV4).expect("fields"), None);
        let error = lo.set_rss_key(&Rss::symmetric_key(40)).expect_err("no key");
        assert!(error.kind() == io::ErrorKind::Unsupported && error.to_string().contains("takes no key"), "{error}");
    }
}
