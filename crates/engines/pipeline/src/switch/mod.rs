//! The control side of the switch: one thread's end of everything.

mod features;
mod group_mod;
mod meter_mod;
mod multipart;
mod ports;
mod saved;
mod trace;

use std::collections::BTreeMap;

use linerate_flow_tables::{Event, FlowDump, FlowTables, FlowTablesOptions, Forwarder, TABLES, Totals};
use linerate_mem::Pool;
use linerate_openflow::{
    FlowFilter, FlowMod, FlowStats, OfError, PacketOut, SwitchConfig, SwitchDescription, SwitchFeatures, TableFeatures,
};

use features::permits;
pub use group_mod::GROUPS_MAX;
use group_mod::Group;
use meter_mod::Meter;
use ports::SwitchPort;
pub use ports::{PortError, PortSettings};
pub use saved::{Saved, saved_flow};
pub use trace::{TraceStep, TracedEntry};

/// Shape of a switch.
#[derive(Clone, Debug)]
pub struct SwitchOptions {
    /// Datapath ID.
    pub datapath_id: u64,
    /// Texts about the switch.
    pub description: SwitchDescription,
    /// Entries that a table holds unless a controller asks for fewer.
    pub table_entries_max: u32,
    /// Shape of the tables, of the workers' queues and of their caches.
    pub tables: FlowTablesOptions,
}

impl Default for SwitchOptions {
    fn default() -> SwitchOptions {
        SwitchOptions {
            datapath_id: 1,
            description: SwitchDescription::default(),
            table_entries_max: 1 << 20,
            tables: FlowTablesOptions::default(),
        }
    }
}

/// The control side of an OpenFlow switch.
///
/// One thread owns it. It changes what [`Forwarder`]s, one for each worker, read meanwhile. Each change is in force for every packet that
/// a worker takes after [`Switch::quiesced`] said so of the [`Switch::version`] that followed the change.
pub struct Switch {
    options: SwitchOptions,
    tables: FlowTables,
    /// By table.
    features: Vec<TableFeatures>,
    groups: BTreeMap<u32, Group>,
    meters: BTreeMap<u32, Meter>,
    ports: BTreeMap<u32, SwitchPort>,
}

impl Switch {
    /// A switch without ports, entries and workers.
    pub fn new(options: SwitchOptions, now_ns: u64) -> Switch {
        let features: Vec<TableFeatures> =
            (0..TABLES).map(|table| features::all(table as u8, options.table_entries_max)).collect();
        let tables = FlowTables::new(options.tables.clone(), &|table| permits(&features[usize::from(table)]), now_ns);
        Switch { tables, features, groups: BTreeMap::new(), meters: BTreeMap::new(), ports: BTreeMap::new(), options }
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
        self.tables.forwarder(pool, wake_worker, wake_control)
    }

    /// What the switch can do.
    pub fn features(&self) -> SwitchFeatures {
        SwitchFeatures {
            datapath_id: self.options.datapath_id,
            buffers: self.options.tables.buffers,
            tables: TABLES as u8,
            auxiliary_id: 0,
            capabilities: features::CAPABILITIES,
        }
    }

    /// The configuration.
    pub fn config(&self) -> SwitchConfig {
        self.tables.state().config
    }

    /// Changes the configuration.
    ///
    /// # Errors
    /// None now.
    pub fn set_config(&mut self, config: SwitchConfig) -> Result<(), OfError> {
        self.tables.change_state(|state| state.config = config);
        Ok(())
    }

    /// Whether the switch forwards by itself, by learning addresses, and not by its tables: while no controller is connected, if the
    /// user wants that (fail-standalone).
    pub fn set_standalone(&mut self, standalone: bool) {
        if self.tables.state().standalone != standalone {
            self.tables.change_state(|state| state.standalone = standalone);
        }
    }

    /// Whether a controller wants packets whose TTL is invalid.
    pub fn set_wants_invalid_ttl(&mut self, wanted: bool) {
        if self.tables.state().wants_invalid_ttl != wanted {
            self.tables.change_state(|state| state.wants_invalid_ttl = wanted);
        }
    }

    /// Changes flow entries.
    ///
    /// # Errors
    /// What the specification says of the request; nothing has changed then.
    #[inline]
    pub fn flow_mod(&mut self, request: FlowMod, now_ns: u64) -> Result<(), OfError> {
        self.tables.note_time(now_ns);
        self.tables.flow_mod(&request)
    }

    /// Begins to list the entries that pass a filter; [`Switch::flow_part`] lists them.
    ///
    /// # Errors
    /// There is no such table.
    pub fn flow_dump(&self, filter: FlowFilter) -> Result<FlowDump, OfError> {
        self.tables.flow_dump(filter)
    }

    /// The next entries of a list, at most `count`. Entries that have gone since it began are left out.
    pub fn flow_part(&mut self, dump: &mut FlowDump, count: usize, now_ns: u64) -> Vec<FlowStats> {
        self.tables.note_time(now_ns);
        self.tables.flow_part(dump, count)
    }

    /// Sends a packet of a controller.
    ///
    /// # Errors
    /// What the specification says of the request; nothing has happened then.
    #[inline]
    pub fn packet_out(&mut self, request: PacketOut, now_ns: u64) -> Result<(), OfError> {
        self.tables.note_time(now_ns);
        self.tables.packet_out(request)
    }

    /// True if a packet-out would find room in the queue of each worker. A program that reads no requests meanwhile holds a controller
    /// back that sends packets faster than the worker takes them.
    pub fn takes_packet_outs(&self) -> bool {
        self.tables.takes_packet_outs()
    }

    /// The version that all changes so far belong to. Changes of entries that follow one another begin one together, because each
    /// version has workers look whether what they know is right still.
    pub fn version(&mut self) -> u64 {
        self.tables.version()
    }

    /// True if each worker sees all changes up to `version`, so that a packet that a worker takes from now on meets them. The entries
    /// that these changes removed have been reported then, with their last counts: call [`Switch::drain_events`] before a
    /// barrier reply is sent. Does not wait.
    pub fn quiesced(&mut self, version: u64) -> bool {
        self.tables.quiesced(version)
    }

    /// Does what is due: entries whose time is over end, buffers age.
    pub fn tick(&mut self, now_ns: u64) {
        self.tables.note_time(now_ns);
        self.tables.tick();
    }

    /// Time at which [`Switch::tick`] is to be called, in nanoseconds; `u64::MAX` if there is none.
    pub fn next_deadline_ns(&self) -> u64 {
        self.tables.next_deadline_ns()
    }

    /// What controllers are to be told, oldest first. At most `most` packets are taken from the workers.
    pub fn drain_events(&mut self, most: usize, now_ns: u64) -> Vec<Event> {
        self.tables.note_time(now_ns);
        self.tables.drain_events(most)
    }

    /// True once workers have put packets for controllers into an empty queue.
    pub fn has_packet_ins(&self) -> bool {
        self.tables.has_packet_ins()
    }

    /// The account of the switch.
    pub fn totals(&self) -> Totals {
        self.tables.totals()
    }

    /// Lost packets by reason, of all workers. Reasons without packets are left out.
    pub fn drops(&self) -> Vec<(linerate_flow_tables::DropReason, u64)> {
        self.tables.drops()
    }
}
