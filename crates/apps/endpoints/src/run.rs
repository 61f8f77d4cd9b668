//! A program over the stack from its configuration to its end: a port, a worker, a control socket.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use linerate_control::{
    ControlError, Instance, PortConfig, PortManager, RunWorker, RuntimeDir, Setup, StartError, refused,
};
use linerate_endpoints_loop::tls::MaybeTls;
use linerate_endpoints_loop::{TcpWorker, run_load, run_server};
use linerate_ip::IpConfig;
use linerate_mem::Pool;
use linerate_port::{FarSide, OpenOptions, PortSpec};
use linerate_programs::load::Client;
use linerate_programs::serve::AnyServer;
use linerate_programs::{OverStack, Reports};
use linerate_sys::clock;
use linerate_tcp::{Shard, Sharded, ShardsDone, Stack};
use linerate_worker::{Eagerness, End, Handle, Worker};

use crate::document::Snapshot;
use crate::service::TcpService;
use crate::show::{self, PastPackets, TcpView};
use crate::stack::{self, ETHERNET_BYTES, NetworkConfig, StackOptions, VLAN_BYTES};
use crate::{names, ready};

/// The subcommand of `linerate` that runs these programs.
pub const PROGRAM: &str = "tcp";
/// Frames of the pool beside those of the port: for packets that wait in the stack.
const FRAMES_WAITING: usize = 4096;
/// A program whose interface is gone ends after this time.
const GONE_NS: u64 = 100_000_000;

/// How a program is run.
pub struct Options {
    /// Name of the instance.
    pub name: String,
    /// Folder for its socket instead of the user's runtime folder.
    pub folder: Option<PathBuf>,
    /// Cores to pin the workers to, in the order of the shards; workers without one run where the kernel puts them.
    pub cores: Vec<usize>,
    /// The stack.
    pub stack: StackOptions,
    /// A capture file (pcapng, or pcap by its name) that all frames are written to, as they pass between the stack and its port.
    pub capture: Option<PathBuf>,
    /// Gets a line about each thing that happens to the port, and about what the start waits for.
    pub on_event: Box<dyn Fn(&str) + Send>,
}

/// A program that is running. Dropping it stops it.
pub struct Running<P: Reports> {
    names: BTreeMap<String, IpAddr>,
    given: Vec<(IpAddr, u8)>,
    past: PastPackets,
    instance: Instance<TcpService<P>>,
}

/// A program that ended.
pub struct Ended<P: Reports> {
    /// The last document.
    pub snapshot: Snapshot<P::Document>,
    /// Frames that did not come back to the pool; anything but 0 is a bug.
    pub frames_missing: usize,
    /// The port broke and was removed, or is still out.
    pub port_lost: bool,
}

/// Starts a program: opens its port and its control socket, waits for its addresses, looks names up, and calls `Program::start`; of one that
/// only listens, before it waits.
///
/// # Errors
/// A part of the configuration is wrong, the port cannot be opened, an instance of that name is running, a name has no
/// address, or the program cannot start.
pub fn start<P: Reports>(program: P, network: &NetworkConfig, options: Options) -> Result<Running<P>, StartError> {
    start_shards(vec![program], network, options)
}

/// As [`start`], with a shard, that is, a stack on a thread of its own, for each of these programs. Their addresses are the same, and each
/// has a part of the connections; they share nothing else.
///
/// # Errors
/// Those of [`start`]; there are none or more than 64 programs.
pub fn start_shards<P: Reports>(
    programs: Vec<P>,
    network: &NetworkConfig,
    options: Options,
) -> Result<Running<P>, StartError> {
    start_run_by(Worker::run, programs, network, options)
}

/// As [`start_shards`], with the function that runs a worker: where its loop is compiled.
pub(crate) fn start_run_by<P: Reports>(
    run: RunWorker<Sharded<OverStack<P>>>,
    programs: Vec<P>,
    network: &NetworkConfig,
    options: Options,
) -> Result<Running<P>, StartError> {
    check_addresses(network)?;
    let shards = programs.len();
    let dir = match &options.folder {
        Some(folder) => RuntimeDir::inside(folder, PROGRAM, &options.name)?,
        None => RuntimeDir::of(PROGRAM, &options.name)?,
    };
    let lock = dir.lock_instance()?;
    let spec: PortSpec = network.port.parse().map_err(|error| wrong("the port", &error))?;
    let pool = pool(&spec, shards).map_err(|error| wrong("memory", &error))?;
    let secret = || linerate_sys::random::secret().map_err(|error| wrong("random numbers", &error));
    let first = network.ip(secret()?, Shard::default());
    let frame_len_max = usize::from(first.mtu) + ETHERNET_BYTES + network.vlan.map_or(0, |_| VLAN_BYTES);
    let done = ShardsDone::default();
    let mut datapaths = Vec::new();
    for (number, program) in programs.into_iter().enumerate() {
        let shard = u16::try_from(number).ok().zip(u16::try_from(shards).ok());
        let shard = shard.and_then(|(number, of)| Shard::new(number, of));
        let too_many = || refused("cores")(ControlError::new(format!("{shards} cores are too many"), "the most is 64"));
        let (shard, secret) = (shard.ok_or_else(too_many)?, secret()?);
        // All have one MAC address, and use what DHCP gives the first one.
        let ip = IpConfig { mac: first.mac, lease: first.lease.clone(), ..network.ip(secret, shard) };
        let config = stack::config(&options.stack, &spec, ip, secret);
        let stack = Stack::new(config, &pool, OverStack::new(program)).map_err(|error| wrong("the stack", &error))?;
        datapaths.push((Sharded::new(stack, shard, done.clone(), &pool), options.cores.get(number).copied()));
    }
    if datapaths.is_empty() {
        return Err(refused("cores")(ControlError::new("there is no program to run", "give one for each core")));
    }
    let (datapath, core) = datapaths.remove(0);
    // The control thread tells of the port, and this one of what it waits for.
    let on_event = Arc::new(Mutex::new(options.on_event));
    let say = move |line: &str| (on_event.lock().unwrap_or_else(PoisonError::into_inner))(line);
    let past = PastPackets::default();
    let is_interface = linerate_ports::far_side(&spec) == FarSide::Interface;
    let setup = Setup {
        lock,
        pool,
        datapath,
        run,
        service: TcpService::new(frame_len_max, eagerness::<P>(&spec), options.capture, past.clone()),
        core,
        others: datapaths,
        queues: None,
        steers: false,
        // A port that waits for a peer comes back; one whose interface was deleted does not, and there is no other.
        idle_exit_ns: is_interface.then_some(GONE_NS),
        on_event: Box::new(say.clone()),
    };
    let port = PortConfig { spec: network.port.clone(), ..PortConfig::default() };
    let configure = |service: &mut TcpService<P>, ports: &mut PortManager<TcpService<P>>| {
        ports.add_port(service, port).map(drop).map_err(refused(&format!("port {}", network.port)))
    };
    let instance = linerate_control::start(setup, configure)?;
    let mut running = Running { instance, names: BTreeMap::new(), given: Vec::new(), past };
    let views = running.views();
    // An address that DHCP is to give cannot be listened on before it has come.
    let begins_first = P::ONLY_LISTENS && !network.dhcp;
    if begins_first {
        views.iter().try_for_each(begin)?;
    }
    let mut ready = views.iter().map(|view| ready::wait(view, network, &say)).collect::<Result<Vec<_>, _>>()?;
    let mut found = ready.swap_remove(0);
    running.given = std::mem::take(&mut found.given);
    running.names = names::look_up(&views, network, found, secret()?)?;
    if !begins_first {
        views.iter().try_for_each(begin)?;
    }
    Ok(running)
}

/// [`start_shards`] for servers. A function without type parameters is compiled here, and not by whoever calls it; its loop is compiled to run fast.
///
/// # Errors
/// Those of [`start`].
pub fn start_server(
    servers: Vec<MaybeTls<AnyServer>>,
    network: &NetworkConfig,
    options: Options,
) -> Result<Running<MaybeTls<AnyServer>>, StartError> {
    start_run_by(run_server, servers, network, options)
}

/// [`start_shards`] for the load generator, compiled here as well.
///
/// # Errors
/// Those of [`start`].
pub fn start_load(
    clients: Vec<MaybeTls<Client>>,
    network: &NetworkConfig,
    options: Options,
) -> Result<Running<MaybeTls<Client>>, StartError> {
    start_run_by(run_load, clients, network, options)
}

fn wrong(what: &str, error: &dyn std::fmt::Display) -> StartError {
    refused(what)(ControlError::new(error.to_string(), ""))
}

/// An address of this host's kernel must not be one of the stack's, because the kernel would answer for it as well: its resets end every
/// connection.
fn check_addresses(network: &NetworkConfig) -> Result<(), StartError> {
    let far_side = network.port.parse::<PortSpec>().map(|spec| linerate_ports::far_side(&spec));
    if far_side != Ok(FarSide::Interface) {
        // What lies behind memory that processes share is not this host's network.
        return Ok(());
    }
    for address in network.all_addresses() {
        let owner = linerate_sys::netdev::owner_of(address).map_err(|error| wrong("the addresses", &error))?;
        if let Some(interface) = owner {
            let cause = format!(
                "{address} is an address of this host's kernel, on {interface}, whose resets would end every connection"
            );
            let hint = format!(
                "give the stack an address that nobody has, in the same network, or remove it from {interface} (ip addr del)"
            );
            return Err(refused("the addresses")(ControlError::new(cause, hint)));
        }
    }
    Ok(())
}

// A load generator is judged by its time on the core, in whatever its program is wrapped.
const _: () = assert!(<MaybeTls<Client> as Reports>::SAVES_CPU && !<MaybeTls<AnyServer> as Reports>::SAVES_CPU);
// And servers listen before their addresses are told of.
const _: () = assert!(<MaybeTls<AnyServer> as Reports>::ONLY_LISTENS && !<MaybeTls<Client> as Reports>::ONLY_LISTENS);

/// The kernel takes a few microseconds for each packet of an interface, so a worker that spins or naps between them burns most of the time that a
/// load is measured by. Over memory a packet may follow within a microsecond.
fn eagerness<P: Reports>(spec: &PortSpec) -> Eagerness {
    match linerate_ports::far_side(spec) {
        FarSide::Interface if P::SAVES_CPU => Eagerness::Sleeps,
        _ => Eagerness::default(),
    }
}

fn pool(spec: &PortSpec, shards: usize) -> Result<Pool, linerate_port::OpenError> {
    let options = OpenOptions::default();
    let extra = FRAMES_WAITING.saturating_mul(shards);
    linerate_ports::pool(&linerate_ports::PoolPlan { ports: &[(spec, &options)], len_max: 0, extra })
}

/// The first call of the program.
fn begin<P: Reports>(view: &TcpView<P>) -> Result<(), StartError> {
    let begun = view.call(|worker| worker.datapath.with(clock::now_ns(), |app, io| app.program.start(io)));
    begun.map_err(refused("the stack"))?.map_err(|error| wrong("the program", &error))
}

impl<P: Reports> Running<P> {
    /// Its sockets.
    pub fn dir(&self) -> &RuntimeDir {
        &self.instance.view.dir
    }

    /// The address of a name of [`NetworkConfig::names`].
    pub fn address_of(&self, name: &str) -> Option<IpAddr> {
        self.names.get(name).copied()
    }

    /// The addresses that DHCP or routers gave, with the bits of their prefixes, as they were when the program began.
    pub fn given_addresses(&self) -> &[(IpAddr, u8)] {
        &self.given
    }

    /// The workers, by the numbers of their shards.
    fn views(&self) -> Vec<TcpView<P>> {
        std::iter::once(&self.instance.view).chain(&self.instance.others).cloned().collect()
    }

    /// Reaches the thread of the first stack.
    pub(crate) fn handle(&self) -> Handle<Sharded<OverStack<P>>> {
        self.instance.view.handle.clone()
    }

    /// The pool of its port: pipes of this process join on it.
    pub fn pool(&self) -> &Pool {
        &self.instance.pool
    }

    /// Everything at this moment.
    ///
    /// # Errors
    /// The program is ending.
    pub fn snapshot(&self) -> Result<Snapshot<P::Document>, ControlError> {
        show::snapshot(&self.views(), &self.past)
    }

    /// True if it has ended, by itself or by `stop` over its socket.
    pub fn has_ended(&self) -> bool {
        self.instance.has_ended()
    }

    /// Asks it to come to its end; it ends by itself then, or does not.
    pub fn ask_to_stop(&self) {
        for view in self.views() {
            let _ = view.call(|worker| {
                worker.datapath.with(clock::now_ns(), |app, io| app.program.stop(io));
            });
        }
    }

    /// Resets every connection, unless that has happened.
    fn reset_all(&self) {
        if !self.has_ended() {
            for view in self.views() {
                let _ = view.call(|worker| show::end(worker));
            }
        }
    }

    /// Ends it: connections are reset, the port is closed, the socket removed.
    ///
    /// # Errors
    /// One of its threads failed.
    pub fn stop(mut self) -> Result<Ended<P>, ControlError> {
        let failed = || ControlError::new("a thread of the program failed", "this is a bug; please report it");
        self.reset_all();
        let views = self.views();
        let ended = self.instance.end().ok_or_else(failed)?;
        let (mut workers, port_lost) = (ended.others, ended.port_lost);
        workers.insert(0, (ended.worker, ended.end));
        let reading = |((worker, end), view): (&mut (TcpWorker<P>, End), &TcpView<P>)| {
            let port = worker.datapath.port();
            let mut reading = show::reading_of(worker, view.core);
            if let Some(end) = port.and_then(|port| end.port(port)) {
                reading.last_packets(&end.stats, &end.queues);
            }
            reading.worker.cpu_ns = end.core_ns;
            reading
        };
        let readings = workers.iter_mut().zip(&views).map(reading).collect();
        let mut snapshot = show::snapshot_of(&views, readings, &self.past, true);
        drop(workers);
        snapshot.capture = ended.service.and_then(TcpService::last_capture);
        let mut pool = self.instance.pool.clone();
        pool.flush();
        let frames_missing = (pool.region().frames() as usize).saturating_sub(pool.available());
        Ok(Ended { snapshot, frames_missing, port_lost })
    }
}

impl<P: Reports> Drop for Running<P> {
    fn drop(&mut self) {
        self.reset_all();
    }
}
