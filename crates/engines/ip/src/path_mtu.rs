//! Path MTU by destination: what ICMP says (RFC 1191, RFC 8201), and the search by probes for paths that say nothing (RFC 8899, for TCP as
//! RFC 4821 has it).
//!
//! ```text
//! link MTU --too_big--> that MTU --10 min--> probe upwards, or the link MTU again
//!     +--black_hole--> base --probe, acked, lost--> the longest that passes, within 16 bytes
//! ```

use std::collections::{HashMap, VecDeque};

use core::net::IpAddr;

use crate::config::{MTU_MIN_V4, MTU_MIN_V6};

/// Length that every path should pass (RFC 8899 section 5.1.2, BASE_PLPMTU), in bytes.
const BASE_V4: u16 = 1200;
/// Time after which a longer packet is tried again (PMTU_RAISE_TIMER, and RFC 1191 section 6.3).
const RAISE_NS: u64 = 600_000_000_000;
/// Time that a transport has to probe, before the path is forgotten and starts at the MTU of the link again.
const GRACE_NS: u64 = 60_000_000_000;
/// Probes of one length that are lost before it counts as too long (MAX_PROBES).
const TRIES: u8 = 3;
/// A search ends when the bounds are so close to each other, in bytes.
const STEP_MIN: u16 = 16;

/// Usual MTUs (RFC 1191 section 7.1, and 1,492 and 1,500), for routers that do not tell theirs.
const PLATEAUS: [u16; 12] = [65_535, 32_000, 17_914, 8166, 4352, 2002, 1500, 1492, 1006, 508, 296, 68];

/// The highest usual MTU below the length of a packet that did not pass.
pub fn plateau_below(len: u16) -> u16 {
    PLATEAUS.into_iter().find(|plateau| *plateau < len).unwrap_or(MTU_MIN_V4)
}

#[derive(Clone, Copy, Debug)]
struct Path {
    mtu: u16,
    /// Longest packet that may still pass.
    high: u16,
    is_searching: bool,
    tries: u8,
    raise_ns: u64,
}

/// The path MTUs of a shard.
#[derive(Debug)]
pub struct PathMtus {
    link4: u16,
    link6: u16,
    capacity: usize,
    paths: HashMap<IpAddr, Path>,
    /// Destinations, the oldest first.
    order: VecDeque<IpAddr>,
}

impl PathMtus {
    /// Nothing but the MTU of the link is known.
    pub fn new(link_mtu: u16, capacity: usize) -> PathMtus {
        let capacity = capacity.max(1);
        PathMtus {
            link4: link_mtu,
            link6: link_mtu,
            capacity,
            paths: HashMap::with_capacity(capacity),
            order: VecDeque::with_capacity(capacity),
        }
    }

    /// Takes the MTU that a router advertised for the link.
    pub fn set_link_mtu6(&mut self, mtu: u16) {
        self.link6 = mtu;
        for path in self.paths.iter_mut().filter(|(dst, _)| dst.is_ipv6()).map(|(_, path)| path) {
            (path.mtu, path.high) = (path.mtu.min(mtu), path.high.min(mtu));
        }
    }

    /// Longest packet to `dst` that passes, as far as is known, in bytes.
    #[inline]
    pub fn get(&self, dst: IpAddr) -> u16 {
        let link = self.link(dst);
        if self.paths.is_empty() {
            return link;
        }
        self.paths.get(&dst).map_or(link, |path| path.mtu)
    }

    /// True if IPv4 packets of `len` bytes pass to every destination, as far as is known.
    #[inline]
    pub fn passes4(&self, len: usize) -> bool {
        len <= usize::from(self.link4) && self.paths.is_empty()
    }

    /// A packet to `dst` was longer than `mtu`; returns the MTU from now on.
    pub fn too_big(&mut self, dst: IpAddr, mtu: u16, now_ns: u64) -> u16 {
        let mtu = mtu.max(min(dst));
        if mtu >= self.get(dst) {
            return self.get(dst);
        }
        let raise_ns = now_ns + RAISE_NS;
        self.set(dst, Path { mtu, high: mtu, is_searching: false, tries: 0, raise_ns });
        mtu
    }

    /// Packets of `len` bytes to `dst` vanish without a word; returns the MTU from now on. A search for the real one begins, unless every path
    /// should pass packets of that length.
    pub fn black_hole(&mut self, dst: IpAddr, len: u16, now_ns: u64) -> u16 {
        let before = self.get(dst);
        let base = if dst.is_ipv4() { BASE_V4 } else { MTU_MIN_V6 };
        if len.min(before) <= base {
            return before;
        }
        let mtu = base;
        let high = before.saturating_sub(1).max(mtu);
        self.set(dst, Path { mtu, high, is_searching: true, tries: 0, raise_ns: now_ns + RAISE_NS });
        mtu
    }

    /// Length of the packet that is to be sent to `dst` as a probe now; `None` if none is due.
    pub fn probe(&mut self, dst: IpAddr, now_ns: u64) -> Option<u16> {
        let link = self.link(dst);
        let path = self.paths.get_mut(&dst)?;
        if !path.is_searching && now_ns >= path.raise_ns {
            (path.is_searching, path.high, path.tries) = (true, link, 0);
        }
        if !path.is_searching {
            return None;
        }
        if path.high.saturating_sub(path.mtu) < STEP_MIN {
            (path.is_searching, path.raise_ns) = (false, now_ns + RAISE_NS);
            return None;
        }
        // The longest first if it is the link's, because most paths are like the link; then halves.
        let half = path.mtu + (path.high - path.mtu).div_ceil(2);
        Some(if path.high == link { link } else { half })
    }

    /// A probe of `len` bytes arrived; returns the MTU from now on.
    pub fn probe_acked(&mut self, dst: IpAddr, len: u16) -> u16 {
        if let Some(path) = self.paths.get_mut(&dst).filter(|path| path.is_searching) {
            path.mtu = path.mtu.max(len.min(path.high));
            path.tries = 0;
        }
        self.get(dst)
    }

    /// A probe of `len` bytes was lost.
    pub fn probe_lost(&mut self, dst: IpAddr, len: u16) {
        let Some(path) = self.paths.get_mut(&dst).filter(|path| path.is_searching) else { return };
        path.tries += 1;
        if path.tries >= TRIES {
            (path.high, path.tries) = (path.high.min(len.saturating_sub(1)).max(path.mtu), 0);
        }
    }

    /// Forgets paths on which no transport probes.
    pub fn expire(&mut self, now_ns: u64) {
        let is_old = |path: &Path| !path.is_searching && now_ns >= path.raise_ns.saturating_add(GRACE_NS);
        if self.paths.values().any(is_old) {
            self.paths.retain(|_, path| !is_old(path));
            let paths = &self.paths;
            self.order.retain(|dst| paths.contains_key(dst));
        }
    }

    /// True if nothing is known but the MTU of the link.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    fn set(&mut self, dst: IpAddr, path: Path) {
        if self.paths.insert(dst, path).is_none() {
            self.order.push_back(dst);
        }
        if self.order.len() > self.capacity
            && let Some(oldest) = self.order.pop_front()
        {
            self.paths.remove(&oldest);
        }
    }

    #[inline]
    fn link(&self, dst: IpAddr) -> u16 {
        if dst.is_ipv4() { self.link4 } else { self.link6 }
    }
}

fn min(dst: IpAddr) -> u16 {
    if dst.is_ipv4() { MTU_MIN_V4 } else { MTU_MIN_V6 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dst() -> IpAddr {
        "192.0.2.1".parse().unwrap()
    }

    #[test]
    fn icmp_lowers_the_mtu_for_ten_minutes() {
        let mut paths = PathMtus::new(1500, 4);
        assert_eq!(paths.too_big(dst(), 1400, 0), 1400);
        assert_eq!(paths.too_big(dst(), 1450, 0), 1400, "no error raises it");
        assert_eq!(paths.too_big(dst(), 9, 0), 68);
        assert_eq!(paths.too_big("2001:db8::1".parse().unwrap(), 600, 0), 1280);
        paths.expire(RAISE_NS + GRACE_NS - 1);
        assert_eq!(paths.get(dst()), 68);
        paths.expire(RAISE_NS + GRACE_NS);
        assert_eq!((paths.get(dst()), paths.is_empty()), (1500, true));
    }

    #[test]
    fn the_table_is_bounded() {
        let mut paths = PathMtus::new(1500, 4);
        for number in 0..100_u32 {
            paths.too_big(IpAddr::from(number.to_be_bytes()), 1000, 0);
        }
        assert_eq!((paths.paths.len(), paths.order.len()), (4, 4));
        assert_eq!(paths.get(IpAddr::from(99_u32.to_be_bytes())), 1000);
    }

    #[test]
    fn a_search_finds_what_passes() {
        for real in [1200, 1201, 1280, 1400, 1492, 1499, 1500, 4000, 8999, 9000] {
            let mut paths = PathMtus::new(9000, 4);
            let mut mtu = paths.black_hole(dst(), 9000, 0);
            let mut probes = 0;
            let mut search = |paths: &mut PathMtus, now_ns| {
                while let Some(len) = paths.probe(dst(), now_ns) {
                    probes += 1;
                    if len <= real {
                        mtu = paths.probe_acked(dst(), len)
                    } else {
                        paths.probe_lost(dst(), len)
                    }
                    assert!(probes < 100);
                }
                mtu
            };
            search(&mut paths, 0);
            // Ten minutes later longer ones are tried, the link's first.
            let found = search(&mut paths, RAISE_NS);
            assert!(found <= real && found + STEP_MIN > real, "{found} of {real}");
            assert_eq!(paths.get(dst()), found);
            assert_eq!(
                paths.black_hole(dst(), 1200, RAISE_NS),
                found,
                "a packet that every path passes says nothing of the path"
            );
        }
        assert_eq!(PathMtus::new(1500, 1).probe(dst(), u64::MAX), None);
    }

    #[test]
    fn plateaus() {
        for (len, mtu) in [(1500, 1492), (1492, 1006), (9000, 8166), (576, 508), (68, 68), (0, 68), (65_535, 32_000)] {
            assert_eq!(plateau_below(len), mtu);
        }
    }
}
