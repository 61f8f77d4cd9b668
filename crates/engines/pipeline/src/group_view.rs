//! A group as workers see it.

use linerate_openflow::{Action, GroupKind, PortNumber};

use crate::tally::{Pair, PerWorker};

/// A bucket: a list of actions in the order of an action set.
#[derive(Debug)]
pub(crate) struct BucketView {
    pub(crate) weight: u16,
    pub(crate) watch_port: PortNumber,
    pub(crate) watch_group: u32,
    pub(crate) actions: Vec<Action>,
    pub(crate) tally: PerWorker<Pair>,
}

/// A group, immutable but for its counters.
#[derive(Debug)]
pub(crate) struct GroupView {
    pub(crate) kind: GroupKind,
    pub(crate) buckets: Vec<BucketView>,
    pub(crate) tally: PerWorker<Pair>,
}
