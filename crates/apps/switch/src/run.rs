//! A switch from its configuration to its end: the threads, and who ends when.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use linerate_l2::{Switch, SwitchConfig};
use linerate_mem::Pool;
use linerate_sys::{affinity, clock};

use crate::bell::{self, Bell, Ear};
use crate::config::{Config, NAME_DEFAULT};
use crate::document::Snapshot;
use crate::hub::Hub;
use crate::opening;
use crate::place::{Place, PlaceError};
use crate::protocol::Refusal;
use crate::server::table::age_s;
use crate::server::{Closed, Server, State, Tell, show};
use crate::worker::{self, Handle, Job};

/// How a switch is run.
pub struct Options {
    /// Folder for its sockets instead of the user's runtime folder.
    pub folder: Option<PathBuf>,
    /// It ends when there was no port and no client for so long.
    pub until_unused_ns: Option<u64>,
    /// Gets a line about each port that breaks, comes back, or was chosen for a bare interface.
    pub tell: Box<dyn Fn(&str) + Send>,
}

impl Default for Options {
    fn default() -> Options {
        Options { folder: None, until_unused_ns: None, tell: Box::new(|_| {}) }
    }
}

/// Why a switch did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Its sockets have no place.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// What was asked for cannot be.
    #[error("{what}: {refusal}")]
    Refused {
        /// Which part of the configuration.
        what: String,
        /// Why.
        refusal: Refusal,
    },
    /// The system refused.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the kernel answered.
        source: io::Error,
    },
}

/// A switch that runs. Dropping it stops it.
pub struct Running {
    place: Place,
    pool: Pool,
    stop: Arc<AtomicBool>,
    handle: Handle,
    control_bell: Bell,
    worker: Option<JoinHandle<Hub>>,
    control: Option<JoinHandle<Closed>>,
    started_ns: u64,
    core_pinned: Option<usize>,
}

/// What is left of a switch that ended.
pub struct Ended {
    /// Its totals, ports as they were at the end.
    pub snapshot: Snapshot,
    /// Frames that did not come back to the pool; anything but 0 is a bug of a port's.
    pub frames_missing: usize,
    /// A port broke and was removed, or is still out.
    pub port_lost: bool,
}

/// Starts a switch: opens its ports, its socket and its threads.
///
/// # Errors
/// A word of the configuration, a port that cannot be opened, a switch of that name that runs.
pub fn start(config: &Config, options: Options) -> Result<Running, StartError> {
    let name = config.name.as_deref().unwrap_or(NAME_DEFAULT);
    let place = match &options.folder {
        Some(folder) => Place::inside(folder, name)?,
        None => Place::of(name)?,
    };
    let occupied = place.occupy()?;
    let pool = opening::pool(config).map_err(refused("memory"))?;
    let switch = engine(config, &pool)?;
    let listener = listen(&place)?;
    let (worker_bell, worker_ear) = bell::bell().map_err(io_error("a bell"))?;
    let (control_bell, control_ear) = bell::bell().map_err(io_error("a bell"))?;
    let (job_sender, jobs) = mpsc::channel::<Job>();
    let (event_sender, events) = mpsc::channel();
    let stop = Arc::new(AtomicBool::new(false));
    let hub = Hub::new(switch, pool.clone(), event_sender, control_bell.clone());
    let worker = start_worker(hub, config.core, jobs, worker_ear, Arc::clone(&stop))?;
    let handle = Handle { jobs: job_sender, bell: worker_bell };
    let mut running = Running {
        place,
        pool: pool.clone(),
        stop: Arc::clone(&stop),
        handle: handle.clone(),
        control_bell,
        worker: Some(worker),
        control: None,
        started_ns: clock::now_ns(),
        core_pinned: config.core,
    };
    let tell: Tell = options.tell;
    let mut server = Server {
        listener,
        occupied,
        handle,
        events,
        ear: control_ear,
        pool,
        core_pinned: config.core,
        started_ns: running.started_ns,
        until_unused_ns: options.until_unused_ns,
        stop,
        tell,
        state: State::default(),
    };
    server.set_up(config)?;
    let control = std::thread::Builder::new().name("control".into()).spawn(move || server.run());
    running.control = Some(control.map_err(io_error("start the control thread"))?);
    Ok(running)
}

fn engine(config: &Config, pool: &Pool) -> Result<Switch, StartError> {
    let age_s = config.ageing.as_ref().map(|word| age_s(&word.0)).transpose().map_err(refused("the switch"))?;
    let defaults = SwitchConfig::default();
    let engine = SwitchConfig {
        mac_entries: config.table_size.unwrap_or(defaults.mac_entries),
        age_s: age_s.unwrap_or(defaults.age_s),
        ports_max: opening::ports_max(config),
        // Nobody outside knows both the time in nanoseconds and the process.
        hash_seed: clock::realtime_ns() ^ u64::from(std::process::id()).rotate_left(32),
        ..defaults
    };
    Switch::new(engine, pool).map_err(|error| refused("the switch")(Refusal::new(error.to_string(), "")))
}

fn listen(place: &Place) -> Result<UnixListener, StartError> {
    let path = place.control();
    let doing = format!("the control socket {}", path.display());
    let listener = UnixListener::bind(&path).map_err(io_error(&doing))?;
    // Its folder lets nobody else in meanwhile.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(io_error(&doing))?;
    listener.set_nonblocking(true).map_err(io_error(&doing))?;
    Ok(listener)
}

fn start_worker(
    mut hub: Hub,
    pinned: Option<usize>,
    jobs: mpsc::Receiver<Job>,
    ear: Ear,
    stop: Arc<AtomicBool>,
) -> Result<JoinHandle<Hub>, StartError> {
    if let Some(number) = pinned
        && !affinity::allowed_cores().contains(&number)
    {
        let refusal = Refusal::new(format!("core {number} is not one of this process"), "taskset -p shows them");
        return Err(refused("core")(refusal));
    }
    let work = move || {
        if let Some(number) = pinned {
            // It was allowed a moment ago; a slower core is no reason to stop.
            let _ = affinity::pin_to_core(number);
        }
        worker::run(&mut hub, &jobs, &ear, &stop);
        hub
    };
    std::thread::Builder::new().name("worker".into()).spawn(work).map_err(io_error("start the worker thread"))
}

impl Server {
    /// What the configuration names.
    fn set_up(&mut self, config: &Config) -> Result<(), StartError> {
        for port in &config.ports {
            let name = port.name();
            self.add_port(port.clone(), None).map_err(refused(&format!("port {name}")))?;
        }
        for mac in &config.macs {
            let added = self.add_mac(&mac.mac, mac.port.clone(), mac.vlan.unwrap_or(0));
            added.map_err(refused(&format!("address {}", mac.mac)))?;
        }
        for mirror in &config.mirrors {
            self.add_mirror(mirror.clone()).map_err(refused(&format!("mirror to {}", mirror.to)))?;
        }
        Ok(())
    }
}

impl Running {
    /// Where its sockets are.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The pool of its ports: pipes of this process join on it.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Everything at this moment.
    ///
    /// # Errors
    /// The switch is ending.
    pub fn snapshot(&self) -> Result<Snapshot, Refusal> {
        show::snapshot(&self.handle, self.place.name(), self.started_ns, self.core_pinned)
    }

    /// Whether it has ended, by `stop` over its socket or because nobody used it.
    pub fn has_ended(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.worker.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it: what waits is sent, ports are closed, sockets removed.
    ///
    /// # Errors
    /// One of its threads failed.
    pub fn stop(mut self) -> Result<Ended, Refusal> {
        self.end().ok_or_else(|| Refusal::new("a thread of the switch failed", "this is a bug; please report it"))
    }

    fn end(&mut self) -> Option<Ended> {
        self.stop.store(true, Ordering::Relaxed);
        self.handle.bell.ring();
        self.control_bell.ring();
        let hub = self.worker.take()?.join();
        // The sockets go last, so that whoever sees them gone finds nothing of the switch.
        let closed = self.control.take().map(JoinHandle::join);
        let port_lost = matches!(&closed, Some(Ok(closed)) if closed.port_lost);
        let mut hub = hub.ok()?;
        let snapshot = self.last_words(&mut hub);
        let port_lost = port_lost || snapshot.ports.iter().any(|port| port.state.starts_with("down"));
        drop(hub);
        self.pool.flush();
        let frames_missing = (self.pool.region().frames() as usize).saturating_sub(self.pool.available());
        drop(closed);
        Some(Ended { snapshot, frames_missing, port_lost })
    }

    /// The totals, with every packet in its last place.
    fn last_words(&self, hub: &mut Hub) -> Snapshot {
        let ports = hub.finish();
        hub.lines = ports;
        let names: Vec<String> = hub.lines.iter().map(|line| line.name().to_owned()).collect();
        let mut documents = show::ports(hub);
        for name in names {
            let (rx, tx) = show::port_drops(hub, &name);
            if let Some(document) = documents.iter_mut().find(|document| document.name == name) {
                (document.port_rx_drops, document.port_tx_drops) = (rx, tx);
            }
        }
        let worker = show::worker(hub, self.core_pinned);
        for line in std::mem::take(&mut hub.lines) {
            hub.switch.remove_port(line.index, &mut hub.pool);
        }
        Snapshot {
            schema: crate::document::SCHEMA.into(),
            name: self.place.name().into(),
            seconds: (clock::now_ns() - self.started_ns) as f64 / 1e9,
            ports: documents,
            totals: show::totals(hub),
            table: show::table(hub),
            worker,
            last: true,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn refused(what: &str) -> impl Fn(Refusal) -> StartError {
    let what = what.to_owned();
    move |refusal| StartError::Refused { what: what.clone(), refusal }
}

fn io_error(doing: &str) -> impl Fn(io::Error) -> StartError {
    let doing = doing.to_owned();
    move |source| StartError::Io { doing: doing.clone(), source }
}
