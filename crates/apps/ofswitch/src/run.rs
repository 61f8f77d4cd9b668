//! An OpenFlow switch from its configuration to its end.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use linerate_control::{
    Connection, ControlError, Instance, PoolShape, PortManager, RuntimeDir, Setup, StartError, refused,
};
use linerate_mem::Pool;
use linerate_ofswitch_loop::SteeredForwarder;
use linerate_openflow::{SwitchConfig, SwitchDescription};
use linerate_pipeline::{FlowTablesOptions, Switch, SwitchOptions};
use linerate_port::{Context, Datapath, PortIndex};
use linerate_sys::clock;
use linerate_worker::Handle;

use crate::apply;
use crate::channel::{self, Channels};
use crate::config::{Checked, Config, ConfigError, NAME_DEFAULT, PROGRAM};
use crate::document::Snapshot;
use crate::request::{Request, What};
use crate::service::OfService;
use crate::settings::SwitchQueues;
use crate::show;
use crate::state::{Parts, State};
use crate::target::ListenAddress;
use crate::tls::TlsConfigs;

/// Most ports of a switch that was not told, beside those it starts with.
const PORTS_MORE: usize = 8;
/// Entries of a flow table that was not told.
const TABLE_SIZE: u32 = 1_000_000;

/// How a switch is run.
pub struct Options {
    /// Folder for its sockets instead of the user's runtime folder.
    pub folder: Option<PathBuf>,
    /// Gets a line about each port that breaks, comes back, or was chosen for a bare interface, and about controllers.
    pub on_event: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Default for Options {
    fn default() -> Options {
        Options { folder: None, on_event: Arc::new(|_| {}) }
    }
}

/// A switch that is running. Dropping it stops it.
pub struct Running {
    instance: Instance<OfService>,
    listening: Vec<ListenAddress>,
}

/// A switch that ended.
pub struct Ended {
    /// The totals, with every packet in its last place.
    pub snapshot: Snapshot,
    /// Frames that did not come back to the pool; anything but 0 is a bug of a port.
    pub frames_missing: usize,
    /// A port broke and was removed, or is still out.
    pub port_lost: bool,
}

/// What wakes a worker once it runs.
type Waker = Arc<OnceLock<Handle<SteeredForwarder>>>;

/// Starts a switch: opens its ports, its sockets and its threads.
///
/// # Errors
/// A part of the configuration is wrong, a port cannot be opened, an address cannot be listened at, or a switch of that name is running.
pub fn start(config: &Config, options: Options) -> Result<Running, StartError> {
    let checked = config.check().map_err(|error| wrong("the configuration", error))?;
    let name = config.name.as_deref().unwrap_or(NAME_DEFAULT);
    let dir = match &options.folder {
        Some(folder) => RuntimeDir::inside(folder, PROGRAM, name)?,
        None => RuntimeDir::of(PROGRAM, name)?,
    };
    let lock = dir.lock_instance()?;
    let workers = config.cores.len().max(1);
    let ports_max = config.ports_max.unwrap_or(config.ports.len() + PORTS_MORE).max(config.ports.len()).max(1);
    let shape = PoolShape {
        specs: config.ports.iter().map(|port| port.spec.clone()).collect(),
        // What is steered waits for each worker.
        ports_max: ports_max * if config.steer { workers } else { 1 },
        queues: config.queue_pairs.map_or(1, |queues| queues.get() as usize),
        frame_len_max: config.frame_len_max,
    };
    let pool = linerate_control::pool(&shape).map_err(refused("memory"))?;
    let mut switch = switch(config, &checked, name)?;
    let (channels, notifier) = channels(config, &checked, &options)?;
    let listening = channels.listening().collect();
    let wakers: Vec<Waker> = (0..workers).map(|_| Waker::default()).collect();
    let mut forwarders = Vec::new();
    for (number, waker) in wakers.iter().enumerate() {
        let (woken, notifier) = (Arc::clone(waker), notifier.clone());
        let wake_worker = Box::new(move || {
            if let Some(handle) = woken.get() {
                handle.notify();
            }
        });
        let forwarder = switch.forwarder(&pool, wake_worker, Box::new(move || notifier.notify()));
        let no_worker = || refused("cores")(ControlError::new("there are too many", "give fewer"));
        let forwarder = SteeredForwarder::new(forwarder.ok_or_else(no_worker)?, number, workers);
        forwarders.push((forwarder, config.cores.get(number).copied()));
    }
    let (datapath, core) = forwarders.remove(0);
    let service = OfService(State {
        switch,
        channels,
        fail_mode: checked.fail_mode,
        queues: SwitchQueues::read(&config.queues).map_err(refused("queues"))?,
        parts: Parts::default(),
    });
    let on_event = options.on_event;
    let setup = Setup {
        lock,
        datapath,
        pool,
        run: linerate_ofswitch_loop::run_worker,
        service,
        core,
        others: forwarders,
        queues: config.queue_pairs.map(NonZeroU32::get),
        steers: config.steer,
        idle_exit_ns: None,
        on_event: Box::new(move |line| on_event(line)),
    };
    let instance = linerate_control::start(setup, |service, ports| configure(service, ports, config, &wakers))?;
    Ok(Running { instance, listening })
}

fn wrong(what: &str, error: ConfigError) -> StartError {
    refused(what)(ControlError::new(error.to_string(), ""))
}

fn switch(config: &Config, checked: &Checked, name: &str) -> Result<Switch, StartError> {
    let options = SwitchOptions {
        datapath_id: checked.dpid,
        table_entries_max: config.table_size.unwrap_or(TABLE_SIZE),
        description: SwitchDescription {
            manufacturer: "Linerate".into(),
            hardware: "software switch".into(),
            software: env!("CARGO_PKG_VERSION").into(),
            serial: "none".into(),
            datapath: name.into(),
        },
        tables: FlowTablesOptions { workers: config.cores.len().max(1), ..FlowTablesOptions::default() },
    };
    let mut switch = Switch::new(options, clock::now_ns());
    let defaults = SwitchConfig { fragments: checked.fragments, ..SwitchConfig::default() };
    let refusal = |error: linerate_openflow::OfError| refused("fragments")(ControlError::new(error.to_string(), ""));
    switch.set_config(defaults).map_err(refusal)?;
    Ok(switch)
}

/// Begins to listen, and reads what TLS needs.
fn channels(
    config: &Config,
    checked: &Checked,
    options: &Options,
) -> Result<(Channels, linerate_worker::Notifier), StartError> {
    let controllers = |why: String| refused("controllers")(ControlError::new(why, ""));
    let encrypted =
        checked.controllers.iter().any(|target| target.tls) || checked.listen.iter().any(|address| address.tls);
    let tls = encrypted.then(|| TlsConfigs::read(&config.tls_files())).transpose();
    let tls = tls.map_err(|error| controllers(error.to_string()))?;
    let (notifier, wakeup) = linerate_worker::notifier().map_err(|error| controllers(error.to_string()))?;
    let setup = channel::Setup {
        controllers: checked.controllers.clone(),
        listen: checked.listen.clone(),
        tls,
        packet_in_rate: config.packet_in_rate,
        notifier: notifier.clone(),
        wakeup,
    };
    let on_event = Arc::clone(&options.on_event);
    let channels = Channels::open(setup, Box::new(move |line| on_event(line))).map_err(controllers)?;
    Ok((channels, notifier))
}

/// Adds the ports and entries of the configuration.
fn configure(
    service: &mut OfService,
    ports: &mut PortManager<OfService>,
    config: &Config,
    wakers: &[Waker],
) -> Result<(), StartError> {
    for (waker, view) in wakers.iter().zip(ports.views()) {
        let _ = waker.set(view.handle.clone());
    }
    for port in &config.ports {
        ports.add_port(service, port.port_config()).map_err(refused(&format!("port {}", port.name.0)))?;
    }
    let alone = service.0.stands_alone();
    service.0.switch.set_standalone(alone);
    let Some(path) = &config.flows else { return Ok(()) };
    let what = path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|error| refused(&what)(ControlError::new(error.to_string(), "")))?;
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    apply::restore(&mut service.0.switch, &lines).map_err(refused(&what))?;
    Ok(())
}

impl Running {
    /// Its sockets.
    pub fn dir(&self) -> &RuntimeDir {
        &self.instance.view.dir
    }

    /// The pool of its ports: pipes of this process join on it.
    pub fn pool(&self) -> &Pool {
        &self.instance.pool
    }

    /// Addresses at which controllers may connect, with the ports that it got.
    pub fn listening(&self) -> &[ListenAddress] {
        &self.listening
    }

    /// Everything at this moment.
    ///
    /// # Errors
    /// The switch is ending.
    pub fn snapshot(&self) -> Result<Snapshot, ControlError> {
        let mut connection = Connection::to(self.dir())?;
        let reply = connection.ask(&Request::Show { what: What::Stats, after: None })?;
        serde_json::from_value(reply).map_err(|error| ControlError::new(error.to_string(), "please report this"))
    }

    /// True if it has ended, by `stop` over its socket.
    pub fn has_ended(&self) -> bool {
        self.instance.has_ended()
    }

    /// Sleeps for `timeout_ns`, until a signal arrives, or until it ends by itself.
    pub fn sleep(&self, timeout_ns: u64) {
        self.instance.sleep(timeout_ns);
    }

    /// Ends it: packets that wait are sent, ports are closed, sockets removed.
    ///
    /// # Errors
    /// One of its threads failed.
    pub fn stop(mut self) -> Result<Ended, ControlError> {
        let failed = || ControlError::new("a thread of the switch failed", "this is a bug; please report it");
        let mut ended = self.instance.end().ok_or_else(failed)?;
        let mut service = ended.service.take().ok_or_else(failed)?;
        let mut pool = self.instance.pool.clone();
        let mut views = self.instance.others.clone();
        views.insert(0, self.instance.view.clone());
        let linerate_control::Ended { worker, end, others: mut workers, port_lost, .. } = ended;
        workers.insert(0, (worker, end));
        let context = &mut Context { now_ns: clock::now_ns(), pool: &mut pool, ports: &mut () };
        for (worker, _) in &mut workers {
            let bound: Vec<PortIndex> = worker.datapath.bound().collect();
            bound.into_iter().for_each(|index| worker.datapath.removed(index, context));
        }
        let snapshot = show::last(&mut service.0, &mut workers, &views);
        drop((workers, service));
        pool.flush();
        let frames_missing = (pool.region().frames() as usize).saturating_sub(pool.available());
        Ok(Ended { snapshot, frames_missing, port_lost })
    }
}
