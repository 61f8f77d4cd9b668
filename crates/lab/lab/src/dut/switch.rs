//! Linerate's own memory switch with two interfaces as ports: this program, started as `linerate switch` in the device's
//! namespace, and asked over its control socket.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use linerate_experiment::TopologyKind;
use linerate_report::Dut;
use linerate_sys::process::Process;
use serde_json::{Value, json};

use super::folder::Folder;
use super::links::{self, Links};
use super::stations::Stations;
use super::tools::{Place, died};
use super::{Built, Device, DutError, Path};
use crate::topology::{Carrier, EGRESS_INTERFACE, INGRESS_INTERFACE, Topology, TopologySpec};

const NAME: &str = "Linerate switch";
/// Its name in its folder.
const SWITCH: &str = "dut";
const PROGRAM: &str = "linerate";
/// Longest wait until it answers, and for an answer.
const READY_MAX: Duration = Duration::from_secs(20);
const PROBE_GAP: Duration = Duration::from_millis(5);
const STOP_MAX: Duration = Duration::from_secs(5);

pub(super) fn build(spec: &TopologySpec) -> Result<Built, DutError> {
    if spec.ends != TopologyKind::Namespaces {
        return Err(DutError::Unsupported("the switch needs the topology `namespaces`".into()));
    }
    let program = program();
    let version = Place::default().run(&[program.clone(), "--version".into()], None)?;
    let version = version.trim().rsplit(' ').next().map(str::to_owned);
    let topology = Topology::switched(spec, Carrier::Process(NAME.into()))?;
    let links = Links::of(&topology, spec)?;
    let stations = Stations::of(&topology)?;
    let folder = Folder::make()?;
    let command = command(program);
    let process = start(&command, &links, &folder)?;
    let mut configuration = links::configuration(spec);
    configuration.insert("command".into(), command.join(" "));
    configuration.insert(
        "ports".into(),
        "AF_PACKET, each packet handed over at once; one worker thread, addresses learned".into(),
    );
    let mut device = Switch { process, links, stations, folder, command, version, configuration };
    device.learn()?;
    Ok(Built { path: Path::Namespaces(Box::new(topology)), device: Box::new(device) })
}

/// Dropped in this order: the process, then the folder of its sockets.
struct Switch {
    process: Process,
    links: Links,
    stations: Stations,
    folder: Folder,
    command: Vec<String>,
    version: Option<String>,
    configuration: BTreeMap<String, String>,
}

impl Device for Switch {
    fn describe(&self) -> Dut {
        Dut { name: NAME.into(), version: self.version.clone(), configuration: self.configuration.clone() }
    }

    /// `in received`, `in sent`, `in dropped egress-full` and so on, and what its sockets lost.
    fn counters(&mut self) -> Result<BTreeMap<String, u64>, DutError> {
        self.check_alive()?;
        let answer = ask(&socket(&self.folder), &json!({ "v": 1, "command": "show", "what": "ports" }))?;
        let mut counters = of_ports(&answer);
        counters.extend(self.links.counters()?);
        Ok(counters)
    }

    fn check(&mut self) -> Result<(), DutError> {
        self.check_alive()?;
        self.links.check(NAME)
    }

    fn reset(&mut self) -> Result<String, DutError> {
        self.process.stop(STOP_MAX);
        self.process = start(&self.command, &self.links, &self.folder)?;
        Ok(format!("{NAME} stopped and started anew"))
    }

    fn needs_warm_up(&self) -> bool {
        true
    }

    fn learn(&mut self) -> Result<(), DutError> {
        self.stations.announce()
    }
}

impl Switch {
    fn check_alive(&self) -> Result<(), DutError> {
        self.process.ended().map_or(Ok(()), |status| Err(died(NAME, status, &self.process)))
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.process.stop(STOP_MAX);
    }
}

/// The executable with the subcommand `switch`: this one, or where this one is a test the one beside it, or that in PATH.
fn program() -> String {
    let own = std::env::current_exe().ok();
    let named = |path: &PathBuf| path.file_name().is_some_and(|name| name == PROGRAM) && path.is_file();
    let beside = own.iter().flat_map(|own| own.ancestors().skip(1).take(2)).map(|folder| folder.join(PROGRAM));
    let found = own.clone().into_iter().chain(beside).find(named);
    found.map_or_else(|| PROGRAM.into(), |path| path.to_string_lossy().into_owned())
}

fn command(program: String) -> Vec<String> {
    let ports = [("in", INGRESS_INTERFACE), ("out", EGRESS_INTERFACE)];
    let ports = ports.into_iter().flat_map(|(name, interface)| ["--port".into(), format!("{name}=packet:{interface}")]);
    let fixed = ["switch", "--name", SWITCH, "--ports-max", "2", "--quiet"].map(str::to_owned);
    [program].into_iter().chain(fixed).chain(ports).collect()
}

fn socket(folder: &Folder) -> PathBuf {
    folder.path().join("linerate").join(format!("{SWITCH}.ctl"))
}

/// Starts it and waits until it answers.
fn start(command: &[String], links: &Links, folder: &Folder) -> Result<Process, DutError> {
    let environment = vec![("XDG_RUNTIME_DIR".to_owned(), folder.path().to_string_lossy().into_owned())];
    let place = Place { namespace: Some(&links.dut().namespace), environment, cores: &links.spec().dut_cores };
    let process = place.start(command)?;
    let deadline = Instant::now() + READY_MAX;
    loop {
        let probed = ask(&socket(folder), &json!({ "v": 1, "command": "show", "what": "ports" }));
        if let Some(status) = process.ended() {
            return Err(died(NAME, status, &process));
        }
        match probed {
            Ok(_) => return Ok(process),
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => std::thread::sleep(PROBE_GAP),
        }
    }
}

/// One request over the control socket (docs/switch.md).
fn ask(socket: &std::path::Path, request: &Value) -> Result<Value, DutError> {
    let failed = || DutError::system(format!("ask the switch at {}", socket.display()));
    let mut stream = UnixStream::connect(socket).map_err(failed())?;
    stream.set_read_timeout(Some(READY_MAX)).map_err(failed())?;
    stream.write_all(format!("{request}\n").as_bytes()).map_err(failed())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).map_err(failed())?;
    let mut answer: Value = serde_json::from_str(&line).map_err(|error| failed()(error.into()))?;
    match answer.get_mut("ok") {
        Some(found) => Ok(found.take()),
        None => Err(DutError::Unsupported(format!("the switch answered {}", line.trim()))),
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
                *counters.entry(format!("{}: {}", text("place"), text("cause"))).or_default() += packets;
            }
        }
    }
    counters
}

#[cfg(test)]
mod tests {
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
