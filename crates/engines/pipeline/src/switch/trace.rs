//! What the switch would do with a packet, step by step, and why. Nothing is sent or counted.

use std::sync::Arc;

use linerate_classify::Key;
use linerate_flow_tables::packet::{ActionDrop, Headers, PipelineFields, apply, fields_of};
use linerate_flow_tables::{ActionSet, DropReason, Instructions, flow_hash};
use linerate_openflow::{Action, FlowStats, GroupKind, Instruction, Match, PortConfig, PortNumber, TABLE_MAX};

use super::Switch;

/// Steps of a trace, at most.
const STEPS_MAX: usize = 1_000;

/// A step of a packet's way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceStep {
    /// The fields of the packet, as tables see them from here on.
    Fields(Match),
    /// A table was asked.
    Table {
        /// The table.
        table: u8,
        /// The entry that matched; `None`: no entry did, and the packet is dropped.
        entry: Option<TracedEntry>,
    },
    /// The packet goes through a meter, which may drop or remark it if its rate is exceeded.
    Meter(u32),
    /// The metadata is now this.
    Metadata(u64),
    /// An action was applied.
    Applied(Action),
    /// The action set is executed.
    ActionSet(Vec<Action>),
    /// A group was reached.
    Group {
        /// The group.
        group: u32,
        /// How it chooses buckets.
        kind: GroupKind,
        /// The number of the bucket, or why none was chosen.
        bucket: Result<usize, DropReason>,
    },
    /// The packet, or a copy, leaves.
    Output {
        /// The port.
        port: PortNumber,
        /// Its bytes.
        packet: Vec<u8>,
    },
    /// The packet, or a copy, is dropped.
    Dropped(DropReason),
}

/// An entry that matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedEntry {
    /// Its priority.
    pub priority: u16,
    /// Its cookie.
    pub cookie: u64,
    /// Its match.
    pub matching: Match,
    /// Its instructions.
    pub instructions: Vec<Instruction>,
}

/// The packet that is traced.
#[derive(Clone)]
struct Traced {
    bytes: Vec<u8>,
    headers: Headers,
    fields: PipelineFields,
}

impl Switch {
    /// Walks a packet, which arrives by the port that `fields` name, through tables, groups and meters.
    pub fn trace(&mut self, packet: &[u8], fields: &PipelineFields) -> Vec<TraceStep> {
        let mut steps = Vec::new();
        let mut traced = Traced { bytes: packet.to_vec(), headers: Headers::parse(packet), fields: *fields };
        if traced.headers.is_runt() {
            return vec![TraceStep::Dropped(DropReason::Runt)];
        }
        let in_port = PortNumber(fields.in_port);
        let config = self.ports.get(&in_port.0).map_or(0, |port| port.settings.config.0);
        if config & PortConfig::PORT_DOWN != 0 {
            return vec![TraceStep::Dropped(DropReason::IngressDown)];
        }
        if config & PortConfig::NO_RECV != 0 {
            return vec![TraceStep::Dropped(DropReason::NoReceive)];
        }
        self.trace_tables(&mut traced, &mut steps);
        steps.truncate(STEPS_MAX);
        steps
    }

    fn trace_tables(&mut self, traced: &mut Traced, steps: &mut Vec<TraceStep>) {
        let (mut table, mut set) = (0, ActionSet::default());
        let outputs =
            |steps: &[TraceStep]| steps.iter().filter(|step| matches!(step, TraceStep::Output { .. })).count();
        let before = outputs(steps);
        let mut shown = None;
        loop {
            let key = traced.headers.key(&traced.bytes, &traced.fields);
            let fields = Match::new(fields_of(&key));
            if shown.as_ref() != Some(&fields) {
                steps.push(TraceStep::Fields(fields.clone()));
                shown = Some(fields);
            }
            let Some(entry) = self.lookup(table, &key) else {
                steps.push(TraceStep::Table { table, entry: None });
                if outputs(steps) == before {
                    steps.push(TraceStep::Dropped(DropReason::TableMiss));
                }
                return;
            };
            let instructions = entry.instructions.clone();
            steps.push(TraceStep::Table { table, entry: Some(entry) });
            let Some(next) = self.trace_instructions(&instructions, traced, &mut set, steps) else { return };
            match next {
                Some(next) if next <= TABLE_MAX => table = next,
                _ => break,
            }
        }
        let actions = set.in_order();
        steps.push(TraceStep::ActionSet(actions.clone()));
        self.trace_actions(&actions, traced, steps);
        if outputs(steps) == before && !matches!(steps.last(), Some(TraceStep::Dropped(_))) {
            steps.push(TraceStep::Dropped(DropReason::NoOutput));
        }
    }

    /// Follows the instructions of an entry. Returns the table that comes next, if there is one; `None` if the packet was dropped.
    fn trace_instructions(
        &mut self,
        instructions: &[Instruction],
        traced: &mut Traced,
        set: &mut ActionSet,
        steps: &mut Vec<TraceStep>,
    ) -> Option<Option<u8>> {
        let parts = Instructions::new(instructions);
        if let Some(meter) = parts.meter {
            steps.push(TraceStep::Meter(meter));
        }
        if !self.trace_actions(&parts.apply, traced, steps) {
            return None;
        }
        if parts.clear {
            set.clear();
        }
        set.write(&parts.write);
        if let Some((bits, mask)) = parts.metadata {
            traced.fields.metadata = traced.fields.metadata & !mask | bits;
            steps.push(TraceStep::Metadata(traced.fields.metadata));
        }
        Some(parts.goto)
    }

    /// Follows actions; false if one of them drops the packet.
    fn trace_actions(&mut self, actions: &[Action], traced: &mut Traced, steps: &mut Vec<TraceStep>) -> bool {
        for action in actions {
            if steps.len() > STEPS_MAX {
                return false;
            }
            match action {
                Action::Output { port, .. } => self.trace_output(*port, traced, steps),
                Action::Group(group) => self.trace_group(*group, traced, steps),
                change => {
                    steps.push(TraceStep::Applied(change.clone()));
                    let Traced { bytes, headers, fields } = traced;
                    if let Err(why) = apply(change, bytes, headers, fields) {
                        steps.push(TraceStep::Dropped(match why {
                            ActionDrop::InvalidTtl => DropReason::InvalidTtl,
                            ActionDrop::NoHeadroom => DropReason::NoHeadroom,
                            ActionDrop::ChecksumOutOfReach => DropReason::ActionFailed,
                        }));
                        return false;
                    }
                }
            }
        }
        true
    }

    fn trace_output(&mut self, port: PortNumber, traced: &Traced, steps: &mut Vec<TraceStep>) {
        let in_port = PortNumber(traced.fields.in_port);
        let real = if port == PortNumber::IN_PORT { in_port } else { port };
        let reserved = [PortNumber::ALL, PortNumber::FLOOD, PortNumber::NORMAL, PortNumber::CONTROLLER];
        let refused = match self.ports.get(&real.0) {
            _ if port == in_port => Some(DropReason::Hairpin),
            _ if reserved.contains(&real) => None,
            None => Some(DropReason::NoPort),
            Some(port) if port.settings.config.0 & (PortConfig::PORT_DOWN | PortConfig::NO_FWD) != 0 => {
                Some(DropReason::NoForward)
            }
            Some(port) if !port.shared.has_link() => Some(DropReason::LinkDown),
            Some(_) => None,
        };
        steps.push(match refused {
            Some(reason) => TraceStep::Dropped(reason),
            None => TraceStep::Output { port: real, packet: traced.bytes.clone() },
        });
    }

    fn trace_group(&mut self, id: u32, traced: &Traced, steps: &mut Vec<TraceStep>) {
        let Some(view) = self.tables.state().groups.get(id).map(Arc::clone) else {
            return steps.push(TraceStep::Dropped(DropReason::NoGroup));
        };
        let hash = flow_hash(&traced.bytes, &traced.headers);
        let chosen: Vec<usize> = match view.kind {
            GroupKind::All => (0..view.buckets.len()).collect(),
            _ => view.choose(self.tables.state(), hash).into_iter().collect(),
        };
        if chosen.is_empty() {
            let bucket = Err(DropReason::NoBucket);
            steps.push(TraceStep::Group { group: id, kind: view.kind, bucket });
            return steps.push(TraceStep::Dropped(DropReason::NoBucket));
        }
        for number in chosen {
            steps.push(TraceStep::Group { group: id, kind: view.kind, bucket: Ok(number) });
            self.trace_actions(&view.buckets[number].actions, &mut traced.clone(), steps);
        }
    }

    /// The entry of a table that a key matches.
    fn lookup(&mut self, table: u8, key: &Key) -> Option<TracedEntry> {
        let FlowStats { priority, cookie, matching, instructions, .. } = self.tables.lookup(table, key)?;
        Some(TracedEntry { priority, cookie, matching, instructions })
    }
}
