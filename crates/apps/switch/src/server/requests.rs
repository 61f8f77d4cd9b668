//! From a request to its answer.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use linerate_port::SpecError;
use linerate_wire::MacAddress;
use serde::Serialize;
use serde_json::{Value, json};

use crate::config::{PortConfig, is_name};
use crate::document::{DropDocument, PortDocument, Snapshot};
use crate::protocol::{Refusal, RefusalKind, Request, What};
use crate::words::Word;

use super::client::Client;
use super::{LEASES_MAX, Server, show};

impl Server {
    pub(super) fn answer(&mut self, client: &mut Client, request: Request) -> Result<Value, Refusal> {
        match request {
            Request::Show { what, after } => self.show(what, after.unwrap_or(0)),
            Request::AddPort { name, spec, settings } => {
                let config = PortConfig { name, spec, settings };
                self.add_port(config, None).map(|name| json!({ "port": name }))
            }
            Request::RemovePort { port } => self.remove_port(&port),
            Request::Set { port, settings } => self.set(port, settings),
            Request::AddMac { mac, port, vlan } => self.add_mac(&mac, port, vlan.unwrap_or(0)),
            Request::RemoveMac { mac, vlan } => self.remove_mac(&mac, vlan.unwrap_or(0)),
            Request::FlushMacs { port } => self.flush_macs(port),
            Request::AddMirror { mirror } => self.add_mirror(mirror).map(|number| json!({ "mirror": number })),
            Request::RemoveMirror { mirror } => self.remove_mirror(mirror).map(|()| json!({})),
            Request::Attach { port } => self.attach(client, port),
            Request::Stop {} => {
                self.stop.store(true, Ordering::Relaxed);
                Ok(json!({}))
            }
        }
    }

    /// Adds a port; returns its name.
    pub(crate) fn add_port(&mut self, mut config: PortConfig, memif: Option<u32>) -> Result<String, Refusal> {
        let name = config.name();
        if !is_name(&name) {
            let hint = "letters, digits, - and _, at most 32 of them";
            return Err(Refusal::new(format!("{name:?} is no name for a port"), hint));
        }
        let wanted = name.clone();
        let taken =
            self.handle.call(move |hub| hub.line(&wanted).is_some())? || self.state.keeper.find(&name).is_some();
        if taken {
            let refusal = Refusal::new(format!("port {name} is in use"), "choose another name, or remove it first");
            return Err(refusal.of_kind(RefusalKind::InUse));
        }
        config.name = Some(name.clone());
        self.open_port(config, memif)?;
        Ok(name)
    }

    fn remove_port(&mut self, name: &str) -> Result<Value, Refusal> {
        let wanted = name.to_owned();
        let known = self.handle.call(move |hub| hub.line(&wanted).is_some())?;
        if !known && self.state.keeper.find(name).is_none() {
            return Err(self.no_port(name));
        }
        self.leave(name);
        Ok(json!({}))
    }

    fn set(&mut self, port: Option<String>, changes: BTreeMap<String, Word>) -> Result<Value, Refusal> {
        let Some(name) = port else { return self.set_switch(&changes) };
        let wanted = name.clone();
        let changed = self.handle.call(move |hub| hub.change(&wanted, &changes))?;
        match changed {
            Some(done) => done.map(|()| json!({})),
            None => Err(self.no_port(&name)),
        }
    }

    pub(crate) fn add_mac(&mut self, mac: &str, port: String, vlan: u16) -> Result<Value, Refusal> {
        let mac = address(mac)?;
        let wanted = port.clone();
        let added = self.handle.call(move |hub| {
            let index = hub.line(&wanted)?.index;
            Some(hub.switch.add_static(vlan, mac, index).map_err(|error| Refusal::new(error.to_string(), "")))
        })?;
        match added {
            Some(done) => done.map(|()| json!({})),
            None => Err(self.no_port(&port)),
        }
    }

    fn remove_mac(&mut self, mac: &str, vlan: u16) -> Result<Value, Refusal> {
        let address = address(mac)?;
        if self.handle.call(move |hub| hub.switch.forget(vlan, address))? {
            return Ok(json!({}));
        }
        Err(Refusal::new(format!("{mac} is not in the table of VLAN {vlan}"), "show macs lists what is"))
    }

    fn flush_macs(&mut self, port: Option<String>) -> Result<Value, Refusal> {
        let wanted = port.clone();
        let flushed = self.handle.call(move |hub| {
            let index = match wanted {
                Some(name) => Some(hub.line(&name)?.index),
                None => None,
            };
            hub.switch.flush_macs(index);
            Some(())
        })?;
        flushed.map(|()| json!({})).ok_or_else(|| self.no_port(&port.unwrap_or_default()))
    }

    /// A memif port for whoever holds this connection.
    fn attach(&mut self, client: &mut Client, name: String) -> Result<Value, Refusal> {
        let waiting: Vec<u32> = self.state.keeper.waiting.iter().filter_map(|waiting| waiting.memif).collect();
        let mut used: Vec<u32> =
            self.handle.call(|hub| hub.lines.iter().filter_map(|line| line.memif).collect::<Vec<u32>>())?;
        used.extend(waiting);
        if used.len() >= LEASES_MAX {
            return Err(Refusal::new("the switch has given out all ports that it can", ""));
        }
        let id = (0..=u32::MAX).find(|id| !used.contains(id)).unwrap_or(0);
        let named = |error: SpecError| Refusal::new(error.to_string(), "");
        let spec = linerate_ports::memif(&self.occupied.place().memif());
        let spec = spec.with("id", &id.to_string()).map_err(named)?;
        let config = PortConfig { name: Some(name), spec: spec.to_string(), settings: BTreeMap::new() };
        let name = self.add_port(config, Some(id))?;
        client.leases.push(name.clone());
        Ok(json!({ "port": name, "spec": spec.with("role", "client").map_err(named)?.to_string(), "id": id }))
    }

    fn show(&mut self, what: What, after: u64) -> Result<Value, Refusal> {
        match what {
            What::Ports => document(self.ports()?),
            What::Stats => document(self.snapshot()?),
            What::Macs => document(self.handle.call(move |hub| show::macs(hub, after))?),
            What::Vlans => document(self.handle.call(|hub| show::vlans(hub))?),
            What::Latency => document(self.handle.call(|hub| show::latency(hub))?),
            What::Drops => document(self.drops()?),
            What::Mirrors => document(self.mirror_documents()?),
        }
    }

    /// All ports, with those that are out.
    fn ports(&self) -> Result<Vec<PortDocument>, Refusal> {
        let mut documents = self.handle.call(show::ports)?;
        show::add_port_drops(&self.handle, &mut documents)?;
        documents.extend(self.ports_out());
        Ok(documents)
    }

    fn ports_out(&self) -> impl Iterator<Item = PortDocument> {
        self.state.keeper.waiting.iter().map(|waiting| PortDocument {
            name: waiting.config.name(),
            spec: waiting.config.spec.clone(),
            state: format!("down: {}", waiting.why),
            ..PortDocument::default()
        })
    }

    /// Everything at one moment.
    fn snapshot(&self) -> Result<Snapshot, Refusal> {
        let name = self.occupied.place().name();
        let mut snapshot = show::snapshot(&self.handle, name, self.started_ns, self.core_pinned)?;
        snapshot.ports.extend(self.ports_out());
        Ok(snapshot)
    }

    fn drops(&self) -> Result<Vec<DropDocument>, Refusal> {
        let mut rows = self.handle.call(|hub| show::drops(hub))?;
        for port in self.ports()? {
            for (at, places) in [("port-receive", &port.port_rx_drops), ("port-transmit", &port.port_tx_drops)] {
                rows.extend(places.iter().map(|lost| DropDocument {
                    port: port.name.clone(),
                    at: at.into(),
                    reason: format!("{}: {}", lost.place, lost.cause),
                    packets: lost.packets,
                }));
            }
        }
        Ok(rows)
    }

    fn no_port(&self, name: &str) -> Refusal {
        let names = self.handle.call(|hub| hub.lines.iter().map(|line| line.name().to_owned()).collect::<Vec<_>>());
        let hint = match names.unwrap_or_default() {
            names if names.is_empty() => "there are none".into(),
            names => format!("there are {}", names.join(", ")),
        };
        Refusal::new(format!("there is no port {name}"), hint)
    }
}

fn address(text: &str) -> Result<MacAddress, Refusal> {
    text.parse().map_err(|error: linerate_wire::MacParseError| Refusal::new(error.to_string(), ""))
}

fn document(value: impl Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(value).map_err(|error| Refusal::new(error.to_string(), ""))
}
