//! What the control thread publishes and workers read.
//!
//! Flow tables change entry by entry, in place. All the rest (ports, groups, meters, configuration) changes rarely: it is one immutable
//! [`State`], which is replaced as a whole.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use linerate_classify::{ClassifierReader, Domain, Guard, Slab, SlabReader};
use linerate_openflow::{PortNumber, SwitchConfig};

use crate::by_number::ByNumber;
use crate::flow_view::FlowView;
use crate::group_view::GroupView;
use crate::mac::MacTable;
use crate::meter_view::MeterView;
use crate::port_view::PortView;
use crate::relevant::RelevantBits;
use crate::tally::{Account, PerWorker, TableTally};

/// Tables of a switch: 0 to 254.
pub const TABLES: usize = 255;

/// Everything that workers read beside the flow tables: ports, groups, meters and the configuration. It is replaced as a whole.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Another number for each state.
    pub(crate) number: u64,
    /// The configuration.
    pub config: SwitchConfig,
    /// No controller is connected, and the switch forwards by itself.
    pub standalone: bool,
    /// A controller wants packets whose TTL is invalid.
    pub wants_invalid_ttl: bool,
    /// By slot. A port keeps its slot as long as it exists.
    pub ports: Vec<Option<Arc<PortView>>>,
    /// The slots of ports.
    pub slots: HashMap<PortNumber, u16>,
    /// Groups by number.
    pub groups: ByNumber<GroupView>,
    /// Meters by number.
    pub meters: ByNumber<MeterView>,
}

impl State {
    #[inline]
    pub(crate) fn port(&self, slot: u16) -> Option<&Arc<PortView>> {
        self.ports.get(usize::from(slot))?.as_ref()
    }

    pub(crate) fn port_by_number(&self, number: PortNumber) -> Option<&Arc<PortView>> {
        self.port(*self.slots.get(&number)?)
    }
}

/// What workers reach, beside their own memory.
pub(crate) struct Shared {
    pub(crate) tables: Vec<TableView>,
    pub(crate) flows: SlabReader<FlowView>,
    pub(crate) relevant: RelevantBits,
    states: SlabReader<Arc<State>>,
    /// Index of the present state.
    state: AtomicU32,
    /// Its number.
    state_number: AtomicU64,
    pub(crate) macs: MacTable,
    pub(crate) accounts: PerWorker<Account>,
    pub(crate) table_tallies: PerWorker<TableTallies>,
    /// A worker has put packets for the controllers into an empty queue.
    pub(crate) packet_ins: AtomicBool,
}

/// What one worker counts of all tables.
pub(crate) struct TableTallies(pub(crate) Box<[TableTally; TABLES]>);

impl Default for TableTallies {
    fn default() -> TableTallies {
        TableTallies(Box::new(std::array::from_fn(|_| TableTally::default())))
    }
}

/// A table as workers see it.
pub(crate) struct TableView {
    pub(crate) rules: ClassifierReader,
    /// The version with which an entry was added last.
    added: AtomicU64,
}

impl TableView {
    pub(crate) fn new(rules: ClassifierReader) -> TableView {
        TableView { rules, added: AtomicU64::new(0) }
    }

    /// True if an entry was added since `version`.
    #[inline]
    pub(crate) fn is_newer_than(&self, version: u64) -> bool {
        self.added.load(Ordering::Acquire) > version
    }

    /// Notes that an entry was added; the caller begins a new version afterwards.
    pub(crate) fn note_added(&self, domain: &Domain) {
        self.added.store(domain.version() + 1, Ordering::Release);
    }
}

/// The control thread's end of the states.
pub(crate) struct States {
    slab: Slab<Arc<State>>,
    /// The present state, and its index.
    current: Arc<State>,
    index: u32,
}

impl States {
    pub(crate) fn new(domain: &Domain, state: State) -> States {
        let mut slab = Slab::new(domain, u32::MAX);
        let current = Arc::new(state);
        let index = slab.insert(Arc::clone(&current)).unwrap_or_default();
        States { slab, current, index }
    }

    pub(crate) fn current(&self) -> &State {
        &self.current
    }

    /// A copy of the present state, to be changed.
    pub(crate) fn copy(&self) -> State {
        State::clone(&self.current)
    }

    pub(crate) fn reader(&self) -> SlabReader<Arc<State>> {
        self.slab.reader()
    }

    /// Puts a state in the place of the present one. The caller begins a new version afterwards.
    pub(crate) fn publish(&mut self, mut state: State, shared: &Shared) {
        state.number += 1;
        let number = state.number;
        let state = Arc::new(state);
        let Ok(index) = self.slab.insert(Arc::clone(&state)) else { return };
        shared.state.store(index, Ordering::Release);
        shared.state_number.store(number, Ordering::Release);
        self.slab.remove(self.index);
        (self.current, self.index) = (state, index);
    }
}

impl Shared {
    pub(crate) fn new(tables: Vec<TableView>, flows: SlabReader<FlowView>, states: &States, workers: usize) -> Shared {
        Shared {
            tables,
            flows,
            relevant: RelevantBits::new(),
            states: states.reader(),
            state: AtomicU32::new(states.index),
            state_number: AtomicU64::new(states.current().number),
            macs: MacTable::new(),
            accounts: PerWorker::new(workers),
            table_tallies: PerWorker::new(workers),
            packet_ins: AtomicBool::new(false),
        }
    }

    /// True if there is another state than the one with this number.
    #[inline]
    pub(crate) fn has_other_state(&self, number: u64) -> bool {
        self.state_number.load(Ordering::Acquire) != number
    }

    /// The present state.
    pub(crate) fn state(&self, guard: &Guard<'_>) -> Arc<State> {
        loop {
            // A state that was replaced just now is out of reach already, and its successor is named.
            let index = self.state.load(Ordering::Acquire);
            if let Some(state) = self.states.view(guard).get(index) {
                return Arc::clone(state);
            }
        }
    }
}
