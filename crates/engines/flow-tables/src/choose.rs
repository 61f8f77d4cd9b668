//! Which bucket of a group a packet goes to.

use linerate_openflow::{GROUP_ANY, GroupKind, PortNumber};

use crate::group_view::{BucketView, GroupView};
use crate::shared::State;

/// Groups whose liveness depends on one another, at most.
const WATCH_MAX: usize = 16;

impl GroupView {
    /// The bucket of a packet whose flow has this hash, of a group that chooses one; `None` if no bucket is live. Links count as they are now.
    pub fn choose(&self, state: &State, hash: u32) -> Option<usize> {
        match self.kind {
            GroupKind::All | GroupKind::Indirect => self.buckets.first().map(|_| 0),
            GroupKind::FastFailover => self.buckets.iter().position(|bucket| is_live(state, bucket, 0)),
            GroupKind::Select => self.select(state, hash),
        }
    }

    /// One of the live buckets, in proportion to their weights.
    fn select(&self, state: &State, hash: u32) -> Option<usize> {
        let weight = |bucket: &BucketView| if is_live(state, bucket, 0) { u64::from(bucket.weight) } else { 0 };
        let total: u64 = self.buckets.iter().map(weight).sum();
        if total == 0 {
            return None;
        }
        let mut at = (u64::from(hash) * total) >> 32;
        self.buckets.iter().position(|bucket| match at.checked_sub(weight(bucket)) {
            Some(rest) => {
                at = rest;
                false
            }
            None => true,
        })
    }
}

/// True if the port or the group that a bucket watches is live. A bucket that watches nothing is.
fn is_live(state: &State, bucket: &BucketView, depth: usize) -> bool {
    let (port, group) = (bucket.watch_port, bucket.watch_group);
    if port == PortNumber::ANY && group == GROUP_ANY {
        return true;
    }
    if port != PortNumber::ANY && state.port_by_number(port).is_some_and(|port| port.is_live()) {
        return true;
    }
    let watched = if group == GROUP_ANY || depth >= WATCH_MAX { None } else { state.groups.get(group) };
    watched.is_some_and(|group| group.buckets.iter().any(|bucket| is_live(state, bucket, depth + 1)))
}
