//! A group as workers see it.

use std::sync::atomic::{AtomicU32, Ordering};

use linerate_openflow::{Action, Bucket, BucketStats, GroupKind, PortNumber};

use crate::action_set::ActionSet;
use crate::tally::{Pair, PerWorker};

/// A bucket: a list of actions in the order of an action set.
#[derive(Debug)]
pub struct BucketView {
    pub(crate) weight: u16,
    pub(crate) watch_port: PortNumber,
    pub(crate) watch_group: u32,
    /// Its actions.
    pub actions: Vec<Action>,
    pub(crate) tally: PerWorker<Pair>,
}

/// A group, immutable but for its counters.
#[derive(Debug)]
pub struct GroupView {
    /// How it chooses buckets.
    pub kind: GroupKind,
    /// Its buckets.
    pub buckets: Vec<BucketView>,
    pub(crate) tally: PerWorker<Pair>,
    /// Entries and groups that name it; counted by the control thread alone.
    references: AtomicU32,
}

impl GroupView {
    /// A group that so many entries and groups name, for so many workers.
    pub fn new(kind: GroupKind, buckets: &[Bucket], references: u32, workers: usize) -> GroupView {
        let bucket = |bucket: &Bucket| {
            let mut set = ActionSet::default();
            set.write(&bucket.actions);
            BucketView {
                weight: bucket.weight,
                watch_port: bucket.watch_port,
                watch_group: bucket.watch_group,
                actions: set.in_order(),
                tally: PerWorker::new(workers),
            }
        };
        GroupView {
            kind,
            buckets: buckets.iter().map(bucket).collect(),
            tally: PerWorker::new(workers),
            references: AtomicU32::new(references),
        }
    }

    /// Packets and bytes of the group.
    pub fn counts(&self) -> (u64, u64) {
        self.tally.total()
    }

    /// Counters of each bucket.
    pub fn bucket_stats(&self) -> Vec<BucketStats> {
        let mut stats = Vec::new();
        for bucket in &self.buckets {
            let (packets, bytes) = bucket.tally.total();
            stats.push(BucketStats { packets, bytes });
        }
        stats
    }

    /// Entries and groups that name it.
    pub fn references(&self) -> u32 {
        self.references.load(Ordering::Relaxed)
    }

    /// Notes that one entry or group more names it, or one less. By the control thread.
    pub fn note_reference(&self, added: bool) {
        let before = self.references();
        self.references.store(if added { before + 1 } else { before.saturating_sub(1) }, Ordering::Relaxed);
    }
}
