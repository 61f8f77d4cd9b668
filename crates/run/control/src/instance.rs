//! An instance from its start to its end: two threads, one socket, one name.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::sync::mpsc;
use std::thread::JoinHandle;

use linerate_mem::Pool;
use linerate_port::Datapath;
use linerate_sys::poll::PollSet;
use linerate_sys::{affinity, clock, raise_open_files};
use linerate_worker::{Config, Control, End, Notifier, PortLoss, Wakeup, Worker, notifier};

use crate::event_log::EventLog;
use crate::ports::{PortEvent, PortManager, PortTable, View};
use crate::protocol::ControlError;
use crate::reopener::Reopener;
use crate::runtime_dir::{InstanceLock, RuntimeDir, RuntimeDirError};
use crate::server::{Closed, Server};
use crate::service::Service;
use crate::stop::Stop;

/// Longest sleep of a worker that has nothing to do: requests, and the end, wake it.
const SLEEP_MAX_NS: u64 = 1_000_000_000;
/// How long packets that wait may still leave at the end.
const LEAVING_NS: u64 = 200_000_000;

/// The parts of an instance before it starts.
pub struct Setup<S: Service> {
    /// Its name, and the right to it.
    pub lock: InstanceLock,
    /// The pool of all ports.
    pub pool: Pool,
    /// The datapath, without ports.
    pub datapath: S::Datapath,
    /// Runs a worker: [`Worker::run`], called where it is to be compiled. The loop that moves packets is compiled anew for each datapath, in
    /// the crate that names it; one that is built quickly, because no packet passes it, gives a function of another crate.
    pub run: RunWorker<S::Datapath>,
    /// The commands and settings of the datapath.
    pub service: S,
    /// Core to pin the worker to.
    pub core: Option<usize>,
    /// Further workers: a datapath that shares what it must with the first one, and the core to pin it to.
    pub others: Vec<(S::Datapath, Option<usize>)>,
    /// Queue pairs of each port, which are divided among the workers; without it what the port opens by itself, for one worker.
    pub queues: Option<u32>,
    /// What arrives at a port of fewer queues than there are workers is steered to all of them, flow by flow; the datapath then takes rings
    /// ([`crate::Handoff::ToWorker`]), which is for several workers. Where [`Service::STEERS`] is true, it is so in any case.
    pub steers: bool,
    /// The instance ends when there was no port and no client for so long, in nanoseconds.
    pub idle_exit_ns: Option<u64>,
    /// Gets a line about each port that breaks, comes back, or was chosen for a bare interface.
    pub on_event: Box<dyn Fn(&str) + Send>,
}

/// Why an instance did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// It gets no runtime directory.
    #[error(transparent)]
    RuntimeDir(#[from] RuntimeDirError),
    /// A part of the configuration is wrong.
    #[error("{what}: {error}")]
    Refused {
        /// Which part.
        what: String,
        /// Why.
        error: ControlError,
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

/// Makes a [`StartError`] of what is wrong with a part of the configuration.
pub fn refused(what: &str) -> impl Fn(ControlError) -> StartError {
    let what = what.to_owned();
    move |error| StartError::Refused { what: what.clone(), error }
}

fn io_error(doing: &str) -> impl Fn(io::Error) -> StartError {
    let doing = doing.to_owned();
    move |source| StartError::Io { doing: doing.clone(), source }
}

/// Runs a worker until its end.
pub type RunWorker<D> = fn(&mut Worker<D>, &Control) -> End;

type WorkerThread<D> = JoinHandle<(Worker<D>, End)>;

/// An instance that is running. Dropping it stops it.
pub struct Instance<S: Service> {
    /// The first worker and its ports.
    pub view: View<S::Datapath>,
    /// Further workers.
    pub others: Vec<View<S::Datapath>>,
    /// The pool of its ports: pipes of this process join on it.
    pub pool: Pool,
    stop: Stop,
    /// Wakes the control thread.
    notifier: Notifier,
    workers: Vec<WorkerThread<S::Datapath>>,
    server: Option<JoinHandle<Closed<S>>>,
    /// Wakes who waits for the control thread to end.
    ended: Wakeup,
}

/// An instance that ended. Dropping it removes the sockets.
pub struct Ended<S: Service> {
    /// The worker, with its ports and its datapath.
    pub worker: Worker<S::Datapath>,
    /// How its run ended.
    pub end: End,
    /// Further workers, with the ends of their runs.
    pub others: Vec<(Worker<S::Datapath>, End)>,
    /// A port broke and was removed, or is still out.
    pub port_lost: bool,
    /// The service; `None` if its thread failed.
    pub service: Option<S>,
    _lock: Option<InstanceLock>,
}

/// Starts an instance: its socket and its threads. `configure` opens the ports that it begins with.
///
/// # Errors
/// The error of `configure`; the core is not one of this process; the system refused.
pub fn start<S: Service>(
    setup: Setup<S>,
    configure: impl FnOnce(&mut S, &mut PortManager<S>) -> Result<(), StartError>,
) -> Result<Instance<S>, StartError> {
    let Setup { lock, pool, datapath, run, service, core, others, queues, steers, idle_exit_ns, on_event } = setup;
    // A port takes two to four, and shells allow 1,024.
    raise_open_files(1 << 16).map_err(io_error("the number of open files"))?;
    let listener = listen(lock.dir())?;
    let ((notifier, wakeup), (end, ended)) =
        notifier().and_then(|first| Ok((first, self::notifier()?))).map_err(io_error("a notifier"))?;
    let (sender, events) = mpsc::channel();
    let started_ns = clock::now_ns();
    let (mut workers, mut views, mut stop) = (Vec::new(), Vec::new(), Stop::default());
    for (datapath, core) in std::iter::once((datapath, core)).chain(others) {
        let table = PortTable::default();
        let (told, noted, sender) = (notifier.clone(), table.clone(), sender.clone());
        let on_port_event = move |event| {
            // Without a control thread everything is at its end, and the port is closed here.
            if let Some(event) = PortEvent::of(&noted, event) {
                let _ = sender.send(event);
            }
            told.notify();
        };
        let (port_loss, eagerness) = (PortLoss::TakesOut, service.eagerness());
        let config = Config {
            port_loss,
            drain_output_ns: LEAVING_NS,
            eagerness,
            sleep_max_ns: SLEEP_MAX_NS,
            ..Config::default()
        };
        let worker = Worker::new(datapath, &pool, config, Box::new(on_port_event));
        let (worker, handle) = worker.map_err(io_error("the worker"))?;
        let control = Control::ignoring_signals();
        stop.0.push(control.clone());
        match start_worker(worker, run, core, control) {
            Ok(worker) => workers.push(worker),
            Err(error) => {
                stop.stop();
                return Err(error);
            }
        }
        views.push(View { handle, table, dir: lock.dir().clone(), started_ns, core });
    }
    let view = views.remove(0);
    let others = views;
    let mut instance = Instance {
        view: view.clone(),
        others: others.clone(),
        pool: pool.clone(),
        stop: stop.clone(),
        notifier,
        workers,
        server: None,
        ended,
    };
    let ports = PortManager {
        view,
        others,
        queues,
        steers,
        rings: Vec::new(),
        pool,
        reopener: Reopener::default(),
        leaving: Vec::new(),
        port_lost: false,
        events: EventLog::new(on_event),
    };
    let mut server = Server {
        service,
        ports,
        listener,
        lock,
        events,
        wakeup,
        idle_exit_ns,
        stop,
        clients: Vec::new(),
        used_ns: started_ns,
    };
    configure(&mut server.service, &mut server.ports)?;
    let pinned: Vec<usize> = server.ports.views().filter_map(|view| view.core).collect();
    let control = move || {
        leave_cores(&pinned);
        let closed = server.run();
        end.notify();
        closed
    };
    let server = std::thread::Builder::new().name("control".into()).spawn(control);
    instance.server = Some(server.map_err(io_error("start the control thread"))?);
    Ok(instance)
}

/// Keeps the control thread from the cores of the workers, whose packets would wait for requests, if there are other cores.
fn leave_cores(pinned: &[usize]) {
    let free: Vec<usize> = affinity::allowed_cores().into_iter().filter(|core| !pinned.contains(core)).collect();
    if !pinned.is_empty() && !free.is_empty() {
        // It may run anywhere otherwise, which is slower and no worse.
        let _ = affinity::pin_thread(0, &free);
    }
}

fn listen(dir: &RuntimeDir) -> Result<UnixListener, StartError> {
    let path = dir.control();
    let doing = format!("the control socket {}", path.display());
    let listener = UnixListener::bind(&path).map_err(io_error(&doing))?;
    // Its folder lets nobody else in meanwhile.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(io_error(&doing))?;
    listener.set_nonblocking(true).map_err(io_error(&doing))?;
    Ok(listener)
}

fn start_worker<D: Datapath + Send + 'static>(
    mut worker: Worker<D>,
    run: RunWorker<D>,
    core: Option<usize>,
    control: Control,
) -> Result<WorkerThread<D>, StartError> {
    if let Some(number) = core
        && !affinity::allowed_cores().contains(&number)
    {
        let error = ControlError::new(format!("core {number} is not one of this process"), "taskset -p shows them");
        return Err(refused("core")(error));
    }
    let work = move || {
        if let Some(number) = core {
            // It was allowed a moment ago; a slower core is no reason to stop.
            let _ = affinity::pin_to_core(number);
        }
        let end = run(&mut worker, &control);
        worker.refuse_jobs();
        (worker, end)
    };
    std::thread::Builder::new().name("worker".into()).spawn(work).map_err(io_error("start the worker thread"))
}

impl<S: Service> Instance<S> {
    /// True if it has ended, by `stop` over its socket or because nobody used it.
    pub fn has_ended(&self) -> bool {
        let server_ended = self.server.as_ref().is_some_and(JoinHandle::is_finished);
        let worker_ended = self.workers.is_empty() || self.workers.iter().any(JoinHandle::is_finished);
        self.stop.stopping() || server_ended || worker_ended
    }

    /// Sleeps for `timeout_ns`, until a signal arrives, or until it ends by `stop` over its socket or because nobody used it.
    pub fn sleep(&self, timeout_ns: u64) {
        let mut set = PollSet::default();
        set.add(self.ended.as_fd(), true, false);
        if set.wait(timeout_ns).is_err() {
            clock::sleep_until_ns(clock::now_ns() + timeout_ns);
        }
    }

    /// Ends it: packets that wait are sent, and both threads end. Returns `None` if a thread failed.
    pub fn end(&mut self) -> Option<Ended<S>> {
        self.stop.stop();
        self.notifier.notify();
        let mut workers: Vec<_> = std::mem::take(&mut self.workers).into_iter().map(JoinHandle::join).collect();
        // The sockets go last, so that whoever sees them gone finds nothing of the instance.
        let closed = self.server.take().and_then(|server| server.join().ok());
        let others = workers.split_off(workers.len().min(1)).into_iter().collect::<Result<_, _>>().ok()?;
        let (worker, end) = workers.pop()?.ok()?;
        let port_lost = closed.as_ref().is_some_and(|closed| closed.port_lost);
        let (service, lock) = closed.map(|closed| (closed.service, closed.lock)).unzip();
        Some(Ended { worker, end, others, port_lost, service, _lock: lock })
    }
}

impl<S: Service> Drop for Instance<S> {
    fn drop(&mut self) {
        self.end();
    }
}
