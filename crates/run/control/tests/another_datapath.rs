//! A datapath that is no switch under the same control: two ports, a command and a setting of its own.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use linerate_control::{
    Answer, Command, Connection, ControlError, Instance, PortConfig, PortManager, RuntimeDir, Service, SettingValue,
    Settings, Setup, StartError, read_command, refused, start,
};
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Caps, Context, Datapath, LinkState, PortIndex};
use linerate_sys::clock;
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::poll::PollSet;
use linerate_sys::veth::{self, VethEnd};
use linerate_testkit::or_skip;
use linerate_worker::Worker;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const PORTS: usize = 4;

/// Returns every packet by the port that it came from.
struct Echo {
    outputs: Vec<Option<Batch>>,
    pool: Pool,
    packets: u64,
    links: Vec<String>,
}

impl Datapath for Echo {
    fn input(&mut self, from: PortIndex, batch: &mut Batch, _: &mut Context<'_>) {
        if let Some(Some(output)) = self.outputs.get_mut(usize::from(from.0)) {
            self.packets += batch.totals().packets;
            batch.move_to(output, batch.len().min(output.room()));
        }
    }

    fn output(&mut self, to: PortIndex) -> Option<&mut Batch> {
        self.outputs.get_mut(usize::from(to.0))?.as_mut()
    }

    fn tx_done(&mut self, _: PortIndex, _: usize, _: u64) {}

    fn waiting(&self, to: PortIndex) -> u64 {
        self.outputs.get(usize::from(to.0)).and_then(Option::as_ref).map_or(0, |output| output.totals().packets)
    }

    fn too_long(&mut self, to: PortIndex, _: usize, context: &mut Context<'_>) {
        self.stuck(to, context);
    }

    fn stuck(&mut self, to: PortIndex, context: &mut Context<'_>) {
        if let Some(output) = self.output(to) {
            context.pool.free(output);
        }
    }

    fn follows_links(&self) -> bool {
        true
    }

    fn link_changed(&mut self, port: PortIndex, link: LinkState, _: &mut Context<'_>) {
        self.links.push(format!("{link:?} {port}"));
    }

    fn removed(&mut self, port: PortIndex, context: &mut Context<'_>) {
        self.stuck(port, context);
        if let Some(output) = self.outputs.get_mut(usize::from(port.0)) {
            *output = None;
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
enum Own {
    CountPackets {},
    Links {},
}

#[derive(Default)]
struct EchoService {
    limit: Option<String>,
    added: Vec<String>,
    removed: Vec<String>,
    links: Vec<String>,
    /// The far end of a descriptor of the service's own, and what came by it.
    own: Option<UnixStream>,
    place: usize,
    heard: Vec<u8>,
    due_ns: u64,
}

impl Service for EchoService {
    type Datapath = Echo;

    fn add_port(path: &mut Echo, config: &PortConfig, _: &Caps) -> Result<PortIndex, ControlError> {
        if let Some(key) = config.settings.keys().next() {
            return Err(ControlError::new(format!("there is no setting {key}"), ""));
        }
        let free = path.outputs.iter().position(Option::is_none);
        let free = free.ok_or_else(|| ControlError::new("no room for a port", ""))?;
        path.outputs[free] = Some(Batch::new(&path.pool, 64));
        Ok(PortIndex(free as u16))
    }

    fn set_port(_: &mut Echo, _: PortIndex, settings: &Settings, _: &Caps) -> Result<(), ControlError> {
        if settings.is_empty() { Ok(()) } else { Err(ControlError::new("a port has no settings", "")) }
    }

    fn answer(&mut self, ports: &mut PortManager<Self>, request: Value) -> Result<Answer, ControlError> {
        let packets = match read_command(request)? {
            Own::CountPackets {} => ports.view.call(|worker| worker.datapath.packets)?,
            Own::Links {} => {
                let links = ports.view.call(|worker| worker.datapath.links.clone())?;
                return Ok(json!({ "datapath": links, "service": self.links }).into());
            }
        };
        Ok(
            json!({ "packets": packets, "limit": self.limit, "added": self.added, "removed": self.removed, "heard": self.heard, "due": self.due_ns == u64::MAX })
            .into(),
        )
    }

    fn set(&mut self, _: &mut PortManager<Self>, settings: &Settings) -> Result<(), ControlError> {
        self.limit = settings.get("limit").map(|value| value.0.clone());
        Ok(())
    }

    fn port_removed(&mut self, _: &mut PortManager<Self>, name: &str) {
        self.removed.push(name.into());
    }

    fn link_changed(&mut self, _: &mut PortManager<Self>, name: &str, link: LinkState) {
        self.links.push(format!("{link:?} {name}"));
    }

    fn port_opened(&mut self, config: &PortConfig, _: &Caps) -> Result<(), ControlError> {
        self.added.push(config.name());
        Ok(())
    }

    fn arm(&mut self, set: &mut PollSet) {
        self.place = self.own.as_ref().map_or(0, |own| set.add(own.as_fd(), true, false));
    }

    fn next_deadline_ns(&self) -> u64 {
        self.due_ns
    }

    fn turn(&mut self, _: &mut PortManager<Self>, set: &PollSet) {
        if let Some(own) = self.own.as_mut().filter(|_| set.result(self.place).readable) {
            let mut bytes = [0; 16];
            let len = own.read(&mut bytes).unwrap();
            self.heard.extend_from_slice(&bytes[..len]);
        }
        if clock::now_ns() >= self.due_ns {
            self.due_ns = u64::MAX;
        }
    }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "it does not come: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn echo(folder: &Path, pool: &Pool, service: EchoService) -> Setup<EchoService> {
    let outputs = (0..PORTS).map(|_| None).collect();
    Setup {
        lock: RuntimeDir::inside(folder, "echo", "echo").unwrap().lock_instance().unwrap(),
        pool: pool.clone(),
        datapath: Echo { outputs, pool: pool.clone(), packets: 0, links: Vec::new() },
        run: Worker::run,
        service,
        core: None,
        others: Vec::new(),
        queues: None,
        steers: false,
        idle_exit_ns: None,
        on_event: Box::new(|_| {}),
    }
}

/// Starts an instance with this port, and returns it with a connection.
fn started(setup: Setup<EchoService>, port: &str) -> (Instance<EchoService>, Connection) {
    let port = PortConfig::parse(port).unwrap();
    let configure = |service: &mut EchoService, ports: &mut PortManager<EchoService>| -> Result<(), StartError> {
        ports.add_port(service, port.clone()).map(drop).map_err(refused("the port"))
    };
    let instance = start(setup, configure).unwrap_or_else(|error| panic!("{error}"));
    let connection = Connection::to(&instance.view.dir).unwrap();
    (instance, connection)
}

/// Waits until the datapath and the service were told of these states of the link of their first port, which is called a.
fn wait_for_links(connection: &mut Connection, states: &[&str]) {
    let told = |name| states.iter().map(|state| format!("{state} {name}")).collect::<Vec<_>>();
    let expected = json!({ "datapath": told("0"), "service": told("a") });
    wait_until(&expected.to_string(), || connection.ask(&Own::Links {}).unwrap() == expected);
}

#[test]
fn a_peer_that_comes_and_goes_is_told_to_datapath_and_service() {
    let folder = tempfile::tempdir().unwrap();
    let pool = Pool::new(PoolConfig { frames: 2048, ..PoolConfig::default() }).unwrap();
    let socket = folder.path().join("memif").display().to_string();
    let setup = echo(folder.path(), &pool, EchoService::default());
    let (mut instance, mut connection) = started(setup, &format!("a=memif:{socket}"));
    wait_for_links(&mut connection, &["Down"]);
    let mut peer = linerate_ports::open(&format!("memif:{socket},role=client"), &pool).unwrap();
    wait_until("the peer is connected", || peer.link().unwrap() == LinkState::Up);
    wait_for_links(&mut connection, &["Down", "Up"]);
    drop(peer);
    wait_for_links(&mut connection, &["Down", "Up", "Down"]);
    assert!(instance.end().is_some());
}

#[test]
fn a_cable_whose_far_end_is_set_down_is_told_to_datapath_and_service() {
    let Some(middle) = or_skip("no network namespace", NetNs::anonymous()) else { return };
    let end = |name| VethEnd { name, namespace: &middle };
    let Some(()) = or_skip("no veth pair", veth::create(end("near"), end("far"), 1)) else { return };
    let open = |name| middle.run(|| Netdev::open(name)).unwrap().unwrap();
    let (near, far) = (open("near"), open("far"));
    veth::bring_up(&near, &far).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let pool = Pool::new(PoolConfig { frames: 2048, ..PoolConfig::default() }).unwrap();
    let setup = echo(folder.path(), &pool, EchoService::default());
    let (mut instance, mut connection) = middle.run(|| started(setup, "a=packet:near")).unwrap();
    far.set_up(false).unwrap();
    wait_for_links(&mut connection, &["Down"]);
    far.set_up(true).unwrap();
    wait_for_links(&mut connection, &["Down", "Up"]);
    near.set_up(false).unwrap();
    wait_for_links(&mut connection, &["Down", "Up", "Down"]);
    near.set_up(true).unwrap();
    wait_for_links(&mut connection, &["Down", "Up", "Down", "Up"]);
    assert!(instance.end().is_some());
}

#[test]
fn a_datapath_that_is_no_switch_is_controlled_alike() {
    let folder = tempfile::tempdir().unwrap();
    let pool = Pool::new(PoolConfig { frames: 2048, ..PoolConfig::default() }).unwrap();
    let (mut far_end, near) = UnixStream::pair().unwrap();
    let service = EchoService { own: Some(near), due_ns: clock::now_ns() + 1_000_000, ..EchoService::default() };
    let (mut instance, mut connection) = started(echo(folder.path(), &pool, service), "a=pipe:another-a");
    let settings: Settings = [("limit".to_string(), SettingValue("7".into()))].into();
    let spec = "pipe:another-b".to_string();
    let add =
        |name: &str, settings: Settings| Command::AddPort { name: Some(name.into()), spec: spec.clone(), settings };
    assert!(connection.ask(&add("b", settings.clone())).unwrap_err().cause.contains("limit"));
    connection.ask(&add("b", Settings::new())).unwrap();
    assert!(connection.ask(&add("b", Settings::new())).unwrap_err().cause.contains("in use"));
    connection.ask(&Command::Set { port: None, settings: settings.clone() }).unwrap();
    assert!(connection.ask(&Command::Set { port: Some("b".into()), settings }).is_err());
    assert!(connection.ask(&json!({ "command": "show", "what": "macs" })).is_err());

    let mut far = linerate_ports::open("pipe:another-b", &pool).unwrap();
    let (mut own, mut batch) = (pool.clone(), Batch::new(&pool, 64));
    own.alloc(&mut batch, 10, 60);
    assert_eq!(far.transmit(&mut batch).unwrap(), 10);
    wait_until("the packets come back", || {
        far.receive(&mut batch).unwrap();
        batch.len() == 10
    });
    own.free(&mut batch);
    connection.ask(&Command::RemovePort { port: "b".into() }).unwrap();
    far_end.write_all(b"x").unwrap();
    let mut seen = Value::Null;
    wait_until("the port is gone", || {
        seen = connection.ask(&Own::CountPackets {}).unwrap();
        seen["removed"] == json!(["b", "b"]) && seen["heard"] == json!(b"x") && seen["due"] == json!(true)
    });
    let expected = json!({ "packets": 10, "limit": "7", "added": ["a", "b", "b"], "removed": ["b", "b"], "heard": b"x", "due": true });
    assert_eq!(seen, expected);
    connection.ask(&Command::Stop {}).unwrap();
    wait_until("it has ended", || instance.has_ended());
    let ended = instance.end().unwrap();
    assert!(!ended.port_lost && ended.end.error.is_none());
    drop((ended, instance, far, batch));
    own.flush();
    assert!(own.is_whole());
}
