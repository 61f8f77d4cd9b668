//! Mirrors: from words to the engine's, with the ports that are opened for them alone.

use linerate_l2::{FlowMatch, Mirror, MirrorCounts, MirrorId, MirrorSelect, PortIndex};

use crate::config::MirrorConfig;
use crate::document::MirrorDocument;
use crate::protocol::Refusal;

use super::Server;
use super::show::GONE;

/// All mirrors, by the numbers that users see.
#[derive(Default)]
pub(super) struct Mirrors {
    kept: Vec<Kept>,
    next: u32,
}

struct Kept {
    number: u32,
    config: MirrorConfig,
    id: MirrorId,
    /// Name of the port that was opened for it.
    own_port: Option<String>,
}

impl Mirrors {
    /// A port is gone, and with it the mirrors to and from it.
    pub(super) fn forget_port(&mut self, name: &str) {
        self.kept.retain(|kept| kept.config.from.as_deref() != Some(name) && kept.config.to != name);
    }
}

impl Server {
    /// Adds a mirror; returns its number.
    pub(crate) fn add_mirror(&mut self, config: MirrorConfig) -> Result<u32, Refusal> {
        let number = self.state.mirrors.next;
        let flow = flow(&config)?;
        let known = config.to.clone();
        let is_port = self.handle.call(move |hub| hub.line(&known).is_some())?;
        let own_port = if is_port { None } else { Some(self.open_mirror_port(&config.to, number)?) };
        let to = own_port.clone().unwrap_or_else(|| config.to.clone());
        let wanted = config.clone();
        let added = self.handle.call(move |hub| {
            let index = |name: &str| hub.line(name).map(|line| line.index).ok_or_else(|| no_port(name));
            let from = wanted.from.as_deref().map(index).transpose()?;
            let select = select(&wanted, from, flow)?;
            let to = index(&to)?;
            hub.switch.add_mirror(Mirror { select, to }).map_err(|error| Refusal::new(error.to_string(), ""))
        })?;
        match added {
            Ok(id) => {
                self.state.mirrors.next += 1;
                self.state.mirrors.kept.push(Kept { number, config, id, own_port });
                Ok(number)
            }
            Err(refusal) => {
                if let Some(port) = own_port {
                    self.leave(&port);
                }
                Err(refusal)
            }
        }
    }

    pub(super) fn remove_mirror(&mut self, number: u32) -> Result<(), Refusal> {
        let mirrors = &mut self.state.mirrors.kept;
        let Some(place) = mirrors.iter().position(|kept| kept.number == number) else {
            return Err(Refusal::new(format!("there is no mirror {number}"), "show mirrors lists them"));
        };
        let kept = mirrors.remove(place);
        self.handle.call(move |hub| hub.switch.remove_mirror(kept.id))?;
        if let Some(port) = kept.own_port {
            self.leave(&port);
        }
        Ok(())
    }

    pub(super) fn mirror_documents(&self) -> Result<Vec<MirrorDocument>, Refusal> {
        let counted: Vec<(MirrorId, MirrorCounts)> =
            self.handle.call(|hub| hub.switch.mirrors().map(|(id, _, counts)| (id, counts)).collect())?;
        let document = |kept: &Kept| {
            let counts =
                counted.iter().find(|(id, _)| *id == kept.id).map_or_else(Default::default, |(_, counts)| *counts);
            MirrorDocument {
                number: kept.number,
                mirror: kept.config.clone(),
                packets: counts.shown + counts.copied,
                zero_copy: counts.shown,
                copied: counts.copied,
            }
        };
        Ok(self.state.mirrors.kept.iter().map(document).collect())
    }

    /// Opens a port that only gets copies; returns its name.
    fn open_mirror_port(&mut self, spec: &str, number: u32) -> Result<String, Refusal> {
        if !spec.contains(':') {
            let hint = "name a port of the switch, or what to open, as file:copy.pcapng";
            return Err(Refusal::new(format!("there is no port {spec}"), hint));
        }
        let port = crate::opening::open_mirror(spec, &self.pool)?.into_port();
        let name = format!("mirror-{number}");
        let settings = [("monitor".to_string(), crate::words::Word("yes".into()))].into();
        let config = crate::config::PortConfig { name: Some(name.clone()), spec: spec.into(), settings };
        let settings = crate::settings::Settings::new(&config.settings)?;
        let joined = self.handle.call(move |hub| hub.attach(config, settings, port, None))?;
        joined.map(|_| name).map_err(|error| Refusal::new(error, ""))
    }
}

fn select(config: &MirrorConfig, from: Option<PortIndex>, flow: Option<FlowMatch>) -> Result<MirrorSelect, Refusal> {
    let given = [from.is_some(), config.vlan.is_some(), flow.is_some()].iter().filter(|given| **given).count();
    if given > 1 {
        return Err(Refusal::new("a mirror goes by port, by VLAN or by flow", "add one for each"));
    }
    match (from, config.vlan, flow) {
        (Some(port), _, _) => match config.way.as_deref().unwrap_or("both") {
            "in" => Ok(MirrorSelect::Ingress(port)),
            "out" => Ok(MirrorSelect::Egress(port)),
            "both" => Ok(MirrorSelect::Both(port)),
            other => Err(Refusal::new(format!("way={other}: there are in, out and both"), "")),
        },
        (None, Some(vlan), _) => Ok(MirrorSelect::Vlan(vlan)),
        (None, None, Some(flow)) => Ok(MirrorSelect::Flow(flow)),
        (None, None, None) => {
            Err(Refusal::new("the mirror says not what it copies", "give from, vlan, or src, dst, proto, sport, dport"))
        }
    }
}

fn flow(config: &MirrorConfig) -> Result<Option<FlowMatch>, Refusal> {
    let address = |text: &Option<String>| {
        let parse = |text: &String| text.parse().map_err(|_| Refusal::new(format!("{text:?} is no IP address"), ""));
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
                .map_err(|_| Refusal::new(format!("{other:?} is no protocol"), "tcp, udp, icmp or a number"))?,
        ),
    };
    let flow = FlowMatch {
        src: address(&config.src)?,
        dst: address(&config.dst)?,
        src_port: config.sport,
        dst_port: config.dport,
        protocol,
        both_directions: config.way.as_deref() != Some("in"),
    };
    let any = flow.src.is_some() || flow.dst.is_some() || protocol.is_some();
    Ok((any || flow.src_port.is_some() || flow.dst_port.is_some()).then_some(flow))
}

fn no_port(name: &str) -> Refusal {
    let name = if name.is_empty() { GONE } else { name };
    Refusal::new(format!("there is no port {name}"), "show ports lists them")
}
