//! Finds the way of a packet: asks the tables, and flattens what their entries say.

use std::sync::Arc;

use linerate_classify::{Guard, Key, MISS, Scratch, SlabView, lanes};
use linerate_openflow::{Action, PacketInReason, PortNumber};

use super::path::{Continuation, GroupOps, Hit, Op, Path, ToController};
use crate::action_set::ActionSet;
use crate::drops::DropReason;
use crate::flow_view::FlowView;
use crate::packet::PipelineFields;
use crate::shared::{Shared, State};

/// Steps of one way, at most: groups that forward to groups could otherwise make billions.
const OPS_MAX: usize = 8_192;

/// What a worker sees while it works on a batch.
pub(super) struct View<'a> {
    pub(super) guard: &'a Guard<'a>,
    pub(super) flows: SlabView<'a, FlowView>,
    pub(super) shared: &'a Shared,
    pub(super) state: &'a Arc<State>,
}

/// Where a packet enters the tables.
pub(super) struct Entrance<'a> {
    pub(super) key: &'a Key,
    pub(super) fields: &'a PipelineFields,
    pub(super) table: u8,
    pub(super) set: ActionSet,
}

/// Who an output to the controllers is reported of.
#[derive(Clone, Copy)]
struct Origin {
    table: u8,
    cookie: u64,
    reason: PacketInReason,
    metadata: u64,
}

struct Resolver<'a> {
    view: &'a View<'a>,
    in_port: PortNumber,
    count: usize,
}

/// Finds the way of a packet with this key.
pub(super) fn resolve(view: &View<'_>, entrance: Entrance<'_>, scratch: &mut Scratch) -> Path {
    let Entrance { key, fields, mut table, mut set } = entrance;
    let mut resolver = Resolver { view, in_port: PortNumber(fields.in_port), count: 0 };
    let mut path = Path { version: view.guard.version(), state: view.state.number, ..Path::default() };
    let (mut key, mut metadata) = (*key, fields.metadata);
    loop {
        path.tables[usize::from(table >> 6)] |= 1 << (table & 63);
        let Some((flow, slot, generation)) = lookup(view, table, &key, scratch) else {
            path.ops.push(Op::Table { table, hit: None });
            path.end = Some(DropReason::TableMiss);
            return path;
        };
        path.is_transient |= !flow.is_in_force();
        path.flows.push((slot, generation));
        path.ops.push(Op::Table {
            table,
            hit: Some(Hit {
                counter: flow.counter,
                generation: flow.counter_generation,
                packets: flow.counts_packets,
                bytes: flow.counts_bytes,
            }),
        });
        let instructions = &flow.instructions;
        let mut changed = false;
        if let Some(meter) = instructions.meter.and_then(|meter| view.state.meters.get(&meter)) {
            changed |= meter.remarks();
            path.ops.push(Op::Meter(Arc::clone(meter)));
        }
        let reason = if flow.is_miss { PacketInReason::NoMatch } else { PacketInReason::Action };
        let mut origin = Origin { table, cookie: flow.cookie, reason, metadata };
        for action in &instructions.apply {
            changed |= changes_fields(action);
            resolver.push(action, origin, &mut path.ops);
        }
        if instructions.clear {
            set.clear();
        }
        set.write(&instructions.write);
        if let Some((bits, mask)) = instructions.metadata {
            metadata = metadata & !mask | bits;
        }
        origin.metadata = metadata;
        match instructions.goto {
            Some(next) if changed => {
                path.ops.push(Op::Continue(Box::new(Continuation { table: next, metadata, set })));
                return path;
            }
            Some(next) => {
                crate::facts::set_metadata(&mut key, metadata);
                table = next;
            }
            None => {
                set.in_order().iter().for_each(|action| resolver.push(action, origin, &mut path.ops));
                path.end = Some(DropReason::NoOutput);
                return path;
            }
        }
    }
}

/// Flattens the actions of a packet-out.
pub(super) fn flatten(view: &View<'_>, actions: &[Action], in_port: PortNumber) -> Vec<Op> {
    let mut resolver = Resolver { view, in_port, count: 0 };
    let origin = Origin { table: 0, cookie: u64::MAX, reason: PacketInReason::Action, metadata: 0 };
    let mut ops = Vec::with_capacity(actions.len());
    actions.iter().for_each(|action| resolver.push(action, origin, &mut ops));
    ops
}

/// The entry of a table that a key matches, with its slot and generation.
pub(super) fn lookup<'a>(
    view: &View<'a>,
    table: u8,
    key: &Key,
    scratch: &mut Scratch,
) -> Option<(&'a FlowView, u32, u32)> {
    let rules = &view.shared.tables.get(usize::from(table))?.rules;
    let mut hits = [MISS];
    rules.lookup_batch(view.guard, std::slice::from_ref(key), lanes(1), &mut hits, scratch);
    let (flow, generation) = view.flows.get_with_generation(hits[0])?;
    Some((flow, hits[0], generation))
}

/// True if later tables may find other fields after the action.
fn changes_fields(action: &Action) -> bool {
    use Action::{PopMpls, PopPbb, PopVlan, PushMpls, PushPbb, PushVlan, SetField};
    matches!(action, SetField(..) | PushVlan(_) | PopVlan | PushMpls(_) | PopMpls(_) | PushPbb(_) | PopPbb)
}

impl Resolver<'_> {
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
            port if port == self.in_port => Op::Refuse(DropReason::Hairpin),
            port => match self.view.state.slots.get(&port) {
                Some(slot) => Op::Port(*slot),
                None => Op::Refuse(DropReason::NoPort),
            },
        }
    }

    fn group(&mut self, id: u32, origin: Origin) -> Op {
        let Some(view) = self.view.state.groups.get(&id) else { return Op::Refuse(DropReason::NoGroup) };
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
