//! The control side of the switch: the one writer of tables, groups, meters and ports.

mod buffers;
mod checks;
mod entries;
mod features;
mod flow_mod;
mod group_mod;
mod instruction_lists;
mod meter_mod;
mod multipart;
mod packets;
mod ports;
mod removal;
mod saved;
mod snapshot;
mod timeouts;
mod trace;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;

use linerate_classify::{Classifier, Counters, Domain, Slab, Worker};
use linerate_mem::Pool;
use linerate_openflow::{
    FlowRemoved, OfError, PacketIn, PortStatus, SwitchConfig, SwitchDescription, SwitchFeatures, TableFeatures,
};

use crate::flow_view::FlowView;
use crate::forwarder::{Forwarder, Parts};
use crate::records::{PacketOutRecord, RecordReceiver, record_queue};
use crate::shared::{Shared, State, States, TABLES, TableView};
use buffers::Buffers;
use entries::Entries;
use features::Permits;
pub use group_mod::GROUPS_MAX;
use group_mod::Group;
use instruction_lists::InstructionLists;
use meter_mod::Meter;
pub use multipart::FlowDump;
use ports::SwitchPort;
pub use ports::{PortError, PortSettings};
use removal::Removed;
pub use saved::{Saved, saved_flow};
pub use snapshot::Totals;
use timeouts::Timeouts;
pub use trace::{TraceStep, TracedEntry};

/// Shape of a switch.
#[derive(Clone, Debug)]
pub struct SwitchOptions {
    /// Datapath ID.
    pub datapath_id: u64,
    /// Workers, at most.
    pub workers: usize,
    /// Texts about the switch.
    pub description: SwitchDescription,
    /// Entries that a table holds unless a controller asks for fewer.
    pub table_entries_max: u32,
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

impl Default for SwitchOptions {
    fn default() -> SwitchOptions {
        SwitchOptions {
            datapath_id: 1,
            workers: 1,
            description: SwitchDescription::default(),
            table_entries_max: 1 << 20,
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

/// The control side of an OpenFlow switch.
///
/// One thread owns it. It changes what [`Forwarder`]s, one for each worker, read meanwhile. Each change is in force for every packet that
/// a worker takes after [`Switch::quiesced`] said so of the [`Switch::version`] that followed the change.
pub struct Switch {
    options: SwitchOptions,
    domain: Domain,
    /// For traces.
    reader: Option<Worker>,
    shared: Arc<Shared>,
    states: States,
    classifiers: Vec<Classifier>,
    features: Vec<TableFeatures>,
    /// What the features of each table permit.
    permits: Vec<Permits>,
    flows: Slab<FlowView>,
    counters: Counters,
    entries: Entries,
    instruction_lists: InstructionLists,
    /// Entries have changed since the current version began.
    has_changed: bool,
    /// A mask is gone since the current version began.
    has_fewer_masks: bool,
    groups: BTreeMap<u32, Group>,
    meters: BTreeMap<u32, Meter>,
    ports: BTreeMap<u32, SwitchPort>,
    buffers: Buffers,
    timeouts: Timeouts,
    removed: VecDeque<Removed>,
    events: VecDeque<Event>,
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

impl Switch {
    /// A switch without ports, entries and workers.
    pub fn new(options: SwitchOptions, now_ns: u64) -> Switch {
        // One seat more, for traces.
        let domain = Domain::new(options.workers.max(1) + 1);
        let reader = domain.worker();
        let classifiers: Vec<Classifier> = (0..TABLES).map(|_| Classifier::new(&domain)).collect();
        let flows = Slab::new(&domain, u32::MAX - 1);
        let states = States::new(&domain, State::default());
        let tables = classifiers.iter().map(|classifier| TableView::new(classifier.reader())).collect();
        let shared = Arc::new(Shared::new(tables, flows.reader(), &states, options.workers));
        let features: Vec<TableFeatures> =
            (0..TABLES).map(|table| features::all(table as u8, options.table_entries_max)).collect();
        Switch {
            permits: features.iter().map(|features| Permits::of(&features.properties)).collect(),
            features,
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
            groups: BTreeMap::new(),
            meters: BTreeMap::new(),
            ports: BTreeMap::new(),
            removed: VecDeque::new(),
            events: VecDeque::new(),
            workers: Vec::new(),
            refused_packet_outs: 0,
            now_ns,
            options,
        }
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

    /// What the switch can do.
    pub fn features(&self) -> SwitchFeatures {
        SwitchFeatures {
            datapath_id: self.options.datapath_id,
            buffers: self.options.buffers,
            tables: TABLES as u8,
            auxiliary_id: 0,
            capabilities: features::CAPABILITIES,
        }
    }

    /// The configuration.
    pub fn config(&self) -> SwitchConfig {
        self.states.current().config
    }

    /// Changes the configuration.
    ///
    /// # Errors
    /// None now.
    pub fn set_config(&mut self, config: SwitchConfig) -> Result<(), OfError> {
        self.change_state(|state| state.config = config);
        Ok(())
    }

    /// Whether the switch forwards by itself, by learning addresses, and not by its tables: while no controller is connected, if the
    /// user wants that (fail-standalone).
    pub fn set_standalone(&mut self, standalone: bool) {
        if self.states.current().standalone != standalone {
            self.change_state(|state| state.standalone = standalone);
        }
    }

    /// Whether a controller wants packets whose TTL is invalid.
    pub fn set_wants_invalid_ttl(&mut self, wanted: bool) {
        if self.states.current().wants_invalid_ttl != wanted {
            self.change_state(|state| state.wants_invalid_ttl = wanted);
        }
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
    /// that these changes removed have been reported then, with their last counts: call [`Switch::drain_events`] before a
    /// barrier reply is sent. Does not wait.
    pub fn quiesced(&mut self, version: u64) -> bool {
        let quiesced = self.domain.quiesced(version);
        self.reap();
        quiesced
    }

    /// Does what is due: entries whose time is over end, buffers age.
    pub fn tick(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        self.expire();
        self.buffers.age(self.now_ns);
        self.reap();
    }

    /// Time at which [`Switch::tick`] is to be called, in nanoseconds; `u64::MAX` if there is none.
    pub fn next_deadline_ns(&self) -> u64 {
        /// Entries that workers may still use are looked at again after this time.
        const RETRY_NS: u64 = 1_000_000;
        if self.has_changed {
            return self.now_ns;
        }
        let removal = if self.removed.is_empty() { u64::MAX } else { self.now_ns + RETRY_NS };
        removal.min(self.timeouts.next_ns()).min(self.buffers.next_deadline_ns())
    }

    /// What controllers are to be told, oldest first. At most `most` packets are taken from the workers.
    pub fn drain_events(&mut self, most: usize, now_ns: u64) -> Vec<Event> {
        self.now_ns = self.now_ns.max(now_ns);
        self.reap();
        self.take_packet_ins(most);
        self.events.drain(..).collect()
    }

    /// Replaces the state by a changed one, and begins a new version.
    fn change_state(&mut self, change: impl FnOnce(&mut State)) {
        let mut state = State::clone(&self.states.current());
        change(&mut state);
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

    /// True once workers have put packets for controllers into an empty queue.
    pub fn has_packet_ins(&self) -> bool {
        self.shared.packet_ins.load(Ordering::Acquire)
    }
}
