//! Finds the way of packets: asks the tables, and flattens what their entries say.

use std::sync::Arc;

use linerate_classify::{Guard, Key, MISS, Scratch, SlabView, lanes};
use linerate_openflow::{Action, PacketInReason, PortNumber};

use super::path::{Asked, Continuation, GroupOps, Hit, Op, Path, ToController};
use crate::action_set::ActionSet;
use crate::drops::DropReason;
use crate::facts::set_metadata;
use crate::flow_view::FlowView;
use crate::shared::{Shared, State, TABLES};

/// Steps of one way, at most: groups that forward to groups could otherwise make billions.
const OPS_MAX: usize = 8_192;

/// What a worker sees while it works on a batch.
pub(super) struct View<'a> {
    pub(super) guard: &'a Guard<'a>,
    pub(super) flows: SlabView<'a, FlowView>,
    pub(super) shared: &'a Shared,
    pub(super) state: &'a Arc<State>,
}

/// Who an output to the controllers is reported of.
#[derive(Clone, Copy)]
struct Origin {
    table: u8,
    cookie: u64,
    reason: PacketInReason,
    metadata: u64,
}

/// Asks the tables about those of `keys` whose bit is set in `wanted`, from `table` on, until an entry says that a packet ends or changes.
/// `asked` gets what was asked, lane by lane. The metadata of the keys is that of their last table afterwards.
pub(super) fn ask(
    view: &View<'_>,
    keys: &mut [Key],
    wanted: u64,
    table: u8,
    asked: &mut [Vec<Asked>],
    scratch: &mut Scratch,
) {
    let mut hits = [MISS; 64];
    look_up(view, keys, wanted, table, &mut hits, scratch);
    ask_on(view, keys, wanted, table, &mut hits, asked, scratch);
}

/// The entries of one table that match those of `keys` whose bit is set in `wanted`; [`MISS`] where none does.
#[inline]
pub(super) fn look_up(
    view: &View<'_>,
    keys: &[Key],
    wanted: u64,
    table: u8,
    hits: &mut [u32; 64],
    scratch: &mut Scratch,
) {
    view.shared.tables[usize::from(table)].rules.lookup_batch(view.guard, keys, wanted, hits, scratch);
}

/// As [`ask`], where `hits` are what [`look_up`] found in `table`.
pub(super) fn ask_on(
    view: &View<'_>,
    keys: &mut [Key],
    wanted: u64,
    table: u8,
    hits: &mut [u32; 64],
    asked: &mut [Vec<Asked>],
    scratch: &mut Scratch,
) {
    // Entries go to later tables only, so one pass over the tables serves all lanes.
    let mut waiting = [0u64; TABLES + 1];
    waiting[usize::from(table)] = wanted;
    let first = usize::from(table);
    let (mut table, mut last) = (first, first);
    while table <= last && table < TABLES {
        let here = waiting[table];
        if here == 0 {
            table += 1;
            continue;
        }
        if table != first {
            look_up(view, keys, here, table as u8, hits, scratch);
        }
        each(here, |lane| view.flows.prefetch(hits[lane]));
        each(here, |lane| {
            let found = view.flows.get_with_generation(hits[lane]);
            let flow = found.map(|(_, generation)| (hits[lane], generation));
            asked[lane].push(Asked { table: table as u8, flow });
            let Some((entry, _)) = found else { return };
            let instructions = &entry.instructions;
            let Some(next) = instructions.goto else { return };
            if instructions.is_changing(&view.state.meters) {
                return;
            }
            if let Some((bits, mask)) = instructions.metadata {
                let metadata = crate::facts::metadata(&keys[lane]);
                set_metadata(&mut keys[lane], metadata & !mask | bits);
            }
            waiting[usize::from(next)] |= 1 << lane;
            last = last.max(usize::from(next));
        });
        table += 1;
    }
}

/// Does something for each lane whose bit is set.
#[inline]
pub(super) fn each(mut lanes: u64, mut work: impl FnMut(usize)) {
    while lanes != 0 {
        work(lanes.trailing_zeros() as usize);
        lanes &= lanes - 1;
    }
}

/// The way of a packet whose first table was asked with this metadata and action set.
pub(super) fn build(view: &View<'_>, asked: &[Asked], mut metadata: u64, mut set: ActionSet) -> Path {
    let mut flattener = Flattener { view, count: 0 };
    let mut path = Path::new(asked, view.guard.version(), view.state.number);
    for Asked { table, flow } in asked {
        let found = flow.and_then(|(slot, _)| view.flows.get(slot));
        let Some(flow) = found else {
            path.ops.push(Op::Table { table: *table, hit: None });
            path.end = Some(DropReason::TableMiss);
            return path;
        };
        path.is_transient |= !flow.is_in_force();
        path.hit = path.hit.or(Some(Hit::of(flow)));
        path.ops.push(Op::Table { table: *table, hit: Some(Hit::of(flow)) });
        let instructions = &flow.instructions;
        if let Some(meter) = instructions.meter.and_then(|meter| view.state.meters.get(meter)) {
            path.ops.push(Op::Meter(Arc::clone(meter)));
        }
        let reason = if flow.is_miss { PacketInReason::NoMatch } else { PacketInReason::Action };
        let mut origin = Origin { table: *table, cookie: flow.cookie, reason, metadata };
        instructions.apply.iter().for_each(|action| flattener.push(action, origin, &mut path.ops));
        if instructions.clear {
            set.clear();
        }
        set.write(&instructions.write);
        if let Some((bits, mask)) = instructions.metadata {
            metadata = metadata & !mask | bits;
        }
        origin.metadata = metadata;
        match instructions.goto {
            Some(next) if instructions.is_changing(&view.state.meters) => {
                path.ops.push(Op::Continue(Box::new(Continuation { table: next, metadata, set })));
                return path;
            }
            Some(_) => {}
            None => {
                set.in_order().iter().for_each(|action| flattener.push(action, origin, &mut path.ops));
                path.end = Some(DropReason::NoOutput);
                path.note_plain();
                return path;
            }
        }
    }
    path
}

/// Asks the tables about one packet, and flattens its way.
pub(super) fn resolve(view: &View<'_>, key: &Key, table: u8, set: ActionSet, scratch: &mut Scratch) -> Path {
    let mut keys = [*key];
    let mut asked = [Vec::new()];
    ask(view, &mut keys, lanes(1), table, &mut asked, scratch);
    build(view, &asked[0], crate::facts::metadata(key), set)
}

/// Flattens the actions of a packet-out.
pub(super) fn flatten(view: &View<'_>, actions: &[Action]) -> Vec<Op> {
    let mut flattener = Flattener { view, count: 0 };
    let origin = Origin { table: 0, cookie: u64::MAX, reason: PacketInReason::Action, metadata: 0 };
    let mut ops = Vec::with_capacity(actions.len());
    actions.iter().for_each(|action| flattener.push(action, origin, &mut ops));
    ops
}

/// True if a way is right still.
#[inline]
pub(super) fn is_current(view: &View<'_>, path: &mut Path) -> bool {
    let version = view.guard.version();
    if path.state != view.state.number {
        return false;
    }
    if path.version == version {
        return true;
    }
    let before = path.version;
    let is_right = |asked: &Asked| {
        let entry = asked.flow.is_none_or(|(slot, generation)| view.flows.get_current(slot, generation).is_some());
        entry && !view.shared.tables[usize::from(asked.table)].is_newer_than(before)
    };
    let is_current = is_right(&path.first) && path.later.iter().all(is_right);
    if is_current {
        path.version = version;
    }
    is_current
}

impl Hit {
    fn of(flow: &FlowView) -> Hit {
        Hit {
            counter: flow.counter,
            generation: flow.counter_generation,
            packets: flow.counts_packets,
            bytes: flow.counts_bytes,
        }
    }
}

struct Flattener<'a> {
    view: &'a View<'a>,
    count: usize,
}

impl Flattener<'_> {
    fn push(&mut self, action: &Action, origin: Origin, ops: &mut Vec<Op>) {
        self.count += 1;
        if self.count > OPS_MAX {
            if self.count == OPS_MAX + 1 {
                ops.push(Op::Refuse(DropReason::TooManyCopies));
            }
            return;
        }
        ops.push(match action {
            Action::Output { port, max_len } => self.output(*port, *max_len, origin),
            Action::Group(group) => self.group(*group, origin),
            Action::SetQueue(queue) => Op::Queue(*queue),
            change => Op::Change(change.clone()),
        });
    }

    fn output(&self, port: PortNumber, max_len: u16, origin: Origin) -> Op {
        match port {
            PortNumber::IN_PORT => Op::InPort,
            PortNumber::ALL => Op::All,
            PortNumber::FLOOD => Op::Flood,
            PortNumber::NORMAL => Op::Normal,
            PortNumber::TABLE => {
                let start = Continuation { table: 0, metadata: 0, set: ActionSet::default() };
                Op::Continue(Box::new(start))
            }
            PortNumber::CONTROLLER => {
                let Origin { table, cookie, reason, metadata } = origin;
                Op::Controller(ToController { reason, table, cookie, max_len, metadata })
            }
            port => match self.view.state.slots.get(&port) {
                Some(slot) => Op::Port(*slot),
                None => Op::Refuse(DropReason::NoPort),
            },
        }
    }

    fn group(&mut self, id: u32, origin: Origin) -> Op {
        let Some(view) = self.view.state.groups.get(id) else { return Op::Refuse(DropReason::NoGroup) };
        // What a group sends to the controllers, an action has sent.
        let origin = Origin { reason: PacketInReason::Action, ..origin };
        let mut buckets = Vec::with_capacity(view.buckets.len());
        for bucket in &view.buckets {
            let mut ops = Vec::with_capacity(bucket.actions.len());
            bucket.actions.iter().for_each(|action| self.push(action, origin, &mut ops));
            buckets.push(ops);
        }
        Op::Group(Box::new(GroupOps { view: Arc::clone(view), buckets }))
    }
}
