//! Features of tables: what each can do, what a controller restricts it to, and what follows from that for entries.

use linerate_openflow::{
    Action, ErrorKind, Field, Instruction, Match, OfError, TABLE_MAX, TableFeatures, TableProperties,
};

use super::Switch;

/// `OFPC_*` bits: statistics of flows, tables, ports, groups and queues, and reassembly.
pub(super) const CAPABILITIES: u32 = 1 | 2 | 4 | 8 | 1 << 5 | 1 << 6;

/// Numbers of the instructions (`OFPIT_*`).
const INSTRUCTIONS: [u16; 6] = [1, 2, 3, 4, 5, 6];
/// Numbers of the actions (`OFPAT_*`).
const ACTIONS: [u16; 16] = [0, 11, 12, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27];
/// The class of the 40 basic fields.
const CLASS: u32 = 0x8000;

/// The features of a table that can do everything.
pub(super) fn all(table: u8, max_entries: u32) -> TableFeatures {
    let later: Vec<u8> = (table.saturating_add(1)..=TABLE_MAX).filter(|next| *next > table).collect();
    let actions = ACTIONS.to_vec();
    let fields =
        |keep: fn(Field) -> bool| Some(Field::all().filter(|field| keep(*field)).map(header).collect::<Vec<u32>>());
    let settable = fields(|field| field.is_settable());
    let properties = TableProperties {
        instructions: [Some(INSTRUCTIONS.to_vec()), None],
        next_tables: [Some(later), None],
        write_actions: [Some(actions.clone()), None],
        apply_actions: [Some(actions), None],
        matches: fields(|_| true),
        wildcards: fields(|_| true),
        write_set_fields: [settable.clone(), None],
        apply_set_fields: [settable, None],
    };
    TableFeatures {
        table,
        name: format!("table {table}"),
        metadata_match: u64::MAX,
        metadata_write: u64::MAX,
        config: 0,
        max_entries,
        properties,
    }
}

/// The OXM header of a field.
fn header(field: Field) -> u32 {
    CLASS << 16 | (field as u32) << 9 | u32::from(field.is_maskable()) << 8 | field.bytes() as u32
}

/// True if a list of OXM headers names the field; a missing list names all.
fn names(list: Option<&Vec<u32>>, field: Field) -> bool {
    list.is_none_or(|list| list.iter().any(|known| known >> 16 == CLASS && known >> 9 & 0x7f == field as u32))
}

fn permits_mask(list: Option<&Vec<u32>>, field: Field) -> bool {
    list.is_none_or(|list| {
        list.iter().any(|known| known >> 16 == CLASS && known >> 9 & 0x7f == field as u32 && known >> 8 & 1 == 1)
    })
}

/// The list for packets that match, or for the table-miss entry if there is another one.
fn for_kind<T>(lists: &[Option<T>; 2], is_miss: bool) -> Option<&T> {
    let [matched, missed] = lists;
    missed.as_ref().filter(|_| is_miss).or(matched.as_ref())
}

fn action_kind(action: &Action) -> u16 {
    match action {
        Action::Output { .. } => 0,
        Action::CopyTtlOut => 11,
        Action::CopyTtlIn => 12,
        Action::SetMplsTtl(_) => 15,
        Action::DecMplsTtl => 16,
        Action::PushVlan(_) => 17,
        Action::PopVlan => 18,
        Action::PushMpls(_) => 19,
        Action::PopMpls(_) => 20,
        Action::SetQueue(_) => 21,
        Action::Group(_) => 22,
        Action::SetNwTtl(_) => 23,
        Action::DecNwTtl => 24,
        Action::SetField(..) => 25,
        Action::PushPbb(_) => 26,
        Action::PopPbb => 27,
    }
}

impl Switch {
    /// Whether the features of a table permit an entry's match.
    pub(super) fn check_match_features(&self, table: u8, priority: u16, matching: &Match) -> Result<(), OfError> {
        let features = &self.features[usize::from(table)];
        let properties = &features.properties;
        for wanted in &matching.fields {
            if !names(properties.matches.as_ref(), wanted.field) {
                return Err(ErrorKind::BadMatchBadField.into());
            }
            let masked = wanted.effective_mask() != wanted.field.full_mask();
            if masked && !permits_mask(properties.matches.as_ref(), wanted.field) {
                return Err(ErrorKind::BadMatchBadMask.into());
            }
            let beyond = wanted.effective_mask() & !u128::from(features.metadata_match);
            if wanted.field == Field::Metadata && beyond != 0 {
                return Err(ErrorKind::BadMatchBadMask.into());
            }
        }
        // A table-miss entry leaves out all fields.
        let is_miss = priority == 0 && matching.fields.is_empty();
        let missing = |field: &Field| {
            names(properties.matches.as_ref(), *field)
                && !names(properties.wildcards.as_ref(), *field)
                && matching.get(*field).is_none()
        };
        if !is_miss && properties.wildcards.is_some() && Field::all().any(|field| missing(&field)) {
            return Err(ErrorKind::BadMatchBadWildcards.into());
        }
        Ok(())
    }

    /// Whether the features of a table permit an entry's instructions.
    pub(super) fn check_instruction_features(
        &self,
        table: u8,
        is_miss: bool,
        instructions: &[Instruction],
    ) -> Result<(), OfError> {
        let features = &self.features[usize::from(table)];
        let properties = &features.properties;
        for instruction in instructions {
            let kind = match instruction {
                Instruction::GotoTable(next) => {
                    let tables = for_kind(&properties.next_tables, is_miss);
                    if tables.is_some_and(|tables| !tables.contains(next)) {
                        return Err(ErrorKind::BadInstructionBadTableId.into());
                    }
                    1
                }
                Instruction::WriteMetadata { mask, .. } => {
                    if mask & !features.metadata_write != 0 {
                        return Err(ErrorKind::BadInstructionUnsupMetadataMask.into());
                    }
                    2
                }
                Instruction::WriteActions(actions) => {
                    let lists = (&properties.write_actions, &properties.write_set_fields);
                    check_kinds(actions, for_kind(lists.0, is_miss), for_kind(lists.1, is_miss))?;
                    3
                }
                Instruction::ApplyActions(actions) => {
                    let lists = (&properties.apply_actions, &properties.apply_set_fields);
                    check_kinds(actions, for_kind(lists.0, is_miss), for_kind(lists.1, is_miss))?;
                    4
                }
                Instruction::ClearActions => 5,
                Instruction::Meter(_) => 6,
            };
            if for_kind(&properties.instructions, is_miss).is_some_and(|known| !known.contains(&kind)) {
                return Err(ErrorKind::BadInstructionUnsupInst.into());
            }
        }
        Ok(())
    }

    /// Changes the features of tables (a request with a body). All of them, or none.
    pub(super) fn set_table_features(&mut self, wanted: Vec<TableFeatures>) -> Result<(), OfError> {
        let mut named = [false; 256];
        for features in &wanted {
            if features.table > TABLE_MAX || std::mem::replace(&mut named[usize::from(features.table)], true) {
                return Err(ErrorKind::TableFeaturesFailedBadTable.into());
            }
            self.check_features(features)?;
        }
        for features in wanted {
            let slot = usize::from(features.table);
            self.features[slot] = features;
        }
        Ok(())
    }

    /// A table cannot do more than the switch, and it can do what its entries need.
    fn check_features(&self, wanted: &TableFeatures) -> Result<(), OfError> {
        let best = all(wanted.table, self.options.table_entries_max);
        if wanted.max_entries > best.max_entries
            || wanted.max_entries < self.entries.of_table(wanted.table).len() as u32
        {
            return Err(ErrorKind::TableFeaturesFailedBadArgument.into());
        }
        let within = |list: &Option<Vec<u16>>, all: &Option<Vec<u16>>| {
            let (Some(list), Some(all)) = (list, all) else { return true };
            list.iter().all(|one| all.contains(one))
        };
        let (mine, all) = (&wanted.properties, &best.properties);
        let lists = [
            (&mine.instructions, &all.instructions),
            (&mine.write_actions, &all.write_actions),
            (&mine.apply_actions, &all.apply_actions),
        ];
        for (list, all) in lists {
            if list.iter().any(|list| !within(list, &all[0])) {
                return Err(ErrorKind::TableFeaturesFailedBadType.into());
            }
        }
        let later =
            |tables: &Option<Vec<u8>>| tables.iter().flatten().all(|next| *next > wanted.table && *next <= TABLE_MAX);
        if !mine.next_tables.iter().all(later) {
            return Err(ErrorKind::TableFeaturesFailedBadArgument.into());
        }
        let known = |list: &Option<Vec<u32>>, permitted: fn(Field) -> bool| {
            list.iter().flatten().all(|header| {
                let field = Field::from_number((header >> 9 & 0x7f) as u8);
                header >> 16 == CLASS && field.is_some_and(permitted)
            })
        };
        let fields = known(&mine.matches, |_| true) && known(&mine.wildcards, |_| true);
        let sets = mine.write_set_fields.iter().chain(&mine.apply_set_fields);
        if !fields || !sets.into_iter().all(|list| known(list, Field::is_settable)) {
            return Err(ErrorKind::TableFeaturesFailedBadArgument.into());
        }
        Ok(())
    }

    /// The features of all tables.
    pub(super) fn table_features(&self) -> Vec<TableFeatures> {
        self.features.clone()
    }

    /// Changes the configuration of a table, or of all ([`linerate_openflow::TABLE_ALL`]): bits that 1.3 reserves, and that change
    /// nothing.
    ///
    /// # Errors
    /// There is no such table, or no such bit.
    pub fn table_mod(&mut self, table: u8, config: u32) -> Result<(), OfError> {
        /// `OFPTC_DEPRECATED_MASK`.
        const BITS: u32 = 3;
        if config & !BITS != 0 {
            return Err(ErrorKind::TableModFailedBadConfig.into());
        }
        for features in &mut self.features {
            if table == linerate_openflow::TABLE_ALL || features.table == table {
                features.config = config;
            }
        }
        Ok(())
    }
}

fn check_kinds(actions: &[Action], kinds: Option<&Vec<u16>>, fields: Option<&Vec<u32>>) -> Result<(), OfError> {
    for action in actions {
        if kinds.is_some_and(|kinds| !kinds.contains(&action_kind(action))) {
            return Err(ErrorKind::BadActionBadType.into());
        }
        if let Action::SetField(field, _) = action
            && !names(fields, *field)
        {
            return Err(ErrorKind::BadActionBadSetType.into());
        }
    }
    Ok(())
}
