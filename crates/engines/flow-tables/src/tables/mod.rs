//! The control thread's end: the one writer of tables and of what workers read beside them.

mod buffers;
mod checks;
mod entries;
mod flow_mod;
mod instruction_lists;
mod packets;
mod permits;
mod removal;
mod stats;
mod timeouts;
mod totals;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;

use linerate_classify::{Classifier, Counters, Domain, Slab, Worker};
use linerate_mem::Pool;
use linerate_openflow::{FlowRemoved, PacketIn, PortStatus};

use crate::flow_view::FlowView;
use crate::forwarder::{Forwarder, Parts};
use crate::records::{PacketOutRecord, RecordReceiver, record_queue};
use crate::shared::{Shared, State, States, TABLES, TableView};
use buffers::Buffers;
use entries::Entries;
use instruction_lists::InstructionLists;
pub use permits::Permits;
use removal::Removed;
pub use stats::FlowDump;
use timeouts::Timeouts;
pub use totals::Totals;

/// Shape of the tables.
#[derive(Clone, Debug)]
pub struct FlowTablesOptions {
    /// Workers, at most.
    pub workers: usize,
    /// Entries of all tables.
    pub entries_max: u32,
    /// Packets that wait for a controller's word; 0: packet-ins carry whole packets.
    pub buffers: u32,
    /// Packets that wait for the control thread, for each worker.
    pub packet_ins_max: usize,
    /// Packet-outs that wait for a worker.
    pub packet_outs_max: usize,
    /// Packets that wait for a port, in slots, for each of its queues.
    pub queue_slots: usize,
    /// Keys in the cache of a worker, at most; 0: no cache.
    pub cache_entries_max: usize,
}

impl Default for FlowTablesOptions {
    fn default() -> FlowTablesOptions {
        FlowTablesOptions {
            workers: 1,
            entries_max: 1 << 22,
            buffers: 1024,
            packet_ins_max: 1024,
            packet_outs_max: 1024,
            queue_slots: 1024,
            cache_entries_max: 1 << 20,
        }
    }
}

/// Something that controllers are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A packet.
    PacketIn(PacketIn),
    /// An entry ended.
    FlowRemoved(FlowRemoved),
    /// A port changed.
    PortStatus(PortStatus),
}

/// The flow tables of a switch, the [`State`] beside them, and the queues of its workers.
///
/// One thread owns them. It changes what [`Forwarder`]s, one for each worker, read meanwhile. Each change is in force for every packet that
/// a worker takes after [`FlowTables::quiesced`] said so of the [`FlowTables::version`] that followed the change.
pub struct FlowTables {
    options: FlowTablesOptions,
    domain: Domain,
    /// For traces.
    reader: Option<Worker>,
    shared: Arc<Shared>,
    states: States,
    classifiers: Vec<Classifier>,
    /// By table.
    permits: Vec<Permits>,
    flows: Slab<FlowView>,
    counters: Counters,
    entries: Entries,
    instruction_lists: InstructionLists,
    /// Entries have changed since the current version began.
    has_changed: bool,
    /// A mask is gone since the current version began.
    has_fewer_masks: bool,
    buffers: Buffers,
    timeouts: Timeouts,
    removed: VecDeque<Removed>,
    events: Vec<Event>,
    workers: Vec<WorkerEnd>,
    /// Packet-outs that no worker could be given.
    refused_packet_outs: u64,
    now_ns: u64,
}

/// What the control side keeps of a worker.
struct WorkerEnd {
    packet_ins: RecordReceiver,
    packet_outs: SyncSender<PacketOutRecord>,
    packet_outs_waiting: Arc<AtomicUsize>,
    wake: Box<dyn Fn() + Send>,
}

impl FlowTables {
    /// [`TABLES`] tables without entries, an empty state, and no worker. `permits` is what a table takes, by its number.
    pub fn new(options: FlowTablesOptions, permits: &dyn Fn(u8) -> Permits, now_ns: u64) -> FlowTables {
        // One seat more, for traces.
        let domain = Domain::new(options.workers.max(1) + 1);
        let reader = domain.worker();
        let flows = Slab::new(&domain, u32::MAX - 1);
        let states = States::new(&domain, State::default());
        let (mut classifiers, mut tables, mut of_tables) = (Vec::new(), Vec::new(), Vec::new());
        for table in 0..TABLES {
            let classifier = Classifier::new(&domain);
            tables.push(TableView::new(classifier.reader()));
            classifiers.push(classifier);
            of_tables.push(permits(table as u8));
        }
        let shared = Arc::new(Shared::new(tables, flows.reader(), &states, options.workers));
        FlowTables {
            permits: of_tables,
            entries: Entries::new(TABLES, options.entries_max),
            instruction_lists: InstructionLists::default(),
            has_changed: false,
            has_fewer_masks: false,
            buffers: Buffers::new(options.buffers),
            timeouts: Timeouts::default(),
            domain,
            reader,
            shared,
            states,
            classifiers,
            flows,
            counters: Counters::new(),
            removed: VecDeque::new(),
            events: Vec::new(),
            workers: Vec::new(),
            refused_packet_outs: 0,
            now_ns,
            options,
        }
    }

    /// The shape that they were made with.
    pub fn options(&self) -> &FlowTablesOptions {
        &self.options
    }

    /// Makes the datapath of one more worker, whose packets are in frames of `pool`. `wake_worker` wakes it when packets of
    /// controllers wait for it; `wake_control` wakes the control thread when packets for controllers wait. `None` if there are
    /// as many workers as the options say.
    pub fn forwarder(
        &mut self,
        pool: &Pool,
        wake_worker: Box<dyn Fn() + Send>,
        wake_control: Box<dyn Fn() + Send>,
    ) -> Option<Forwarder> {
        if self.workers.len() >= self.options.workers {
            return None;
        }
        let reader = self.domain.worker()?;
        let (sender, packet_ins) = record_queue(self.options.packet_ins_max);
        let (packet_outs, receiver) = std::sync::mpsc::sync_channel(self.options.packet_outs_max);
        let number = self.workers.len();
        let waiting = Arc::new(AtomicUsize::new(0));
        let packet_outs_waiting = Arc::clone(&waiting);
        self.workers.push(WorkerEnd { packet_ins, packet_outs, packet_outs_waiting, wake: wake_worker });
        let entries = self.entries.end();
        Some(Forwarder::new(Parts {
            number,
            reader,
            shared: Arc::clone(&self.shared),
            counters: self.counters.worker(entries),
            packet_ins: sender,
            packet_outs: receiver,
            wake_control,
            pool: pool.clone(),
            queue_slots: self.options.queue_slots,
            packet_outs_waiting: waiting,
            cache_entries_max: self.options.cache_entries_max,
        }))
    }

    /// Changes what a table takes. Entries that it has stay.
    pub fn set_permits(&mut self, table: u8, permits: Permits) {
        self.permits[usize::from(table)] = permits;
    }

    /// Time of the last call of [`FlowTables::note_time`], in nanoseconds.
    pub fn time_ns(&self) -> u64 {
        self.now_ns
    }

    /// Says what time it is, in nanoseconds. Time does not go back.
    #[inline]
    pub fn note_time(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// The version that all changes so far belong to. Changes of entries that follow one another begin one together, because each
    /// version has workers look whether what they know is right still.
    pub fn version(&mut self) -> u64 {
        self.begin_version();
        self.domain.version()
    }

    /// Begins a version if entries have changed.
    fn begin_version(&mut self) {
        if self.has_changed {
            self.advance();
        }
    }

    /// True if each worker sees all changes up to `version`, so that a packet that a worker takes from now on meets them. The entries
    /// that these changes removed have been reported then, with their last counts. Does not wait.
    pub fn quiesced(&mut self, version: u64) -> bool {
        let quiesced = self.domain.quiesced(version);
        self.reap();
        quiesced
    }

    /// Does what is due: entries whose time is over end, buffers age.
    pub fn tick(&mut self) {
        self.expire();
        self.buffers.age(self.now_ns);
        self.reap();
    }

    /// Time at which [`FlowTables::tick`] is to be called, in nanoseconds; `u64::MAX` if there is none.
    pub fn next_deadline_ns(&self) -> u64 {
        /// Entries that workers may still use are looked at again after this time.
        const RETRY_NS: u64 = 1_000_000;
        if self.has_changed {
            return self.now_ns;
        }
        let removal = if self.removed.is_empty() { u64::MAX } else { self.now_ns + RETRY_NS };
        removal.min(self.timeouts.next_ns()).min(self.buffers.next_deadline_ns())
    }

    /// Tells the controllers something.
    pub fn tell(&mut self, event: Event) {
        self.events.push(event);
    }

    /// What controllers are to be told, oldest first. At most `most` packets are taken from the workers.
    pub fn drain_events(&mut self, most: usize) -> Vec<Event> {
        self.reap();
        self.take_packet_ins(most);
        std::mem::take(&mut self.events)
    }

    /// Everything beside the tables, as it is in force.
    pub fn state(&self) -> &State {
        self.states.current()
    }

    /// Replaces the state by a changed one, and begins a new version.
    pub fn change_state(&mut self, change: impl FnOnce(&mut State)) {
        let mut state = self.states.copy();
        change(&mut state);
        self.publish(state);
    }

    fn publish(&mut self, state: State) {
        self.states.publish(state, &self.shared);
        self.advance();
    }

    fn advance(&mut self) {
        self.domain.advance();
        self.has_changed = false;
        if std::mem::take(&mut self.has_fewer_masks) {
            self.shared.relevant.set_to_union(self.classifiers.iter().flat_map(Classifier::masks));
        }
    }

    /// Forgets the addresses that were learned behind the port in a slot.
    pub fn forget_addresses(&self, slot: u16) {
        self.shared.macs.forget(slot);
    }

    /// True once workers have put packets for controllers into an empty queue.
    pub fn has_packet_ins(&self) -> bool {
        self.shared.packet_ins.load(Ordering::Acquire)
    }
}
