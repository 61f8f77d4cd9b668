//! Packets whose ways are known go their ways: those in a row that leave by one port, as they are, move together.

use linerate_mem::{Batch, Pool};
use linerate_openflow::PortConfig;

use super::execute::InHand;
use super::lanes::{Kind, Lane, Lanes};
use super::path::Op;
use super::resolve::View;
use super::{Core, count, fragments};
use crate::drops::DropReason;
use crate::packet::PipelineFields;

/// Packets in a row that take plain ways to one port.
#[derive(Default)]
struct Run {
    packets: usize,
    slots: usize,
    longest: u32,
    bytes: u64,
    /// They take more than one way.
    is_mixed: bool,
}

impl Core {
    /// Sends the packets of a pass their ways.
    #[allow(clippy::too_many_arguments, reason = "what a pass knows, and where packets are")]
    pub(super) fn distribute(
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
            let end = match self.plain_slot(lanes, at) {
                Some(slot) => {
                    let run = self.run_in_front(lanes, at, count, slot);
                    let end = at + run.packets;
                    if self.move_run(view, slot, &run, in_slot, batch) {
                        self.count_run(lanes, at, &run);
                        at = end;
                        continue;
                    }
                    end
                }
                None => at + 1,
            };
            for lane in at..end {
                self.walk_lane(view, lanes, lane, fields, in_slot, batch, pool);
            }
            at = end;
        }
    }

    /// The port of the packet in a lane, if it takes a plain way.
    #[inline]
    fn plain_slot(&self, lanes: &Lanes, lane: usize) -> Option<u16> {
        lanes.lanes[lane].kind.is_forwarded().then(|| self.paths.get(lanes.ways[lane])?.plain).flatten()
    }

    /// The packets from lane `at` on that take plain ways to the port in `slot`.
    #[inline]
    fn run_in_front(&self, lanes: &Lanes, at: usize, count: usize, slot: u16) -> Run {
        let (mut run, mut way) = (Run::default(), lanes.ways[at]);
        for (lane, its) in lanes.lanes[at..count].iter().zip(&lanes.ways[at..count]) {
            if *its != way {
                if self.paths.get(*its).is_none_or(|path| path.plain != Some(slot)) {
                    break;
                }
                (way, run.is_mixed) = (*its, true);
            }
            if !lane.kind.is_forwarded() {
                break;
            }
            run.packets += 1;
            run.slots += usize::from(lane.slots);
            run.bytes += u64::from(lane.len);
            run.longest = run.longest.max(lane.len);
        }
        run
    }

    /// Moves packets that take plain ways to their port, all at once; false if something stands in the way of one of them.
    #[inline]
    fn move_run(&mut self, view: &View<'_>, slot: u16, run: &Run, in_slot: u16, batch: &mut Batch) -> bool {
        let Some(port) = view.state.port(slot) else { return false };
        if slot == in_slot || port.has(PortConfig::PORT_DOWN | PortConfig::NO_FWD) || !port.shared.has_link() {
            return false;
        }
        let now_ns = self.now_ns;
        let Some(egress) = self.egress_of(slot) else { return false };
        if !egress.is_plain() || run.longest as usize > egress.len_max || run.slots > egress.batch.room() {
            return false;
        }
        batch.move_to(&mut egress.batch, run.slots);
        egress.note(run.packets as u32, run.bytes, now_ns);
        let account = self.account();
        account.received.add(run.packets as u64, run.bytes);
        account.queued.add(run.packets as u64);
        true
    }

    /// Counts packets, from lane `at` on, in the tables and entries of their ways.
    #[inline]
    fn count_run(&mut self, lanes: &Lanes, at: usize, run: &Run) {
        if !run.is_mixed {
            return self.count_way(lanes.ways[at], run.packets as u64, run.bytes);
        }
        let end = at + run.packets;
        let mut lengths = lanes.lanes[at..end].iter();
        for ways in lanes.ways[at..end].chunk_by(|one, next| one == next) {
            let bytes = lengths.by_ref().take(ways.len()).map(|lane| u64::from(lane.len)).sum();
            self.count_way(ways[0], ways.len() as u64, bytes);
        }
    }

    #[inline]
    fn count_way(&mut self, way: u32, packets: u64, bytes: u64) {
        let Core { paths, shared, counters, worker, now_ns, .. } = self;
        let tallies = shared.table_tallies.of(*worker);
        let Some(path) = paths.get(way) else { return };
        if path.is_single {
            return count(tallies, counters, path.first.table, path.hit.as_ref(), packets, bytes, *now_ns);
        }
        for op in &path.ops {
            if let Op::Table { table, hit } = op {
                count(tallies, counters, *table, hit.as_ref(), packets, bytes, *now_ns);
            }
        }
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
        let (Lane { len, slots, kind }, way) = (lanes.lanes[lane], lanes.ways[lane]);
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
                self.fragments.get_or_insert_with(fragments::Fragments::new);
                return self.fragment(view, &hand, batch, pool);
            }
            Kind::Refused(reason) => Some(reason),
            Kind::Common(_) | Kind::Other => self.walk_way(view, way, &mut hand, batch, pool),
        };
        self.finish(view.state, &mut hand, end, batch, pool);
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
