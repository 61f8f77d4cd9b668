//! Meters (section 7.3.4.4).

use crate::ExperimenterPart;

/// Command of a [`MeterMod`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum MeterCommand {
    /// Adds a meter.
    Add = 0,
    /// Replaces a meter.
    Modify = 1,
    /// Deletes a meter, or all by [`crate::METER_ALL`].
    Delete = 2,
}

/// Flags of a meter (`OFPMF_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterFlags(pub u16);

impl MeterFlags {
    /// Rates are in kbit/s.
    pub const KBPS: u16 = 1 << 0;
    /// Rates are in packets a second.
    pub const PKTPS: u16 = 1 << 1;
    /// Burst sizes are used.
    pub const BURST: u16 = 1 << 2;
    /// The meter counts.
    pub const STATS: u16 = 1 << 3;
    /// All bits.
    pub const ALL: u16 = 0xf;

    /// True if all bits of `flag` are set.
    pub fn has(self, flag: u16) -> bool {
        self.0 & flag == flag
    }
}

/// What a band does with packets above its rate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BandKind {
    /// Drops them.
    Drop,
    /// Raises their drop precedence in the DSCP by so many levels.
    DscpRemark(u8),
    /// What an experimenter knows. Switches refuse it.
    Experimenter(Box<ExperimenterPart>),
}

/// A band of a meter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Band {
    /// What it does.
    pub kind: BandKind,
    /// Rate from which on it works: kbit/s or packets/s.
    pub rate: u32,
    /// Size of bursts: kbit or packets.
    pub burst_size: u32,
}

/// A controller changes meters (`OFPT_METER_MOD`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterMod {
    /// The command.
    pub command: MeterCommand,
    /// The meter's flags.
    pub flags: MeterFlags,
    /// The meter.
    pub meter: u32,
    /// Its bands.
    pub bands: Vec<Band>,
}
