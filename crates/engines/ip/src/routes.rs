//! Where packets go next: prefixes of the link, default routers, redirects.

use std::collections::{HashMap, VecDeque};

use core::net::IpAddr;

use crate::config::in_prefix;

/// Prefixes that routers may add, at most.
const PREFIXES_MAX: usize = 64;
/// Default routers, at most.
const ROUTERS_MAX: usize = 16;
/// Destinations that are redirected, at most.
const REDIRECTS_MAX: usize = 256;

/// A prefix whose hosts are neighbours.
#[derive(Clone, Copy, Debug)]
struct OnLink {
    prefix: IpAddr,
    len: u8,
    until_ns: u64,
}

/// A default router.
#[derive(Clone, Copy, Debug)]
struct Router {
    address: IpAddr,
    until_ns: u64,
}

/// The routes of a shard.
#[derive(Debug, Default)]
pub struct Routes {
    on_link: Vec<OnLink>,
    routers: Vec<Router>,
    redirects: HashMap<IpAddr, IpAddr>,
    /// Redirected destinations, the oldest first.
    redirected: VecDeque<IpAddr>,
}

impl Routes {
    /// Adds a prefix, or changes how long it is valid; `until_ns` of 0 takes it away.
    pub fn set_on_link(&mut self, prefix: IpAddr, len: u8, until_ns: u64) {
        let same = |known: &OnLink| known.len == len && in_prefix(prefix, known.prefix, len);
        match self.on_link.iter().position(same) {
            Some(index) if until_ns == 0 => drop(self.on_link.swap_remove(index)),
            Some(index) => self.on_link[index].until_ns = until_ns,
            None if until_ns > 0 && (until_ns == u64::MAX || self.on_link.len() < PREFIXES_MAX) => {
                self.on_link.push(OnLink { prefix, len, until_ns });
            }
            None => {}
        }
    }

    /// Adds a default router, or changes how long it is valid; `until_ns` of 0 takes it away. False if there are too many.
    pub fn set_router(&mut self, address: IpAddr, until_ns: u64) -> bool {
        match self.routers.iter().position(|router| router.address == address) {
            Some(index) if until_ns == 0 => {
                self.routers.remove(index);
                self.forget_redirects(address);
            }
            Some(index) => self.routers[index].until_ns = until_ns,
            None if until_ns == 0 => {}
            None if self.routers.len() < ROUTERS_MAX => self.routers.push(Router { address, until_ns }),
            None => return false,
        }
        true
    }

    /// True if hosts of this address are neighbours.
    pub fn is_on_link(&self, address: IpAddr) -> bool {
        let is_link_local = matches!(address, IpAddr::V6(six) if six.is_unicast_link_local());
        is_link_local || self.on_link.iter().any(|known| in_prefix(address, known.prefix, known.len))
    }

    /// The neighbour that packets to `dst` go to: `dst` itself, or a router, rather one for which `has_failed` is false.
    pub fn next(&self, dst: IpAddr, has_failed: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
        if self.is_on_link(dst) {
            return Some(dst);
        }
        if let Some(other) = self.redirects.get(&dst).filter(|other| !has_failed(**other)) {
            return Some(*other);
        }
        let mut routers =
            self.routers.iter().map(|router| router.address).filter(|router| router.is_ipv4() == dst.is_ipv4());
        let first = routers.clone().next();
        routers.find(|router| !has_failed(*router)).or(first)
    }

    /// Sends packets to `dst` to another neighbour from now on.
    pub fn redirect(&mut self, dst: IpAddr, to: IpAddr) {
        if self.redirects.insert(dst, to).is_none() {
            self.redirected.push_back(dst);
        }
        if self.redirected.len() > REDIRECTS_MAX
            && let Some(oldest) = self.redirected.pop_front()
        {
            self.redirects.remove(&oldest);
        }
    }

    /// Forgets redirects to a router that is none any more.
    pub fn forget_redirects(&mut self, to: IpAddr) {
        self.redirects.retain(|_, other| *other != to);
        let redirects = &self.redirects;
        self.redirected.retain(|dst| redirects.contains_key(dst));
    }

    /// Takes away what ran out; returns when the next thing will, in nanoseconds.
    pub fn expire(&mut self, now_ns: u64) -> u64 {
        self.on_link.retain(|known| known.until_ns > now_ns);
        let gone = self.routers.iter().filter(|router| router.until_ns <= now_ns).map(|router| router.address);
        for router in gone.collect::<Vec<_>>() {
            self.set_router(router, 0);
        }
        self.next_deadline_ns()
    }

    /// When something runs out, in nanoseconds.
    pub fn next_deadline_ns(&self) -> u64 {
        let prefixes = self.on_link.iter().map(|known| known.until_ns);
        prefixes.chain(self.routers.iter().map(|router| router.until_ns)).min().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn neighbours_come_first_then_routers_that_answer() {
        let mut routes = Routes::default();
        routes.set_on_link(ip("10.0.0.1"), 24, u64::MAX);
        assert_eq!(routes.next(ip("10.0.0.9"), |_| false), Some(ip("10.0.0.9")));
        assert_eq!(routes.next(ip("10.0.1.9"), |_| false), None);
        for router in ["10.0.0.254", "10.0.0.253", "fe80::1"] {
            assert!(routes.set_router(ip(router), u64::MAX));
        }
        assert_eq!(routes.next(ip("10.0.1.9"), |_| false), Some(ip("10.0.0.254")));
        assert_eq!(routes.next(ip("10.0.1.9"), |router| router == ip("10.0.0.254")), Some(ip("10.0.0.253")));
        assert_eq!(routes.next(ip("10.0.1.9"), |_| true), Some(ip("10.0.0.254")), "one is tried even if all failed");
        assert_eq!(routes.next(ip("2001:db8::1"), |_| false), Some(ip("fe80::1")));
        assert_eq!(routes.next(ip("fe80::9"), |_| false), Some(ip("fe80::9")));
    }

    #[test]
    fn lifetimes_and_redirects_end() {
        let mut routes = Routes::default();
        routes.set_router(ip("fe80::1"), 1000);
        routes.set_on_link(ip("2001:db8::"), 64, 2000);
        routes.redirect(ip("2001:db9::1"), ip("fe80::2"));
        assert_eq!(routes.next(ip("2001:db9::1"), |_| false), Some(ip("fe80::2")));
        assert_eq!(routes.next(ip("2001:db9::1"), |_| true), Some(ip("fe80::1")), "a redirect to a host that is gone");
        assert_eq!(routes.next_deadline_ns(), 1000);
        assert_eq!(routes.expire(1000), 2000);
        assert_eq!(routes.next(ip("2001:db9::2"), |_| false), None);
        assert!(routes.is_on_link(ip("2001:db8::5")));
        assert_eq!(routes.expire(2000), u64::MAX);
        assert!(!routes.is_on_link(ip("2001:db8::5")));
        for number in 0..1000_u32 {
            routes.redirect(IpAddr::from(number.to_be_bytes()), ip("10.0.0.1"));
        }
        assert!(routes.redirects.len() <= REDIRECTS_MAX && routes.redirected.len() <= REDIRECTS_MAX);
        for number in 0..100_u128 {
            routes.set_on_link(IpAddr::from((number << 64).to_be_bytes()), 64, 5000);
            routes.set_router(IpAddr::from(number.to_be_bytes()), 5000);
        }
        assert!(routes.on_link.len() <= PREFIXES_MAX && routes.routers.len() <= ROUTERS_MAX);
    }
}
