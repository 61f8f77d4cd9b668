//! Features of tables: what each can do, what a controller restricts it to, and what follows from that for entries.

use linerate_flow_tables::Permits;
use linerate_openflow::{ErrorKind, Field, OfError, TABLE_MAX, TableFeatures, TableProperties};

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
    let later: Vec<u8> = (table.saturating_add(1)..=TABLE_MAX).collect();
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

/// What a table's features permit, as sets.
pub(super) fn permits(features: &TableFeatures) -> Permits {
    let properties = &features.properties;
    let (matches, wildcards) = (fields_in(properties.matches.as_ref()), fields_in(properties.wildcards.as_ref()));
    let with_mask = |list: &Vec<u32>| list.iter().filter(|header| **header >> 8 & 1 == 1).copied().collect();
    let maskable: Option<Vec<u32>> = properties.matches.as_ref().map(with_mask);
    let actions = |kinds: [u32; 2], fields: [u64; 2]| [(kinds[0], fields[0]), (kinds[1], fields[1])];
    Permits {
        entries_max: features.max_entries,
        fields: matches,
        maskable: fields_in(maskable.as_ref()),
        required: matches & !wildcards,
        metadata_match: features.metadata_match,
        metadata_write: features.metadata_write,
        next_tables: for_both(&properties.next_tables, tables_in),
        instructions: for_both(&properties.instructions, numbers_in),
        apply: actions(
            for_both(&properties.apply_actions, numbers_in),
            for_both(&properties.apply_set_fields, fields_in),
        ),
        write: actions(
            for_both(&properties.write_actions, numbers_in),
            for_both(&properties.write_set_fields, fields_in),
        ),
    }
}

/// The fields that a list of OXM headers names; a missing list names all.
fn fields_in(list: Option<&Vec<u32>>) -> u64 {
    let Some(list) = list else { return Field::all().fold(0, |bits, field| bits | Permits::bit(field)) };
    let mut bits = 0;
    for header in list {
        if header >> 16 == CLASS && header >> 9 & 0x7f < 64 {
            bits |= 1 << (header >> 9 & 0x7f);
        }
    }
    bits
}

/// The types that a list names; a missing list names all.
fn numbers_in(list: Option<&Vec<u16>>) -> u32 {
    let Some(list) = list else { return u32::MAX };
    list.iter().filter(|kind| **kind < 32).fold(0, |bits, kind| bits | 1 << kind)
}

/// The tables that a list names; a missing list names all.
fn tables_in(list: Option<&Vec<u8>>) -> [u64; 4] {
    let Some(list) = list else { return [u64::MAX; 4] };
    let mut words = [0; 4];
    for table in list {
        words[usize::from(table >> 6)] |= 1 << (table & 63);
    }
    words
}

/// The sets of a list for packets that match, and of that for the table-miss entry, which is the same unless there is another one.
fn for_both<T, S: Copy>(lists: &[Option<T>; 2], set: fn(Option<&T>) -> S) -> [S; 2] {
    let [matched, missed] = lists;
    let of_matched = set(matched.as_ref());
    [of_matched, missed.as_ref().map_or(of_matched, |missed| set(Some(missed)))]
}

impl Switch {
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
            self.tables.set_permits(features.table, permits(&features));
            self.features[slot] = features;
        }
        Ok(())
    }

    /// A table cannot do more than the switch, and it can do what its entries need.
    fn check_features(&self, wanted: &TableFeatures) -> Result<(), OfError> {
        let best = all(wanted.table, self.options.table_entries_max);
        if wanted.max_entries > best.max_entries || wanted.max_entries < self.tables.entries_of(wanted.table) as u32 {
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
