//! A batch on its way through the switch, in passes over at most 64 packets:
//!
//! ```text
//! parse       addresses and VLAN out of each packet, asking for the lines of the MAC table that will be wanted
//! police      the ingress port's rate limits (if it has any)
//! decide      learn the source, look the destination up; neighbours with the same addresses cost a comparison
//! distribute  packets of one verdict in a row move as one: handed over, copied (flood.rs), or back to the pool
//! ```

use linerate_mem::{Batch, Pool};

use crate::counters::DropReason;
use crate::flood;
use crate::settings::PortIndex;
use crate::switch::{Limits, Member, Switch, UNCLASSIFIED};
use crate::table::{Key, Learned, MacTable, tick};
use crate::vlan::{Edit, TAG_LEN, Tag, VlanMode, apply};

/// Packets that are looked at together.
pub(crate) const CHUNK: usize = 64;
/// Bytes of an Ethernet header.
const HEADER: usize = 14;
/// 01-80-C2-00-00-0x.
const RESERVED: u64 = 0x0180_c200_0000;
const BROADCAST: u64 = 0xffff_ffff_ffff;

/// What is known about a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packet {
    destination: Key,
    source: Key,
    pub(crate) verdict: Verdict,
    /// Bytes, in all of its slots.
    pub(crate) len: u32,
    pub(crate) slots: u32,
}

/// Where a packet goes, and what is needed to let it go there; one word, so that packets are compared at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict(u32);

/// A verdict taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Port(u16),
    Flood,
    Drop(DropReason),
}

impl Verdict {
    /// Codes above those of ports.
    const FLOODS: u32 = 0xff00;
    const DROPS: u32 = 0xff80;
    const CODES: u32 = 0xffff;

    fn new(vlan: u16, tag: Tag) -> Verdict {
        Verdict(u32::from(vlan & 0xfff) << 16 | (tag as u32) << 28)
    }

    /// Dropped before it was put into a VLAN.
    fn unclassified(reason: DropReason) -> Verdict {
        Verdict(1 << 30).drop(reason)
    }

    #[inline]
    fn with(self, code: u32) -> Verdict {
        Verdict(self.0 & !Verdict::CODES | code)
    }

    #[inline]
    fn drop(self, reason: DropReason) -> Verdict {
        self.with(drop_code(reason))
    }

    #[inline]
    fn is_drop(self) -> bool {
        self.0 & Verdict::CODES >= Verdict::DROPS
    }

    /// Number of the storm limit that it is under, when it is flooded.
    #[inline]
    fn storm(self) -> Option<usize> {
        let code = self.0 & Verdict::CODES;
        (Verdict::FLOODS..Verdict::DROPS).contains(&code).then(|| (code - Verdict::FLOODS) as usize)
    }

    #[inline]
    pub(crate) fn vlan(self) -> u16 {
        (self.0 >> 16) as u16 & 0xfff
    }

    /// Place of its VLAN's counters.
    #[inline]
    fn account(self) -> usize {
        if self.0 & 1 << 30 != 0 { UNCLASSIFIED } else { usize::from(self.vlan()) }
    }

    #[inline]
    pub(crate) fn tag(self) -> Tag {
        match self.0 >> 28 & 3 {
            0 => Tag::Absent,
            1 => Tag::Own,
            _ => Tag::Priority,
        }
    }

    #[inline]
    fn action(self) -> Action {
        match self.0 & Verdict::CODES {
            code if code < Verdict::FLOODS => Action::Port(code as u16),
            code if code < Verdict::DROPS => Action::Flood,
            code => {
                let reason = DropReason::ALL.get((code - Verdict::DROPS) as usize);
                Action::Drop(reason.copied().unwrap_or(DropReason::Runt))
            }
        }
    }
}

/// Kinds of floods, in the order of [`Limits::storm`].
const UNKNOWN: u32 = Verdict::FLOODS;
const TO_ALL: u32 = Verdict::FLOODS + 1;
const TO_GROUP: u32 = Verdict::FLOODS + 2;

const fn drop_code(reason: DropReason) -> u32 {
    Verdict::DROPS + reason as u32
}

/// Where a batch comes from.
#[derive(Clone, Copy)]
pub(crate) struct Lane {
    pub(crate) port: PortIndex,
    /// EtherType of the port's own tags.
    pub(crate) ethertype: u16,
    pub(crate) isolated: bool,
    learning: bool,
    mirrored: bool,
    pub(crate) now_ns: u64,
}

/// Packets in a row with one verdict.
#[derive(Clone, Copy, Default)]
struct Stretch {
    packets: usize,
    slots: usize,
    bytes: u64,
    longest: usize,
}

impl Switch {
    /// Lets every packet of `arrived`, which came in at `ingress`, go where it belongs: into egress queues, or back to the
    /// pool, counted with a reason. `arrived` is empty afterwards.
    ///
    /// # Panics
    /// When the batch or the pool is of another region than the switch's pool.
    pub fn forward(&mut self, ingress: PortIndex, arrived: &mut Batch, pool: &mut Pool, now_ns: u64) {
        self.now_ns = now_ns;
        let Some(member) = self.member_mut(ingress) else { return self.drop_all(arrived, pool) };
        let limited = member.limits.fill(now_ns);
        let lane = Lane {
            port: ingress,
            ethertype: member.settings.vlan.ethertype(),
            isolated: member.settings.isolated,
            learning: member.settings.learning,
            mirrored: member.mirrored.ingress,
            now_ns,
        };
        let mut packets = std::mem::take(&mut self.packets);
        arrived.prefetch_heads(0, CHUNK);
        while !arrived.is_empty() {
            let count = match self.members.get(usize::from(ingress.0)) {
                Some(Some(member)) => parse(arrived, &member.settings.vlan, &self.table, &mut packets),
                _ => 0,
            };
            let Some(known) = packets.get_mut(..count) else { break };
            if count == 0 {
                break;
            }
            if limited && let Some(member) = self.member_mut(ingress) {
                member.limits.police(known);
            }
            self.decide(&lane, known);
            if limited && let Some(member) = self.member_mut(ingress) {
                member.limits.calm(known);
            }
            self.distribute(&lane, known, arrived, pool);
        }
        self.packets = packets;
    }

    fn decide(&mut self, lane: &Lane, packets: &mut [Packet]) {
        let tick = tick(lane.now_ns);
        let (mut source, mut destination, mut code) = (Key::default(), Key::default(), 0);
        for packet in packets {
            if packet.verdict.is_drop() {
                continue;
            }
            if packet.source != source {
                source = packet.source;
                if lane.learning && self.table.learn(source, lane.port.0, tick) == Learned::Changed {
                    destination = Key::default();
                }
            }
            if packet.destination != destination {
                destination = packet.destination;
                code = self.resolve(lane, destination, tick);
            }
            packet.verdict = packet.verdict.with(code);
        }
    }

    /// The code of the verdict on packets to an address.
    #[inline]
    fn resolve(&self, lane: &Lane, destination: Key, tick: u32) -> u32 {
        if destination.is_group() {
            return self.resolve_group(destination);
        }
        let Some(port) = self.table.lookup(destination, tick) else { return UNKNOWN };
        if port == lane.port.0 {
            return drop_code(DropReason::SamePort);
        }
        let Some(member) = self.member(PortIndex(port)) else { return UNKNOWN };
        if lane.isolated && member.settings.isolated {
            return drop_code(DropReason::Isolated);
        }
        if !member.settings.vlan.has(destination.vlan()) {
            return drop_code(DropReason::VlanNotAllowed);
        }
        u32::from(port)
    }

    #[cold]
    fn resolve_group(&self, destination: Key) -> u32 {
        match destination.mac() {
            BROADCAST => TO_ALL,
            mac if mac & !0xf == RESERVED && !self.config.forward_reserved => drop_code(DropReason::Reserved),
            _ => TO_GROUP,
        }
    }

    fn distribute(&mut self, lane: &Lane, packets: &[Packet], arrived: &mut Batch, pool: &mut Pool) {
        let mut rest = packets;
        let most = if lane.mirrored { 1 } else { CHUNK };
        while let Some(first) = rest.first() {
            let verdict = first.verdict;
            let mut stretch = Stretch::default();
            for packet in rest.iter().take(most).take_while(|packet| packet.verdict == verdict) {
                stretch.packets += 1;
                stretch.slots += packet.slots as usize;
                stretch.bytes += u64::from(packet.len);
                stretch.longest = stretch.longest.max(packet.len as usize);
            }
            let (now, later) = rest.split_at(stretch.packets);
            rest = later;
            if lane.mirrored {
                let vlan = (verdict.account() != UNCLASSIFIED).then(|| verdict.vlan());
                self.mirror_arrived(lane, vlan, arrived, pool);
            }
            let index = usize::from(lane.port.0);
            let count = stretch.packets as u64;
            self.counters[index].received_packets += count;
            self.counters[index].received_bytes += stretch.bytes;
            let vlan = &mut self.vlans[verdict.account()];
            vlan.received_packets += count;
            vlan.received_bytes += stretch.bytes;
            match verdict.action() {
                Action::Drop(reason) => {
                    vlan.dropped.add(reason, count);
                    self.counters[index].dropped.add(reason, count);
                    pool.put_front(arrived, stretch.slots);
                }
                Action::Port(port) => self.hand_over(lane, verdict, port, stretch, now, arrived, pool),
                Action::Flood => {
                    now.iter().for_each(|packet| flood::flood(self, lane, packet, arrived, pool));
                }
            }
        }
    }

    /// Moves packets to one port, all at once if nothing stands in the way.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    fn hand_over(
        &mut self,
        lane: &Lane,
        verdict: Verdict,
        port: u16,
        stretch: Stretch,
        packets: &[Packet],
        arrived: &mut Batch,
        pool: &mut Pool,
    ) {
        let (ingress, egress) = (usize::from(lane.port.0), usize::from(port));
        if let Some(Some(member)) = self.members.get_mut(egress) {
            let edit = member.settings.vlan.edit(verdict.vlan(), verdict.tag(), lane.ethertype);
            let fits = stretch.longest <= member.settings.frame_len_max && stretch.slots <= member.queue.batch.room();
            if edit == Edit::Keep && fits && !member.mirrored.egress {
                arrived.move_to(&mut member.queue.batch, stretch.slots);
                member.queue.note(lane.port.0, stretch.packets as u32, lane.now_ns);
                self.counters[egress].queued_packets += stretch.packets as u64;
                self.counters[egress].queued_bytes += stretch.bytes;
                self.counters[ingress].unicast += stretch.packets as u64;
                self.vlans[verdict.account()].unicast += stretch.packets as u64;
                return;
            }
        }
        for packet in packets {
            match self.hand_over_one(lane, packet, port, arrived) {
                Ok(()) => {
                    self.counters[ingress].unicast += 1;
                    self.vlans[verdict.account()].unicast += 1;
                    self.mirror_queued(lane, port, packet.slots as usize, pool);
                }
                Err(reason) => {
                    self.counters[ingress].dropped.add(reason, 1);
                    self.vlans[verdict.account()].dropped.add(reason, 1);
                    pool.put_front(arrived, packet.slots as usize);
                }
            }
        }
    }

    /// Moves the first packet to a port's queue, and gives it the tag that it needs there.
    pub(crate) fn hand_over_one(
        &mut self,
        lane: &Lane,
        packet: &Packet,
        port: u16,
        arrived: &mut Batch,
    ) -> Result<(), DropReason> {
        let Some(Some(member)) = self.members.get_mut(usize::from(port)) else { return Err(DropReason::NoDestination) };
        let edit = member.admit(lane, packet, packet.slots as usize)?;
        if !apply(edit, arrived, 0) {
            return Err(DropReason::TooLong);
        }
        arrived.move_to(&mut member.queue.batch, packet.slots as usize);
        self.note_queued(lane, port, packet.slots as usize);
        Ok(())
    }

    /// Counts the packet that was just appended to a port's queue, in its last `slots` slots.
    pub(crate) fn note_queued(&mut self, lane: &Lane, port: u16, slots: usize) {
        let index = usize::from(port);
        if let Some(Some(member)) = self.members.get_mut(index) {
            member.queue.note(lane.port.0, 1, lane.now_ns);
            self.counters[index].queued_packets += 1;
            let before = member.queue.batch.len() - slots;
            self.counters[index].queued_bytes += member.queue.batch.totals_after(before).bytes;
        }
    }
}

impl Member {
    /// Whether the queue takes the packet in so many slots, and with which change.
    pub(crate) fn admit(&self, lane: &Lane, packet: &Packet, slots: usize) -> Result<Edit, DropReason> {
        let edit = self.settings.vlan.edit(packet.verdict.vlan(), packet.verdict.tag(), lane.ethertype);
        let shrinkage = if edit == Edit::Pop { TAG_LEN } else { 0 };
        if packet.len as usize + edit.growth() > self.settings.frame_len_max + shrinkage {
            return Err(DropReason::TooLong);
        }
        if self.queue.batch.room() < slots {
            return Err(DropReason::EgressFull);
        }
        Ok(edit)
    }
}

impl Limits {
    /// Adds the tokens that came since the last batch; false when there are no limits.
    #[inline]
    fn fill(&mut self, now_ns: u64) -> bool {
        let mut limited = false;
        let rates = [&mut self.bits, &mut self.packets];
        for bucket in rates.into_iter().chain(&mut self.storm).flatten() {
            bucket.fill(now_ns);
            limited = true;
        }
        limited
    }

    /// Drops what is above the rate limits.
    fn police(&mut self, packets: &mut [Packet]) {
        for packet in packets.iter_mut().filter(|packet| !packet.verdict.is_drop()) {
            let bits = u64::from(packet.len) * 8;
            let bits_pass = self.bits.as_mut().is_none_or(|bucket| bucket.take(bits));
            let passes = bits_pass && self.packets.as_mut().is_none_or(|bucket| bucket.take(1));
            if passes {
                continue;
            }
            if bits_pass && let Some(bucket) = &mut self.bits {
                bucket.give(bits);
            }
            packet.verdict = packet.verdict.drop(DropReason::RateLimit);
        }
    }

    /// Drops what is above the storm limits.
    fn calm(&mut self, packets: &mut [Packet]) {
        for packet in packets {
            let bucket = packet.verdict.storm().and_then(|kind| self.storm.get_mut(kind)?.as_mut());
            if bucket.is_some_and(|bucket| !bucket.take(1)) {
                packet.verdict = packet.verdict.drop(DropReason::StormLimit);
            }
        }
    }
}

/// Reads the headers of up to [`CHUNK`] packets; returns how many.
#[inline]
fn parse(arrived: &Batch, vlan: &VlanMode, table: &MacTable, packets: &mut [Packet]) -> usize {
    let mut places = packets.iter_mut();
    let mut open: Option<&mut Packet> = None;
    let mut count = 0;
    let (mut source, mut destination) = (Key::default(), Key::default());
    for part in arrived.parts() {
        let packet = match open.take() {
            Some(packet) => {
                packet.len += part.bytes.len() as u32;
                packet.slots += 1;
                packet
            }
            None => {
                let Some(packet) = places.next() else { break };
                count += 1;
                *packet = read(part.bytes, vlan);
                if packet.source != source {
                    source = packet.source;
                    table.prefetch(source);
                }
                if packet.destination != destination {
                    destination = packet.destination;
                    table.prefetch(destination);
                }
                packet
            }
        };
        open = part.more.then_some(packet);
    }
    if let Some(packet) = open {
        packet.verdict = Verdict::unclassified(DropReason::Runt);
    }
    count
}

/// Reads one header.
#[inline]
fn read(bytes: &[u8], vlan: &VlanMode) -> Packet {
    let mut packet = Packet { len: bytes.len() as u32, slots: 1, ..Packet::default() };
    let Some(header) = bytes.first_chunk::<HEADER>() else {
        packet.verdict = Verdict::unclassified(DropReason::Runt);
        return packet;
    };
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *header;
    let source = u64::from_be_bytes([d4, d5, s0, s1, s2, s3, s4, s5]) & BROADCAST;
    if s0 & 1 != 0 {
        packet.verdict = Verdict::unclassified(DropReason::SourceIsGroup);
        return packet;
    }
    let mut tag = None;
    if u16::from_be_bytes([t0, t1]) == vlan.ethertype() && !matches!(vlan, VlanMode::Tunnel { .. }) {
        // A tag of which only the EtherType is there, and its packet, are no good.
        let Some([_, _, c0, c1, ..]) = bytes.get(HEADER - 2..HEADER + 4) else {
            packet.verdict = Verdict::unclassified(DropReason::Runt);
            return packet;
        };
        tag = Some(u16::from_be_bytes([*c0, *c1]));
    }
    match vlan.classify(tag) {
        Ok((id, tag)) => {
            packet.destination = Key::new(id, u64::from_be_bytes([d0, d1, d2, d3, d4, d5, s0, s1]) >> 16);
            packet.source = Key::new(id, source);
            packet.verdict = Verdict::new(id, tag);
        }
        Err(reason) => packet.verdict = Verdict::unclassified(reason),
    }
    packet
}
