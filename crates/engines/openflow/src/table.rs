//! Features of tables (section 7.3.5.5).

use crate::Experimenter;

/// What a table can do, as a request sets it and a reply says it (`ofp_table_features`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFeatures {
    /// The table.
    pub table: u8,
    /// Its name; at most 31 bytes are sent.
    pub name: String,
    /// Bits of the metadata that it can match.
    pub metadata_match: u64,
    /// Bits of the metadata that it can write.
    pub metadata_write: u64,
    /// `OFPTC_*` bits.
    pub config: u32,
    /// Most entries.
    pub max_entries: u32,
    /// The properties, as sets of numbers of instructions, actions and fields.
    pub properties: TableProperties,
}

/// Properties of a table: one list for packets that match, and one for the table-miss entry where there are two (`[match, miss]`).
/// A list is `None` if it was left out; that of the miss entry is then the same as that for packets that match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableProperties {
    /// Types of instructions.
    pub instructions: [Option<Vec<u16>>; 2],
    /// Tables that a goto may name.
    pub next_tables: [Option<Vec<u8>>; 2],
    /// Types of actions that an entry may write into the action set.
    pub write_actions: [Option<Vec<u16>>; 2],
    /// Types of actions that an entry may apply.
    pub apply_actions: [Option<Vec<u16>>; 2],
    /// Fields that can be matched, as 32-bit OXM headers (class, field, has-mask if it is maskable, length).
    pub matches: Option<Vec<u32>>,
    /// Fields that can be wildcarded, as OXM headers.
    pub wildcards: Option<Vec<u32>>,
    /// Fields that written actions can set, as OXM headers.
    pub write_set_fields: [Option<Vec<u32>>; 2],
    /// Fields that applied actions can set, as OXM headers.
    pub apply_set_fields: [Option<Vec<u32>>; 2],
    /// Properties of experimenters, in any number. Switches refuse them.
    pub experimenters: [Vec<Experimenter>; 2],
}
