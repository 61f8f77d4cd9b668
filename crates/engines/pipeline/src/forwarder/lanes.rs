//! A batch on its way through the switch, in passes over at most 64 packets:
//!
//! ```text
//! parse       the headers of each packet, and its key; neighbours whose keys do not differ in what entries compare are looked up once
//! cache       the number of the way that packets with this key take, of which the cache knows what entries compare
//! ask         the tables about keys that the cache does not have, or whose way is stale, all together
//! distribute  packets in a row that leave by one port as they are move as one; others are walked along their way, one by one
//! ```

use linerate_classify::{Key, MISS};
use linerate_mem::{Batch, Part, Pool};
use linerate_openflow::Fragments;

use super::Core;
use super::path::Asked;
use super::resolve::{View, ask, build, each, is_current};
use crate::action_set::ActionSet;
use crate::drops::DropReason;
use crate::packet::{CommonHeaders, Fragment, Headers, PipelineFields};
use crate::relevant::Relevant;

/// Packets that are looked at together.
pub(super) const LANES: usize = 64;

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
    asked: Vec<Vec<Asked>>,
}

impl Default for Lanes {
    fn default() -> Lanes {
        Lanes {
            lanes: Box::new([Lane::default(); LANES]),
            ways: Box::new([MISS; LANES]),
            headers: Box::new([Headers::default(); LANES]),
            keys: Box::new([Key::ZERO; LANES]),
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
        let Lanes { keys, ways, .. } = lanes;
        each(fresh, |lane| self.relevant.apply(&mut keys[lane]));
        let mut missed = 0;
        match &mut self.cache {
            Some(cache) => {
                // Keys behind the last fresh one are those of their neighbours.
                let end = LANES - fresh.leading_zeros() as usize;
                missed = fresh & !cache.lookup_batch(&keys[..end], fresh, &mut ways[..]);
            }
            None => ways[..count].fill(MISS),
        }
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
        if unknown != 0 && !self.ask_tables(view, lanes, count, (unknown, missed), fields) {
            return false;
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

    /// Asks the tables about the lanes whose bit is set in `unknown`, and keeps what they say; those in `missed` are not in the cache. Returns false, and keeps nothing, if entries that were
    /// met compare other bits than those that are left of the keys.
    #[inline(never)]
    fn ask_tables(
        &mut self,
        view: &View<'_>,
        lanes: &mut Lanes,
        count: usize,
        (unknown, missed): (u64, u64),
        fields: &PipelineFields,
    ) -> bool {
        lanes.asked.iter_mut().for_each(Vec::clear);
        ask(view, &mut lanes.keys[..count], unknown, 0, &mut lanes.asked, &mut self.scratch);
        if !self.relevant.is_all() && !self.relevant.is_current(&self.shared.relevant) {
            return false;
        }
        let entries = self.cache.as_ref().map_or(0, linerate_classify::Cache::len);
        self.account().cache_entries.set(entries as u64);
        let Lanes { keys, ways, asked, .. } = lanes;
        each(unknown, |lane| self.paths.prefetch_number(&asked[lane]));
        each(unknown, |lane| {
            ways[lane] = self.paths.find(&asked[lane], fields.metadata).unwrap_or(MISS);
            self.paths.prefetch(ways[lane]);
        });
        each(unknown, |lane| {
            // The tables may have changed the metadata of the key.
            crate::facts::set_metadata(&mut keys[lane], fields.metadata);
            let known = self.paths.get_mut(ways[lane]).is_some_and(|path| is_current(view, path));
            let way = if known { ways[lane] } else { self.way_of(view, &asked[lane], fields.metadata) };
            ways[lane] = way;
            let Some(path) = self.paths.get(way) else { return };
            path.hit.iter().for_each(|hit| self.counters.prefetch(hit.counter));
            if let Some(cache) = &mut self.cache
                && !path.is_transient
            {
                match missed >> lane & 1 {
                    1 => cache.insert_missed(lane, &keys[lane], way),
                    _ => cache.insert(&keys[lane], way),
                };
            }
        });
        true
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
