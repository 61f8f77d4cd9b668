//! A batch on its way through the switch, in passes over at most 64 packets:
//!
//! ```text
//! parse       addresses and VLAN out of each packet, asking for the lines of the MAC table that will be wanted
//! police      the ingress port's rate limits (if it has any)
//! decide      learn the source, look the destination up; neighbours with the same addresses cost a comparison
//! distribute  packets of one verdict in a row move as one: handed over, copied (flood.rs), or back to the pool
//! ```

use linerate_mem::{Batch, Part, Pool};

use crate::counters::DropReason;
use crate::flood;
use crate::settings::{PORTS_MAX, PortIndex};
use crate::switch::{Gate, Limits, Member, Switch, UNCLASSIFIED};
use crate::table::{Key, MacTable, View, tick};
use crate::vlan::{Edit, TAG_LEN, Tag, VlanMode, apply};

/// Packets that are looked at together.
pub(crate) const CHUNK: usize = 64;
/// Bytes of an Ethernet header.
const HEADER: usize = 14;
/// 01-80-C2-00-00-0x.
const RESERVED: u64 = 0x0180_c200_0000;
const BROADCAST: u64 = 0xffff_ffff_ffff;
/// The bit of group addresses.
const GROUP: u64 = 1 << 40;

/// What is known about a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packet {
    destination: Key,
    source: Key,
    pub(crate) verdict: Verdict,
    /// Bytes, in all of its slots.
    pub(crate) len: u32,
    pub(crate) slots: u32,
    /// Numbers of the buckets of both keys in the MAC table.
    destination_bucket: u32,
    source_bucket: u32,
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
    /// Set in verdicts that drop, beside their code, because a bit is tested faster than a range.
    const DROP: u32 = 1 << 31;

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
        self.0 & Verdict::DROP != 0
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
    Verdict::DROP | (Verdict::DROPS + reason as u32)
}

/// Where a batch comes from.
#[derive(Clone, Copy)]
pub(crate) struct IngressContext {
    pub(crate) port: PortIndex,
    /// EtherType of the port's own tags.
    pub(crate) ethertype: u16,
    pub(crate) isolated: bool,
    learning: bool,
    mirrored: bool,
    pub(crate) now_ns: u64,
}

impl IngressContext {
    /// For copies of packets that came in at a port.
    pub(crate) fn of_mirror(port: PortIndex, now_ns: u64) -> IngressContext {
        IngressContext { port, ethertype: 0, isolated: false, learning: false, mirrored: false, now_ns }
    }
}

/// Packets in a row with one verdict, and their sums.
struct VerdictRun<'a> {
    verdict: Verdict,
    packets: &'a [Packet],
    slots: usize,
    bytes: u64,
    longest: usize,
}

impl<'a> VerdictRun<'a> {
    /// Those in front, `most` at the most; `None` where there is no packet.
    #[inline]
    fn in_front(packets: &'a [Packet], most: usize) -> Option<VerdictRun<'a>> {
        let verdict = packets.first()?.verdict;
        let packets = &packets[..most.min(packets.len())];
        let (mut count, mut slots, mut bytes, mut longest) = (0, 0, 0, 0);
        for packet in packets {
            if packet.verdict != verdict {
                break;
            }
            count += 1;
            slots += packet.slots as usize;
            bytes += u64::from(packet.len);
            longest = longest.max(packet.len as usize);
        }
        Some(VerdictRun { verdict, packets: &packets[..count], slots, bytes, longest })
    }
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
        let origin = IngressContext {
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
                Some(Some(member)) => Reader::new(&member.settings.vlan).parse(arrived, &self.table, &mut packets),
                _ => 0,
            };
            let Some(known) = packets.get_mut(..count) else { break };
            if count == 0 {
                break;
            }
            if limited && let Some(member) = self.member_mut(ingress) {
                member.limits.police(known);
            }
            self.decide(&origin, known);
            if limited && let Some(member) = self.member_mut(ingress) {
                member.limits.storm_control(known);
            }
            self.distribute(&origin, known, arrived, pool);
        }
        self.packets = packets;
    }

    fn decide(&mut self, origin: &IngressContext, packets: &mut [Packet]) {
        let tick = tick(origin.now_ns);
        let mut rest = packets;
        loop {
            let (view, gates, ingress) = (self.table.view(tick), &self.gates, origin.port.0);
            let known = match origin.learning {
                true => decide_known::<true>(&view, gates, ingress, rest),
                false => decide_known::<false>(&view, gates, ingress, rest),
            };
            let Some((packet, later)) = rest.get_mut(known..).and_then(<[Packet]>::split_first_mut) else { return };
            if origin.learning {
                self.table.learn(packet.source, origin.port.0, tick);
            }
            packet.verdict = packet.verdict.with(self.resolve(origin, packet.destination, tick));
            rest = later;
        }
    }

    /// The code of the verdict on packets to an address.
    fn resolve(&self, origin: &IngressContext, destination: Key, tick: u32) -> u32 {
        if destination.is_group() {
            return self.resolve_group(destination);
        }
        match self.table.lookup(destination, tick) {
            Some(port) => self.resolve_gate(origin, destination, port),
            None => UNKNOWN,
        }
    }

    fn resolve_gate(&self, origin: &IngressContext, destination: Key, port: u16) -> u32 {
        if port == origin.port.0 {
            return drop_code(DropReason::Hairpin);
        }
        let Some(member) = self.member(PortIndex(port)) else { return UNKNOWN };
        if origin.isolated && member.settings.isolated {
            return drop_code(DropReason::Isolated);
        }
        if !member.settings.vlan.has(destination.vlan()) {
            return drop_code(DropReason::VlanNotAllowed);
        }
        u32::from(port)
    }

    fn resolve_group(&self, destination: Key) -> u32 {
        match destination.mac() {
            BROADCAST => TO_ALL,
            mac if mac & !0xf == RESERVED && !self.config.forward_reserved => drop_code(DropReason::LinkLocal),
            _ => TO_GROUP,
        }
    }

    fn distribute(&mut self, origin: &IngressContext, packets: &[Packet], arrived: &mut Batch, pool: &mut Pool) {
        let mut rest = packets;
        let most = if origin.mirrored { 1 } else { CHUNK };
        while let Some(run) = VerdictRun::in_front(rest, most) {
            rest = &rest[run.packets.len()..];
            let verdict = run.verdict;
            if origin.mirrored {
                let vlan = (verdict.account() != UNCLASSIFIED).then(|| verdict.vlan());
                self.mirror_arrived(origin, vlan, arrived, pool);
            }
            let index = usize::from(origin.port.0);
            let count = run.packets.len() as u64;
            self.counters[index].received_packets += count;
            self.counters[index].received_bytes += run.bytes;
            let vlan = &mut self.vlans[verdict.account()];
            vlan.received_packets += count;
            vlan.received_bytes += run.bytes;
            match verdict.action() {
                Action::Drop(reason) => {
                    vlan.dropped.add(reason, count);
                    self.counters[index].drop(reason, count, run.bytes);
                    pool.free_front(arrived, run.slots);
                }
                Action::Port(port) => self.hand_over(origin, port, &run, arrived, pool),
                Action::Flood => {
                    run.packets.iter().for_each(|packet| flood::flood(self, origin, packet, arrived, pool));
                }
            }
        }
    }

    /// Moves packets to one port, all at once if nothing stands in the way.
    #[inline]
    fn hand_over(
        &mut self,
        origin: &IngressContext,
        port: u16,
        run: &VerdictRun<'_>,
        arrived: &mut Batch,
        pool: &mut Pool,
    ) {
        let (verdict, count) = (run.verdict, run.packets.len() as u64);
        let (ingress, egress) = (usize::from(origin.port.0), usize::from(port));
        if let Some(Some(member)) = self.members.get_mut(egress) {
            let edit = member.settings.vlan.edit(verdict.vlan(), verdict.tag(), origin.ethertype);
            let fits = run.longest <= member.settings.frame_len_max && run.slots <= member.queue.batch.room();
            if edit == Edit::Keep && fits && !member.mirrored.egress {
                arrived.move_to(&mut member.queue.batch, run.slots);
                member.queue.note(origin.port.0, count as u32, origin.now_ns);
                self.busy.set(port);
                self.counters[egress].queued_packets += count;
                self.counters[egress].queued_bytes += run.bytes;
                self.counters[ingress].unicast += count;
                self.vlans[verdict.account()].unicast += count;
                return;
            }
        }
        for packet in run.packets {
            match self.hand_over_one(origin, packet, port, arrived) {
                Ok(()) => {
                    self.counters[ingress].unicast += 1;
                    self.vlans[verdict.account()].unicast += 1;
                    self.mirror_queued(origin, port, packet.slots as usize, pool);
                }
                Err(reason) => {
                    self.counters[ingress].drop(reason, 1, u64::from(packet.len));
                    self.vlans[verdict.account()].dropped.add(reason, 1);
                    pool.free_front(arrived, packet.slots as usize);
                }
            }
        }
    }

    /// Moves the first packet to a port's queue, and gives it the tag that it needs there.
    pub(crate) fn hand_over_one(
        &mut self,
        origin: &IngressContext,
        packet: &Packet,
        port: u16,
        arrived: &mut Batch,
    ) -> Result<(), DropReason> {
        let Some(Some(member)) = self.members.get_mut(usize::from(port)) else { return Err(DropReason::FloodSetEmpty) };
        let edit = member.admit(origin, packet, packet.slots as usize)?;
        if !apply(edit, arrived, 0) {
            return Err(DropReason::TooLong);
        }
        arrived.move_to(&mut member.queue.batch, packet.slots as usize);
        self.note_queued(origin, port, packet.slots as usize);
        Ok(())
    }

    /// Counts the packet that was just appended to a port's queue, in its last `slots` slots.
    pub(crate) fn note_queued(&mut self, origin: &IngressContext, port: u16, slots: usize) {
        let index = usize::from(port);
        if let Some(Some(member)) = self.members.get_mut(index) {
            member.queue.note(origin.port.0, 1, origin.now_ns);
            self.busy.set(port);
            self.counters[index].queued_packets += 1;
            let before = member.queue.batch.len() - slots;
            self.counters[index].queued_bytes += member.queue.batch.totals_after(before).bytes;
        }
    }
}

/// Decides on packets as long as nothing has to be learned and nothing stands in the way, the rule under load; returns how many
/// that were. Nothing changes meanwhile, so all that is looked at stays in registers.
#[inline(never)]
fn decide_known<const LEARNS: bool>(
    table: &View<'_>,
    gates: &[Gate; PORTS_MAX],
    ingress: u16,
    packets: &mut [Packet],
) -> usize {
    let (mut source, mut destination, mut code) = (Key::default(), Key::default(), 0);
    let count = packets.len();
    let mut rest = packets.iter_mut();
    while let Some(packet) = rest.next() {
        if packet.verdict.is_drop() {
            continue;
        }
        if LEARNS && packet.source != source {
            if !table.says(packet.source, packet.source_bucket, ingress) {
                return count - rest.len() - 1;
            }
            source = packet.source;
        }
        if packet.destination != destination {
            let port = table.port(packet.destination, packet.destination_bucket);
            let open = |port: &u16| *port != ingress && gates[usize::from(*port) % PORTS_MAX] == Gate::Open;
            let Some(port) = port.filter(open) else { return count - rest.len() - 1 };
            (destination, code) = (packet.destination, u32::from(port));
        }
        packet.verdict = packet.verdict.with(code);
    }
    count
}

impl Member {
    /// Whether the queue takes the packet in so many slots, and with which change.
    pub(crate) fn admit(&self, origin: &IngressContext, packet: &Packet, slots: usize) -> Result<Edit, DropReason> {
        let edit = self.settings.vlan.edit(packet.verdict.vlan(), packet.verdict.tag(), origin.ethertype);
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
    fn storm_control(&mut self, packets: &mut [Packet]) {
        for packet in packets {
            let bucket = packet.verdict.storm().and_then(|kind| self.storm.get_mut(kind)?.as_mut());
            if bucket.is_some_and(|bucket| !bucket.take(1)) {
                packet.verdict = packet.verdict.drop(DropReason::StormLimit);
            }
        }
    }
}

/// How the packets of a port are read.
struct Reader<'a> {
    vlan: &'a VlanMode,
    /// EtherType of a tag of the port's kind; more than 16 bits where no tag is.
    tag: u32,
    /// What packets without one are.
    untagged: Class,
}

/// The VLAN of a packet, and its verdict so far.
#[derive(Clone, Copy)]
struct Class {
    vlan: Key,
    verdict: Verdict,
}

impl<'a> Reader<'a> {
    fn new(vlan: &'a VlanMode) -> Reader<'a> {
        let tag = match vlan {
            VlanMode::Tunnel { .. } => u32::MAX,
            vlan => u32::from(vlan.ethertype()),
        };
        Reader { vlan, tag, untagged: classify(vlan, None) }
    }

    /// Reads the headers of up to [`CHUNK`] packets, and asks for the lines of the MAC table that will be wanted; returns how many.
    #[inline(never)]
    fn parse(&self, arrived: &Batch, table: &MacTable, packets: &mut [Packet]) -> usize {
        let mut parts = arrived.parts();
        let mut count = 0;
        for packet in &mut *packets {
            let Some(part) = parts.next() else { break };
            count += 1;
            self.read(part.bytes, table, packet);
            if part.more {
                packet.read_on(&mut parts);
            }
        }
        count
    }

    /// Reads one header.
    #[inline]
    fn read(&self, bytes: &[u8], table: &MacTable, packet: &mut Packet) {
        packet.len = bytes.len() as u32;
        packet.slots = 1;
        let Some(header) = bytes.first_chunk::<HEADER>() else { return packet.refuse(DropReason::Runt) };
        let destination = word(header, 0) >> 16;
        let source = word(header, 4) & BROADCAST;
        if source & GROUP != 0 {
            return packet.refuse(DropReason::MulticastSource);
        }
        let tagged = u32::from(u16::from_be_bytes([header[12], header[13]])) == self.tag;
        let class = if tagged { self.read_tag(bytes) } else { self.untagged };
        packet.destination = class.vlan.with_mac(destination);
        packet.source = class.vlan.with_mac(source);
        packet.destination_bucket = table.prefetch(packet.destination);
        packet.source_bucket = table.prefetch(packet.source);
        packet.verdict = class.verdict;
    }

    #[inline(never)]
    fn read_tag(&self, bytes: &[u8]) -> Class {
        // A tag of which only the EtherType is there, and its packet, are no good.
        match bytes.get(HEADER - 2..HEADER + 4) {
            Some([_, _, high, low, ..]) => classify(self.vlan, Some(u16::from_be_bytes([*high, *low]))),
            _ => Class { vlan: Key::new(0, 0), verdict: Verdict::unclassified(DropReason::Runt) },
        }
    }
}

/// Eight bytes of a header, as they are sent; `at` is at most 6.
#[inline]
fn word(header: &[u8; HEADER], at: usize) -> u64 {
    header[at..].first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

fn classify(vlan: &VlanMode, tag: Option<u16>) -> Class {
    match vlan.classify(tag) {
        Ok((vlan, tag)) => Class { vlan: Key::new(vlan, 0), verdict: Verdict::new(vlan, tag) },
        Err(reason) => Class { vlan: Key::new(0, 0), verdict: Verdict::unclassified(reason) },
    }
}

impl Packet {
    #[cold]
    fn refuse(&mut self, reason: DropReason) {
        self.verdict = Verdict::unclassified(reason);
    }

    /// Adds the other slots of a packet.
    #[cold]
    fn read_on<'a>(&mut self, parts: &mut impl Iterator<Item = Part<'a>>) {
        for part in parts {
            self.len += part.bytes.len() as u32;
            self.slots += 1;
            if !part.more {
                return;
            }
        }
        self.refuse(DropReason::Runt);
    }
}
