//! The switch again, as simply as it can be said: maps, vectors, whole packets.

use std::collections::{BTreeMap, HashMap, VecDeque};

use linerate_l2::{DropReason, Mirror, MirrorSelect, PortIndex, PortSettings, Switch, VlanMode};
use linerate_wire::MacAddress;

/// Slots of an egress queue in these tests.
pub const QUEUE_SLOTS: usize = 8;
/// Bytes that a frame of the pool holds.
const FRAME_ROOM: usize = 1600;

#[derive(Default)]
struct Port {
    settings: PortSettings,
    queue: VecDeque<(Vec<u8>, usize)>,
}

/// What the switch is to do.
#[derive(Default)]
pub struct Model {
    ports: BTreeMap<PortIndex, Port>,
    macs: HashMap<(u16, MacAddress), PortIndex>,
    mirrors: Vec<Mirror>,
    received: u64,
    unicast: u64,
    flooded: u64,
    queued: u64,
    dropped: HashMap<DropReason, u64>,
    refused: HashMap<DropReason, u64>,
}

/// A packet without its tag of the port's kind.
struct Bare {
    vlan: u16,
    /// The tag that it had, as (EtherType, control information).
    tag: Option<(u16, u16)>,
    bytes: Vec<u8>,
}

impl Model {
    pub fn add(&mut self, port: PortIndex, settings: PortSettings) {
        self.ports.insert(port, Port { settings, queue: VecDeque::new() });
    }

    pub fn set(&mut self, port: PortIndex, settings: PortSettings) -> bool {
        self.ports.get_mut(&port).map(|port| port.settings = settings).is_some()
    }

    pub fn remove(&mut self, port: PortIndex) -> bool {
        self.macs.retain(|_, at| *at != port);
        self.mirrors.retain(|mirror| mirror.to != port && !involves(&mirror.select, port));
        self.ports.remove(&port).is_some()
    }

    pub fn mirror(&mut self, mirror: Mirror) -> bool {
        let from = self.ports.keys().find(|port| involves(&mirror.select, **port)).copied();
        let needs_port = !matches!(mirror.select, MirrorSelect::Vlan(_));
        let possible =
            self.ports.contains_key(&mirror.to) && (!needs_port || from.is_some()) && from != Some(mirror.to);
        if possible {
            self.mirrors.push(mirror);
        }
        possible
    }

    pub fn forget(&mut self, vlan: u16, mac: MacAddress) -> bool {
        self.macs.remove(&(vlan, mac)).is_some()
    }

    pub fn take(&mut self, port: PortIndex, count: usize) -> Vec<Vec<u8>> {
        let Some(port) = self.ports.get_mut(&port) else { return Vec::new() };
        let count = count.min(port.queue.len());
        port.queue.drain(..count).map(|(bytes, _)| bytes).collect()
    }

    pub fn arrive(&mut self, port: PortIndex, bytes: &[u8], slots: usize) {
        self.received += 1;
        let outcome = if self.ports.contains_key(&port) {
            self.forward(port, bytes, slots)
        } else {
            Err(DropReason::PortRemoved)
        };
        if let Err(reason) = outcome {
            *self.dropped.entry(reason).or_default() += 1;
        }
    }

    fn forward(&mut self, port: PortIndex, bytes: &[u8], slots: usize) -> Result<(), DropReason> {
        let bare = self.strip(port, bytes);
        let vlan = bare.as_ref().ok().map(|bare| bare.vlan);
        // Learning comes before the copies of a mirror, but neither sees the other.
        for mirror in self.mirrors.clone() {
            let wanted = match mirror.select {
                MirrorSelect::Ingress(from) | MirrorSelect::Both(from) => from == port,
                MirrorSelect::Vlan(wanted) => vlan == Some(wanted),
                _ => false,
            };
            if wanted && mirror.to != port {
                self.copy(mirror.to, bytes.to_vec());
            }
        }
        let bare = bare?;
        let destination = MacAddress(bytes[..6].try_into().unwrap());
        let source = MacAddress(bytes[6..12].try_into().unwrap());
        let settings = self.ports[&port].settings.clone();
        if settings.learning {
            self.macs.insert((bare.vlan, source), port);
        }
        let known = self.macs.get(&(bare.vlan, destination)).copied();
        if destination == super::mac(2) {
            return Err(DropReason::LinkLocal);
        }
        match known {
            Some(to) if !destination.is_multicast() => {
                if to == port {
                    return Err(DropReason::Hairpin);
                }
                let target = &self.ports[&to].settings;
                if target.isolated && settings.isolated {
                    return Err(DropReason::Isolated);
                }
                if !has(&target.vlan, bare.vlan) {
                    return Err(DropReason::VlanNotAllowed);
                }
                self.queue(to, dress(&bare, &target.vlan), slots)?;
                self.unicast += 1;
                Ok(())
            }
            _ => self.flood(port, &settings, &bare, slots),
        }
    }

    fn flood(&mut self, from: PortIndex, settings: &PortSettings, bare: &Bare, slots: usize) -> Result<(), DropReason> {
        let goes = |(port, other): &(&PortIndex, &Port)| {
            **port != from && has(&other.settings.vlan, bare.vlan) && !(settings.isolated && other.settings.isolated)
        };
        let targets: Vec<PortIndex> = self.ports.iter().filter(goes).map(|(port, _)| *port).collect();
        let Some((last, others)) = targets.split_last() else { return Err(DropReason::FloodSetEmpty) };
        self.flooded += 1;
        for (target, slots) in others.iter().map(|target| (target, None)).chain([(last, Some(slots))]) {
            let bytes = dress(bare, &self.ports[target].settings.vlan);
            // A copy takes the frames that the packet needs as it came; a tag then goes into the headroom of the first.
            let came_len = bare.bytes.len() + if bare.tag.is_some() { 4 } else { 0 };
            let needed = slots.unwrap_or_else(|| came_len.div_ceil(FRAME_ROOM));
            if let Err(reason) = self.queue(*target, bytes, needed) {
                *self.refused.entry(reason).or_default() += 1;
            }
        }
        Ok(())
    }

    /// Queues a packet at a port, and copies of it at the mirrors of that port.
    fn queue(&mut self, to: PortIndex, bytes: Vec<u8>, slots: usize) -> Result<(), DropReason> {
        self.append(to, bytes.clone(), slots)?;
        for mirror in self.mirrors.clone() {
            if matches!(mirror.select, MirrorSelect::Egress(from) | MirrorSelect::Both(from) if from == to) {
                self.copy(mirror.to, bytes.clone());
            }
        }
        Ok(())
    }

    fn copy(&mut self, to: PortIndex, bytes: Vec<u8>) {
        let slots = bytes.len().div_ceil(FRAME_ROOM).max(1);
        if let Err(reason) = self.append(to, bytes, slots) {
            *self.refused.entry(reason).or_default() += 1;
        }
    }

    fn append(&mut self, to: PortIndex, bytes: Vec<u8>, slots: usize) -> Result<(), DropReason> {
        let port = self.ports.get_mut(&to).unwrap();
        if bytes.len() > port.settings.frame_len_max {
            return Err(DropReason::TooLong);
        }
        let used: usize = port.queue.iter().map(|(_, slots)| slots).sum();
        if used + slots > QUEUE_SLOTS {
            return Err(DropReason::EgressFull);
        }
        port.queue.push_back((bytes, slots));
        self.queued += 1;
        Ok(())
    }

    /// Takes the tag of the port's kind off and finds the VLAN.
    fn strip(&self, port: PortIndex, bytes: &[u8]) -> Result<Bare, DropReason> {
        if bytes.len() < 14 {
            return Err(DropReason::Runt);
        }
        if bytes[6] & 1 != 0 {
            return Err(DropReason::MulticastSource);
        }
        let mode = &self.ports[&port].settings.vlan;
        let ethertype = kind(mode);
        let mut bare = Bare { vlan: 0, tag: None, bytes: bytes.to_vec() };
        let tagged = bytes[12..14] == ethertype.to_be_bytes() && !matches!(mode, VlanMode::Tunnel { .. });
        if tagged {
            let control = bytes.get(14..16).ok_or(DropReason::Runt)?;
            bytes.get(16..18).ok_or(DropReason::Runt)?;
            bare.tag = Some((ethertype, u16::from_be_bytes([control[0], control[1]])));
            bare.bytes.drain(12..16);
        }
        let id = bare.tag.map(|(_, control)| control & 0xfff).filter(|id| *id != 0);
        bare.vlan = match (mode, id) {
            (VlanMode::Access { vlan }, None) | (VlanMode::Tunnel { vlan }, _) => *vlan,
            (VlanMode::Trunk { native, .. }, None) => native.ok_or(DropReason::UntaggedNotAdmitted)?,
            (VlanMode::Trunk { .. }, Some(id)) if has(mode, id) => id,
            _ => return Err(DropReason::VlanNotAllowed),
        };
        Ok(bare)
    }

    /// The switch's sums are the model's.
    pub fn check(&self, switch: &Switch) {
        let ports = switch.totals().ports;
        assert_eq!(ports.received_packets, self.received);
        assert_eq!((ports.unicast, ports.flooded, ports.queued_packets), (self.unicast, self.flooded, self.queued));
        for reason in DropReason::ALL {
            assert_eq!(ports.dropped.of(reason), self.dropped.get(&reason).copied().unwrap_or(0), "dropped: {reason}");
            assert_eq!(ports.refused.of(reason), self.refused.get(&reason).copied().unwrap_or(0), "refused: {reason}");
        }
        let mut macs: Vec<_> = switch.macs().map(|entry| ((entry.vlan, entry.mac), entry.port)).collect();
        let mut wanted: Vec<_> = self.macs.iter().map(|(key, port)| (*key, *port)).collect();
        macs.sort();
        wanted.sort();
        assert_eq!(macs, wanted);
        for (port, wanted) in &self.ports {
            let waiting = switch.port_counters(*port).unwrap().waiting();
            assert_eq!(waiting, wanted.queue.len() as u64, "port {port}");
        }
    }
}

fn involves(select: &MirrorSelect, port: PortIndex) -> bool {
    match select {
        MirrorSelect::Ingress(from) | MirrorSelect::Egress(from) | MirrorSelect::Both(from) => *from == port,
        _ => false,
    }
}

fn kind(mode: &VlanMode) -> u16 {
    match mode {
        VlanMode::Trunk { ethertype, .. } => *ethertype,
        _ => 0x8100,
    }
}

fn has(mode: &VlanMode, vlan: u16) -> bool {
    match mode {
        VlanMode::Access { vlan: own } | VlanMode::Tunnel { vlan: own } => *own == vlan,
        VlanMode::Trunk { native, allowed, .. } => *native == Some(vlan) || allowed.iter().any(|id| id == vlan),
        VlanMode::None => false,
    }
}

/// The packet as it leaves through a port: VLAN 0 as it came, native and access without a tag, else with one.
fn dress(bare: &Bare, mode: &VlanMode) -> Vec<u8> {
    let (kind, control) = match (bare.vlan, mode, bare.tag) {
        (0, _, Some(tag)) => tag,
        (0, _, None) => return bare.bytes.clone(),
        (vlan, VlanMode::Trunk { native, ethertype, .. }, tag) if *native != Some(vlan) => {
            (*ethertype, tag.map_or(0, |(_, control)| control & 0xf000) | vlan)
        }
        _ => return bare.bytes.clone(),
    };
    let mut bytes = bare.bytes.clone();
    bytes.splice(12..12, [kind.to_be_bytes(), control.to_be_bytes()].concat());
    bytes
}
