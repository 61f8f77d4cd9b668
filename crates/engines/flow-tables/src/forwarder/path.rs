//! The way of a packet through the tables, flattened: what is to be done with every packet that takes it.

use std::sync::Arc;

use linerate_openflow::{Action, PacketInReason};

use crate::action_set::ActionSet;
use crate::drops::DropReason;
use crate::group_view::GroupView;
use crate::meter_view::MeterView;

/// A step of the way.
#[derive(Debug)]
pub(super) enum Op {
    /// A table was asked; counts.
    Table {
        table: u8,
        hit: Option<Hit>,
    },
    Meter(Arc<MeterView>),
    Change(Action),
    Queue(u32),
    /// To the port in this slot.
    Port(u16),
    /// Back to where the packet came from.
    InPort,
    All,
    Flood,
    Normal,
    Controller(ToController),
    Group(Box<GroupOps>),
    /// The packet has changed: its fields are read again before it goes on in a later table.
    Continue(Box<Continuation>),
    /// A copy, or the packet, goes nowhere.
    Refuse(DropReason),
}

/// An entry that matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) counter: u32,
    pub(super) generation: u32,
    pub(super) packets: bool,
    pub(super) bytes: bool,
}

/// An output to the controllers.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToController {
    pub(super) reason: PacketInReason,
    pub(super) table: u8,
    pub(super) cookie: u64,
    pub(super) max_len: u16,
    pub(super) metadata: u64,
}

/// A group whose buckets are flattened.
#[derive(Debug)]
pub(super) struct GroupOps {
    pub(super) view: Arc<GroupView>,
    pub(super) buckets: Vec<Vec<Op>>,
}

/// Where a packet goes on.
#[derive(Clone, Debug)]
pub(super) struct Continuation {
    pub(super) table: u8,
    pub(super) metadata: u64,
    pub(super) set: ActionSet,
}

/// A table that was asked, and the entry that matched there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub(super) table: u8,
    /// Slot and generation of the entry; `None` if none matched.
    pub(super) flow: Option<(u32, u32)>,
}

/// A whole way, and what it rests on. What a packet of a plain way through one table needs lies in the first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Path {
    /// The version that the worker saw when the way was right last.
    pub(super) version: u64,
    /// Number of the state.
    pub(super) state: u64,
    /// The table that was asked first.
    pub(super) first: Asked,
    /// The entry that matched there.
    pub(super) hit: Option<Hit>,
    /// The port to which all packets go as they are; nothing else happens to them but that they are counted.
    pub(super) plain: Option<u16>,
    /// No other table was asked.
    pub(super) is_single: bool,
    /// An entry was about to be removed: the way is good for the packets in hand.
    pub(super) is_transient: bool,
    /// Why the packet is dropped if no step sends it anywhere.
    pub(super) end: Option<DropReason>,
    /// The tables that were asked after the first one. With that one, they determine all the rest, as long as the state is the same.
    pub(super) later: Box<[Asked]>,
    pub(super) ops: Vec<Op>,
}

impl Path {
    /// A way without a step, which rests on these answers.
    pub(super) fn new(asked: &[Asked], version: u64, state: u64) -> Path {
        let (first, later) = match asked.split_first() {
            Some((first, later)) => (*first, later),
            None => (Asked { table: 0, flow: None }, &[][..]),
        };
        Path {
            version,
            state,
            first,
            hit: None,
            plain: None,
            is_single: later.is_empty(),
            is_transient: false,
            end: None,
            later: later.into(),
            ops: Vec::new(),
        }
    }

    /// True if the way rests on these answers.
    #[inline]
    pub(super) fn rests_on(&self, asked: &[Asked]) -> bool {
        if let [only] = asked {
            return self.is_single && *only == self.first;
        }
        asked.split_first().is_some_and(|(first, later)| *first == self.first && *later == *self.later)
    }

    /// Finds out whether the way is plain.
    pub(super) fn note_plain(&mut self) {
        if let Some((Op::Port(slot), counted)) = self.ops.split_last()
            && counted.iter().all(|op| matches!(op, Op::Table { .. }))
        {
            self.plain = Some(*slot);
        }
    }
}
