//! A slow switch that does what the specification says, on decoded fields: linear tables, no cache, no keys.

use std::collections::BTreeMap;

use linerate_openflow::*;
use linerate_pipeline::packet::{Headers, PipelineFields, apply};

use crate::packets::slow;

/// Something that a packet became.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    Sent(u32, Vec<u8>),
    PacketIn(u8, u8, u64, Vec<u8>),
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub request: FlowMod,
    pub created_s: u64,
    pub used_s: u64,
    pub packets: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Group {
    pub kind: Option<GroupKind>,
    pub buckets: Vec<Bucket>,
    pub packets: u64,
    pub bucket_packets: Vec<u64>,
}

/// A meter of packets a second with one band.
#[derive(Clone, Debug)]
pub struct Meter {
    pub band: Band,
    /// When the band's bucket would be full again.
    full_at_s: u64,
    pub packets: u64,
    pub band_packets: u64,
}

#[derive(Default)]
pub struct Reference {
    pub entries: Vec<Entry>,
    pub groups: BTreeMap<u32, Group>,
    pub meters: BTreeMap<u32, Meter>,
    pub lookups: BTreeMap<u8, (u64, u64)>,
    /// Configuration and link, by number.
    pub ports: BTreeMap<u32, (u32, bool)>,
    /// Cookie, reason, packets, in the order in which entries ended.
    pub removed: Vec<(u64, FlowRemovedReason, u64)>,
    pub now_s: u64,
}

#[derive(Clone)]
struct Packet {
    bytes: Vec<u8>,
    headers: Headers,
    fields: PipelineFields,
}

/// The place of an action in section 5.10, written down once more.
const ORDER: [fn(&Action) -> bool; 8] = [
    |action| matches!(action, Action::PopVlan),
    |action| matches!(action, Action::PushVlan(_)),
    |action| matches!(action, Action::DecNwTtl),
    |action| matches!(action, Action::SetNwTtl(_)),
    |action| matches!(action, Action::SetField(..)),
    |action| matches!(action, Action::SetQueue(_)),
    |action| matches!(action, Action::Group(_)),
    |action| matches!(action, Action::Output { .. }),
];

fn agrees(wanted: &FieldMatch, fields: &slow::Fields) -> bool {
    let mask = wanted.effective_mask();
    mask == 0 || fields.get(&wanted.field).is_some_and(|value| value & mask == wanted.value & mask)
}

/// All packets that match `narrow` match `wide`.
fn within(narrow: &Match, wide: &Match) -> bool {
    wide.fields.iter().all(|wide| {
        narrow.fields.iter().any(|narrow| {
            let (inner, outer) = (narrow.effective_mask(), wide.effective_mask());
            narrow.field == wide.field && inner & outer == outer && narrow.value & outer == wide.value & outer
        })
    })
}

fn overlap(one: &Match, other: &Match) -> bool {
    one.fields.iter().all(|one| {
        other.fields.iter().all(|other| {
            let both = one.effective_mask() & other.effective_mask();
            one.field != other.field || one.value & both == other.value & both
        })
    })
}

fn actions(entry: &FlowMod) -> Vec<&Action> {
    let of = |one| match one {
        &Instruction::ApplyActions(ref actions) | &Instruction::WriteActions(ref actions) => actions.iter().collect(),
        _ => Vec::new(),
    };
    entry.instructions.iter().flat_map(of).collect()
}

/// The meter that an entry uses.
fn meter_of(entry: &FlowMod) -> Option<u32> {
    entry.instructions.iter().find_map(|one| if let Instruction::Meter(id) = one { Some(*id) } else { None })
}

impl Reference {
    /// Whether the meter and the groups of an entry are there.
    fn check(&self, entry: &FlowMod) -> Result<(), OfError> {
        if meter_of(entry).is_some_and(|id| !self.meters.contains_key(&id)) {
            return Err(ErrorKind::MeterModFailedUnknownMeter.into());
        }
        self.check_groups(&actions(entry))
    }

    fn check_groups(&self, actions: &[&Action]) -> Result<(), OfError> {
        let is_known = |action: &&Action| match action {
            Action::Group(id) => self.groups.contains_key(id),
            _ => true,
        };
        if actions.iter().all(is_known) { Ok(()) } else { Err(ErrorKind::BadActionBadOutGroup.into()) }
    }

    /// Entries that use a meter.
    pub fn users(&self, meter: u32) -> usize {
        self.entries.iter().filter(|entry| meter_of(&entry.request) == Some(meter)).count()
    }

    pub fn meter_mod(&mut self, request: &MeterMod) -> Result<(), OfError> {
        let known = self.meters.contains_key(&request.meter);
        match request.command {
            MeterCommand::Add if known => return Err(ErrorKind::MeterModFailedMeterExists.into()),
            MeterCommand::Modify if !known => return Err(ErrorKind::MeterModFailedUnknownMeter.into()),
            MeterCommand::Add | MeterCommand::Modify => {
                let meter = Meter { band: request.bands[0].clone(), full_at_s: 0, packets: 0, band_packets: 0 };
                self.meters.insert(request.meter, meter);
            }
            MeterCommand::Delete => {
                self.meters.remove(&request.meter);
                for entry in std::mem::take(&mut self.entries) {
                    if meter_of(&entry.request) == Some(request.meter) {
                        self.end(entry, FlowRemovedReason::Delete);
                    } else {
                        self.entries.push(entry);
                    }
                }
            }
        }
        Ok(())
    }

    /// Lets a packet through a meter of one packet a second; false if it is dropped.
    fn meter(&mut self, id: u32, packet: &mut Packet) -> bool {
        let Some(meter) = self.meters.get_mut(&id) else { return true };
        meter.packets += 1;
        let begin = meter.full_at_s.max(self.now_s);
        if begin - self.now_s <= meter.band.burst_size.into() {
            meter.full_at_s = begin + 1;
            return true;
        }
        meter.band_packets += 1;
        let BandKind::DscpRemark(levels) = meter.band.kind else { return false };
        // The drop precedence of assured forwarding (RFC 2597), that of IPv4.
        let decoded = slow::decode(&packet.bytes);
        if let Some(dscp) = decoded.get(&Field::IpDscp) {
            let (class, precedence) = (dscp >> 3, dscp >> 1 & 3);
            if (1..=4).contains(&class) && precedence > 0 && dscp & 1 == 0 {
                let raised = class << 3 | (precedence + u128::from(levels)).min(3) << 1;
                let Packet { bytes, headers, fields } = packet;
                apply(&Action::SetField(Field::IpDscp, raised), bytes, headers, fields).unwrap();
            }
        }
        true
    }

    /// A packet of a controller.
    pub fn packet_out(&mut self, in_port: u32, actions: &[Action], bytes: &[u8]) -> Result<Vec<Seen>, OfError> {
        self.check_groups(&actions.iter().collect::<Vec<_>>())?;
        let fields = PipelineFields { in_port, in_phy_port: in_port, ..PipelineFields::default() };
        let mut packet = Packet { bytes: bytes.to_vec(), headers: Headers::parse(bytes), fields };
        let mut seen = Vec::new();
        self.apply(actions, &mut packet, (1, 0, u64::MAX), &mut seen);
        Ok(seen)
    }

    fn selects(&self, request: &FlowMod, entry: &FlowMod) -> bool {
        let strict = matches!(request.command, FlowCommand::ModifyStrict | FlowCommand::DeleteStrict);
        let deletes = matches!(request.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        let table = request.table == TABLE_ALL || request.table == entry.table;
        let same = within(&entry.matching, &request.matching)
            && (!strict || within(&request.matching, &entry.matching) && request.priority == entry.priority);
        let port = request.out_port == PortNumber::ANY
            || actions(entry).iter().any(|one| matches!(one, Action::Output { port, .. } if *port == request.out_port));
        let group = request.out_group == GROUP_ANY
            || actions(entry).iter().any(|one| matches!(one, Action::Group(id) if *id == request.out_group));
        let cookie = (entry.cookie ^ request.cookie) & request.cookie_mask == 0;
        table && same && cookie && (!deletes || port && group)
    }

    pub fn flow_mod(&mut self, request: &FlowMod) -> Result<(), OfError> {
        match request.command {
            FlowCommand::Add => return self.add(request),
            FlowCommand::Modify | FlowCommand::ModifyStrict => {
                self.check(request)?;
                for at in 0..self.entries.len() {
                    if self.selects(request, &self.entries[at].request) {
                        let entry = &mut self.entries[at];
                        entry.request.instructions = request.instructions.clone();
                        if request.flags.has(FlowFlags::RESET_COUNTS) {
                            (entry.packets, entry.bytes) = (0, 0);
                        }
                    }
                }
            }
            FlowCommand::Delete | FlowCommand::DeleteStrict => {
                let entries = std::mem::take(&mut self.entries);
                for entry in entries {
                    if self.selects(request, &entry.request) {
                        self.end(entry, FlowRemovedReason::Delete);
                    } else {
                        self.entries.push(entry);
                    }
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, request: &FlowMod) -> Result<(), OfError> {
        self.check(request)?;
        let is_same = |entry: &Entry| {
            entry.request.table == request.table
                && entry.request.priority == request.priority
                && within(&entry.request.matching, &request.matching)
                && within(&request.matching, &entry.request.matching)
        };
        let others = self.entries.iter().filter(|entry| !is_same(entry));
        let mut overlapping = others.filter(|entry| {
            let other = &entry.request;
            other.table == request.table
                && other.priority == request.priority
                && overlap(&other.matching, &request.matching)
        });
        if request.flags.has(FlowFlags::CHECK_OVERLAP) && overlapping.next().is_some() {
            return Err(ErrorKind::FlowModFailedOverlap.into());
        }
        let mut entry =
            Entry { request: request.clone(), created_s: self.now_s, used_s: self.now_s, packets: 0, bytes: 0 };
        if let Some(at) = self.entries.iter().position(is_same) {
            let old = self.entries.remove(at);
            if !request.flags.has(FlowFlags::RESET_COUNTS) {
                (entry.packets, entry.bytes) = (old.packets, old.bytes);
            }
        }
        self.entries.push(entry);
        Ok(())
    }

    fn end(&mut self, entry: Entry, reason: FlowRemovedReason) {
        if entry.request.flags.has(FlowFlags::SEND_FLOW_REM) {
            self.removed.push((entry.request.cookie, reason, entry.packets));
        }
    }

    pub fn advance(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now_s += 1;
            for entry in std::mem::take(&mut self.entries) {
                let after = |from: u64, limit: u16| limit > 0 && self.now_s >= from + u64::from(limit);
                if after(entry.created_s, entry.request.hard_timeout_s) {
                    self.end(entry, FlowRemovedReason::HardTimeout);
                } else if after(entry.used_s, entry.request.idle_timeout_s) {
                    self.end(entry, FlowRemovedReason::IdleTimeout);
                } else {
                    self.entries.push(entry);
                }
            }
        }
    }

    fn chain(&self, id: u32, seen: &mut Vec<u32>) {
        for bucket in self.groups.get(&id).map_or(&[][..], |group| &group.buckets) {
            for action in &bucket.actions {
                if let Action::Group(next) = action {
                    seen.push(*next);
                    self.chain(*next, seen);
                }
            }
        }
    }

    pub fn group_mod(&mut self, request: &GroupMod) -> Result<(), OfError> {
        let known = self.groups.contains_key(&request.group);
        let named = |buckets: &[Bucket]| -> Vec<u32> {
            let actions = buckets.iter().flat_map(|bucket| &bucket.actions);
            actions.filter_map(|action| if let Action::Group(id) = action { Some(*id) } else { None }).collect()
        };
        match request.command {
            GroupCommand::Add if known => return Err(ErrorKind::GroupModFailedGroupExists.into()),
            GroupCommand::Modify if !known => return Err(ErrorKind::GroupModFailedUnknownGroup.into()),
            GroupCommand::Add | GroupCommand::Modify => {
                let mut reached = named(&request.buckets);
                if reached.iter().any(|id| *id != request.group && !self.groups.contains_key(id)) {
                    return Err(ErrorKind::BadActionBadOutGroup.into());
                }
                for id in reached.clone() {
                    self.chain(id, &mut reached);
                }
                if reached.contains(&request.group) {
                    return Err(ErrorKind::GroupModFailedLoop.into());
                }
                let group = self.groups.entry(request.group).or_default();
                group.kind = Some(request.kind);
                group.buckets = request.buckets.clone();
                group.bucket_packets = vec![0; group.buckets.len()];
            }
            GroupCommand::Delete => {
                let chained = self
                    .groups
                    .iter()
                    .any(|(id, group)| *id != request.group && named(&group.buckets).contains(&request.group));
                if chained && request.group != GROUP_ALL {
                    return Err(ErrorKind::GroupModFailedChainedGroup.into());
                }
                let gone = |id: &u32| request.group == GROUP_ALL || *id == request.group;
                let doomed: Vec<u32> = self.groups.keys().copied().filter(|id| gone(id)).collect();
                self.groups.retain(|id, _| !doomed.contains(id));
                for entry in std::mem::take(&mut self.entries) {
                    let uses = actions(&entry.request)
                        .iter()
                        .any(|action| matches!(action, Action::Group(id) if doomed.contains(id)));
                    if uses {
                        self.end(entry, FlowRemovedReason::GroupDelete);
                    } else {
                        self.entries.push(entry);
                    }
                }
            }
        }
        Ok(())
    }

    /// A packet arrives by a port.
    pub fn packet(&mut self, in_port: u32, bytes: &[u8]) -> Vec<Seen> {
        let (config, _) = self.ports[&in_port];
        if config & (PortConfig::PORT_DOWN | PortConfig::NO_RECV) != 0 {
            return Vec::new();
        }
        let fields = PipelineFields { in_port, in_phy_port: in_port, ..PipelineFields::default() };
        let mut packet = Packet { bytes: bytes.to_vec(), headers: Headers::parse(bytes), fields };
        let mut seen = Vec::new();
        self.through_tables(&mut packet, &mut seen);
        seen
    }

    fn through_tables(&mut self, packet: &mut Packet, seen: &mut Vec<Seen>) {
        let (mut table, mut set) = (0, Vec::<Action>::new());
        loop {
            let Some(at) = self.find(table, packet) else { return };
            let entry = &mut self.entries[at];
            entry.packets += u64::from(!entry.request.flags.has(FlowFlags::NO_PKT_COUNTS));
            let counts_bytes = !entry.request.flags.has(FlowFlags::NO_BYT_COUNTS);
            entry.bytes += if counts_bytes { packet.bytes.len() as u64 } else { 0 };
            entry.used_s = self.now_s;
            let request = entry.request.clone();
            let miss = request.priority == 0 && request.matching.fields.is_empty();
            let mut next = None;
            if let Some(meter) = meter_of(&request)
                && !self.meter(meter, packet)
            {
                return;
            }
            // The instructions in the order of section 5.9.
            for kind in 0..5 {
                for instruction in &request.instructions {
                    match (kind, instruction) {
                        (0, Instruction::ApplyActions(actions)) => {
                            let origin = (u8::from(!miss), table, request.cookie);
                            if !self.apply(actions, packet, origin, seen) {
                                return;
                            }
                        }
                        (1, Instruction::ClearActions) => set.clear(),
                        (2, Instruction::WriteActions(actions)) => write(&mut set, actions),
                        (3, Instruction::WriteMetadata { metadata, mask }) => {
                            packet.fields.metadata = packet.fields.metadata & !mask | metadata & mask;
                        }
                        (4, Instruction::GotoTable(table)) => next = Some(*table),
                        _ => {}
                    }
                }
            }
            match next {
                Some(later) => table = later,
                None => {
                    let origin = (u8::from(!miss), table, request.cookie);
                    self.apply(&in_order(&set), packet, origin, seen);
                    return;
                }
            }
        }
    }

    fn find(&mut self, table: u8, packet: &Packet) -> Option<usize> {
        let mut fields = slow::decode(&packet.bytes);
        fields.insert(Field::InPort, packet.fields.in_port.into());
        fields.insert(Field::InPhyPort, packet.fields.in_phy_port.into());
        fields.insert(Field::Metadata, packet.fields.metadata.into());
        fields.insert(Field::TunnelId, packet.fields.tunnel_id.into());
        let matches = |entry: &&(usize, &Entry)| {
            let request = &entry.1.request;
            request.table == table && request.matching.fields.iter().all(|wanted| agrees(wanted, &fields))
        };
        let found = self.entries.iter().enumerate().collect::<Vec<_>>();
        let found = found.iter().filter(matches).max_by_key(|(_, entry)| entry.request.priority).map(|(at, _)| *at);
        let counts = self.lookups.entry(table).or_default();
        counts.0 += 1;
        counts.1 += u64::from(found.is_some());
        found
    }

    /// Applies actions; false if one drops the packet.
    fn apply(&mut self, actions: &[Action], packet: &mut Packet, origin: (u8, u8, u64), seen: &mut Vec<Seen>) -> bool {
        for action in actions {
            match action {
                Action::Output { port: PortNumber::CONTROLLER, .. } => {
                    let config = self.ports.get(&packet.fields.in_port).map_or(0, |port| port.0);
                    let forbidden = config & PortConfig::NO_PACKET_IN != 0;
                    if origin.0 != 0 || !forbidden {
                        seen.push(Seen::PacketIn(origin.0, origin.1, origin.2, packet.bytes.clone()));
                    }
                }
                Action::Output { port: PortNumber::TABLE, .. } => {
                    let fields = PipelineFields { metadata: 0, ..packet.fields };
                    let mut copy =
                        Packet { fields, headers: Headers::parse(&packet.bytes), bytes: packet.bytes.clone() };
                    self.through_tables(&mut copy, seen);
                }
                Action::Output { port: PortNumber::IN_PORT, .. } => self.send(packet.fields.in_port, packet, seen),
                Action::Output { port: PortNumber::ALL | PortNumber::FLOOD, .. } => {
                    let ports: Vec<u32> =
                        self.ports.keys().copied().filter(|port| *port != packet.fields.in_port).collect();
                    ports.into_iter().for_each(|port| self.send(port, packet, seen));
                }
                Action::Output { port, .. } if port.0 == packet.fields.in_port => {}
                Action::Output { port, .. } => self.send(port.0, packet, seen),
                Action::Group(id) => self.group(*id, packet, origin, seen),
                change => {
                    let Packet { bytes, headers, fields } = packet;
                    if apply(change, bytes, headers, fields).is_err() {
                        return false;
                    }
                }
            }
        }
        true
    }

    fn group(&mut self, id: u32, packet: &Packet, origin: (u8, u8, u64), seen: &mut Vec<Seen>) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        group.packets += 1;
        let live = |bucket: &Bucket| {
            let is_up = |(config, link): &(u32, bool)| *link && config & PortConfig::PORT_DOWN == 0;
            bucket.watch_port == PortNumber::ANY || self.ports.get(&bucket.watch_port.0).is_some_and(is_up)
        };
        let chosen: Vec<usize> = match group.kind {
            Some(GroupKind::All) => (0..group.buckets.len()).collect(),
            Some(GroupKind::Select) => select(group, live, packet).into_iter().collect(),
            Some(GroupKind::FastFailover) => group.buckets.iter().position(live).into_iter().collect(),
            _ => vec![0],
        };
        for number in chosen {
            let Some(group) = self.groups.get_mut(&id) else { return };
            group.bucket_packets[number] += 1;
            let mut set = Vec::new();
            write(&mut set, &group.buckets[number].actions.clone());
            let mut copy = packet.clone();
            self.apply(&in_order(&set), &mut copy, (1, origin.1, origin.2), seen);
        }
    }

    fn send(&mut self, port: u32, packet: &Packet, seen: &mut Vec<Seen>) {
        let open = self
            .ports
            .get(&port)
            .is_some_and(|(config, link)| *link && config & (PortConfig::PORT_DOWN | PortConfig::NO_FWD) == 0);
        if open {
            seen.push(Seen::Sent(port, packet.bytes.clone()));
        }
    }
}

/// The bucket of the packet's flow: live ones share the range of the hash in proportion to their weights.
fn select(group: &Group, live: impl Fn(&Bucket) -> bool, packet: &Packet) -> Option<usize> {
    let key = packet.headers.key(&packet.bytes, &PipelineFields::default());
    let hash = packet.headers.flow_hash(&key) >> 32;
    let weights = group.buckets.iter().map(|bucket| if live(bucket) { u64::from(bucket.weight) } else { 0 });
    let places: Vec<usize> =
        weights.enumerate().flat_map(|(place, weight)| std::iter::repeat_n(place, weight as usize)).collect();
    places.get(((hash * places.len() as u64) >> 32) as usize).copied()
}

fn write(set: &mut Vec<Action>, actions: &[Action]) {
    for action in actions {
        let field = |action: &Action| if let Action::SetField(field, _) = action { Some(*field) } else { None };
        let kind = |action: &Action| (ORDER.iter().position(|is| is(action)), field(action));
        set.retain(|old| kind(old) != kind(action));
        set.push(action.clone());
    }
}

fn in_order(set: &[Action]) -> Vec<Action> {
    let has_group = set.iter().any(|action| matches!(action, Action::Group(_)));
    let kept = |action: &&Action| !(has_group && matches!(action, Action::Output { .. }));
    ORDER.iter().flat_map(|is| set.iter().filter(|action| is(action)).filter(kept)).cloned().collect()
}
