//! Groups (section 7.3.4.3).

use crate::{Action, PortNumber};

/// Command of a [`GroupMod`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum GroupCommand {
    /// Adds a group.
    Add = 0,
    /// Replaces a group.
    Modify = 1,
    /// Deletes a group, or all by [`crate::GROUP_ALL`].
    Delete = 2,
}

/// How a group chooses buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum GroupKind {
    /// All of them: multicast.
    All = 0,
    /// One, by a hash of the flow and the weights.
    Select = 1,
    /// The only one.
    Indirect = 2,
    /// The first that is live.
    FastFailover = 3,
}

/// A bucket of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// Weight; of select groups only.
    pub weight: u16,
    /// Port whose state says whether the bucket is live, or [`PortNumber::ANY`].
    pub watch_port: PortNumber,
    /// Group whose state says whether the bucket is live, or [`crate::GROUP_ANY`].
    pub watch_group: u32,
    /// What it does: an action set.
    pub actions: Vec<Action>,
}

/// A controller changes groups (`OFPT_GROUP_MOD`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMod {
    /// The command.
    pub command: GroupCommand,
    /// How buckets are chosen.
    pub kind: GroupKind,
    /// The group.
    pub group: u32,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
}
