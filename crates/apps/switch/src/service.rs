//! The L2 switch under control: its requests, and its settings.

use linerate_control::{Answer, ControlError, Handoff, PortConfig, PortManager, Service, Settings, View, read_command};
use linerate_l2::PortIndex;
use linerate_port::Caps;
use linerate_switch_loop::SteeredSwitch;
use linerate_wire::MacAddress;
use serde::Serialize;
use serde_json::{Value, json};

use crate::document::{DropDocument, PortDocument, Snapshot};
use crate::mirrors::Mirrors;
use crate::request::{Request, What};
use crate::settings::port_settings;
use crate::{show, table};

/// The state of an L2 switch that its datapath does not have.
#[derive(Default)]
pub(crate) struct L2Service {
    pub(crate) mirrors: Mirrors,
}

impl Service for L2Service {
    type Datapath = SteeredSwitch;

    fn add_port(switch: &mut SteeredSwitch, config: &PortConfig, caps: &Caps) -> Result<PortIndex, ControlError> {
        let index = switch.add_named_port(&config.name(), port_settings(&config.settings, caps)?).map_err(say)?;
        switch.note_port(index, &config.name(), 0);
        Ok(index)
    }

    fn add_handoff(
        switch: &mut SteeredSwitch,
        config: &PortConfig,
        handoff: Handoff,
    ) -> Result<PortIndex, ControlError> {
        let name = config.name();
        let index = match handoff {
            Handoff::ToPort => switch.add_ring_to_worker(&name).map_err(say)?,
            Handoff::ForPort => switch.add_ring_from_worker(&name),
            Handoff::ToWorker(_) | Handoff::FromWorker => switch.reserve(),
        };
        let pool = switch.pool().clone();
        handoff.note(switch, index, &name, 0, &pool);
        Ok(index)
    }

    fn set_port(
        switch: &mut SteeredSwitch,
        port: PortIndex,
        settings: &Settings,
        caps: &Caps,
    ) -> Result<(), ControlError> {
        let number = switch.port_of(port).ok_or_else(|| ControlError::new("the port was just removed", ""))?;
        switch.set_port(number, port_settings(settings, caps)?).map_err(say)
    }

    fn set_handoff(
        switch: &mut SteeredSwitch,
        ring: PortIndex,
        settings: &Settings,
        caps: &Caps,
    ) -> Result<(), ControlError> {
        // Rings of the steering have no settings.
        if switch.port_of(ring).is_some() { Self::set_port(switch, ring, settings, caps) } else { Ok(()) }
    }

    fn answer(&mut self, ports: &mut PortManager<Self>, request: Value) -> Result<Answer, ControlError> {
        match read_command(request)? {
            Request::Show { what, after } => return self.show(ports, what, after.unwrap_or(0)).map(Answer::from),
            Request::AddMac { mac, port, vlan } => add_mac(ports, &mac, &port, vlan.unwrap_or(0))?,
            Request::RemoveMac { mac, vlan } => remove_mac(ports, &mac, vlan.unwrap_or(0))?,
            Request::FlushMacs { port: None } => ports.view.call(|worker| worker.datapath.flush_macs(None))?,
            Request::FlushMacs { port: Some(port) } => {
                let number = port_number(ports, &port)?;
                ports.view.call(move |worker| worker.datapath.flush_macs(Some(number)))?;
            }
            Request::AddMirror { mirror } => {
                return Ok(json!({ "mirror": self.mirrors.add(ports, mirror)? }).into());
            }
            Request::RemoveMirror { mirror } => self.mirrors.remove(ports, mirror)?,
        }
        Ok(json!({}).into())
    }

    fn set(&mut self, ports: &mut PortManager<Self>, settings: &Settings) -> Result<(), ControlError> {
        table::set(&ports.view, settings)
    }

    fn port_removed(&mut self, _: &mut PortManager<Self>, name: &str) {
        self.mirrors.forget_port(name);
    }
}

impl L2Service {
    fn show(&self, ports: &PortManager<Self>, what: What, after: u64) -> Result<Value, ControlError> {
        let view = &ports.view;
        match what {
            What::Ports => document(port_list(ports)?),
            What::Stats => document(snapshot(ports)?),
            What::Macs => document(show::macs(view, after)?),
            What::Vlans => document(show::vlans(&views(ports))?),
            What::Latency => document(show::latency(&views(ports))?),
            What::Drops => document(drops(ports)?),
            What::Mirrors => document(self.mirrors.documents(ports)?),
        }
    }
}

/// All workers.
fn views(ports: &PortManager<L2Service>) -> Vec<View<SteeredSwitch>> {
    ports.views().cloned().collect()
}

/// Number in the switch of the port of that name.
pub(crate) fn port_number(ports: &PortManager<L2Service>, name: &str) -> Result<PortIndex, ControlError> {
    // Its error says which ports there are.
    ports.index(name)?;
    let wanted = name.to_owned();
    let number = ports.view.call(move |worker| worker.datapath.port_named(&wanted))?;
    number.ok_or_else(|| ControlError::new(format!("port {name} was just removed"), ""))
}

/// All ports, with those that are out.
fn port_list(ports: &PortManager<L2Service>) -> Result<Vec<PortDocument>, ControlError> {
    let mut documents = show::ports(&views(ports))?;
    documents.extend(ports_out(ports));
    Ok(documents)
}

fn ports_out(ports: &PortManager<L2Service>) -> impl Iterator<Item = PortDocument> {
    ports.ports_out().map(|(config, why)| PortDocument {
        name: config.name(),
        spec: config.spec.clone(),
        state: format!("down: {why}"),
        ..PortDocument::default()
    })
}

/// Everything at one moment.
fn snapshot(ports: &PortManager<L2Service>) -> Result<Snapshot, ControlError> {
    let mut snapshot = show::snapshot(&views(ports))?;
    snapshot.ports.extend(ports_out(ports));
    Ok(snapshot)
}

fn drops(ports: &PortManager<L2Service>) -> Result<Vec<DropDocument>, ControlError> {
    let mut rows = show::drops(&views(ports))?;
    for port in port_list(ports)? {
        for (at, places) in [("port-rx", &port.port_rx_drops), ("port-tx", &port.port_tx_drops)] {
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

/// Adds a static address.
pub(crate) fn add_mac(ports: &PortManager<L2Service>, mac: &str, port: &str, vlan: u16) -> Result<(), ControlError> {
    let (mac, number) = (address(mac)?, port_number(ports, port)?);
    ports.view.call(move |worker| worker.datapath.add_static(vlan, mac, number))?.map_err(say)
}

fn remove_mac(ports: &PortManager<L2Service>, mac: &str, vlan: u16) -> Result<(), ControlError> {
    let address = address(mac)?;
    if ports.view.call(move |worker| worker.datapath.forget(vlan, address))? {
        return Ok(());
    }
    Err(ControlError::new(format!("{mac} is not in the table of VLAN {vlan}"), "show macs lists the addresses"))
}

fn address(text: &str) -> Result<MacAddress, ControlError> {
    text.parse().map_err(|error: linerate_wire::MacParseError| say(error))
}

fn document(value: impl Serialize) -> Result<Value, ControlError> {
    serde_json::to_value(value).map_err(say)
}

fn say(error: impl std::fmt::Display) -> ControlError {
    ControlError::new(error.to_string(), "")
}
