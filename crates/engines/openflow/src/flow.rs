//! Changes of flow entries (section 7.3.4.2) and their removal (7.4.2).

use crate::{Instruction, Match, PortNumber};

/// Command of a [`FlowMod`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FlowCommand {
    /// Adds an entry.
    Add = 0,
    /// Changes the instructions of all entries that match.
    Modify = 1,
    /// Changes those of the one entry with this match and priority.
    ModifyStrict = 2,
    /// Deletes all entries that match.
    Delete = 3,
    /// Deletes the one entry with this match and priority.
    DeleteStrict = 4,
}

/// Flags of a flow entry (`OFPFF_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowFlags(pub u16);

impl FlowFlags {
    /// Send a flow-removed message when the entry ends.
    pub const SEND_FLOW_REM: u16 = 1 << 0;
    /// Refuse an entry that overlaps another of the same priority.
    pub const CHECK_OVERLAP: u16 = 1 << 1;
    /// Set the counters to 0.
    pub const RESET_COUNTS: u16 = 1 << 2;
    /// Do not count packets.
    pub const NO_PKT_COUNTS: u16 = 1 << 3;
    /// Do not count bytes.
    pub const NO_BYT_COUNTS: u16 = 1 << 4;
    /// All bits.
    pub const ALL: u16 = 0x1f;

    /// True if all bits of `flag` are set.
    pub fn has(self, flag: u16) -> bool {
        self.0 & flag == flag
    }
}

/// A controller changes flow entries (`OFPT_FLOW_MOD`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMod {
    /// The controller's number of the entry, or, with the mask, a filter.
    pub cookie: u64,
    /// Bits of the cookie that must agree, for modify and delete; 0: all entries.
    pub cookie_mask: u64,
    /// Table; [`crate::TABLE_ALL`] for deleting in all.
    pub table: u8,
    /// The command.
    pub command: FlowCommand,
    /// Seconds without a packet after which the entry ends; 0: never.
    pub idle_timeout_s: u16,
    /// Seconds after which the entry ends; 0: never.
    pub hard_timeout_s: u16,
    /// Priority: the highest wins.
    pub priority: u16,
    /// A packet that waits in a buffer and goes through the new entry, or [`crate::NO_BUFFER`].
    pub buffer_id: u32,
    /// For deleting: only entries with an output to this port ([`PortNumber::ANY`]: no filter).
    pub out_port: PortNumber,
    /// For deleting: only entries with an action for this group ([`crate::GROUP_ANY`]: no filter).
    pub out_group: u32,
    /// Flags.
    pub flags: FlowFlags,
    /// The match.
    pub matching: Match,
    /// The instructions.
    pub instructions: Vec<Instruction>,
}

/// Which flow entries a request for statistics is about (`ofp_flow_stats_request`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowFilter {
    /// Table, or [`crate::TABLE_ALL`].
    pub table: u8,
    /// Only entries with an output to this port, or [`PortNumber::ANY`].
    pub out_port: PortNumber,
    /// Only entries with an action for this group, or [`crate::GROUP_ANY`].
    pub out_group: u32,
    /// Cookie that entries must have in the bits of `cookie_mask`.
    pub cookie: u64,
    /// Bits of the cookie that are compared.
    pub cookie_mask: u64,
    /// Match that entries must be within.
    pub matching: Match,
}

/// Why an entry ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FlowRemovedReason {
    /// No packet for the idle time.
    IdleTimeout = 0,
    /// The hard time is over.
    HardTimeout = 1,
    /// A controller deleted it.
    Delete = 2,
    /// A group that it used was deleted.
    GroupDelete = 3,
}

/// An entry ended (`OFPT_FLOW_REMOVED`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRemoved {
    /// Its cookie.
    pub cookie: u64,
    /// Its priority.
    pub priority: u16,
    /// Why it ended.
    pub reason: FlowRemovedReason,
    /// Its table.
    pub table: u8,
    /// How long it lived, in nanoseconds.
    pub duration_ns: u64,
    /// Its idle time in seconds.
    pub idle_timeout_s: u16,
    /// Its hard time in seconds.
    pub hard_timeout_s: u16,
    /// Packets that matched.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Its match.
    pub matching: Match,
}
