//! The two interfaces of a device in a namespace: looked at, taken down and up again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use linerate_sys::netdev::Netdev;

use super::DutError;
use crate::netlink::Netlink;
use crate::placement;
use crate::threads::{Priority, raise_priority};
use crate::topology::{Dut, Interface, Topology, TopologySpec};

/// How long the links stay down in a reset.
const DOWN: Duration = Duration::from_millis(100);
/// Longest wait for a carrier.
const CARRIER_MAX: Duration = Duration::from_secs(5);

/// A device's interfaces, with what they were made of.
pub(super) struct Links {
    dut: Dut,
    spec: TopologySpec,
}

impl Links {
    pub(super) fn of(topology: &Topology, spec: &TopologySpec) -> Result<Self, DutError> {
        let dut = topology.dut.as_ref().map(Dut::try_clone).transpose();
        let dut = dut.map_err(DutError::system("hold the device's namespace"))?;
        let dut = dut.ok_or_else(|| DutError::Unsupported("this path has no device".into()))?;
        Ok(Self { dut, spec: spec.clone() })
    }

    pub(super) fn dut(&self) -> &Dut {
        &self.dut
    }

    pub(super) fn spec(&self) -> &TopologySpec {
        &self.spec
    }

    /// Both interfaces are there and up.
    pub(super) fn check(&self, name: &str) -> Result<(), DutError> {
        for interface in self.interfaces() {
            let state = self.dut.namespace.run(|| Netdev::open(interface.name)?.is_up()).and_then(|state| state);
            let how = match state {
                Ok(true) => continue,
                Ok(false) => format!("its interface {} is down", interface.name),
                Err(error) => format!("its interface {} is gone: {error}", interface.name),
            };
            return Err(DutError::Died { name: name.into(), how, output: String::new() });
        }
        Ok(())
    }

    /// Takes both interfaces down and, a moment later, up again, with NAPI where it was.
    pub(super) fn down_and_up(&mut self) -> Result<String, DutError> {
        let mut netlink = Netlink::open_in(&self.dut.namespace)?;
        let both = self.has_both()?;
        for interface in self.interfaces() {
            netlink.set_up(interface.index, false)?;
        }
        std::thread::sleep(DOWN);
        for interface in self.interfaces() {
            netlink.set_up(interface.index, true)?;
        }
        self.place(both)?;
        let names: Vec<&str> = self.interfaces().map(|interface| interface.name).into();
        Ok(format!("{} down, {} ms later up", names.join(" and "), DOWN.as_millis()))
    }

    /// Puts the NAPI threads where they were: an interface that got another XDP program has new ones.
    pub(super) fn place_again(&self) -> Result<(), DutError> {
        self.place(self.has_both()?)
    }

    /// Whether the egress has NAPI too, which the tester has given it for load both ways.
    fn has_both(&self) -> Result<bool, DutError> {
        let Dut { namespace, egress, .. } = &self.dut;
        let feature = namespace.run(|| Netdev::open(egress.name)?.feature("rx-gro")).and_then(|feature| feature);
        Ok(feature.map_err(DutError::system(format!("read the offloads of {}", egress.name)))? == Some(true))
    }

    fn place(&self, both: bool) -> Result<(), DutError> {
        let Dut { namespace, ingress, egress, .. } = &self.dut;
        for interface in [Some(ingress), both.then_some(egress)].into_iter().flatten() {
            let placed = placement::place(namespace, interface.name, interface.index, self.spec.placement);
            let mode = placed.map_err(DutError::system("turn on NAPI again"))?;
            // New threads, in the place of some that the tester had put ahead.
            mode.threads().iter().for_each(|thread| raise_priority(*thread, Priority::Nice));
        }
        Ok(())
    }

    /// Waits until the kernel has taken notice of both carriers, which it does up to a second after an interface came up: a port
    /// of a bridge carries nothing before.
    pub(super) fn wait_running(&self) -> Result<(), DutError> {
        let deadline = Instant::now() + CARRIER_MAX;
        for Interface { name, index, .. } in self.interfaces() {
            loop {
                let running = self.dut.namespace.run(|| Netdev::open(name)?.is_running()).and_then(|running| running);
                match running.map_err(DutError::system(format!("read the state of {name}")))? {
                    true => break,
                    false if Instant::now() >= deadline => {
                        return Err(DutError::Unsupported(format!("{name} has no carrier: its other end is down")));
                    }
                    false => std::thread::sleep(Duration::from_millis(5)),
                }
            }
            // Under the lock under which the bridge is told of the carrier.
            Netlink::open_in(&self.dut.namespace)?.link_statistics(*index)?;
        }
        Ok(())
    }

    /// What both interfaces counted: `lr-in rx_packets` and so on.
    pub(super) fn counters(&self) -> Result<BTreeMap<String, u64>, DutError> {
        let mut netlink = Netlink::open_in(&self.dut.namespace)?;
        let mut counters = BTreeMap::new();
        for Interface { name, index, .. } in self.interfaces() {
            let found = netlink.link_statistics(*index)?.counters;
            counters.insert(format!("{name} rx_packets"), found.rx_packets);
            counters.insert(format!("{name} rx_dropped"), found.rx_dropped);
            counters.insert(format!("{name} tx_packets"), found.tx_packets);
            counters.insert(format!("{name} tx_dropped"), found.tx_dropped);
        }
        Ok(counters)
    }

    /// Sets a router's neighbours and routes anew.
    pub(super) fn direct_flows(&self) -> Result<(), DutError> {
        Ok(self.dut.direct_flows(&self.spec)?)
    }

    pub(super) fn interfaces(&self) -> [&Interface; 2] {
        [&self.dut.ingress, &self.dut.egress]
    }
}

/// What the lab sets on the interfaces of every device in a namespace.
pub(super) fn configuration(spec: &TopologySpec) -> BTreeMap<String, String> {
    let interfaces = format!(
        "two veth pairs, MTU {}, {} queue{} each, segmentation offloads and merging by GRO off",
        spec.mtu,
        spec.queues,
        if spec.queues == 1 { "" } else { "s" }
    );
    BTreeMap::from([("interfaces".to_owned(), interfaces)])
}
