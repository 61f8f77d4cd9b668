//! How many addresses of the table each port has, and may have, so that one port with random addresses leaves those of the others alone.

use super::Key;
use super::bucket::Entry;
use crate::settings::PORTS_MAX;

/// Addresses by port.
pub(super) struct Shares {
    used: Box<[u32; PORTS_MAX]>,
    limits: Box<[u32; PORTS_MAX]>,
    /// What a port may have before it makes way for the others.
    fair: u32,
}

impl Shares {
    pub(super) fn new(capacity: u64) -> Shares {
        let fair = u32::try_from(capacity).unwrap_or(u32::MAX);
        Shares { used: Box::new([0; PORTS_MAX]), limits: Box::new([u32::MAX; PORTS_MAX]), fair }
    }

    /// Takes over limits and the number of ports, but not what they have.
    pub(super) fn set_as(&mut self, other: &Shares, capacity: u64, ports: usize) {
        self.limits = other.limits.clone();
        self.divide(capacity, ports);
    }

    /// The places of the table are those of `ports` ports in equal parts.
    pub(super) fn divide(&mut self, capacity: u64, ports: usize) {
        self.fair = u32::try_from(capacity / ports.max(1) as u64).unwrap_or(u32::MAX);
    }

    /// Sets how many addresses are learned at a port.
    pub(super) fn set_limit(&mut self, port: u16, limit: u32) {
        if let Some(known) = self.limits.get_mut(usize::from(port)) {
            *known = limit;
        }
    }

    /// An entry takes the place of another; either may be that of a free place.
    #[inline]
    pub(super) fn replace(&mut self, old: Entry, new: Entry) {
        self.remove(old);
        if new.key != Key::default()
            && let Some(used) = self.used.get_mut(usize::from(new.port))
        {
            *used += 1;
        }
    }

    /// An entry goes.
    #[inline]
    pub(super) fn remove(&mut self, old: Entry) {
        if old.key != Key::default()
            && let Some(used) = self.used.get_mut(usize::from(old.port))
        {
            *used = used.saturating_sub(1);
        }
    }

    /// Addresses of a port.
    pub(super) fn used(&self, port: u16) -> u32 {
        self.used.get(usize::from(port)).copied().unwrap_or(0)
    }

    /// True if no further address may be learned at the port.
    pub(super) fn is_at_limit(&self, port: u16) -> bool {
        self.limits.get(usize::from(port)).is_some_and(|limit| self.used(port) >= *limit)
    }

    /// True if the port has its equal part of the table, or more.
    pub(super) fn has_its_part(&self, port: u16) -> bool {
        self.used(port) >= self.fair
    }
}
