//! Linerate's own switches: this program, started as `linerate switch` or `linerate ofswitch`, and asked over its control socket. The two
//! ports are interfaces in the device's namespace, or memory that the switch shares with the tester (memif).

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use linerate_port::{PortSpec, SpecError};
use linerate_process::Process;
use linerate_report::Dut;

use super::folder::Folder;
use super::kind::Settings;
use super::links::{self, Links};
use super::stations::Stations;
use super::switch_ports::{SwitchPorts, dut_cores};
use super::tools::{Place, died};
use super::{Built, Device, DutError, Path, Shown, flow_table, own};
use crate::switches::SwitchSource;
use crate::topology::{EGRESS_INTERFACE, Forwarding, INGRESS_INTERFACE, MemoryPath, Remainder, Topology, TopologySpec};

/// Names of its sockets: towards the generator, towards the receiver.
const SOCKETS: [&str; 2] = ["in", "out"];
/// Its name in the rows of a ledger, whichever of the two it is.
const IN_REPORTS: &str = "Linerate switch";
/// Longest wait until it answers.
const READY_MAX: Duration = Duration::from_secs(20);
const PROBE_GAP: Duration = Duration::from_millis(5);
const STOP_MAX: Duration = Duration::from_secs(5);

/// What is its own about one of this program's switches.
pub(super) trait Program: Settings + Copy {
    /// For people.
    const NAME: &str;
    /// What it calls its ports: towards the generator, towards the receiver.
    const PORTS: [&str; 2];

    /// What joins it to the tester.
    fn ports(&self) -> SwitchPorts;

    /// What it is told beside its name and its ports.
    fn arguments(&self, folder: &Folder, spec: &TopologySpec) -> Result<Vec<String>, DutError>;

    /// By what it forwards, in words.
    fn forwards(&self) -> &'static str;

    /// Its own counters.
    fn counters(&self, source: &SwitchSource) -> io::Result<BTreeMap<String, u64>>;

    /// Whether it has to see who is behind its interfaces.
    fn learns(&self) -> bool {
        false
    }

    /// What its commands show. `program` is started in `place`.
    fn show(&self, _place: &Place<'_>, _program: &str) -> Result<Vec<Shown>, DutError> {
        Ok(Vec::new())
    }
}

/// It says what it lost, so what is left is lost in it without a word.
fn forwarding(source: &SwitchSource) -> Forwarding {
    let remainder = Remainder::Device(IN_REPORTS.into());
    Forwarding { switch: Some(source.clone()), remainder, ..Forwarding::switched() }
}

/// Starts a switch on its path.
pub(super) fn build<P: Program>(what: P, spec: &TopologySpec) -> Result<Built, DutError> {
    let program = own::program();
    let version = Place::default().run(&[program.clone(), "--version".into()], None)?;
    let version = version.trim().rsplit(' ').next().map(str::to_owned);
    let folder = Folder::make()?;
    let source = SwitchSource::new(folder.path().join("linerate").join(format!("{}.ctl", own::SWITCH)));
    let ports = what.ports();
    let mut command = vec![program];
    command.extend([P::WORD, "--name", own::SWITCH, "--ports-max", "2", "--quiet"].map(str::to_owned));
    for (number, name) in P::PORTS.into_iter().enumerate() {
        let port = port_spec(ports, &folder, number).map_err(|error| DutError::Unsupported(error.to_string()))?;
        command.extend(["--port".into(), format!("{name}={port}")]);
    }
    command.extend(what.arguments(&folder, spec)?);
    let (path, place) = match ports {
        SwitchPorts::Memif => {
            let path = MemoryPath::through(folder.path(), source.clone(), 0);
            (Path::Memory(Box::new(path)), At::Memory(dut_cores(spec)))
        }
        SwitchPorts::Packet | SwitchPorts::Xdp => {
            let topology = Topology::switched(spec, forwarding(&source))?;
            let (links, stations) = (Links::of(&topology, spec)?, Stations::of(&topology)?);
            (Path::Namespaces(Box::new(topology)), At::Interfaces(Box::new((links, stations))))
        }
    };
    let process = start(&what, &command, &place, &folder, &source)?;
    let dut = Dut { name: P::NAME.into(), version, configuration: configuration(&what, &command, &folder, spec) };
    let mut device = SwitchDevice { what, process, place, folder, source, command, dut };
    device.learn()?;
    Ok(Built { path, device: Box::new(device) })
}

/// Dropped in this order: the process, then the folder of its sockets.
struct SwitchDevice<P: Program> {
    what: P,
    process: Process,
    place: At,
    folder: Folder,
    source: SwitchSource,
    command: Vec<String>,
    dut: Dut,
}

/// Where it works.
enum At {
    /// Between two interfaces, each with a station behind it.
    Interfaces(Box<(Links, Stations)>),
    /// On these cores, or wherever the scheduler puts it.
    Memory(Vec<usize>),
}

impl<P: Program> Device for SwitchDevice<P> {
    fn describe(&self) -> Dut {
        self.dut.clone()
    }

    fn counters(&mut self) -> Result<BTreeMap<String, u64>, DutError> {
        self.check_alive()?;
        let mut counters = self.what.counters(&self.source).map_err(DutError::system("ask the switch"))?;
        if let At::Interfaces(between) = &self.place {
            counters.extend(between.0.counters()?);
        }
        Ok(counters)
    }

    fn check(&mut self) -> Result<(), DutError> {
        self.check_alive()?;
        match &self.place {
            At::Interfaces(between) => between.0.check(P::NAME),
            At::Memory(_) => Ok(()),
        }
    }

    fn reset(&mut self) -> Result<String, DutError> {
        self.process.stop(STOP_MAX);
        self.process = start(&self.what, &self.command, &self.place, &self.folder, &self.source)?;
        if let (At::Interfaces(between), SwitchPorts::Xdp) = (&self.place, self.what.ports()) {
            between.0.place_again()?;
        }
        Ok(format!("{} stopped and started anew", P::NAME))
    }

    fn has_processes(&self) -> bool {
        true
    }

    fn learn(&mut self) -> Result<(), DutError> {
        match &self.place {
            At::Interfaces(between) if self.what.learns() => between.1.announce(),
            // It was told where the stations are, or forwards by port.
            _ => Ok(()),
        }
    }

    fn show(&mut self) -> Result<Vec<Shown>, DutError> {
        self.check_alive()?;
        let program = self.command.first().map(String::as_str).unwrap_or_default();
        self.what.show(&Place { environment: environment(&self.folder), ..Place::default() }, program)
    }
}

impl<P: Program> SwitchDevice<P> {
    fn check_alive(&self) -> Result<(), DutError> {
        self.process.ended().map_or(Ok(()), |status| Err(died(P::NAME, status, &self.process)))
    }
}

impl<P: Program> Drop for SwitchDevice<P> {
    fn drop(&mut self) {
        self.process.stop(STOP_MAX);
    }
}

/// The port with this number, from 0.
fn port_spec(ports: SwitchPorts, folder: &Folder, number: usize) -> Result<PortSpec, SpecError> {
    let interface = [INGRESS_INTERFACE, EGRESS_INTERFACE][number];
    match ports {
        SwitchPorts::Packet => Ok(PortSpec::new("packet", interface)),
        SwitchPorts::Xdp => Ok(PortSpec::new("xdp", interface)),
        SwitchPorts::Memif => MemoryPath::switch_port(folder.path(), SOCKETS[number]),
    }
}

fn environment(folder: &Folder) -> Vec<(String, String)> {
    vec![("XDG_RUNTIME_DIR".to_owned(), folder.path().to_string_lossy().into_owned())]
}

fn configuration<P: Program>(
    what: &P,
    command: &[String],
    folder: &Folder,
    spec: &TopologySpec,
) -> BTreeMap<String, String> {
    let (mut configuration, words) = match what.ports() {
        SwitchPorts::Packet => (links::configuration(spec), "AF_PACKET, each packet handed over at once"),
        SwitchPorts::Xdp => (links::configuration(spec), "AF_XDP"),
        SwitchPorts::Memif => {
            (BTreeMap::new(), "memif, memory shared with the tester, which is the client and has rings of 1,024 slots")
        }
    };
    configuration.insert("ports".into(), format!("{words}; one worker thread, {}", what.forwards()));
    configuration.extend(what.flow_entries().map(|entries| ("flow entries".to_owned(), flow_table::words(entries))));
    // The folder is another one each time.
    let words = command.join(" ").replace(&*folder.path().to_string_lossy(), "FOLDER");
    configuration.insert("command".into(), words);
    configuration
}

/// Starts it and waits until it answers.
fn start<P: Program>(
    what: &P,
    command: &[String],
    at: &At,
    folder: &Folder,
    source: &SwitchSource,
) -> Result<Process, DutError> {
    let environment = environment(folder);
    let place = match at {
        At::Interfaces(between) => {
            let links = &between.0;
            Place { namespace: Some(&links.dut().namespace), environment, cores: &links.spec().dut_cores }
        }
        At::Memory(cores) => Place { namespace: None, environment, cores },
    };
    let process = place.start_ahead(command)?;
    let deadline = Instant::now() + READY_MAX + flow_table::ENTRY_MAX * what.flow_entries().unwrap_or(0);
    loop {
        let probed = source.show("stats");
        if let Some(status) = process.ended() {
            return Err(died(P::NAME, status, &process));
        }
        match probed {
            Ok(_) => return Ok(process),
            Err(error) if Instant::now() >= deadline => return Err(DutError::system("ask the switch")(error)),
            Err(_) => std::thread::sleep(PROBE_GAP),
        }
    }
}
