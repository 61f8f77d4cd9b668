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
        experimenters: [Vec::new(), Vec::new()],
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

/// What a table's features permit, as sets: a bit for each number. Where there are two, the second is of the table-miss entry.
#[derive(Clone, Copy)]
pub(super) struct Permits {
    /// Fields of matches.
    fields: u64,
    maskable: u64,
    /// Fields that an entry must name, unless it is the table-miss entry.
    required: u64,
    instructions: [u32; 2],
    /// Actions, and fields that they set, of lists that are applied.
    apply: [(u32, u64); 2],
    write: [(u32, u64); 2],
}

impl Permits {
    pub(super) fn of(properties: &TableProperties) -> Permits {
        let bits = |keep: &dyn Fn(Field) -> bool| {
            Field::all().filter(|field| keep(*field)).fold(0, |bits, field| bits | bit(field))
        };
        let (matches, wildcards) = (properties.matches.as_ref(), properties.wildcards.as_ref());
        let permits_mask = |field: Field| {
            matches.is_none_or(|list| {
                let is_it = |known: &u32| known >> 16 == CLASS && known >> 9 & 0x7f == field as u32;
                list.iter().any(|known| is_it(known) && known >> 8 & 1 == 1)
            })
        };
        let numbers = |lists: &[Option<Vec<u16>>; 2], is_miss: bool| {
            let known = |list: &Vec<u16>| list.iter().filter(|kind| **kind < 32).fold(0, |bits, kind| bits | 1 << kind);
            for_kind(lists, is_miss).map_or(u32::MAX, known)
        };
        let actions = |lists: &[Option<Vec<u16>>; 2], fields: &[Option<Vec<u32>>; 2]| {
            [false, true].map(|is_miss| {
                let set_fields = for_kind(fields, is_miss);
                (numbers(lists, is_miss), bits(&|field| names(set_fields, field)))
            })
        };
        Permits {
            fields: bits(&|field| names(matches, field)),
            maskable: bits(&permits_mask),
            required: bits(&|field| names(matches, field) && !names(wildcards, field)),
            instructions: [false, true].map(|is_miss| numbers(&properties.instructions, is_miss)),
            apply: actions(&properties.apply_actions, &properties.apply_set_fields),
            write: actions(&properties.write_actions, &properties.write_set_fields),
        }
    }
}

fn bit(field: Field) -> u64 {
    1 << field as u8
}

/// The list for packets that match, or for the table-miss entry if there is another one.
fn for_kind<T>(lists: &[Option<T>; 2], is_miss: bool) -> Option<&T> {
    let [matched, missed] = lists;
    missed.as_ref().filter(|_| is_miss).or(matched.as_ref())
}

impl Switch {
    /// Whether the features of a table permit an entry's match.
    pub(super) fn check_match_features(&self, table: u8, priority: u16, matching: &Match) -> Result<(), OfError> {
        let (permits, metadata) = (&self.permits[usize::from(table)], self.features[usize::from(table)].metadata_match);
        let mut named = 0;
        for wanted in &matching.fields {
            named |= bit(wanted.field);
            if permits.fields & bit(wanted.field) == 0 {
                return Err(ErrorKind::BadMatchBadField.into());
            }
            let mask = wanted.effective_mask();
            let masked = mask != wanted.field.full_mask();
            let beyond = wanted.field == Field::Metadata && mask & !u128::from(metadata) != 0;
            if masked && permits.maskable & bit(wanted.field) == 0 || beyond {
                return Err(ErrorKind::BadMatchBadMask.into());
            }
        }
        // A table-miss entry leaves out all fields.
        let is_miss = priority == 0 && matching.fields.is_empty();
        if !is_miss && permits.required & !named != 0 {
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
        let (features, permits) = (&self.features[usize::from(table)], &self.permits[usize::from(table)]);
        let of = usize::from(is_miss);
        for instruction in instructions {
            match instruction {
                Instruction::GotoTable(next) => {
                    let tables = for_kind(&features.properties.next_tables, is_miss);
                    if tables.is_some_and(|tables| !tables.contains(next)) {
                        return Err(ErrorKind::BadInstructionBadTableId.into());
                    }
                }
                Instruction::WriteMetadata { mask, .. } if mask & !features.metadata_write != 0 => {
                    return Err(ErrorKind::BadInstructionUnsupMetadataMask.into());
                }
                Instruction::WriteActions(actions) => check_actions(actions, permits.write[of])?,
                Instruction::ApplyActions(actions) => check_actions(actions, permits.apply[of])?,
                _ => {}
            }
            if !permits_number(permits.instructions[of], instruction.number()) {
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
            self.permits[slot] = Permits::of(&features.properties);
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

/// True if a set of types has this one; it never has an experimenter's.
fn permits_number(kinds: u32, number: u16) -> bool {
    kinds.checked_shr(number.into()).is_some_and(|kinds| kinds & 1 == 1)
}

fn check_actions(actions: &[Action], (kinds, fields): (u32, u64)) -> Result<(), OfError> {
    for action in actions {
        if !permits_number(kinds, action.number()) {
            return Err(ErrorKind::BadActionBadType.into());
        }
        if let Action::SetField(field, _) = action
            && fields & bit(*field) == 0
        {
            return Err(ErrorKind::BadActionBadSetType.into());
        }
    }
    Ok(())
}
