//! The Linux kernel as a router.

use std::collections::BTreeMap;

use linerate_experiment::{Firewall, TopologyKind};
use linerate_report::Dut;

use super::{Built, Device, DutError, Path, kernel_release};
use crate::dut::links::{self, Links};
use crate::proc_net::ProcNet;
use crate::topology::{Topology, TopologySpec};

pub(super) fn build(firewall: &Firewall, spec: &TopologySpec) -> Result<Built, DutError> {
    if spec.ends != TopologyKind::Namespaces {
        return Err(DutError::Unsupported("the kernel router needs the topology `namespaces`".into()));
    }
    let topology = Topology::router(spec)?;
    let links = Links::of(&topology, spec)?;
    let opened = links.dut().namespace.run(ProcNet::of_this_thread).and_then(|opened| opened);
    let counters = opened.map_err(DutError::system("open /proc/net of the router"))?;
    let mut configuration = links::configuration(spec);
    configuration.insert("forwarding".into(), "net.ipv4.ip_forward=1, rp_filter off, static neighbours".into());
    if *firewall != Firewall::default() {
        return Err(DutError::Unsupported("a router with rules cannot be built yet".into()));
    }
    configuration.insert("rules".into(), "none".into());
    Ok(Built {
        path: Path::Namespaces(Box::new(topology)),
        device: Box::new(Router { links, counters, configuration }),
    })
}

struct Router {
    links: Links,
    counters: ProcNet,
    configuration: BTreeMap<String, String>,
}

impl Device for Router {
    fn describe(&self) -> Dut {
        Dut { name: "Linux kernel router".into(), version: kernel_release(), configuration: self.configuration.clone() }
    }

    fn counters(&mut self) -> Result<BTreeMap<String, u64>, DutError> {
        let mut counters = self.counters.read().map_err(DutError::system("read /proc/net of the router"))?;
        counters.retain(|name, _| OWN.iter().any(|prefix| name.starts_with(prefix)));
        Ok(counters)
    }

    fn check(&mut self) -> Result<(), DutError> {
        self.links.check("the kernel router")
    }

    fn reset(&mut self) -> Result<String, DutError> {
        let done = self.links.down_and_up()?;
        // Both interfaces are up again and have lost these.
        self.links.direct_flows()?;
        Ok(done)
    }

    fn needs_warm_up(&self) -> bool {
        false
    }
}

/// What of `/proc/net` speaks of forwarded packets.
const OWN: [&str; 4] = ["Ip.", "IpExt.", "Icmp.Out", "conntrack."];
