//! A switch from its configuration to its end.

use std::num::NonZeroU32;
use std::path::PathBuf;

use linerate_control::{
    ControlError, Ended as EndedInstance, Instance, PoolShape, PortManager, RuntimeDir, Setup, StartError, View,
    refused,
};
use linerate_l2::{Switch, SwitchConfig};
use linerate_mem::Pool;
use linerate_port::{Context, Datapath};
use linerate_switch_loop::SteeredSwitch;
use linerate_sys::clock;

use crate::config::{Config, NAME_DEFAULT, PROGRAM};
use crate::document::Snapshot;
use crate::service::{L2Service, add_mac};
use crate::show::{self, Reading};
use crate::table::age_s;

/// Most ports of a switch that was not told, beside those it starts with.
const PORTS_MORE: usize = 8;

/// How a switch is run.
pub struct Options {
    /// Folder for its sockets instead of the user's runtime folder.
    pub folder: Option<PathBuf>,
    /// It ends when there was no port and no client for so long, in nanoseconds.
    pub idle_exit_ns: Option<u64>,
    /// Gets a line about each port that breaks, comes back, or was chosen for a bare interface.
    pub on_event: Box<dyn Fn(&str) + Send>,
}

impl Default for Options {
    fn default() -> Options {
        Options { folder: None, idle_exit_ns: None, on_event: Box::new(|_| {}) }
    }
}

/// A switch that is running. Dropping it stops it.
pub struct Running(Instance<L2Service>);

/// A switch that ended.
pub struct Ended {
    /// The totals, with every packet in its last place.
    pub snapshot: Snapshot,
    /// Frames that did not come back to the pool; anything but 0 is a bug of a port.
    pub frames_missing: usize,
    /// A port broke and was removed, or is still out.
    pub port_lost: bool,
}

/// Starts a switch: opens its ports, its socket and its threads.
///
/// # Errors
/// A part of the configuration is wrong, a port cannot be opened, or a switch of that name is running.
pub fn start(config: &Config, options: Options) -> Result<Running, StartError> {
    let name = config.name.as_deref().unwrap_or(NAME_DEFAULT);
    let dir = match &options.folder {
        Some(folder) => RuntimeDir::inside(folder, PROGRAM, name)?,
        None => RuntimeDir::of(PROGRAM, name)?,
    };
    let lock = dir.lock_instance()?;
    let workers = config.cores.len().max(1);
    if config.steer && workers < 2 {
        let error = ControlError::new("--steer divides flows among workers", "give two --cores or more");
        return Err(refused("the configuration")(error));
    }
    let shape = PoolShape {
        specs: config.ports.iter().map(|port| port.spec.clone()).collect(),
        // Each worker has a queue for each port.
        ports_max: ports_max(config) * workers,
        queues: config.queues.map_or(1, |queues| queues.get() as usize),
        frame_len_max: config.frame_len_max,
    };
    let pool = linerate_control::pool(&shape).map_err(refused("memory"))?;
    let mut datapath = engine(config, &pool)?;
    datapath.set_steered(config.steer && workers > 1);
    let mut others = Vec::new();
    for (number, core) in config.cores.iter().enumerate().skip(1) {
        let worker = datapath.another_worker();
        let worker = worker.map_err(|error| refused("the switch")(ControlError::new(error.to_string(), "")))?;
        others.push((SteeredSwitch::new(worker, number, workers), Some(*core)));
    }
    let datapath = SteeredSwitch::new(datapath, 0, workers);
    let setup = Setup {
        lock,
        datapath,
        pool,
        run: linerate_switch_loop::run_worker,
        service: L2Service::default(),
        core: config.cores.first().copied(),
        others,
        queues: config.queues.map(NonZeroU32::get),
        steers: config.steer,
        idle_exit_ns: options.idle_exit_ns,
        on_event: options.on_event,
    };
    linerate_control::start(setup, |service, ports| configure(service, ports, config)).map(Running)
}

fn ports_max(config: &Config) -> usize {
    let given = config.ports.len() + config.mirrors.len();
    config.ports_max.unwrap_or(given + PORTS_MORE).max(given).max(1)
}

fn engine(config: &Config, pool: &Pool) -> Result<Switch, StartError> {
    let age_s = config.ageing.as_ref().map(|value| age_s(&value.0)).transpose().map_err(refused("the switch"))?;
    let defaults = SwitchConfig::default();
    let engine = SwitchConfig {
        mac_entries: config.table_size.unwrap_or(defaults.mac_entries),
        age_s: age_s.unwrap_or(defaults.age_s),
        ports_max: ports_max(config),
        // Nobody outside knows both the time in nanoseconds and the process.
        hash_seed: clock::realtime_ns() ^ u64::from(std::process::id()).rotate_left(32),
        ..defaults
    };
    Switch::new(engine, pool).map_err(|error| refused("the switch")(ControlError::new(error.to_string(), "")))
}

/// Adds the ports, addresses and mirrors of the configuration.
fn configure(service: &mut L2Service, ports: &mut PortManager<L2Service>, config: &Config) -> Result<(), StartError> {
    for port in &config.ports {
        ports.add_port(service, port.clone()).map_err(refused(&format!("port {}", port.name())))?;
    }
    for mac in &config.macs {
        let added = add_mac(ports, &mac.mac, &mac.port, mac.vlan.unwrap_or(0));
        added.map_err(refused(&format!("address {}", mac.mac)))?;
    }
    for mirror in &config.mirrors {
        service.mirrors.add(ports, mirror.clone()).map_err(refused(&format!("mirror to {}", mirror.to)))?;
    }
    Ok(())
}

impl Running {
    /// Its sockets.
    pub fn dir(&self) -> &RuntimeDir {
        &self.0.view.dir
    }

    /// The pool of its ports: pipes of this process join on it.
    pub fn pool(&self) -> &Pool {
        &self.0.pool
    }

    /// Everything at this moment.
    ///
    /// # Errors
    /// The switch is ending.
    pub fn snapshot(&self) -> Result<Snapshot, ControlError> {
        show::snapshot(&self.views())
    }

    fn views(&self) -> Vec<View<SteeredSwitch>> {
        std::iter::once(&self.0.view).chain(&self.0.others).cloned().collect()
    }

    /// True if it has ended, by `stop` over its socket or because nobody used it.
    pub fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    /// Sleeps for `timeout_ns`, until a signal arrives, or until it ends by itself.
    pub fn sleep(&self, timeout_ns: u64) {
        self.0.sleep(timeout_ns);
    }

    /// Ends it: packets that wait are sent, ports are closed, sockets removed.
    ///
    /// # Errors
    /// One of its threads failed.
    pub fn stop(mut self) -> Result<Ended, ControlError> {
        let failed = || ControlError::new("a thread of the switch failed", "this is a bug; please report it");
        let mut ended = self.0.end().ok_or_else(failed)?;
        let snapshot = last_reading(&self.views(), &self.0.pool, &mut ended);
        let port_lost = ended.port_lost || snapshot.ports.iter().any(|port| port.state.starts_with("down"));
        drop(ended);
        let mut pool = self.0.pool.clone();
        pool.flush();
        let frames_missing = (pool.region().frames() as usize).saturating_sub(pool.available());
        Ok(Ended { snapshot, frames_missing, port_lost })
    }
}

/// The totals, with every packet in its last place.
fn last_reading(views: &[View<SteeredSwitch>], pool: &Pool, ended: &mut EndedInstance<L2Service>) -> Snapshot {
    let EndedInstance { worker, end, others, .. } = ended;
    let mut workers = vec![(worker, end)];
    workers.extend(others.iter_mut().map(|(worker, end)| (worker, end)));
    let mut readings: Vec<Reading> = Vec::new();
    for ((worker, end), view) in workers.iter_mut().zip(views) {
        let mut reading = show::read(worker, view);
        // This is another thread.
        reading.worker.cpu_ns = end.core_ns;
        for document in &mut reading.documents {
            let index = view.table.index(&document.name);
            if let Some(end) = index.and_then(|index| end.port(index)) {
                document.set_stats(end.stats.clone(), end.queues.clone());
            }
        }
        readings.push(reading);
    }
    let mut snapshot = show::compose(&views[0], &readings, &readings);
    let mut pool = pool.clone();
    let context = &mut Context { now_ns: clock::now_ns(), pool: &mut pool, ports: &mut () };
    for ((worker, _), reading) in workers.iter_mut().zip(&mut readings) {
        worker.datapath.bound().into_iter().for_each(|index| worker.datapath.removed(index, context));
        reading.totals = worker.datapath.totals();
        reading.drops = worker.datapath.drops().collect();
    }
    pool.flush();
    snapshot.totals = show::last_totals(&readings);
    snapshot.last = true;
    snapshot
}
