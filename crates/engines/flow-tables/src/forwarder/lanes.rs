//! A batch on its way through the switch, in passes over at most 64 packets:
//!
//! ```text
//! parse       the headers of each packet, and its key; neighbours whose keys do not differ in what entries compare are looked up once
//! wide        the ways of late, with the bits by which they were decided on: packets with the same bits take them (`wide.rs`)
//! cache       the number of the way that packets with this key take, of which the cache knows what entries compare; it may rest (`rest.rs`)
//! ask         the tables about keys that the cache does not have, or whose way is stale, all together
//! distribute  packets in a row that leave by one port as they are move as one; others are walked along their way, one by one
//! ```

use linerate_classify::{Key, MISS};
use linerate_mem::{Batch, Part, Pool};
use linerate_openflow::Fragments;

use super::Core;
use super::path::Asked;
use super::resolve::{View, ask_on, build, each, is_current, look_up};
use crate::action_set::ActionSet;
use crate::drops::DropReason;
use crate::facts::BEYOND_ENTRIES;
use crate::packet::{CommonHeaders, Fragment, Headers, PipelineFields};
use crate::relevant::Relevant;

/// Packets that are looked at together.
pub(super) const LANES: usize = 64;

/// Packets of a pass, at least, unlike those of late, before the way of one of them is learned.
const OPEN_MIN: u32 = 4;

/// A packet of the pass.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lane {
    pub(super) len: u32,
    pub(super) slots: u16,
    pub(super) kind: Kind,
}

/// What is known of a packet before its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
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
    pub(super) fn is_forwarded(self) -> bool {
        matches!(self, Kind::Common(_) | Kind::Other)
    }
}

/// Memory of the passes of one worker.
pub(super) struct Lanes {
    pub(super) lanes: Box<[Lane; LANES]>,
    /// Numbers of the packets' ways.
    pub(super) ways: Box<[u32; LANES]>,
    pub(super) headers: Box<[Headers; LANES]>,
    keys: Box<[Key; LANES]>,
    /// What the first table found.
    hits: Box<[u32; LANES]>,
    asked: Vec<Vec<Asked>>,
}

impl Default for Lanes {
    fn default() -> Lanes {
        Lanes {
            lanes: Box::new([Lane::default(); LANES]),
            ways: Box::new([MISS; LANES]),
            headers: Box::new([Headers::default(); LANES]),
            keys: Box::new([Key::ZERO; LANES]),
            hits: Box::new([MISS; LANES]),
            asked: (0..LANES).map(|_| Vec::with_capacity(8)).collect(),
        }
    }
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
            let fragments = view.state.config.fragments;
            let (count, fresh) = lanes.parse(batch, fields, fragments, &self.relevant);
            if count == 0 {
                break;
            }
            if !self.find_ways(view, &mut lanes, count, fresh, fields) {
                // Entries that compare other bits came just now: these packets go by whole keys, which are right under any entries.
                self.relevant = Relevant::ALL;
                let (_, fresh) = lanes.parse(batch, fields, fragments, &self.relevant);
                self.find_ways(view, &mut lanes, count, fresh, fields);
            }
            self.distribute(view, &lanes, count, fields, in_slot, batch, pool);
        }
        self.lanes = Some(lanes);
    }

    pub(super) fn forget_ways(&mut self) {
        self.paths.clear();
        self.wide.clear();
        if let Some(cache) = &mut self.cache {
            cache.clear();
        }
    }

    /// Finds the ways of the first `count` packets. `fresh` has a bit for each whose key differs from that of the packet before it.
    /// Returns false if entries came meanwhile that compare bits which the keys had in common unseen.
    fn find_ways(
        &mut self,
        view: &View<'_>,
        lanes: &mut Lanes,
        count: usize,
        fresh: u64,
        fields: &PipelineFields,
    ) -> bool {
        let is_wide = fields.metadata == 0 && self.wide.is_turn(fresh.count_ones());
        let open = if is_wide { fresh & !self.ask_wide(view, lanes, fresh) } else { fresh };
        let (mut unknown, mut missed) = (open, 0);
        let keeps = open != 0 && self.cache.is_some() && self.rest.is_turn();
        if keeps {
            (unknown, missed) = self.ask_cache(view, lanes, open);
        }
        if unknown != 0 && !self.ask_tables(view, lanes, count, (unknown, missed), keeps, fields) {
            return false;
        }
        if keeps {
            self.rest.note(open.count_ones(), (open & !unknown).count_ones());
        }
        if is_wide {
            self.wide.note(fresh.count_ones(), (fresh & !open).count_ones());
            if open.count_ones() >= OPEN_MIN {
                self.learn_wide(view, lanes, LANES - 1 - open.leading_zeros() as usize);
            }
        }
        let misses = u64::from(unknown.count_ones());
        let account = self.account();
        account.cache_misses.add(misses);
        account.cache_hits.add(count as u64 - misses);
        if fresh != linerate_classify::lanes(count) {
            let mut way = MISS;
            for (lane, known) in lanes.ways[..count].iter_mut().enumerate() {
                if fresh >> lane & 1 == 1 {
                    way = *known;
                }
                *known = way;
            }
        }
        true
    }

    /// Finds the ways of those among the lanes in `fresh` that are like packets of late; returns these lanes.
    #[inline]
    fn ask_wide(&mut self, view: &View<'_>, lanes: &mut Lanes, fresh: u64) -> u64 {
        let Core { wide, paths, counters, .. } = self;
        wide.check(|way| {
            paths.get_mut(way).is_some_and(|path| {
                path.hit.iter().for_each(|hit| counters.prefetch(hit.counter));
                is_current(view, path)
            })
        });
        let mut found = 0;
        each(fresh, |lane| {
            let way = wide.find(&lanes.keys[lane]);
            lanes.ways[lane] = way;
            found |= u64::from(way != MISS) << lane;
        });
        found
    }

    /// Learns the way of a lane, which is known, with the bits that decide it, if it rests on one entry of the first table.
    #[inline(never)]
    fn learn_wide(&mut self, view: &View<'_>, lanes: &Lanes, lane: usize) {
        let (key, way) = (&lanes.keys[lane], lanes.ways[lane]);
        let Some(path) = self.paths.get(way).filter(|path| path.is_single && !path.is_transient) else { return };
        let Asked { table: 0, flow: Some((slot, _)) } = path.first else { return };
        let (id, mut mask) = view.shared.tables[0].rules.lookup_wide(view.guard, key, &mut self.scratch);
        mask.words.iter_mut().zip(BEYOND_ENTRIES.words).for_each(|(word, more)| *word |= more);
        // Where all relevant bits decide, only equal keys take the way; and those make no lanes of their own.
        if id == slot && !self.relevant.is_within(&mask) {
            self.wide.learn(key, mask, way);
        }
    }

    /// Finds the ways of the lanes whose bit is set in `fresh` in the cache. Returns those whose way is not known there, or stale, and those
    /// whose key the cache does not have.
    #[inline]
    fn ask_cache(&mut self, view: &View<'_>, lanes: &mut Lanes, fresh: u64) -> (u64, u64) {
        let Lanes { keys, ways, .. } = lanes;
        each(fresh, |lane| self.relevant.apply(&mut keys[lane]));
        let Some(cache) = &mut self.cache else { return (fresh, 0) };
        // Keys behind the last fresh one are those of their neighbours.
        let end = LANES - fresh.leading_zeros() as usize;
        let missed = fresh & !cache.lookup_batch(&keys[..end], fresh, &mut ways[..]);
        each(fresh, |lane| self.paths.prefetch(ways[lane]));
        let (mut unknown, mut right) = (0u64, MISS);
        each(fresh, |lane| {
            let way = ways[lane];
            if way == right && way != MISS {
                return;
            }
            if let Some(path) = self.paths.get_mut(way)
                && is_current(view, path)
            {
                path.hit.iter().for_each(|hit| self.counters.prefetch(hit.counter));
                right = way;
            } else {
                unknown |= 1 << lane;
            }
        });
        (unknown, missed)
    }

    /// Asks the tables about the lanes whose bit is set in `unknown`. What they say is kept if the cache was asked (`keeps`); it does not have
    /// the keys of those in `missed`. Returns false, and keeps nothing, if entries that were met compare other bits than those that are left
    /// of the keys.
    #[inline(never)]
    fn ask_tables(
        &mut self,
        view: &View<'_>,
        lanes: &mut Lanes,
        count: usize,
        (unknown, missed): (u64, u64),
        keeps: bool,
        fields: &PipelineFields,
    ) -> bool {
        let Lanes { keys, ways, asked, hits, .. } = lanes;
        look_up(view, &keys[..count], unknown, 0, hits, &mut self.scratch);
        // Most packets take the way of the one entry that matches them first, which is known.
        let mut others = unknown;
        if fields.metadata == 0 {
            others = 0;
            each(unknown, |lane| self.paths.prefetch_number(hits[lane]));
            each(unknown, |lane| {
                ways[lane] = self.paths.of_flow(hits[lane]);
                self.paths.prefetch(ways[lane]);
            });
            each(unknown, |lane| {
                if let Some(path) = self.paths.get_mut(ways[lane])
                    && is_current(view, path)
                {
                    path.hit.iter().for_each(|hit| self.counters.prefetch(hit.counter));
                } else {
                    others |= 1 << lane;
                }
            });
        }
        if others != 0 {
            each(others, |lane| asked[lane].clear());
            ask_on(view, &mut keys[..count], others, 0, hits, asked, &mut self.scratch);
        }
        if !self.relevant.is_all() && !self.relevant.is_current(&self.shared.relevant) {
            return false;
        }
        each(others, |lane| {
            // The tables may have changed the metadata of the key.
            crate::facts::set_metadata(&mut keys[lane], fields.metadata);
            let way = self.way_of(view, &asked[lane], fields.metadata);
            ways[lane] = way;
            let Some(path) = self.paths.get(way) else { return };
            path.hit.iter().for_each(|hit| self.counters.prefetch(hit.counter));
        });
        if keeps {
            self.keep(lanes, unknown, missed);
        }
        true
    }

    /// Keeps the ways of the lanes whose bit is set in `unknown`; the cache does not have the keys of those in `missed`.
    #[inline]
    fn keep(&mut self, lanes: &Lanes, unknown: u64, missed: u64) {
        let Some(cache) = &mut self.cache else { return };
        each(unknown, |lane| {
            let (key, way) = (&lanes.keys[lane], lanes.ways[lane]);
            if self.paths.get(way).is_none_or(|path| path.is_transient) {
                return;
            }
            match missed >> lane & 1 {
                1 => cache.insert_missed(lane, key, way),
                _ => cache.insert(key, way),
            };
        });
        let entries = cache.len() as u64;
        self.account().cache_entries.set(entries);
    }

    /// The number of the way that rests on these entries.
    pub(super) fn way_of(&mut self, view: &View<'_>, asked: &[Asked], metadata: u64) -> u32 {
        if let Some(number) = self.paths.find(asked, metadata)
            && self.paths.get_mut(number).is_some_and(|path| is_current(view, path))
        {
            return number;
        }
        let path = build(view, asked, metadata, ActionSet::default());
        self.paths.look_on(|path| is_current(view, path));
        let number = self.paths.keep(asked, metadata, path);
        let ways = self.paths.len() as u64;
        self.account().ways.set(ways);
        number
    }
}

impl Lanes {
    /// Reads the headers of up to 64 packets. Returns how many, and a bit for each whose key differs from that of the one before.
    #[inline]
    fn parse(
        &mut self,
        batch: &Batch,
        fields: &PipelineFields,
        fragments: Fragments,
        relevant: &Relevant,
    ) -> (usize, u64) {
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
            let mut lane = Lane { len: part.bytes.len() as u32, slots: 1, kind };
            if part.more {
                read_on(&mut lane, &mut parts);
            }
            if lane.kind.is_forwarded() {
                if before == LANES || relevant.differ(&self.keys[before], &self.keys[count]) {
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
