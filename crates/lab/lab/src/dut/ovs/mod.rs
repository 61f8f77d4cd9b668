//! Open vSwitch with its userspace datapath, started privately: a database and a switch of its own, with their sockets in a
//! folder of their own, in the device's namespace. A system-wide Open vSwitch is neither used nor touched.

mod counters;
mod daemons;

use std::collections::BTreeMap;

use linerate_experiment::TopologyKind;
use linerate_report::Dut;

use super::links::{self, Links};
use super::tools::{Place, words};
use super::{Built, Device, DutError, Path};
use crate::topology::{Carrier, EGRESS_INTERFACE, INGRESS_INTERFACE, Topology, TopologySpec};

use daemons::Daemons;

const NAME: &str = "Open vSwitch";

/// Nothing but these two: what comes in at one port goes out at the other.
const FLOWS: [&str; 2] = ["in_port=1,actions=output:2", "in_port=2,actions=output:1"];

pub(super) fn build(spec: &TopologySpec) -> Result<Built, DutError> {
    if spec.ends != TopologyKind::Namespaces {
        return Err(DutError::Unsupported("Open vSwitch needs the topology `namespaces`".into()));
    }
    // First, because it says what is not installed.
    let version = Place::default().run(&words("ovs-vswitchd --version"), None)?;
    let version = version.lines().next().map(|line| line.rsplit(' ').next().unwrap_or(line).to_owned());
    let topology = Topology::switched(spec, Carrier::Process(NAME.into()))?;
    let links = Links::of(&topology, spec)?;
    let daemons = Daemons::start(&links)?;
    let mut configuration = links::configuration(spec);
    configuration
        .insert("datapath".into(), "netdev (userspace), AF_PACKET ports, forwarding in the main thread".into());
    configuration.insert("bridge".into(), "fail_mode=secure, no controller".into());
    let mut device = Switch { links, daemons, version, configuration };
    device.set_up()?;
    device.configuration.insert("flows".into(), FLOWS.join("; "));
    Ok(Built { path: Path::Namespaces(Box::new(topology)), device: Box::new(device) })
}

struct Switch {
    links: Links,
    daemons: Daemons,
    version: Option<String>,
    configuration: BTreeMap<String, String>,
}

impl Switch {
    /// The bridge and its two ports.
    fn set_up(&self) -> Result<(), DutError> {
        let add = format!(
            "add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure \
             -- add-port br0 {INGRESS_INTERFACE} -- set Interface {INGRESS_INTERFACE} ofport_request=1 \
             -- add-port br0 {EGRESS_INTERFACE} -- set Interface {EGRESS_INTERFACE} ofport_request=2"
        );
        self.daemons.configure(&self.links, &add)?;
        for (name, number) in [(INGRESS_INTERFACE, "1"), (EGRESS_INTERFACE, "2")] {
            let answer = self.daemons.configure(&self.links, &format!("get Interface {name} ofport error"))?;
            let mut lines = answer.lines().map(str::trim);
            let (port, error) = (lines.next().unwrap_or_default(), lines.next().unwrap_or("[]"));
            if port != number || error != "[]" {
                let text = format!("{NAME} cannot use {name} as port {number}: it is port {port}, error {error}");
                return Err(DutError::Unsupported(text));
            }
        }
        self.add_flows()
    }

    fn add_flows(&self) -> Result<(), DutError> {
        for flow in FLOWS {
            self.daemons.openflow(&self.links, &["add-flow"], &[flow])?;
        }
        Ok(())
    }
}

impl Device for Switch {
    fn describe(&self) -> Dut {
        Dut { name: NAME.into(), version: self.version.clone(), configuration: self.configuration.clone() }
    }

    /// Packets of both flows, of the ports, and how the datapath's lookups ended.
    fn counters(&mut self) -> Result<BTreeMap<String, u64>, DutError> {
        self.daemons.check()?;
        // The flows' numbers are brought up to date by a round of the revalidators.
        self.daemons.control(&self.links, "revalidator/wait")?;
        let flows = self.daemons.openflow(&self.links, &["--no-names", "dump-flows"], &[])?;
        let ports = self.daemons.openflow(&self.links, &["--no-names", "dump-ports"], &[])?;
        let datapath = self.daemons.control(&self.links, "dpctl/show")?;
        let mut found = counters::of_flows(&flows);
        found.extend(counters::of_ports(&ports));
        found.extend(counters::of_datapath(&datapath));
        Ok(found)
    }

    fn check(&mut self) -> Result<(), DutError> {
        self.daemons.check()?;
        self.links.check(NAME)
    }

    fn reset(&mut self) -> Result<String, DutError> {
        self.daemons.restart_switch(&self.links)?;
        self.add_flows()?;
        Ok("ovs-vswitchd stopped and started anew, its flows set again".into())
    }

    fn needs_warm_up(&self) -> bool {
        true
    }
}
