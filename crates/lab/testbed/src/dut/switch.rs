//! Linerate's own switches: this program, started as `linerate switch` or `linerate ofswitch`, and asked over its control socket. The two
//! ports are interfaces in the device's namespace, or memory that the switch shares with the tester (memif).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use linerate_experiment::{SwitchPorts, TopologyKind};
use linerate_port::{PortSpec, SpecError};
use linerate_report::Dut;
use linerate_sys::process::Process;
use serde_json::Value;

use super::folder::Folder;
use super::links::{self, Links};
use super::stations::Stations;
use super::tools::{Place, died};
use super::{Built, Device, DutError, Path, Shown, flow_table, ofswitch, own};
use crate::placement::Placement;
use crate::switches::{SwitchSource, place_of_port};
use crate::topology::{EGRESS_INTERFACE, Forwarding, INGRESS_INTERFACE, MemoryPath, Remainder, Topology, TopologySpec};

/// Names of its sockets, and of the ports of the learning switch: towards the generator, towards the receiver.
const PORTS: [&str; 2] = ["in", "out"];
/// Its name in the rows of a ledger, whichever of the two it is.
const IN_REPORTS: &str = "Linerate switch";
/// Longest wait until it answers.
const READY_MAX: Duration = Duration::from_secs(20);
const PROBE_GAP: Duration = Duration::from_millis(5);
const STOP_MAX: Duration = Duration::from_secs(5);

/// Which one of this program's switches it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// The learning switch.
    Switch,
    /// The OpenFlow switch, with so many flow entries by address.
    OfSwitch(u32),
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Self::Switch => "Linerate switch",
            Self::OfSwitch(_) => "Linerate OpenFlow switch",
        }
    }

    fn ready_max(self) -> Duration {
        match self {
            Self::Switch => READY_MAX,
            Self::OfSwitch(entries) => READY_MAX + flow_table::ENTRY_MAX * entries,
        }
    }
}

/// It says what it lost, so what is left is lost in it without a word.
fn forwarding(source: &SwitchSource) -> Forwarding {
    let remainder = Remainder::Device(IN_REPORTS.into());
    Forwarding { switch: Some(source.clone()), remainder, ..Forwarding::switched() }
}

pub(super) fn build(what: Program, ports: SwitchPorts, spec: &TopologySpec) -> Result<Built, DutError> {
    if spec.ends != TopologyKind::Namespaces {
        return Err(DutError::Unsupported("the switch needs the topology `namespaces`".into()));
    }
    let program = own::program();
    let version = Place::default().run(&[program.clone(), "--version".into()], None)?;
    let version = version.trim().rsplit(' ').next().map(str::to_owned);
    let folder = Folder::make()?;
    let source = SwitchSource::new(folder.path().join("linerate").join(format!("{}.ctl", own::SWITCH)));
    let command = match what {
        Program::Switch => command(program, ports, &folder, spec),
        Program::OfSwitch(entries) => {
            let file = folder.text(ofswitch::FLOWS_FILE);
            let written = std::fs::write(&file, flow_table::lines(entries, spec));
            written.map_err(DutError::system(format!("write {file}")))?;
            ofswitch::command(program, [0, 1].map(|port| port_spec(ports, &folder, port)), &folder, spec)
        }
    };
    let command = command.map_err(|error| DutError::Unsupported(error.to_string()))?;
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
    let process = start(what, &command, &place, &folder, &source)?;
    let configuration = configuration(what, ports, &command, &folder, spec);
    let mut device = Switch { what, process, ports, place, folder, source, command, version, configuration };
    device.learn()?;
    Ok(Built { path, device: Box::new(device) })
}

/// Dropped in this order: the process, then the folder of its sockets.
struct Switch {
    what: Program,
    process: Process,
    ports: SwitchPorts,
    place: At,
    folder: Folder,
    source: SwitchSource,
    command: Vec<String>,
    version: Option<String>,
    configuration: BTreeMap<String, String>,
}

/// Where it works.
enum At {
    /// Between two interfaces, each with a station behind it.
    Interfaces(Box<(Links, Stations)>),
    /// On these cores, or wherever the scheduler puts it.
    Memory(Vec<usize>),
}

impl Device for Switch {
    fn describe(&self) -> Dut {
        Dut { name: self.what.name().into(), version: self.version.clone(), configuration: self.configuration.clone() }
    }

    /// Of the learning switch: `in received`, `in sent`, `in dropped, egress-full` and so on, and what its ports lost.
    fn counters(&mut self) -> Result<BTreeMap<String, u64>, DutError> {
        self.check_alive()?;
        let mut counters = match self.what {
            Program::Switch => self.source.show("ports").map(|ports| of_ports(&ports)),
            Program::OfSwitch(entries) => ofswitch::counters(&self.source, entries),
        }
        .map_err(DutError::system("ask the switch"))?;
        if let At::Interfaces(between) = &self.place {
            counters.extend(between.0.counters()?);
        }
        Ok(counters)
    }

    fn check(&mut self) -> Result<(), DutError> {
        self.check_alive()?;
        match &self.place {
            At::Interfaces(between) => between.0.check(self.what.name()),
            At::Memory(_) => Ok(()),
        }
    }

    fn reset(&mut self) -> Result<String, DutError> {
        self.process.stop(STOP_MAX);
        self.process = start(self.what, &self.command, &self.place, &self.folder, &self.source)?;
        if let (At::Interfaces(between), SwitchPorts::Xdp) = (&self.place, self.ports) {
            between.0.place_again()?;
        }
        Ok(format!("{} stopped and started anew", self.what.name()))
    }

    fn needs_warm_up(&self) -> bool {
        true
    }

    fn has_processes(&self) -> bool {
        true
    }

    fn learn(&mut self) -> Result<(), DutError> {
        match &self.place {
            At::Interfaces(between) if self.what == Program::Switch => between.1.announce(),
            // It was told where the stations are, or forwards by port.
            _ => Ok(()),
        }
    }

    fn show(&mut self) -> Result<Vec<Shown>, DutError> {
        match self.what {
            Program::Switch => Ok(Vec::new()),
            Program::OfSwitch(entries) => {
                self.check_alive()?;
                let program = self.command.first().cloned().unwrap_or_default();
                let place = Place { environment: environment(&self.folder), ..Place::default() };
                ofswitch::show(&place, &program, entries)
            }
        }
    }
}

impl Switch {
    fn check_alive(&self) -> Result<(), DutError> {
        self.process.ended().map_or(Ok(()), |status| Err(died(self.what.name(), status, &self.process)))
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.process.stop(STOP_MAX);
    }
}

fn command(
    program: String,
    ports: SwitchPorts,
    folder: &Folder,
    spec: &TopologySpec,
) -> Result<Vec<String>, SpecError> {
    let mut command = vec![program];
    command.extend(["switch", "--name", own::SWITCH, "--ports-max", "2", "--quiet"].map(str::to_owned));
    for (number, name) in PORTS.into_iter().enumerate() {
        command.extend(["--port".into(), format!("{name}={}", port_spec(ports, folder, number)?)]);
    }
    if ports == SwitchPorts::Memif {
        // Learning frames would have to come from the tester's threads, which send nothing before a trial.
        let stations = [MemoryPath::forward().source, MemoryPath::backward().source];
        for (name, station) in PORTS.into_iter().zip(stations) {
            let station = station.map(|byte| format!("{byte:02x}")).join(":");
            command.extend(["--mac".into(), format!("{station}={name}")]);
        }
        command.extend(["--frame-len-max".into(), MemoryPath::frame_len_max(spec).to_string()]);
    }
    Ok(command)
}

/// The port with this number, from 0.
fn port_spec(ports: SwitchPorts, folder: &Folder, number: usize) -> Result<PortSpec, SpecError> {
    let interface = [INGRESS_INTERFACE, EGRESS_INTERFACE][number];
    match ports {
        SwitchPorts::Packet => Ok(PortSpec::new("packet", interface)),
        SwitchPorts::Xdp => Ok(PortSpec::new("xdp", interface)),
        SwitchPorts::Memif => MemoryPath::switch_port(folder.path(), PORTS[number]),
    }
}

fn environment(folder: &Folder) -> Vec<(String, String)> {
    vec![("XDG_RUNTIME_DIR".to_owned(), folder.path().to_string_lossy().into_owned())]
}

/// Where its worker runs: it is the DUT's first hop.
pub(super) fn dut_cores(spec: &TopologySpec) -> Vec<usize> {
    match spec.placement {
        Placement::Thread { core: Some(core) } if spec.dut_cores.is_empty() => vec![core],
        _ => spec.dut_cores.clone(),
    }
}

fn configuration(
    what: Program,
    ports: SwitchPorts,
    command: &[String],
    folder: &Folder,
    spec: &TopologySpec,
) -> BTreeMap<String, String> {
    let (mut configuration, words) = match ports {
        SwitchPorts::Packet => (links::configuration(spec), "AF_PACKET, each packet handed over at once"),
        SwitchPorts::Xdp => (links::configuration(spec), "AF_XDP"),
        SwitchPorts::Memif => {
            (BTreeMap::new(), "memif, memory shared with the tester, which is the client and has rings of 1,024 slots")
        }
    };
    let forwards = match (what, ports) {
        (Program::Switch, SwitchPorts::Memif) => "the two stations given",
        (Program::Switch, _) => "addresses learned",
        (Program::OfSwitch(_), _) => "no controller, flow entries of a file",
    };
    configuration.insert("ports".into(), format!("{words}; one worker thread, {forwards}"));
    if let Program::OfSwitch(entries) = what {
        configuration.insert("flow entries".into(), flow_table::words(entries));
    }
    // The folder is another one each time.
    let words = command.join(" ").replace(&*folder.path().to_string_lossy(), "FOLDER");
    configuration.insert("command".into(), words);
    configuration
}

/// Starts it and waits until it answers.
fn start(
    what: Program,
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
    let deadline = Instant::now() + what.ready_max();
    loop {
        let probed = source.show("stats");
        if let Some(status) = process.ended() {
            return Err(died(what.name(), status, &process));
        }
        match probed {
            Ok(_) => return Ok(process),
            Err(error) if Instant::now() >= deadline => return Err(DutError::system("ask the switch")(error)),
            Err(_) => std::thread::sleep(PROBE_GAP),
        }
    }
}

/// Counters of the document `show ports`.
fn of_ports(ports: &Value) -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    for port in ports.as_array().into_iter().flatten() {
        let Some(name) = port["name"].as_str() else { continue };
        for key in ["received", "unicast", "flooded", "queued", "sent", "waiting"] {
            if let Some(packets) = port[key].as_u64() {
                counters.insert(format!("{name} {key}"), packets);
            }
        }
        for (key, word) in [("dropped", "dropped"), ("refused", "copies refused"), ("discarded", "thrown away")] {
            for (reason, packets) in port[key].as_object().into_iter().flatten() {
                counters.insert(format!("{name} {word}, {reason}"), packets.as_u64().unwrap_or(0));
            }
        }
        for key in ["port_rx_drops", "port_tx_drops"] {
            for lost in port[key].as_array().into_iter().flatten() {
                let text = |key: &str| lost[key].as_str().unwrap_or_default().to_owned();
                let packets = lost["packets"].as_u64().unwrap_or(0);
                let place = place_of_port(&text("place"), name);
                *counters.entry(format!("{place}: {}", text("cause"))).or_default() += packets;
            }
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_document_of_ports_becomes_counters() {
        let ports = json!([
            { "name": "in", "received": 10, "sent": 3, "dropped": { "egress-full": 2 },
              "port_rx_drops": [{ "place": "AF_PACKET ring of lr-in", "cause": "ring full", "packets": 7 }] },
            { "received": 1 }, 5
        ]);
        let counters = of_ports(&ports);
        assert_eq!((counters["in received"], counters["in sent"], counters["in dropped, egress-full"]), (10, 3, 2));
        assert_eq!((counters["AF_PACKET ring of lr-in: ring full"], counters.len()), (7, 4));
        assert!(of_ports(&Value::Null).is_empty());
    }
}
