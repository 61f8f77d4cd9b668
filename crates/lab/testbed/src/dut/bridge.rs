//! The kernel's bridge, with two ports.

use std::collections::BTreeMap;

use linerate_experiment::DutSettings;
use linerate_report::Dut;
use linerate_sys::netdev::Netdev;

use super::kind::Settings;
use super::links::{self, Links};
use super::stations::Stations;
use super::{Built, Device, DutError, Path, kernel_release};
use crate::netlink::Netlink;
use crate::sysctl;
use crate::topology::{Forwarding, Topology, TopologySpec};

/// The bridge's own interface.
const BRIDGE_INTERFACE: &str = "lr-br";

/// The Linux kernel's bridge.
#[derive(Debug, Default, PartialEq)]
pub struct Bridge;

impl DutSettings for Bridge {}

impl Settings for Bridge {
    const WORD: &str = "bridge";
    const ABOUT: &str = "the Linux kernel's bridge";

    fn build(&self, spec: &TopologySpec) -> Result<Built, DutError> {
        let topology = Topology::switched(spec, Forwarding::switched())?;
        let links = Links::of(&topology, spec)?;
        join(&links)?;
        links.wait_running()?;
        let stations = Stations::of(&topology)?;
        let mut configuration = links::configuration(spec);
        configuration.insert(
            "bridge".into(),
            "two ports, no spanning tree, no VLANs, no multicast snooping, addresses learned".into(),
        );
        let filtering = links.dut().namespace.run(|| sysctl::read("net/bridge/bridge-nf-call-iptables"));
        let filtering = filtering
            .ok()
            .flatten()
            .map_or("not in this kernel".to_owned(), |value| format!("{value} (the kernel's default)"));
        configuration.insert("bridge-nf-call-iptables".into(), filtering);
        let mut device = BridgeDevice { links, stations, configuration };
        device.learn()?;
        Ok(Built { path: Path::Namespaces(Box::new(topology)), device: Box::new(device) })
    }
}

fn join(links: &Links) -> Result<(), DutError> {
    let namespace = &links.dut().namespace;
    let mut netlink = Netlink::open_in(namespace)?;
    netlink.create_bridge(BRIDGE_INTERFACE)?;
    let index = namespace.run(|| Netdev::open(BRIDGE_INTERFACE)?.index()).and_then(|index| index);
    let bridge = index.map_err(DutError::system("find the bridge"))?;
    for port in links.interfaces() {
        netlink.add_to_bridge(port.index, bridge)?;
    }
    netlink.set_up(bridge, true)?;
    Ok(())
}

struct BridgeDevice {
    links: Links,
    stations: Stations,
    configuration: BTreeMap<String, String>,
}

impl Device for BridgeDevice {
    fn describe(&self) -> Dut {
        Dut { name: "Linux kernel bridge".into(), version: kernel_release(), configuration: self.configuration.clone() }
    }

    fn counters(&mut self) -> Result<BTreeMap<String, u64>, DutError> {
        self.links.counters()
    }

    fn check(&mut self) -> Result<(), DutError> {
        self.links.check("the kernel bridge")
    }

    /// A port that goes down forgets its stations.
    fn reset(&mut self) -> Result<String, DutError> {
        let done = self.links.down_and_up()?;
        self.links.wait_running()?;
        Ok(done)
    }

    fn is_steered(&self) -> bool {
        true
    }

    fn learn(&mut self) -> Result<(), DutError> {
        self.stations.announce()
    }
}
