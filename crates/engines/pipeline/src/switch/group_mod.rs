//! Groups (section 6.5): added, modified, deleted with the entries that use them.

use std::sync::Arc;

use linerate_flow_tables::{GroupView, groups_of};
use linerate_openflow::{
    Bucket, ErrorKind, GROUP_ALL, GROUP_ANY, GroupCommand, GroupKind, GroupMod, OfError, PortNumber,
};

use super::Switch;

/// Most groups of a switch.
pub const GROUPS_MAX: u32 = 65_536;
/// Most buckets of a group.
const BUCKETS_MAX: usize = 1_024;
/// Highest number of a group (`OFPG_MAX`).
const GROUP_MAX: u32 = 0xffff_ff00;
/// Groups that may follow one another.
const CHAIN_MAX: usize = 16;

/// A group as it was added.
pub(super) struct Group {
    pub(super) kind: GroupKind,
    pub(super) buckets: Vec<Bucket>,
    pub(super) view: Arc<GroupView>,
    /// Groups that forward to it.
    pub(super) followers: u32,
    /// Counts of the group under its earlier buckets: packets and bytes.
    pub(super) base: (u64, u64),
    pub(super) created_ns: u64,
}

impl Switch {
    /// Changes groups.
    ///
    /// # Errors
    /// What the specification says of the request; nothing has changed then.
    pub fn group_mod(&mut self, request: GroupMod, now_ns: u64) -> Result<(), OfError> {
        self.tables.note_time(now_ns);
        match request.command {
            GroupCommand::Add => self.add_group(request),
            GroupCommand::Modify => self.modify_group(request),
            GroupCommand::Delete => self.delete_groups(request.group),
        }
    }

    fn add_group(&mut self, request: GroupMod) -> Result<(), OfError> {
        if request.group > GROUP_MAX {
            return Err(ErrorKind::GroupModFailedInvalidGroup.into());
        }
        if self.groups.contains_key(&request.group) {
            return Err(ErrorKind::GroupModFailedGroupExists.into());
        }
        if self.groups.len() >= GROUPS_MAX as usize {
            return Err(ErrorKind::GroupModFailedOutOfGroups.into());
        }
        self.check_group(&request)?;
        self.note_chains(&request.buckets, true);
        let group = Group {
            view: self.group_view(&request, 0),
            kind: request.kind,
            buckets: request.buckets,
            followers: 0,
            base: (0, 0),
            created_ns: self.tables.time_ns(),
        };
        self.groups.insert(request.group, group);
        self.publish_group(request.group);
        Ok(())
    }

    /// Replaces type and buckets. The group's own counters go on, those of its buckets begin anew.
    fn modify_group(&mut self, request: GroupMod) -> Result<(), OfError> {
        if !self.groups.contains_key(&request.group) {
            return Err(ErrorKind::GroupModFailedUnknownGroup.into());
        }
        self.check_group(&request)?;
        self.note_chains(&request.buckets, true);
        let references = self.groups.get(&request.group).map_or(0, |group| group.view.references());
        let view = self.group_view(&request, references);
        let Some(group) = self.groups.get_mut(&request.group) else { return Ok(()) };
        let (packets, bytes) = group.view.counts();
        group.base.0 += packets;
        group.base.1 += bytes;
        group.view = view;
        group.kind = request.kind;
        let before = std::mem::replace(&mut group.buckets, request.buckets);
        self.note_chains(&before, false);
        self.publish_group(request.group);
        Ok(())
    }

    /// Deletes a group, or all, with the entries that use it. A group that another one forwards to stays.
    fn delete_groups(&mut self, wanted: u32) -> Result<(), OfError> {
        if wanted != GROUP_ALL && wanted > GROUP_MAX {
            return Err(ErrorKind::GroupModFailedInvalidGroup.into());
        }
        let doomed: Vec<u32> = match wanted {
            GROUP_ALL => self.groups.keys().copied().collect(),
            one => self.groups.contains_key(&one).then_some(one).into_iter().collect(),
        };
        if wanted != GROUP_ALL && self.groups.get(&wanted).is_some_and(|group| group.followers > 0) {
            return Err(ErrorKind::GroupModFailedChainedGroup.into());
        }
        if doomed.is_empty() {
            return Ok(());
        }
        self.tables.remove_users_of_groups(&doomed);
        for group in &doomed {
            if let Some(group) = self.groups.remove(group) {
                self.note_chains(&group.buckets, false);
            }
        }
        self.tables.change_state(|state| doomed.iter().for_each(|group| state.groups.remove(*group)));
        Ok(())
    }

    fn check_group(&self, request: &GroupMod) -> Result<(), OfError> {
        let buckets = &request.buckets;
        if buckets.len() > BUCKETS_MAX {
            return Err(ErrorKind::GroupModFailedOutOfBuckets.into());
        }
        if request.kind == GroupKind::Indirect && buckets.len() != 1 {
            return Err(ErrorKind::GroupModFailedInvalidGroup.into());
        }
        for bucket in buckets {
            let watches = bucket.watch_port != PortNumber::ANY || bucket.watch_group != GROUP_ANY;
            if request.kind == GroupKind::FastFailover && !watches {
                return Err(ErrorKind::GroupModFailedBadWatch.into());
            }
            let watched = bucket.watch_group;
            if watched != GROUP_ANY && watched != request.group && !self.groups.contains_key(&watched) {
                return Err(ErrorKind::GroupModFailedBadWatch.into());
            }
            self.tables.state().check_actions(&bucket.actions, Some(request.group))?;
        }
        self.check_chain(request)
    }

    /// Refuses a group that packets, or the question whether it is live, could come back to.
    fn check_chain(&self, request: &GroupMod) -> Result<(), OfError> {
        let mut level = next_groups(&request.buckets);
        for _ in 0..CHAIN_MAX {
            if level.contains(&request.group) {
                return Err(ErrorKind::GroupModFailedLoop.into());
            }
            let mut next = Vec::new();
            for group in level.iter().filter_map(|id| self.groups.get(id)) {
                next.extend(next_groups(&group.buckets));
            }
            next.sort_unstable();
            next.dedup();
            if next.is_empty() {
                return Ok(());
            }
            level = next;
        }
        Err(ErrorKind::GroupModFailedChainingUnsupported.into())
    }

    fn group_view(&self, request: &GroupMod, references: u32) -> Arc<GroupView> {
        Arc::new(GroupView::new(request.kind, &request.buckets, references, self.options.tables.workers))
    }

    fn publish_group(&mut self, id: u32) {
        let Some(view) = self.groups.get(&id).map(|group| Arc::clone(&group.view)) else { return };
        self.tables.change_state(|state| {
            state.groups.insert(id, view);
        });
    }

    /// Counts the groups that buckets forward to, or do so no more.
    fn note_chains(&mut self, buckets: &[Bucket], added: bool) {
        for id in named_groups(buckets) {
            if let Some(group) = self.groups.get_mut(&id) {
                group.view.note_reference(added);
                group.followers = if added { group.followers + 1 } else { group.followers.saturating_sub(1) };
            }
        }
    }
}

/// The groups that buckets forward to.
fn named_groups(buckets: &[Bucket]) -> Vec<u32> {
    groups_of(&mut buckets.iter().flat_map(|bucket| &bucket.actions))
}

/// The groups that buckets forward to, or watch.
pub(super) fn next_groups(buckets: &[Bucket]) -> Vec<u32> {
    let mut groups = named_groups(buckets);
    groups.extend(buckets.iter().map(|bucket| bucket.watch_group).filter(|watched| *watched != GROUP_ANY));
    groups
}
