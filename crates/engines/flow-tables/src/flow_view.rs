//! A flow entry as workers see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use linerate_openflow::{Action, Instruction, PackedInstructions};

use crate::by_number::ByNumber;
use crate::meter_view::MeterView;

/// The instructions of an entry, by their kind. They are executed in this order (section 5.9).
#[derive(Debug, Default)]
pub struct Instructions {
    /// The meter that packets go through.
    pub meter: Option<u32>,
    /// Actions that are applied.
    pub apply: Box<[Action]>,
    /// The action set is cleared.
    pub clear: bool,
    /// Actions that are written into the action set.
    pub write: Box<[Action]>,
    /// New bits of the metadata, and which bits are new.
    pub metadata: Option<(u64, u64)>,
    /// The table that comes next.
    pub goto: Option<u8>,
    /// The applied actions change fields.
    changes: bool,
    /// All of them as the controller gave them.
    pub(crate) given: PackedInstructions,
    /// Entries that have them; counted by the control thread alone.
    pub(crate) entries: AtomicU32,
}

impl Instructions {
    /// Sorts instructions by their kind. An entry has at most one of each.
    pub fn new(instructions: &[Instruction]) -> Instructions {
        let mut by_kind = Instructions { given: PackedInstructions::new(instructions), ..Instructions::default() };
        for instruction in instructions {
            match instruction {
                Instruction::Meter(meter) => by_kind.meter = Some(*meter),
                Instruction::ApplyActions(actions) => by_kind.apply = actions.as_slice().into(),
                Instruction::ClearActions => by_kind.clear = true,
                Instruction::WriteActions(actions) => by_kind.write = actions.as_slice().into(),
                Instruction::WriteMetadata { metadata, mask } => by_kind.metadata = Some((*metadata & *mask, *mask)),
                Instruction::GotoTable(table) => by_kind.goto = Some(*table),
                // Refused before an entry has it.
                Instruction::Experimenter(_) => {}
            }
        }
        by_kind.changes = by_kind.apply.iter().any(changes_fields);
        by_kind
    }

    /// All actions, applied or written.
    pub(crate) fn actions(&self) -> impl Iterator<Item = &Action> {
        self.apply.iter().chain(&self.write)
    }

    /// True if a later table may find other fields in the packet than this one.
    #[inline]
    pub(crate) fn is_changing(&self, meters: &ByNumber<MeterView>) -> bool {
        self.changes || self.meter.is_some_and(|meter| meters.get(meter).is_some_and(|meter| meter.remarks()))
    }
}

/// True if other fields may be found after the action.
fn changes_fields(action: &Action) -> bool {
    use Action::{PopMpls, PopPbb, PopVlan, PushMpls, PushPbb, PushVlan, SetField};
    matches!(action, SetField(..) | PushVlan(_) | PopVlan | PushMpls(_) | PopMpls(_) | PushPbb(_) | PopPbb)
}

/// An entry: what packets that match it need. It never changes; a modified entry is another one.
#[derive(Debug)]
pub(crate) struct FlowView {
    /// Cells of its counters.
    pub(crate) counter: u32,
    pub(crate) counter_generation: u32,
    pub(crate) instructions: Arc<Instructions>,
    pub(crate) cookie: u64,
    /// The table-miss entry: priority 0, and it matches all packets.
    pub(crate) is_miss: bool,
    pub(crate) counts_packets: bool,
    pub(crate) counts_bytes: bool,
    /// Cleared before the entry's generation changes: what is found of it from then on must not be kept.
    pub(crate) in_force: AtomicBool,
}

impl FlowView {
    pub(crate) fn is_in_force(&self) -> bool {
        self.in_force.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self) {
        self.in_force.store(false, Ordering::Release);
    }
}
