//! The ports of the switch: numbers, configuration, links, and what controllers are told of them.

use std::sync::Arc;

use linerate_flow_tables::{Event, PortShared, PortView, QueueSettings};
use linerate_openflow::{
    ErrorKind, OfError, PortConfig, PortDescription, PortMod, PortNumber, PortState, PortStatus, PortStatusReason,
    QueueConfig,
};

use super::Switch;

/// Most ports of a switch.
const PORTS_MAX: usize = 4_096;
/// Most queues of a port.
const QUEUES_MAX: usize = 16;

/// A port as it is added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// Its number: 1 to [`PortNumber::MAX`], or [`PortNumber::LOCAL`].
    pub number: PortNumber,
    /// Its name.
    pub name: String,
    /// Its Ethernet address.
    pub hw_addr: [u8; 6],
    /// The port below a logical port, for example the one that carries a tunnel.
    pub physical: Option<PortNumber>,
    /// `TUNNEL_ID` of the packets that arrive by the port; 0 if it is not the end of a tunnel.
    pub tunnel_id: u64,
    /// Each packet of the port begins with the key of its tunnel, `linerate_port::TUNNEL_KEY_BYTES` bytes that are `TUNNEL_ID`.
    pub tunnel_keys: bool,
    /// Longest packet in bytes. Packets that the switch has put together of fragments are cut again if they are longer.
    pub len_max: usize,
    /// Its configuration.
    pub config: PortConfig,
    /// Current features (`OFPPF_*`).
    pub current: u32,
    /// Current bit rate in kbit/s; 0 if it is unknown.
    pub current_kbps: u32,
    /// Highest bit rate in kbit/s; 0 if it is unknown.
    pub max_kbps: u32,
    /// Its queues. Packets that name none go to a queue of their own without limits.
    pub queues: Vec<QueueSettings>,
}

/// Why a port cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// The number is reserved.
    #[error("{0} is not a port number: use 1 to 4294967040, or local")]
    Number(u32),
    /// The number is in use.
    #[error("port {0} exists already; remove it first")]
    Exists(u32),
    /// There are as many ports as there may be.
    #[error("a switch has at most {PORTS_MAX} ports")]
    Full,
    /// A queue is wrong.
    #[error("port {0}: a port has at most {QUEUES_MAX} queues, with different numbers below 4294967295")]
    Queues(u32),
}

/// A port.
pub(super) struct SwitchPort {
    pub(super) settings: PortSettings,
    pub(super) slot: u16,
    pub(super) shared: Arc<PortShared>,
    pub(super) created_ns: u64,
    /// The link that the controllers were told last.
    told_link: bool,
}

impl SwitchPort {
    pub(super) fn description(&self) -> PortDescription {
        self.description_with(self.shared.has_link())
    }

    fn description_with(&self, link: bool) -> PortDescription {
        let PortSettings { number, name, hw_addr, config, current, current_kbps, max_kbps, .. } = &self.settings;
        let down = if link { 0 } else { PortState::LINK_DOWN };
        let live = if link && config.0 & PortConfig::PORT_DOWN == 0 { PortState::LIVE } else { 0 };
        PortDescription {
            number: *number,
            hw_addr: *hw_addr,
            name: name.clone(),
            config: *config,
            state: PortState(down | live),
            current: *current,
            advertised: 0,
            supported: 0,
            peer: 0,
            current_kbps: *current_kbps,
            max_kbps: *max_kbps,
        }
    }

    fn view(&self) -> Arc<PortView> {
        Arc::new(PortView {
            number: self.settings.number,
            physical: self.settings.physical.unwrap_or(self.settings.number),
            tunnel_id: self.settings.tunnel_id,
            tunnel_keys: self.settings.tunnel_keys,
            len_max: self.settings.len_max,
            config: self.settings.config,
            queues: self.settings.queues.clone(),
            shared: Arc::clone(&self.shared),
        })
    }
}

impl Switch {
    /// Adds a port. Its number is bound to a port of a worker by [`crate::Forwarder::bind`] afterwards.
    ///
    /// # Errors
    /// The number or the queues cannot be, or there are too many ports.
    pub fn add_port(&mut self, settings: PortSettings, link_up: bool, now_ns: u64) -> Result<(), PortError> {
        self.tables.note_time(now_ns);
        let number = settings.number;
        let valid = (1..=PortNumber::MAX.0).contains(&number.0) || number == PortNumber::LOCAL;
        if !valid {
            return Err(PortError::Number(number.0));
        }
        if self.ports.contains_key(&number.0) {
            return Err(PortError::Exists(number.0));
        }
        let mut ids: Vec<u32> = settings.queues.iter().map(|queue| queue.id).collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.len() != settings.queues.len() || ids.len() > QUEUES_MAX || ids.contains(&u32::MAX) {
            return Err(PortError::Queues(number.0));
        }
        let slots = &self.tables.state().ports;
        let free = slots.iter().position(Option::is_none).unwrap_or(slots.len());
        if free >= PORTS_MAX {
            return Err(PortError::Full);
        }
        let slot = free as u16;
        let shared = Arc::new(PortShared::new(self.options.tables.workers, settings.queues.len(), link_up));
        let port = SwitchPort { settings, slot, shared, created_ns: self.tables.time_ns(), told_link: link_up };
        self.tell_port(&port, PortStatusReason::Add);
        let view = port.view();
        self.ports.insert(number.0, port);
        self.tables.change_state(|state| {
            if state.ports.len() <= usize::from(slot) {
                state.ports.resize(usize::from(slot) + 1, None);
            }
            state.ports[usize::from(slot)] = Some(view);
            state.slots.insert(number, slot);
        });
        Ok(())
    }

    /// Changes what the user has set of a port: its tunnel, the port below it, its speed. Its number, name, address, queues and
    /// configuration stay. Returns false if there is no such port.
    pub fn change_port(&mut self, settings: PortSettings, now_ns: u64) -> bool {
        self.tables.note_time(now_ns);
        let Some(port) = self.ports.get_mut(&settings.number.0) else { return false };
        let PortSettings { physical, tunnel_id, current, current_kbps, max_kbps, .. } = settings;
        port.settings = PortSettings { physical, tunnel_id, current, current_kbps, max_kbps, ..port.settings.clone() };
        let (view, slot) = (port.view(), usize::from(port.slot));
        let status = PortStatus { reason: PortStatusReason::Modify, port: port.description() };
        self.tables.tell(Event::PortStatus(status));
        self.tables.change_state(|state| state.ports[slot] = Some(view));
        true
    }

    /// Removes a port. Returns false if there is none with this number.
    pub fn remove_port(&mut self, number: PortNumber, now_ns: u64) -> bool {
        self.tables.note_time(now_ns);
        let Some(port) = self.ports.remove(&number.0) else { return false };
        port.shared.set_link(false);
        self.tell_port(&port, PortStatusReason::Delete);
        let slot = port.slot;
        self.tables.change_state(|state| {
            state.ports[usize::from(slot)] = None;
            state.slots.remove(&number);
        });
        self.tables.forget_addresses(slot);
        true
    }

    /// Sets the link of a port that no worker has, and tells the controllers. Returns false if there is no such port.
    pub fn set_link(&mut self, number: PortNumber, up: bool, now_ns: u64) -> bool {
        if let Some(port) = self.ports.get(&number.0) {
            port.shared.set_link(up);
        }
        self.link_changed(number, up, now_ns)
    }

    /// Tells the controllers that a worker saw the link of a port go up or down, unless they know it from another worker that has a
    /// queue of the port. Returns false if there is no such port. The worker's forwarder has set the link by then, and may have set it
    /// anew since, so what packets meet stays as it is.
    pub fn link_changed(&mut self, number: PortNumber, up: bool, now_ns: u64) -> bool {
        self.tables.note_time(now_ns);
        let Some(port) = self.ports.get_mut(&number.0) else { return false };
        if std::mem::replace(&mut port.told_link, up) == up {
            return true;
        }
        if !up {
            self.tables.forget_addresses(port.slot);
        }
        let port = PortStatus { reason: PortStatusReason::Modify, port: port.description_with(up) };
        self.tables.tell(Event::PortStatus(port));
        true
    }

    /// Changes a port's configuration.
    ///
    /// # Errors
    /// What the specification says of the request; nothing has changed then.
    pub fn port_mod(&mut self, request: PortMod, now_ns: u64) -> Result<(), OfError> {
        self.tables.note_time(now_ns);
        let port = self.ports.get_mut(&request.number.0).ok_or(OfError(ErrorKind::PortModFailedBadPort))?;
        if port.settings.hw_addr != request.hw_addr {
            return Err(ErrorKind::PortModFailedBadHwAddr.into());
        }
        if request.mask & !PortConfig::ALL != 0 {
            return Err(ErrorKind::PortModFailedBadConfig.into());
        }
        let before = port.settings.config;
        port.settings.config = PortConfig(before.0 & !request.mask | request.config.0 & request.mask);
        if port.settings.config != before {
            let (view, slot) = (port.view(), usize::from(port.slot));
            let status = PortStatus { reason: PortStatusReason::Modify, port: port.description() };
            self.tables.tell(Event::PortStatus(status));
            self.tables.change_state(|state| state.ports[slot] = Some(view));
        }
        Ok(())
    }

    /// The ports as they are now, in the order of their numbers.
    pub fn ports(&self) -> Vec<PortDescription> {
        self.ports.values().map(SwitchPort::description).collect()
    }

    /// The queues of a port, or of all ports ([`PortNumber::ANY`]).
    ///
    /// # Errors
    /// There is no such port.
    pub fn queue_config(&self, wanted: PortNumber) -> Result<Vec<QueueConfig>, OfError> {
        if wanted != PortNumber::ANY && !self.ports.contains_key(&wanted.0) {
            return Err(ErrorKind::QueueOpFailedBadPort.into());
        }
        let mut configs = Vec::new();
        for port in self.ports.values().filter(|port| wanted == PortNumber::ANY || port.settings.number == wanted) {
            let PortSettings { number, current_kbps, max_kbps, .. } = port.settings;
            let kbps = if current_kbps > 0 { current_kbps } else { max_kbps };
            let share = |rate_bps: u64| match u64::from(kbps) {
                0 => 0xffff,
                kbps => (rate_bps / kbps).min(1_000) as u16,
            };
            for queue in &port.settings.queues {
                configs.push(QueueConfig {
                    port: number,
                    queue: queue.id,
                    min_rate: queue.min_rate_bps.map(share),
                    max_rate: queue.max_rate_bps.map(share),
                    experimenters: Vec::new(),
                });
            }
        }
        Ok(configs)
    }

    fn tell_port(&mut self, port: &SwitchPort, reason: PortStatusReason) {
        self.tables.tell(Event::PortStatus(PortStatus { reason, port: port.description() }));
    }
}
