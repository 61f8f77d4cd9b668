//! Reserved numbers of tables, groups, meters and buffers (section 7 of the specification).

/// Most tables of a switch: tables 0 to 254.
pub const TABLE_MAX: u8 = 0xfe;
/// Every table, in requests (`OFPTT_ALL`).
pub const TABLE_ALL: u8 = 0xff;
/// Every group, for deleting (`OFPG_ALL`).
pub const GROUP_ALL: u32 = 0xffff_fffc;
/// Any group, as a filter (`OFPG_ANY`).
pub const GROUP_ANY: u32 = 0xffff_ffff;
/// The virtual meter of the slow path (`OFPM_SLOWPATH`).
pub const METER_SLOWPATH: u32 = 0xffff_fffd;
/// The virtual meter of the connection to the controller (`OFPM_CONTROLLER`).
pub const METER_CONTROLLER: u32 = 0xffff_fffe;
/// Every meter, in requests (`OFPM_ALL`).
pub const METER_ALL: u32 = 0xffff_ffff;
/// The packet is in the message and not in a buffer (`OFP_NO_BUFFER`).
pub const NO_BUFFER: u32 = 0xffff_ffff;
