//! Any program that takes two interfaces as a device: started, watched, asked for its counters, stopped.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use linerate_experiment::section::Section;
use linerate_experiment::{DutSettings, TopologyKind, shell_line};
use linerate_process::Process;
use linerate_report::Dut;
use linerate_sys::netns::NetNs;
use linerate_units::nearest;

use super::kind::{Settings, one};
use super::links::{self, Links};
use super::tools::{Place, died};
use super::{Built, Device, DutError, Path, readings};
use crate::topology::{EGRESS_INTERFACE, Forwarding, INGRESS_INTERFACE, Topology, TopologySpec};

/// What `start` can be.
const EXAMPLE: &str = "[\"forwarder\", \"{in}\", \"{out}\"]";
/// Longest and usual wait until it is ready.
const READY_NS_MAX: u64 = 600_000_000_000;
const READY_NS: u64 = 10_000_000_000;
/// Between two tries of the ready probe.
const PROBE_GAP: Duration = Duration::from_millis(20);
/// How long a device may take to stop when it was asked to.
const STOP_MAX: Duration = Duration::from_secs(5);
/// Longest run of the counters command: it is run around every trial.
const COUNTERS_MAX: Duration = Duration::from_secs(10);

/// A program as a device. In every word `{in}` and `{out}` stand for the names of the two interfaces. It is started in the DUT's
/// namespace without a shell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Command {
    /// Starts it; ends when the device is stopped.
    pub start: Vec<String>,
    /// Ends with status 0 once it is ready; tried until `ready_ns` is over. Empty: ready at once.
    pub ready: Vec<String>,
    /// Longest wait for that.
    pub ready_ns: u64,
    /// Prints `name value` lines; run before and after each trial. Empty: none.
    pub counters: Vec<String>,
    /// Stops it; empty: SIGTERM, then SIGKILL.
    pub stop: Vec<String>,
    /// Prints its version in the first line. Empty: none.
    pub version: Vec<String>,
}

impl DutSettings for Command {
    fn commands(&self) -> Vec<String> {
        [&self.start, &self.ready, &self.counters, &self.stop, &self.version]
            .into_iter()
            .filter_map(|words| shell_line(words))
            .collect()
    }
}

impl Settings for Command {
    const WORD: &str = "command";
    const ABOUT: &str = "any program that takes the two interfaces";
    const TOPOLOGIES: &[&str] = &["namespaces", "ports"];

    fn read(table: &Section<'_>) -> Vec<(String, Self)> {
        let words = |key| {
            let words = table.texts(key).unwrap_or_default();
            if words.first().is_some_and(String::is_empty) {
                table.error(key, format!("`{key}` begins with an empty word; expected the program's name"));
            }
            words
        };
        table.needed("start", EXAMPLE);
        let start = words("start");
        if start.is_empty() && table.has("start") {
            table.error("start", format!("`start` is empty; expected a program and its arguments, as {EXAMPLE}"));
        }
        for key in ["start", "ready", "counters", "stop", "version"] {
            check_placeholders(table, key);
        }
        one(Self {
            start,
            ready: words("ready"),
            ready_ns: table.span_ns("ready_within", 1_000_000..=READY_NS_MAX).unwrap_or(READY_NS),
            counters: words("counters"),
            stop: words("stop"),
            version: words("version"),
        })
    }

    fn build(&self, spec: &TopologySpec) -> Result<Built, DutError> {
        let name = name_of(self)?;
        let (path, links, command) = match &spec.ends {
            TopologyKind::Namespaces => {
                let topology = Topology::switched(spec, Forwarding::by_process(&name))?;
                let links = Links::of(&topology, spec)?;
                let path = Path::Namespaces(Box::new(topology));
                (path, Some(links), filled_in(self, INGRESS_INTERFACE, EGRESS_INTERFACE))
            }
            TopologyKind::Ports { a, b } => {
                (Path::Ports { a: a.clone(), b: b.clone() }, None, filled_in(self, &a.port, &b.port))
            }
            TopologyKind::InProcess => {
                return Err(DutError::Unsupported(
                    "a command cannot take the ends of a link inside this process".into(),
                ));
            }
        };
        let place = place_of(&links);
        let version = match command.version.as_slice() {
            [] => None,
            version => place.run(version, None)?.lines().next().map(|line| line.trim().to_owned()),
        };
        let process = start(&command, &name, &place)?;
        let mut configuration = links.as_ref().map(|links| links::configuration(links.spec())).unwrap_or_default();
        configuration.insert("command".into(), command.start.join(" "));
        let dut = Dut { name, version, configuration };
        Ok(Built { path, device: Box::new(Program { dut, command, process, links }) })
    }
}

/// `{in}` and `{out}` are all that is put into words; other braces are the program's own (`awk "{print}"`).
fn check_placeholders(table: &Section<'_>, key: &'static str) {
    let Some(words) = table.value(key).and_then(|value| value.get_ref().as_array()) else { return };
    for value in words.iter() {
        let Some(word) = value.get_ref().as_str() else { continue };
        for part in word.split('{').skip(1) {
            let Some((name, _)) = part.split_once('}') else { continue };
            let meant = nearest(name, &["in", "out"]).filter(|meant| *meant != name);
            if let Some(meant) = meant {
                let message = format!("`{{{name}}}` is put nowhere; did you mean \"{{{meant}}}\"?");
                table.log.error(value.span(), message);
            }
        }
    }
}

struct Program {
    dut: Dut,
    command: Command,
    process: Process,
    /// None between ports of this host.
    links: Option<Links>,
}

impl Program {
    fn stop(&self) {
        if !self.command.stop.is_empty() {
            // What it answers does not matter: it is killed if it still runs.
            let _ = place_of(&self.links).run_for(&self.command.stop, None, STOP_MAX);
            self.process.wait(STOP_MAX);
        }
        self.process.stop(STOP_MAX);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Device for Program {
    fn describe(&self) -> Dut {
        self.dut.clone()
    }

    fn counters(&mut self) -> Result<BTreeMap<String, u64>, DutError> {
        self.check()?;
        readings::read(&place_of(&self.links), &self.command.counters, COUNTERS_MAX)
    }

    fn check(&mut self) -> Result<(), DutError> {
        match self.process.ended() {
            Some(status) => Err(died(&self.dut.name, status, &self.process)),
            None => self.links.as_ref().map_or(Ok(()), |links| links.check(&self.dut.name)),
        }
    }

    fn reset(&mut self) -> Result<String, DutError> {
        self.stop();
        self.process = start(&self.command, &self.dut.name, &place_of(&self.links))?;
        Ok(format!("{} stopped and started anew", self.dut.name))
    }

    fn has_processes(&self) -> bool {
        true
    }
}

fn place_of(links: &Option<Links>) -> Place<'_> {
    let namespace: Option<&NetNs> = links.as_ref().map(|links| &links.dut().namespace);
    let cores = links.as_ref().map_or(&[][..], |links| &links.spec().dut_cores);
    Place { namespace, cores, ..Place::default() }
}

/// Starts it and waits until it is ready.
fn start(command: &Command, name: &str, place: &Place<'_>) -> Result<Process, DutError> {
    let process = place.start(&command.start)?;
    let deadline = Instant::now() + Duration::from_nanos(command.ready_ns);
    loop {
        let left = deadline.saturating_duration_since(Instant::now()).max(PROBE_GAP);
        let probed = match command.ready.as_slice() {
            [] => Ok(String::new()),
            ready => place.run_for(ready, None, left),
        };
        if let Some(status) = process.ended() {
            return Err(died(name, status, &process));
        }
        match probed {
            Ok(_) => return Ok(process),
            Err(error @ DutError::Missing { .. }) => return Err(error),
            Err(error) if Instant::now() >= deadline => {
                let how = format!("was not ready in {} ms ({error})", command.ready_ns / 1_000_000);
                return Err(DutError::Command { command: command.start.join(" "), how, output: process.output() });
            }
            Err(_) => std::thread::sleep(PROBE_GAP),
        }
    }
}

/// The file name of the program.
fn name_of(command: &Command) -> Result<String, DutError> {
    let program = command.start.first().and_then(|program| program.rsplit('/').next()).unwrap_or_default();
    match program {
        "" => Err(DutError::Unsupported("a command has to be given that starts the device".into())),
        name => Ok(name.to_owned()),
    }
}

fn filled_in(command: &Command, ingress: &str, egress: &str) -> Command {
    let fill = |words: &Vec<String>| {
        words.iter().map(|word| word.replace("{in}", ingress).replace("{out}", egress)).collect::<Vec<String>>()
    };
    Command {
        start: fill(&command.start),
        ready: fill(&command.ready),
        ready_ns: command.ready_ns,
        counters: fill(&command.counters),
        stop: fill(&command.stop),
        version: fill(&command.version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_interfaces_are_filled_into_every_word() {
        let command = Command {
            start: vec!["x".into(), "--vdev=a,iface={in}".into(), "{in}-{out}".into()],
            stop: vec!["{out}".into()],
            ..Command::default()
        };
        let filled = filled_in(&command, "lr-in", "lr-out");
        assert_eq!(filled.start, ["x", "--vdev=a,iface=lr-in", "lr-in-lr-out"]);
        assert_eq!(filled.stop, ["lr-out"]);
        assert_eq!(name_of(&Command { start: vec!["/a/b/c".into()], ..Command::default() }).expect("a name"), "c");
        assert!(name_of(&Command::default()).is_err());
    }
}
