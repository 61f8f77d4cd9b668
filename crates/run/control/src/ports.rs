//! Ports by name: opened, attached to the worker, removed, opened again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linerate_mem::Pool;
use linerate_port::{Caps, FarSide, LinkState, Port, PortIndex, SpecError};
use linerate_sys::clock;
use linerate_worker::{Event, Handle, HandoffStage, Loss, Role, Worker};
use serde_json::{Value, json};

use crate::event_log::EventLog;
use crate::opening;
use crate::port_config::{PortConfig, is_name};
use crate::protocol::{ControlError, ErrorKind};
use crate::reopener::Reopener;
use crate::runtime_dir::RuntimeDir;
use crate::service::{Handoff, Service};
use crate::value::{Settings, merged};

/// Most ports that are given out to connections.
pub(crate) const LEASES_MAX: usize = 1024;

/// A port of the worker.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub config: PortConfig,
    /// Its memif id, if it was given out to a connection.
    pub memif: Option<u32>,
    /// Why its link is down; `None` while it is up.
    pub down: Option<String>,
}

/// The ports of a worker by number. Only the worker's thread changes it, in jobs and events, never per packet.
#[derive(Clone, Debug, Default)]
pub struct PortTable(Arc<Mutex<Vec<Option<Record>>>>);

impl PortTable {
    fn lock(&self) -> MutexGuard<'_, Vec<Option<Record>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of the port of that name.
    pub fn index(&self, name: &str) -> Option<PortIndex> {
        self.names().into_iter().find(|(_, known)| known == name).map(|(index, _)| index)
    }

    /// Name of a port.
    pub fn name(&self, index: PortIndex) -> Option<String> {
        self.record(index).map(|record| record.config.name())
    }

    /// Numbers and names of all ports, by number.
    pub fn names(&self) -> Vec<(PortIndex, String)> {
        let records = self.lock();
        let numbered = records.iter().enumerate();
        numbered.filter_map(|(at, record)| Some((PortIndex(at as u16), record.as_ref()?.config.name()))).collect()
    }

    pub(crate) fn record(&self, index: PortIndex) -> Option<Record> {
        self.lock().get(usize::from(index.0))?.clone()
    }

    fn memif_ids(&self) -> Vec<u32> {
        self.lock().iter().flatten().filter_map(|record| record.memif).collect()
    }

    fn change(&self, index: PortIndex, change: impl FnOnce(&mut Option<Record>)) {
        let mut records = self.lock();
        let place = usize::from(index.0);
        if records.len() <= place {
            records.resize(place + 1, None);
        }
        change(&mut records[place]);
    }
}

/// An event that the worker reports to the control thread.
pub(crate) enum PortEvent {
    /// Something happened to a port that stays; `link` says how its link is now, if that changed.
    Noted { port: String, what: String, link: Option<LinkState> },
    /// A port was taken out; dropping it closes it.
    Lost { record: Record, taken: Box<dyn Port>, loss: Loss },
}

impl PortEvent {
    /// Notes an event of the worker in the table.
    pub(crate) fn of(table: &PortTable, event: Event) -> Option<PortEvent> {
        // The name of the port, and its link if that changed.
        let link = |port, why: Option<String>| {
            let mut link = None;
            table.change(port, |record| {
                if let Some(record) = record {
                    let state = if why.is_some() { LinkState::Down } else { LinkState::Up };
                    link = (record.down.is_some() != why.is_some()).then_some(state);
                    record.down = why;
                }
            });
            table.name(port).map(|name| (name, link))
        };
        let ((port, link), what) = match event {
            Event::Down { port, error } => {
                (link(port, Some(error.to_string()))?, format!("{error}; it stays and waits for that"))
            }
            Event::Up { port } => (link(port, None)?, "works again".into()),
            Event::Link { port, link: LinkState::Down } => {
                let what = "there is no carrier, or no peer";
                (link(port, Some(what.into()))?, format!("{what}; it stays and waits for that"))
            }
            Event::Link { port, link: LinkState::Up } => (link(port, None)?, "its link is up".into()),
            Event::PeerLost { port, error } => {
                ((table.name(port)?, None), format!("{error}; it waits for the next peer"))
            }
            Event::Lost { port, taken, loss } => {
                let mut lost = None;
                table.change(port, |record| lost = record.take());
                return Some(PortEvent::Lost { record: lost?, taken, loss });
            }
        };
        Some(PortEvent::Noted { port, what, link })
    }
}

/// What a service is told about a port.
pub(crate) enum PortChange {
    /// It is gone, for good or until it is opened again.
    Removed(String),
    /// Its link went down or came up.
    Link(String, LinkState),
}

/// Reaches a worker and its ports by name; clones are for several threads.
pub struct View<D> {
    /// Runs jobs on the worker's thread.
    pub handle: Handle<D>,
    /// The ports.
    pub table: PortTable,
    /// Sockets of the instance.
    pub dir: RuntimeDir,
    /// When the instance started, in nanoseconds of the monotonic clock.
    pub started_ns: u64,
    /// Core of the worker, if it is pinned.
    pub core: Option<usize>,
}

impl<D> Clone for View<D> {
    fn clone(&self) -> View<D> {
        let View { handle, table, dir, started_ns, core } = self;
        View { handle: handle.clone(), table: table.clone(), dir: dir.clone(), started_ns: *started_ns, core: *core }
    }
}

impl<D: 'static> View<D> {
    /// Runs `work` on the worker's thread, between two rounds.
    ///
    /// # Errors
    /// The worker has ended.
    pub fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Worker<D>) -> T + Send + 'static,
    ) -> Result<T, ControlError> {
        self.handle.call(work).map_err(|_| ControlError::new("it is ending", ""))
    }

    /// Number of the port of that name.
    ///
    /// # Errors
    /// There is no such port; the error says which ports there are.
    pub fn index(&self, name: &str) -> Result<PortIndex, ControlError> {
        self.table.index(name).ok_or_else(|| {
            let names: Vec<String> = self.table.names().into_iter().map(|(_, name)| name).collect();
            no_port(name, &names)
        })
    }

    /// Runs `work` on the worker's thread if the port still has its number.
    ///
    /// # Errors
    /// The worker has ended, or there is no such port.
    pub fn call_for<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&mut Worker<D>, PortIndex) -> T + Send + 'static,
    ) -> Result<T, ControlError> {
        let (table, wanted) = (self.table.clone(), name.to_owned());
        let done = self.call(move |worker| table.index(&wanted).map(|index| work(worker, index)))?;
        match done {
            Some(result) => Ok(result),
            None => Err(self
                .index(name)
                .err()
                .unwrap_or_else(|| ControlError::new(format!("port {name} was just removed"), ""))),
        }
    }
}

/// True if the port uses an interface that somebody else makes, and may make again.
fn stands_on_interface(spec: &str) -> bool {
    let spec = linerate_ports::parse(spec);
    spec.is_ok_and(|spec| spec.backend.is_none() || linerate_ports::access(&spec).is_some())
}

fn no_port(name: &str, names: &[String]) -> ControlError {
    let hint = if names.is_empty() { "there are none".into() } else { format!("there are {}", names.join(", ")) };
    ControlError::new(format!("there is no port {name}"), hint)
}

/// Opens, removes and reopens the ports of a service; it lives on the control thread.
pub struct PortManager<S: Service> {
    /// The first worker and its ports.
    pub view: View<S::Datapath>,
    /// Further workers. Each port is one of the worker that had the fewest when it was opened; rings lead to it from the others. Ports of several
    /// queues are divided among the workers where `queues` says so.
    pub others: Vec<View<S::Datapath>>,
    /// Queue pairs of each port, if they are divided among the workers.
    pub(crate) queues: Option<u32>,
    /// What arrives at a port of fewer queues than there are workers is for all of them.
    pub(crate) steers: bool,
    /// Rings to a port, by its name: a worker and the number of the ring's end there.
    pub(crate) rings: Vec<(String, usize, PortIndex)>,
    /// The pool of all ports.
    pub pool: Pool,
    pub(crate) reopener: Reopener,
    /// Ports whose connection ended, or that somebody wanted removed, until the worker lets go of them.
    pub(crate) leaving: Vec<String>,
    /// A port broke and was removed.
    pub(crate) port_lost: bool,
    pub(crate) events: EventLog,
}

impl<S: Service> PortManager<S> {
    /// All workers with their ports.
    pub fn views(&self) -> impl Iterator<Item = &View<S::Datapath>> {
        std::iter::once(&self.view).chain(&self.others)
    }

    /// The worker that has the port of this name; the first one if none has.
    fn view_of(&self, name: &str) -> &View<S::Datapath> {
        self.views().find(|view| view.table.index(name).is_some()).unwrap_or(&self.view)
    }

    fn has_port(&self, name: &str) -> bool {
        self.views().any(|view| view.table.index(name).is_some())
    }

    /// Number of the port of that name in its worker.
    ///
    /// # Errors
    /// There is no such port; the error says which ports there are.
    pub fn index(&self, name: &str) -> Result<PortIndex, ControlError> {
        self.view_of(name).table.index(name).ok_or_else(|| {
            let names: Vec<String> = self.views().flat_map(|view| view.table.names()).map(|(_, name)| name).collect();
            no_port(name, &names)
        })
    }

    /// Opens a port and attaches it; returns its name.
    ///
    /// # Errors
    /// The name is in use or not a name, the port cannot be opened, or a setting is wrong.
    pub fn add_port(&mut self, service: &mut S, config: PortConfig) -> Result<String, ControlError> {
        self.add(service, config, None)
    }

    fn add(&mut self, service: &mut S, mut config: PortConfig, memif: Option<u32>) -> Result<String, ControlError> {
        let name = config.name();
        if !is_name(&name) {
            let hint = "letters, digits, - and _, at most 32 of them";
            return Err(ControlError::new(format!("not a name for a port: {name:?}"), hint));
        }
        if self.has_port(&name) || self.reopener.find(&name) {
            let error = ControlError::new(format!("port {name} is in use"), "choose another name, or remove it first");
            return Err(error.of_kind(ErrorKind::InUse));
        }
        config.name = Some(name.clone());
        config.settings = merged(&Settings::new(), &config.settings);
        self.open(service, config, memif)?;
        Ok(name)
    }

    /// Opens a port and attaches it to the worker.
    pub(crate) fn open(&mut self, service: &mut S, config: PortConfig, memif: Option<u32>) -> Result<(), ControlError> {
        let options = opening::open_options(self.queues, S::MERGES_SEGMENTS);
        let opened = opening::open(&config.spec, &options, &self.pool)?;
        if let Some(choice) = &opened.choice {
            self.events.note(&config.name(), choice);
        }
        let ports = if S::STEERS || self.queues.is_some() {
            linerate_ports::share_out(opened.device, self.views().count())
        } else {
            vec![opened.into_port()]
        };
        let wrap = |port| service.wrap(port, &self.pool);
        let (ports, name) = (ports.into_iter().map(wrap).collect::<Result<Vec<_>, _>>()?, config.name());
        let Some(caps) = ports.first().map(|port| port.caps().clone()) else { return Ok(()) };
        service.port_opened(&config, &caps)?;
        let steers = S::STEERS || self.steers && ports.len() < self.views().count() && caps.receives;
        self.attach(config, ports, memif, steers).inspect_err(|_| {
            // Queues and rings that workers have got already go with it.
            self.close_rings(&name);
            self.leave_queues(&name);
            service.port_removed(self, &name);
        })
    }

    /// Opens a port that only gets packets, for example a file that is written, and attaches it.
    ///
    /// # Errors
    /// The port cannot be opened, or a setting is wrong.
    pub fn add_output(&mut self, config: PortConfig) -> Result<(), ControlError> {
        let port = opening::open_output(&config.spec, &self.pool)?.into_port();
        self.attach(config, vec![port], None, false)
    }

    /// Gives the queues of a port to workers, one each, and joins the workers by rings.
    fn attach(
        &mut self,
        config: PortConfig,
        queues: Vec<Box<dyn Port>>,
        memif: Option<u32>,
        steers: bool,
    ) -> Result<(), ControlError> {
        let views: Vec<View<S::Datapath>> = self.views().cloned().collect();
        // Those with the fewest ports; in the order of their numbers, where they have as many.
        let mut homes: Vec<usize> = (0..views.len()).collect();
        homes.sort_by_key(|worker| views[*worker].table.names().len());
        homes.truncate(queues.len());
        // The ends that packets for the port come by are there before it, and so are the ends for what arrives at it.
        let ring = |from: usize, to: usize| linerate_ports::pipe(&format!("{}-{from}-{to}", config.name()), &self.pool);
        let mut ends = Vec::new();
        for worker in (0..views.len()).filter(|worker| !homes.contains(worker)) {
            let home = homes[worker % homes.len()];
            let [tx, rx] = ring(worker, home);
            attach_ring::<S>(&views[home], rx, &self.pool, &config, Handoff::ForPort)?;
            ends.push((worker, tx));
        }
        let pairs = homes.iter().flat_map(|from| (0..views.len()).map(move |to| (*from, to)));
        let mut arrivals = Vec::new();
        for (from, to) in pairs.filter(|(from, to)| steers && from != to) {
            let [tx, rx] = ring(from, to);
            let index = attach_ring::<S>(&views[from], tx, &self.pool, &config, Handoff::ToWorker(to))?;
            self.rings.push((config.name(), from, index));
            arrivals.push((to, rx));
        }
        for (home, port) in homes.iter().zip(queues) {
            let (table, pool, own) = (views[*home].table.clone(), self.pool.clone(), config.clone());
            views[*home].call(move |worker| {
                let index = S::add_port(&mut worker.datapath, &own, port.caps())?;
                let role = Role { forgives: port.caps().survives_peers, ..Role::default() };
                same(worker.attach(port, &pool, role), index)?;
                table.change(index, |record| *record = Some(Record { config: own, memif, down: None }));
                Ok(())
            })??;
        }
        for (worker, tx) in ends {
            let index = attach_ring::<S>(&views[worker], tx, &self.pool, &config, Handoff::ToPort)?;
            self.rings.push((config.name(), worker, index));
        }
        // These come last: what comes by them finds the port, or the ring that leads to it.
        for (worker, rx) in arrivals {
            attach_ring::<S>(&views[worker], rx, &self.pool, &config, Handoff::FromWorker)?;
        }
        Ok(())
    }

    /// Lets the queues of a port go that workers have. True if there were any.
    fn leave_queues(&self, name: &str) -> bool {
        let let_go = |view: &View<S::Datapath>| {
            view.call_for(name, |worker, index| worker.leave(index, clock::now_ns())) == Ok(true)
        };
        self.views().filter(|view| view.table.index(name).is_some()).filter(|view| let_go(view)).count() > 0
    }

    /// Closes the rings to a port that is gone: the far ends see it.
    fn close_rings(&mut self, name: &str) {
        let views: Vec<View<S::Datapath>> = self.views().cloned().collect();
        for (_, worker, index) in self.rings.extract_if(.., |(port, ..)| port == name) {
            let _ = views[worker].call(move |worker| worker.leave(index, clock::now_ns()));
        }
    }

    /// Lets a port go, in order. Returns true if it was out and is gone at once; otherwise the service is told when the worker let it go.
    ///
    /// # Errors
    /// There is no such port.
    pub fn remove_port(&mut self, name: &str) -> Result<bool, ControlError> {
        let out = self.reopener.find(name);
        if !out {
            self.index(name)?;
        }
        self.leave(name);
        Ok(out)
    }

    /// As [`PortManager::remove_port`], if there is such a port.
    pub fn leave(&mut self, name: &str) {
        if self.reopener.forget(name) {
            return;
        }
        if self.leave_queues(name) {
            self.leaving.push(name.into());
        }
    }

    /// Changes settings of a port. Returns its new configuration; `None` if it is just going.
    ///
    /// # Errors
    /// There is no such port, or a setting is wrong; nothing has changed then.
    pub(crate) fn set_port(
        &mut self,
        name: &str,
        changes: Settings,
    ) -> Result<Option<(PortConfig, Caps)>, ControlError> {
        let view = self.view_of(name);
        let table = view.table.clone();
        let changed = view.call_for(name, move |worker, index| {
            let Some(record) = table.record(index) else { return Ok(None) };
            let settings = merged(&record.config.settings, &changes);
            let Some(caps) = worker.port(index).map(|port| port.caps().clone()) else { return Ok(None) };
            S::set_port(&mut worker.datapath, index, &settings, &caps)?;
            // The port is opened again with these if it breaks.
            let config = PortConfig { settings, ..record.config };
            table.change(index, |record| {
                if let Some(record) = record {
                    record.config = config.clone();
                }
            });
            Ok(Some((config, caps)))
        })??;
        let Some((config, caps)) = changed else { return Ok(None) };
        self.set_other_queues(name, &config, &caps)?;
        let views: Vec<&View<S::Datapath>> = self.views().collect();
        for (_, worker, ring) in self.rings.iter().filter(|(port, ..)| port == name) {
            let (ring, settings, caps) = (*ring, config.settings.clone(), caps.clone());
            views[*worker].call(move |worker| S::set_handoff(&mut worker.datapath, ring, &settings, &caps))??;
        }
        Ok(Some((config, caps)))
    }

    /// Changes the settings of a port at the workers that have further queues of it.
    fn set_other_queues(&self, name: &str, config: &PortConfig, caps: &Caps) -> Result<(), ControlError> {
        for view in self.views().filter(|view| view.table.index(name).is_some()).skip(1) {
            let (table, config, caps) = (view.table.clone(), config.clone(), caps.clone());
            view.call_for(name, move |worker, index| {
                S::set_port(&mut worker.datapath, index, &config.settings, &caps)?;
                table.change(index, |record| {
                    if let Some(record) = record {
                        record.config = config;
                    }
                });
                Ok(())
            })??;
        }
        Ok(())
    }

    /// Opens a memif port for a connection; returns its name and the reply.
    pub(crate) fn lease(&mut self, service: &mut S, name: String) -> Result<(String, Value), ControlError> {
        let mut used: Vec<u32> = self.views().flat_map(|view| view.table.memif_ids()).collect();
        used.extend(self.reopener.memif_ids());
        if used.len() >= LEASES_MAX {
            return Err(ControlError::new("it has given out all ports that it can", ""));
        }
        let id = (0..=u32::MAX).find(|id| !used.contains(id)).unwrap_or(0);
        let wrong = |error: SpecError| ControlError::new(error.to_string(), "");
        let mut spec = linerate_ports::memif(&self.view.dir.memif()).with("id", &id.to_string()).map_err(wrong)?;
        if self.queues.is_some() {
            // Its client has one queue; what left by another one would be lost.
            spec = spec.with("queues", "1").map_err(wrong)?;
        }
        let far_end = spec.clone().with("role", "client").map_err(wrong)?;
        let config = PortConfig { name: Some(name), spec: spec.to_string(), settings: Settings::new() };
        let name = self.add(service, config, Some(id))?;
        let reply = json!({ "port": name, "spec": far_end.to_string(), "id": id });
        Ok((name, reply))
    }

    /// Ports that are out, with the reason; they are opened again as soon as that works.
    pub fn ports_out(&self) -> impl Iterator<Item = (&PortConfig, &str)> {
        self.reopener.waiting.iter().map(|waiting| (&waiting.config, waiting.why.as_str()))
    }

    /// Notes an event of a port.
    pub(crate) fn hear(&mut self, event: PortEvent) -> Option<PortChange> {
        match event {
            PortEvent::Noted { port, what, link } => {
                self.events.note(&port, &what);
                link.map(|link| PortChange::Link(port, link))
            }
            PortEvent::Lost { record, taken, loss } => {
                let name = record.config.name();
                if matches!(loss, Loss::Left) && self.has_port(&name) || self.reopener.find(&name) {
                    // The last of its queues says it, or one has said it.
                    self.leaving.retain(|leaving| *leaving != name);
                    return None;
                }
                self.close_rings(&name);
                // Its other queues go with it: a part of the packets arrives by each.
                self.leave_queues(&name);
                let was_leaving = self.leaving.contains(&name);
                self.leaving.retain(|leaving| *leaving != name);
                let (why, broke) = match loss {
                    Loss::Left => return Some(PortChange::Removed(name)),
                    Loss::Broken(error) => (error.to_string(), true),
                    Loss::Closed => (format!("{}: the far side has ended", taken.caps().name), false),
                };
                // The next peer may be sound, and an interface may be made again.
                let comes_back = match taken.caps().far_side {
                    FarSide::Peer => true,
                    FarSide::Interface => {
                        let made_again = taken.caps().makes_interface || stands_on_interface(&record.config.spec);
                        S::REOPENS_INTERFACES && made_again
                    }
                    _ => false,
                };
                let again = comes_back && !was_leaving;
                self.port_lost |= broke && !again;
                let what = if again { "opened again as soon as that works" } else { "removed" };
                self.events.note(&name, &format!("{why}; {what}"));
                // Its socket is free before it is opened again.
                drop(taken);
                if again {
                    self.reopener.add(record.config, why, record.memif, clock::now_ns());
                }
                Some(PortChange::Removed(name))
            }
        }
    }

    /// Opens again the ports whose time has come.
    pub(crate) fn reopen(&mut self, service: &mut S) {
        let now_ns = clock::now_ns();
        while let Some(waiting) = self.reopener.due(now_ns) {
            match self.open(service, waiting.config.clone(), waiting.memif) {
                Ok(()) => self.events.note(&waiting.config.name(), "up again"),
                Err(error) => self.reopener.failed(waiting, error.to_string(), clock::now_ns()),
            }
        }
    }

    /// True if there is no port, and none is about to go. One that is out, until its interface or its peer comes back, is none.
    pub(crate) fn is_unused(&self) -> bool {
        self.leaving.is_empty() && self.views().all(|view| view.table.names().is_empty())
    }
}

/// Gives a worker one end of a ring.
fn attach_ring<S: Service>(
    view: &View<S::Datapath>,
    end: Box<dyn Port>,
    pool: &Pool,
    config: &PortConfig,
    handoff: Handoff,
) -> Result<PortIndex, ControlError> {
    let (pool, config) = (pool.clone(), config.clone());
    view.call(move |worker| {
        let index = S::add_handoff(&mut worker.datapath, &config, handoff)?;
        let receives = matches!(handoff, Handoff::ForPort | Handoff::FromWorker);
        let stage = match handoff {
            Handoff::ToWorker(_) | Handoff::FromWorker => HandoffStage::Arrived,
            Handoff::ToPort | Handoff::ForPort => HandoffStage::Leaving,
        };
        same(worker.attach(end, &pool, Role { receives, handoff: Some(stage), ..Role::default() }), index)
    })?
}

/// Both give a new port the lowest number that is free.
fn same(attached: Option<PortIndex>, index: PortIndex) -> Result<PortIndex, ControlError> {
    let different = || ControlError::new("the worker and its datapath number ports differently", "please report this");
    attached.filter(|attached| *attached == index).ok_or_else(different)
}
