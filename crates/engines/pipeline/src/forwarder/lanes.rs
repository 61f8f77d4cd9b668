//! A batch on its way through the switch, in passes over at most 64 packets:
//!
//! ```text
//! parse       the headers of each packet, and its key; neighbours with the same key are looked up once
//! cache       the number of the way that packets with this key take
//! ask         the tables about keys that the cache does not have, or whose way is stale, all together
//! distribute  packets of one plain way in a row move as one; others are walked along their way, one by one
//! ```

use linerate_classify::{Key, MISS};
use linerate_mem::{Batch, Part, Pool};
use linerate_openflow::{Fragments, PortConfig};

use super::Core;
use super::execute::InHand;
use super::path::{Asked, Op};
use super::resolve::{View, ask, build, each, is_current};
use crate::action_set::ActionSet;
use crate::drops::DropReason;
use crate::packet::{CommonHeaders, Fragment, Headers, PipelineFields};

/// Packets that are looked at together.
pub(super) const LANES: usize = 64;

/// A packet of the pass.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    len: u32,
    slots: u16,
    kind: Kind,
    /// Its way.
    way: u32,
}

/// What is known of a packet before its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// It goes through the tables, and has common headers.
    Common(CommonHeaders),
    /// It goes through the tables; its headers are in [`Lanes::headers`].
    #[default]
    Other,
    /// It is to be put together with others first.
    Fragment,
    Refused(DropReason),
}

impl Kind {
    #[inline]
    fn is_forwarded(self) -> bool {
        matches!(self, Kind::Common(_) | Kind::Other)
    }
}

/// Memory of the passes of one worker.
pub(super) struct Lanes {
    lanes: Box<[Lane; LANES]>,
    headers: Box<[Headers; LANES]>,
    keys: Box<[Key; LANES]>,
    asked: Vec<Vec<Asked>>,
}

impl Default for Lanes {
    fn default() -> Lanes {
        Lanes {
            lanes: Box::new([Lane::default(); LANES]),
            headers: Box::new([Headers::default(); LANES]),
            keys: Box::new([Key::ZERO; LANES]),
            asked: (0..LANES).map(|_| Vec::with_capacity(8)).collect(),
        }
    }
}

/// Packets in a row that take one plain way.
#[derive(Default)]
struct Run {
    packets: usize,
    slots: usize,
    bytes: u64,
    longest: usize,
}

impl Core {
    /// Forwards the packets of a batch through the tables.
    pub(super) fn forward_lanes(
        &mut self,
        view: &View<'_>,
        fields: &PipelineFields,
        in_slot: u16,
        batch: &mut Batch,
        pool: &mut Pool,
    ) {
        if self.paths.is_full() {
            self.forget_ways();
        }
        let Some(mut lanes) = self.lanes.take() else { return };
        batch.prefetch_heads(0, LANES);
        while !batch.is_empty() {
            let (count, fresh) = lanes.parse(batch, fields, view.state.config.fragments);
            if count == 0 {
                break;
            }
            self.find_ways(view, &mut lanes, count, fresh, fields);
            self.distribute(view, &lanes, count, fields, in_slot, batch, pool);
        }
        self.lanes = Some(lanes);
    }

    pub(super) fn forget_ways(&mut self) {
        self.paths.clear();
        if let Some(cache) = &mut self.cache {
            cache.clear();
        }
    }

    /// Finds the ways of the first `count` packets. `fresh` has a bit for each whose key differs from that of the packet before it.
    fn find_ways(&mut self, view: &View<'_>, lanes: &mut Lanes, count: usize, fresh: u64, fields: &PipelineFields) {
        let mut ways = [MISS; LANES];
        if let Some(cache) = &mut self.cache {
            // Keys behind the last fresh one are those of their neighbours.
            let end = LANES - fresh.leading_zeros() as usize;
            cache.lookup_batch(&lanes.keys[..end], fresh, &mut ways);
        }
        each(fresh, |lane| self.paths.prefetch(ways[lane]));
        let mut unknown = 0u64;
        each(fresh, |lane| {
            if let Some(path) = self.paths.get_mut(ways[lane])
                && is_current(view, path)
            {
                path.hit.iter().for_each(|hit| self.counters.prefetch(hit.counter));
            } else {
                unknown |= 1 << lane;
            }
        });
        if unknown != 0 {
            self.ask_tables(view, lanes, count, unknown, &mut ways, fields);
        }
        let misses = u64::from(unknown.count_ones());
        let account = self.account();
        account.cache_misses.add(misses);
        account.cache_hits.add(count as u64 - misses);
        let mut way = MISS;
        for (lane, (known, found)) in lanes.lanes[..count].iter_mut().zip(&ways[..count]).enumerate() {
            if fresh >> lane & 1 == 1 {
                way = *found;
            }
            known.way = way;
        }
    }

    /// Asks the tables about the lanes whose bit is set, and keeps what they say.
    #[inline(never)]
    fn ask_tables(
        &mut self,
        view: &View<'_>,
        lanes: &mut Lanes,
        count: usize,
        unknown: u64,
        ways: &mut [u32; LANES],
        fields: &PipelineFields,
    ) {
        lanes.asked.iter_mut().for_each(Vec::clear);
        ask(view, &mut lanes.keys[..count], unknown, 0, &mut lanes.asked, &mut self.scratch);
        let entries = self.cache.as_ref().map_or(0, linerate_classify::Cache::len);
        self.account().cache_entries.set(entries as u64);
        each(unknown, |lane| self.paths.prefetch_number(&lanes.asked[lane]));
        each(unknown, |lane| {
            ways[lane] = self.paths.find(&lanes.asked[lane], fields.metadata).unwrap_or(MISS);
            self.paths.prefetch(ways[lane]);
        });
        each(unknown, |lane| {
            // The tables may have changed the metadata of the key.
            crate::facts::set_metadata(&mut lanes.keys[lane], fields.metadata);
            let way = self.way_of(view, &lanes.asked[lane], fields.metadata);
            ways[lane] = way;
            let Some(path) = self.paths.get(way) else { return };
            path.hit.iter().for_each(|hit| self.counters.prefetch(hit.counter));
            if let Some(cache) = &mut self.cache
                && !path.is_transient
            {
                cache.insert(&lanes.keys[lane], way);
            }
        });
    }

    /// The number of the way that rests on these entries.
    pub(super) fn way_of(&mut self, view: &View<'_>, asked: &[Asked], metadata: u64) -> u32 {
        if let Some(number) = self.paths.find(asked, metadata)
            && self.paths.get_mut(number).is_some_and(|path| is_current(view, path))
        {
            return number;
        }
        let path = build(view, asked, metadata, ActionSet::default());
        self.paths.keep(asked, metadata, path)
    }

    #[allow(clippy::too_many_arguments, reason = "what a pass knows, and where packets are")]
    fn distribute(
        &mut self,
        view: &View<'_>,
        lanes: &Lanes,
        count: usize,
        fields: &PipelineFields,
        in_slot: u16,
        batch: &mut Batch,
        pool: &mut Pool,
    ) {
        let mut at = 0;
        while at < count {
            let first = &lanes.lanes[at];
            let end = if first.kind.is_forwarded()
                && let Some(slot) = self.paths.get(first.way).and_then(|path| path.plain)
            {
                let run = run_in_front(&lanes.lanes[at..count], first.way);
                let end = at + run.packets;
                if self.move_run(view, first.way, slot, &run, in_slot, batch) {
                    at = end;
                    continue;
                }
                end
            } else {
                at + 1
            };
            for lane in at..end {
                self.walk_lane(view, lanes, lane, fields, in_slot, batch, pool);
            }
            at = end;
        }
    }

    /// Moves packets that take one plain way to their port, all at once; false if something stands in the way of one of them.
    #[inline]
    fn move_run(&mut self, view: &View<'_>, way: u32, slot: u16, run: &Run, in_slot: u16, batch: &mut Batch) -> bool {
        let Some(port) = view.state.port(slot) else { return false };
        if slot == in_slot || port.has(PortConfig::PORT_DOWN | PortConfig::NO_FWD) || !port.shared.has_link() {
            return false;
        }
        let now_ns = self.now_ns;
        let Some(egress) = self.egress_of(slot) else { return false };
        if !egress.is_plain() || run.longest > egress.len_max || run.slots > egress.batch.room() {
            return false;
        }
        batch.move_to(&mut egress.batch, run.slots);
        egress.note(run.packets as u32, run.bytes, now_ns);
        let account = self.account();
        account.received.add(run.packets as u64, run.bytes);
        account.queued.add(run.packets as u64);
        let Core { paths, shared, counters, worker, .. } = self;
        let tallies = shared.table_tallies.of(*worker);
        let (packets, bytes) = (run.packets as u64, run.bytes);
        let Some(path) = paths.get(way) else { return true };
        if path.is_single {
            super::count(tallies, counters, path.first.table, path.hit.as_ref(), packets, bytes, now_ns);
            return true;
        }
        for op in &path.ops {
            if let Op::Table { table, hit } = op {
                super::count(tallies, counters, *table, hit.as_ref(), packets, bytes, now_ns);
            }
        }
        true
    }

    /// Walks the first packet of the batch, which is in `lane`, along its way.
    #[allow(clippy::too_many_arguments, reason = "what a pass knows, and where packets are")]
    fn walk_lane(
        &mut self,
        view: &View<'_>,
        lanes: &Lanes,
        lane: usize,
        fields: &PipelineFields,
        in_slot: u16,
        batch: &mut Batch,
        pool: &mut Pool,
    ) {
        let Lane { len, slots, kind, way } = lanes.lanes[lane];
        self.account().received.add(1, u64::from(len));
        let headers = match kind {
            Kind::Common(common) => common.headers(),
            _ => lanes.headers[lane],
        };
        let mut hand = InHand {
            headers,
            fields: *fields,
            in_slot,
            len: len as usize,
            slots: usize::from(slots),
            queue: None,
            table: 0,
            places: 0,
            is_moved: false,
            is_joined: false,
        };
        let end = match kind {
            Kind::Fragment => {
                self.fragments.get_or_insert_with(super::fragments::Fragments::new);
                return self.fragment(view, &hand, batch, pool);
            }
            Kind::Refused(reason) => Some(reason),
            Kind::Common(_) | Kind::Other => self.walk_way(view, way, &mut hand, batch, pool),
        };
        self.finish(&mut hand, end, batch, pool);
    }

    /// Walks the first packet of the batch along a way; returns why it is dropped if it went nowhere.
    pub(super) fn walk_way(
        &mut self,
        view: &View<'_>,
        way: u32,
        hand: &mut InHand,
        batch: &mut Batch,
        pool: &mut Pool,
    ) -> Option<DropReason> {
        let path = self.paths.get_mut(way)?;
        let (ops, end) = (std::mem::take(&mut path.ops), path.end);
        let walked = self.walk(view, &ops, hand, batch, pool, true);
        if let Some(path) = self.paths.get_mut(way) {
            path.ops = ops;
        }
        walked.ok().and(end)
    }
}

impl Lanes {
    /// Reads the headers of up to 64 packets. Returns how many, and a bit for each whose key differs from that of the one before.
    #[inline]
    fn parse(&mut self, batch: &Batch, fields: &PipelineFields, fragments: Fragments) -> (usize, u64) {
        let mut parts = batch.parts();
        let (mut count, mut fresh) = (0, 0u64);
        // The lane of the key before; none is before the first.
        let mut before = LANES;
        while count < LANES {
            let Some(part) = parts.next() else { break };
            let kind = match CommonHeaders::read(part.bytes, fields, &mut self.keys[count]) {
                Some(common) => Kind::Common(common),
                None => self.read_other(count, part, fields, fragments),
            };
            let mut lane = Lane { len: part.bytes.len() as u32, slots: 1, kind, way: MISS };
            if part.more {
                read_on(&mut lane, &mut parts);
            }
            if lane.kind.is_forwarded() {
                if before == LANES || self.keys[before] != self.keys[count] {
                    fresh |= 1 << count;
                }
                before = count;
            }
            self.lanes[count] = lane;
            count += 1;
        }
        (count, fresh)
    }

    /// Reads a packet whose headers are not common.
    fn read_other(&mut self, lane: usize, part: Part<'_>, fields: &PipelineFields, fragments: Fragments) -> Kind {
        let headers = Headers::read_slowly(part.bytes, fields, &mut self.keys[lane]);
        self.headers[lane] = headers;
        kind(&headers, part.more, fragments)
    }
}

fn kind(headers: &Headers, more: bool, fragments: Fragments) -> Kind {
    if headers.is_runt() {
        return Kind::Refused(DropReason::Runt);
    }
    if more && headers.is_truncated() {
        return Kind::Refused(DropReason::HeadersCut);
    }
    match fragments {
        Fragments::Drop if headers.fragment() != Fragment::Whole => Kind::Refused(DropReason::Fragment),
        Fragments::Reassemble if headers.fragment() != Fragment::Whole => Kind::Fragment,
        _ => Kind::Other,
    }
}

/// Adds the other slots of a packet.
#[cold]
fn read_on<'a>(lane: &mut Lane, parts: &mut impl Iterator<Item = Part<'a>>) {
    for part in parts {
        lane.len += part.bytes.len() as u32;
        lane.slots += 1;
        if !part.more {
            return;
        }
    }
    lane.kind = Kind::Refused(DropReason::Runt);
}

/// The packets in front that take a way.
#[inline]
fn run_in_front(lanes: &[Lane], way: u32) -> Run {
    let (mut packets, mut slots, mut bytes, mut longest) = (0, 0, 0, 0);
    for lane in lanes {
        if lane.way != way || !lane.kind.is_forwarded() {
            break;
        }
        packets += 1;
        slots += usize::from(lane.slots);
        bytes += u64::from(lane.len);
        longest = longest.max(lane.len as usize);
    }
    Run { packets, slots, bytes, longest }
}
