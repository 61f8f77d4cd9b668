//! Mirrors: from words to the engine's, with the ports that are opened for them alone.

use linerate_control::{ControlError, PortConfig, PortManager, SettingValue, View};
use linerate_l2::{FlowMatch, Mirror, MirrorCounts, MirrorId, MirrorSelect, PortIndex};
use linerate_switch_loop::SteeredSwitch;

use crate::config::MirrorConfig;
use crate::document::MirrorDocument;
use crate::service::{L2Service, port_number};

/// All mirrors, by the numbers that users see.
#[derive(Default)]
pub(crate) struct Mirrors {
    kept: Vec<Kept>,
    next: u32,
}

struct Kept {
    number: u32,
    config: MirrorConfig,
    /// By worker.
    ids: Vec<MirrorId>,
    /// Name of the port that was opened for it.
    own_port: Option<String>,
}

impl Mirrors {
    /// A port is gone, and with it the mirrors to and from it.
    pub(crate) fn forget_port(&mut self, name: &str) {
        self.kept.retain(|kept| kept.config.from.as_deref() != Some(name) && kept.config.to != name);
    }

    /// Adds a mirror; returns its number.
    pub(crate) fn add(
        &mut self,
        ports: &mut PortManager<L2Service>,
        config: MirrorConfig,
    ) -> Result<u32, ControlError> {
        let number = self.next;
        let flow = flow(&config)?;
        let is_port = ports.views().any(|view| view.table.index(&config.to).is_some());
        let own_port = if is_port { None } else { Some(open_own_port(ports, &config.to, number)?) };
        let to = own_port.as_ref().unwrap_or(&config.to);
        match begin(ports, &config, to, flow) {
            Ok(ids) => {
                self.next += 1;
                self.kept.push(Kept { number, config, ids, own_port });
                Ok(number)
            }
            Err(error) => {
                if let Some(port) = own_port {
                    ports.leave(&port);
                }
                Err(error)
            }
        }
    }

    /// Ends a mirror.
    pub(crate) fn remove(&mut self, ports: &mut PortManager<L2Service>, number: u32) -> Result<(), ControlError> {
        let Some(place) = self.kept.iter().position(|kept| kept.number == number) else {
            return Err(ControlError::new(format!("there is no mirror {number}"), "show mirrors lists them"));
        };
        let kept = self.kept.remove(place);
        end(ports, &kept.ids)?;
        if let Some(port) = kept.own_port {
            ports.leave(&port);
        }
        Ok(())
    }

    pub(crate) fn documents(&self, ports: &PortManager<L2Service>) -> Result<Vec<MirrorDocument>, ControlError> {
        let count = |view: &View<SteeredSwitch>| {
            view.call(|worker| worker.datapath.mirrors().map(|(id, _, counts)| (id, counts)).collect::<Vec<_>>())
        };
        let counted = ports.views().map(count).collect::<Result<Vec<_>, _>>()?;
        let document = |kept: &Kept| {
            let mut counts = MirrorCounts::default();
            for (id, counted) in kept.ids.iter().zip(&counted) {
                let own = counted.iter().find(|(counted, _)| counted == id).map(|(_, own)| *own).unwrap_or_default();
                counts.shown += own.shown;
                counts.copied += own.copied;
            }
            MirrorDocument {
                number: kept.number,
                mirror: kept.config.clone(),
                packets: counts.shown + counts.copied,
                zero_copy: counts.shown,
                copied: counts.copied,
            }
        };
        Ok(self.kept.iter().map(document).collect())
    }
}

/// Begins a mirror in every worker, each of which copies what it forwards.
fn begin(
    ports: &PortManager<L2Service>,
    config: &MirrorConfig,
    to: &str,
    flow: Option<FlowMatch>,
) -> Result<Vec<MirrorId>, ControlError> {
    let from = config.from.as_deref().map(|name| port_number(ports, name)).transpose()?;
    let (select, to) = (select(config, from, flow)?, port_number(ports, to)?);
    let mirror = Mirror { select, to };
    let mut ids = Vec::new();
    for view in ports.views() {
        let mirror = mirror.clone();
        match view.call(move |worker| worker.datapath.add_mirror(mirror))? {
            Ok(id) => ids.push(id),
            Err(error) => {
                end(ports, &ids)?;
                return Err(ControlError::new(error.to_string(), ""));
            }
        }
    }
    Ok(ids)
}

/// Ends a mirror in the first workers.
fn end(ports: &PortManager<L2Service>, ids: &[MirrorId]) -> Result<(), ControlError> {
    for (view, id) in ports.views().zip(ids) {
        let id = *id;
        view.call(move |worker| worker.datapath.remove_mirror(id))?;
    }
    Ok(())
}

/// Opens a port that only gets copies; returns its name.
fn open_own_port(ports: &mut PortManager<L2Service>, spec: &str, number: u32) -> Result<String, ControlError> {
    if !spec.contains(':') {
        let hint = "name a port of the switch, or a port to open, for example file:copy.pcapng";
        return Err(ControlError::new(format!("there is no port {spec}"), hint));
    }
    let name = format!("mirror-{number}");
    let settings = [("monitor".to_string(), SettingValue("yes".into()))].into();
    ports.add_output(PortConfig { name: Some(name.clone()), spec: spec.into(), settings })?;
    Ok(name)
}

fn select(
    config: &MirrorConfig,
    from: Option<PortIndex>,
    flow: Option<FlowMatch>,
) -> Result<MirrorSelect, ControlError> {
    let given = [from.is_some(), config.vlan.is_some(), flow.is_some()].iter().filter(|given| **given).count();
    if given > 1 {
        return Err(ControlError::new("a mirror goes by port, by VLAN or by flow", "add one for each"));
    }
    match (from, config.vlan, flow) {
        (Some(port), _, _) => match config.direction.as_deref().unwrap_or("both") {
            "ingress" => Ok(MirrorSelect::Ingress(port)),
            "egress" => Ok(MirrorSelect::Egress(port)),
            "both" => Ok(MirrorSelect::Both(port)),
            other => Err(ControlError::new(format!("not a direction: `{other}` (ingress, egress or both)"), "")),
        },
        (None, Some(vlan), _) => Ok(MirrorSelect::Vlan(vlan)),
        (None, None, Some(flow)) => Ok(MirrorSelect::Flow(flow)),
        (None, None, None) => Err(ControlError::new(
            "the mirror does not say which packets it copies",
            "give from, vlan, or src, dst, proto, sport, dport",
        )),
    }
}

fn flow(config: &MirrorConfig) -> Result<Option<FlowMatch>, ControlError> {
    let address = |text: &Option<String>| {
        let parse =
            |text: &String| text.parse().map_err(|_| ControlError::new(format!("not an IP address: `{text}`"), ""));
        text.as_ref().map(parse).transpose()
    };
    let protocol = match config.proto.as_ref().map(|word| word.0.as_str()) {
        None => None,
        Some("tcp") => Some(6),
        Some("udp") => Some(17),
        Some("icmp") => Some(1),
        Some(other) => Some(
            other
                .parse()
                .map_err(|_| ControlError::new(format!("not a protocol: `{other}`"), "tcp, udp, icmp or a number"))?,
        ),
    };
    let flow = FlowMatch {
        src: address(&config.src)?,
        dst: address(&config.dst)?,
        src_port: config.sport,
        dst_port: config.dport,
        protocol,
        both_directions: config.direction.as_deref() != Some("ingress"),
    };
    let any = flow.src.is_some() || flow.dst.is_some() || protocol.is_some();
    Ok((any || flow.src_port.is_some() || flow.dst_port.is_some()).then_some(flow))
}
