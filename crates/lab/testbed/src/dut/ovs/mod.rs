//! Open vSwitch with a datapath in user space, started privately: a database and a switch of its own, with their sockets in a folder of
//! their own. Between interfaces, in the device's namespace, that is the netdev datapath by AF_PACKET; with memory that it shares with the
//! tester it is DPDK's, by memif. A system-wide Open vSwitch is neither used nor touched.

mod counters;
mod daemons;

use std::collections::BTreeMap;

use linerate_experiment::DutSettings;
use linerate_experiment::section::Section;
use linerate_report::{Dut, FLOW_MATCHES};
use linerate_sys::netns::NetNs;

use super::flow_table::{self, ENTRIES_READ_MAX, ENTRY_MAX, FlowSwitch};
use super::kind::Settings;
use super::links::{self, Links};
use super::switch_ports::{SwitchPorts, dut_cores};
use super::tools::{Place, TOOL_MAX};
use super::{Built, Device, DutError, Path, Shown};
use crate::switches::{SwitchSource, of_ports};
use crate::topology::{EGRESS_INTERFACE, Forwarding, INGRESS_INTERFACE, MemoryPath, Topology, TopologySpec};

use daemons::Daemons;

const NAME: &str = "Open vSwitch";
const PROGRAM: &str = "ovs-vswitchd";
/// By which queue pair of a port the polling thread sends: the main thread has the first one.
const POLLING_QUEUE: u32 = 1;

/// Open vSwitch with a datapath in user space, started privately.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OpenVswitch(pub FlowSwitch);

impl DutSettings for OpenVswitch {
    fn shares_memory(&self) -> bool {
        self.0.ports == SwitchPorts::Memif
    }

    fn flow_entries(&self) -> Option<u32> {
        Some(self.0.entries)
    }

    /// With DPDK it polls without end.
    fn sleeps_at_rest(&self) -> bool {
        !self.shares_memory()
    }
}

impl Settings for OpenVswitch {
    const WORD: &str = "openvswitch";
    const ABOUT: &str = "Open vSwitch with a datapath in user space, started privately";

    fn read(table: &Section<'_>) -> Vec<(String, Self)> {
        let known = [("packet", SwitchPorts::Packet), ("memif", SwitchPorts::Memif)];
        let ports = table.word("ports", "kind of Open vSwitch's ports", &known).unwrap_or_default();
        FlowSwitch::read(table, ports).into_iter().map(|(word, switch)| (word, Self(switch))).collect()
    }

    fn build(&self, spec: &TopologySpec) -> Result<Built, DutError> {
        let switch = self.0;
        let (topology, at) = match switch.ports {
            SwitchPorts::Memif => {
                let namespace =
                    NetNs::anonymous().map_err(DutError::system("make a network namespace for Open vSwitch"))?;
                (None, At::Memory { cores: dut_cores(spec), namespace })
            }
            _ => {
                // Before all else, because it says what is not installed.
                version(PROGRAM)?;
                let topology = Topology::switched(spec, Forwarding::by_process(NAME))?;
                let links = Links::of(&topology, spec)?;
                (Some(topology), At::Interfaces(Box::new(links)))
            }
        };
        let version = version(at.program())?;
        let daemons = Daemons::start(&at)?;
        let mut configuration = if topology.is_some() { links::configuration(spec) } else { BTreeMap::new() };
        configuration.insert("datapath".into(), at.words().into());
        configuration.insert("bridge".into(), "fail_mode=secure, no controller".into());
        configuration.insert("flow entries".into(), flow_table::words(switch.entries));
        let path = match topology {
            Some(topology) => Path::Namespaces(Box::new(topology)),
            None => {
                let source = SwitchSource::OpenVswitch(daemons.ports_command());
                Path::Memory(Box::new(MemoryPath::through(daemons.folder(), source, POLLING_QUEUE)))
            }
        };
        let entries = flow_table::lines(switch.entries, spec);
        let dut = Dut { name: NAME.into(), version, configuration };
        let device = SwitchDevice { at, daemons, dut, entries, entry_count: switch.entries, settled: None };
        device.set_up()?;
        Ok(Built { path, device: Box::new(device) })
    }
}

fn version(program: &str) -> Result<Option<String>, DutError> {
    let printed = Place::default().run(&[program.to_owned(), "--version".to_owned()], None)?;
    Ok(printed.lines().next().map(|line| line.rsplit(' ').next().unwrap_or(line).to_owned()))
}

/// Where it works.
enum At {
    /// Between two interfaces.
    Interfaces(Box<Links>),
    /// Between two sockets of shared memory.
    Memory {
        /// The first of these is its polling thread's; none: Open vSwitch chooses.
        cores: Vec<usize>,
        /// Its own. Each bridge of its user-space datapath makes an interface of the same name: this host may have a `br0`, and so may
        /// another run.
        namespace: NetNs,
    },
}

impl At {
    fn program(&self) -> &'static str {
        match self {
            Self::Interfaces(_) => PROGRAM,
            Self::Memory { .. } => "ovs-vswitchd-dpdk",
        }
    }

    fn words(&self) -> &'static str {
        match self {
            Self::Interfaces(_) => "netdev (userspace), AF_PACKET ports, forwarding in the main thread",
            Self::Memory { .. } => "netdev with DPDK, no huge pages, one polling thread; memif, shared with the tester",
        }
    }
}

struct SwitchDevice {
    at: At,
    daemons: Daemons,
    dut: Dut,
    /// A line each.
    entries: String,
    /// Those by address.
    entry_count: u32,
    /// What the ports had counted when the flows' numbers were brought up to date last.
    settled: Option<String>,
}

impl SwitchDevice {
    /// The bridge and its two ports.
    fn set_up(&self) -> Result<(), DutError> {
        let names = [INGRESS_INTERFACE, EGRESS_INTERFACE];
        let mut add = "add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure".to_owned();
        for (number, (name, socket)) in names.into_iter().zip(["in", "out"]).enumerate() {
            add += &format!(" -- add-port br0 {name} -- set Interface {name} ofport_request={}", number + 1);
            if let At::Memory { .. } = self.at {
                let socket = MemoryPath::switch_socket(self.daemons.folder(), socket);
                let socket = format!("socket={}", socket.display());
                let memif = [&format!("net_memif{number}"), "role=server", &socket, "socket-abstract=no"].join(",");
                add += &format!(" type=dpdk options:n_rxq=2 options:dpdk-devargs={memif}");
            }
        }
        self.daemons.configure(&self.at, &add)?;
        for (name, number) in names.into_iter().zip(["1", "2"]) {
            let answer = self.daemons.configure(&self.at, &format!("get Interface {name} ofport error"))?;
            let mut lines = answer.lines().map(str::trim);
            let (port, error) = (lines.next().unwrap_or_default(), lines.next().unwrap_or("[]"));
            if port != number || error != "[]" {
                let text = format!("{NAME} cannot use {name} as port {number}: it is port {port}, error {error}");
                return Err(DutError::Unsupported(text));
            }
        }
        self.daemons.put_polling_threads_ahead();
        self.add_flows()
    }

    /// Waits until the flows' numbers are up to date, by a round of the revalidators, and returns what the ports counted. Numbers to which no
    /// packet was added since the last time are.
    fn settle(&mut self) -> Result<String, DutError> {
        let ports = self.daemons.openflow(&self.at, &["--no-names", "dump-ports"], &[])?;
        if self.settled.as_ref() != Some(&ports) {
            self.daemons.control(&self.at, "revalidator/wait")?;
            self.settled = Some(ports.clone());
        }
        Ok(ports)
    }

    fn add_flows(&self) -> Result<(), DutError> {
        self.daemons.add_flows(&self.at, &self.entries, TOOL_MAX + ENTRY_MAX * self.entry_count)
    }

    /// The number of packets that entries of a port have matched.
    fn matched(&self, of: &str) -> Result<u64, DutError> {
        let aggregate = self.daemons.openflow(&self.at, &["dump-aggregate"], &[of])?;
        counters::of_aggregate(&aggregate).ok_or_else(|| {
            DutError::Unsupported(format!("`ovs-ofctl dump-aggregate` printed no packets: {}", aggregate.trim()))
        })
    }
}

impl Device for SwitchDevice {
    fn describe(&self) -> Dut {
        self.dut.clone()
    }

    /// Packets that flow entries matched, of the ports, and how the datapath's lookups ended.
    fn counters(&mut self) -> Result<BTreeMap<String, u64>, DutError> {
        self.daemons.check()?;
        let ports = self.settle()?;
        let mut found = BTreeMap::new();
        let mut all = 0;
        // Each entry is of one of the two.
        for port in ["in_port=1", "in_port=2"] {
            let matched = self.matched(port)?;
            all += matched;
            found.insert(format!("flow {port}"), matched);
        }
        found.insert(FLOW_MATCHES.to_owned(), all);
        let datapath = self.daemons.control(&self.at, "dpctl/show")?;
        found.extend(of_ports(&ports));
        found.extend(counters::of_datapath(&datapath));
        Ok(found)
    }

    fn check(&mut self) -> Result<(), DutError> {
        self.daemons.check()?;
        match &self.at {
            At::Interfaces(links) => links.check(NAME),
            At::Memory { .. } => Ok(()),
        }
    }

    fn reset(&mut self) -> Result<String, DutError> {
        if let At::Memory { .. } = self.at {
            return Err(DutError::NoReset("Open vSwitch with DPDK, whose counters begin anew,".into()));
        }
        self.daemons.restart_switch(&self.at)?;
        self.settled = None;
        self.add_flows()?;
        Ok("ovs-vswitchd stopped and started anew, its flows set again".into())
    }

    fn show(&mut self) -> Result<Vec<Shown>, DutError> {
        let flows = if self.entry_count <= ENTRIES_READ_MAX { "dump-flows" } else { "dump-aggregate" };
        let mut shown = Vec::new();
        self.settle()?;
        for command in [flows, "dump-tables", "dump-ports"] {
            let text = self.daemons.openflow(&self.at, &["--no-names", command], &[])?;
            shown.push(Shown { command: format!("ovs-ofctl {command} br0"), text });
        }
        for command in ["dpctl/show", "dpif-netdev/pmd-stats-show"] {
            let text = self.daemons.control(&self.at, command)?;
            shown.push(Shown { command: format!("ovs-appctl {command}"), text });
        }
        Ok(shown)
    }

    fn has_processes(&self) -> bool {
        true
    }
}
