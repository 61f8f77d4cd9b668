//! Settings of the switch, and of each of its ports.

pub use linerate_port::PortIndex;

use crate::vlan::VlanMode;
use linerate_measure::Rate;

/// Most ports that a switch can be made for.
pub(crate) const PORTS_MAX: usize = 1024;

/// Shape of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Addresses that the MAC table has room for, 1 to 2^20.
    pub mac_entries: usize,
    /// Seconds of silence after which an address is forgotten.
    pub age_s: u32,
    /// Most ports at once, 1 to 1,024.
    pub ports_max: usize,
    /// Slots of an egress queue, 1 to 65,536.
    pub queue_slots: usize,
    /// Forward packets to the addresses 01-80-C2-00-00-00 to -0F, which bridges keep for themselves (LLDP, LACP, STP).
    pub forward_reserved: bool,
    /// Where addresses lie in the MAC table depends on it. A random number keeps others from choosing addresses that collide.
    pub hash_seed: u64,
}

impl Default for SwitchConfig {
    fn default() -> SwitchConfig {
        SwitchConfig {
            mac_entries: 8192,
            age_s: 300,
            ports_max: 256,
            queue_slots: 512,
            forward_reserved: false,
            hash_seed: 0,
        }
    }
}

/// A value of [`SwitchConfig`] that is out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {value}, but must be from {least} to {most}")]
pub struct ConfigError {
    what: &'static str,
    value: usize,
    least: usize,
    most: usize,
}

impl SwitchConfig {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let limits = [
            ("the number of MAC entries", self.mac_entries, 1, 1 << 20),
            ("the number of ports", self.ports_max, 1, PORTS_MAX),
            ("the number of slots of an egress queue", self.queue_slots, 1, 1 << 16),
        ];
        for (what, value, least, most) in limits {
            if !(least..=most).contains(&value) {
                return Err(ConfigError { what, value, least, most });
            }
        }
        Ok(())
    }
}

/// Limits of flooded packets of a port, in packets a second; `None` sets no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StormLimits {
    /// To an address that is not known.
    pub unknown: Option<Rate>,
    /// To all.
    pub broadcast: Option<Rate>,
    /// To a multicast address.
    pub multicast: Option<Rate>,
}

/// Settings of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// Its VLANs.
    pub vlan: VlanMode,
    /// Nothing goes from one isolated port to another.
    pub isolated: bool,
    /// Learn source addresses here.
    pub learning: bool,
    /// Most addresses that are learned here; above that, a new one takes the place of an older one of the port in its two buckets of the table,
    /// and is not learned if there is none. Addresses above a lowered limit stay. `None` leaves the port what the table has.
    pub learn_limit: Option<u32>,
    /// Longest packet in bytes, without FCS, that the port takes; see `Caps::frame_len_max`.
    pub frame_len_max: usize,
    /// Limits of ingress packets that are flooded.
    pub storm: StormLimits,
    /// Limit of ingress packets in bit/s, counted over the packets without FCS.
    pub rate_bits: Option<Rate>,
    /// Limit of ingress packets in packets a second.
    pub rate_packets: Option<Rate>,
}

impl Default for PortSettings {
    fn default() -> PortSettings {
        PortSettings {
            vlan: VlanMode::default(),
            isolated: false,
            learning: true,
            learn_limit: None,
            frame_len_max: usize::from(u16::MAX),
            storm: StormLimits::default(),
            rate_bits: None,
            rate_packets: None,
        }
    }
}

impl PortSettings {
    /// A port in no VLAN, for the copies of a mirror only.
    pub fn monitor() -> PortSettings {
        PortSettings { vlan: VlanMode::None, learning: false, ..PortSettings::default() }
    }

    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        let vlan = match &self.vlan {
            VlanMode::Access { vlan } | VlanMode::Tunnel { vlan } => *vlan,
            VlanMode::Trunk { native, .. } => native.unwrap_or(0),
            VlanMode::None => 0,
        };
        if vlan > 4094 {
            return Err(SettingsError::Vlan { vlan });
        }
        if self.vlan.ethertype() < 0x600 {
            return Err(SettingsError::Ethertype { ethertype: self.vlan.ethertype() });
        }
        Ok(())
    }

    /// Whether a port of which several workers have queues may have these. Each would let the whole of a limit pass.
    pub(crate) fn check_divided(&self) -> Result<(), SettingsError> {
        let storm = &self.storm;
        let limits = [self.rate_bits, self.rate_packets, storm.unknown, storm.broadcast, storm.multicast];
        if limits.iter().any(Option::is_some) { Err(SettingsError::LimitOfQueues) } else { Ok(()) }
    }
}

/// A wrong setting of a port or a mirror.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The switch has as many ports as it was made for.
    #[error("the switch has {ports_max} ports already; remove one, or start it with more")]
    Full {
        /// [`SwitchConfig::ports_max`].
        ports_max: usize,
    },
    /// No port has this number.
    #[error("there is no port {port}")]
    NoPort {
        /// The number.
        port: PortIndex,
    },
    /// No worker has a port of this name.
    #[error("no worker has a port {name}")]
    NoPortNamed {
        /// The name.
        name: String,
    },
    /// No VLAN has this id.
    #[error("not a VLAN ID: {vlan} (1 to 4094, or 0 for no VLAN)")]
    Vlan {
        /// The id.
        vlan: u16,
    },
    /// A tag cannot have this EtherType.
    #[error("not an EtherType: {ethertype:#06x} (a tag has 0x8100, or 0x88a8 towards a provider)")]
    Ethertype {
        /// The number.
        ethertype: u16,
    },
    /// A mirror cannot copy a port's packets to that port.
    #[error("a mirror of port {port} to itself copies nothing")]
    MirrorToItself {
        /// The port.
        port: PortIndex,
    },
    /// Limits count at one place, and several workers decide on what arrives at the port.
    #[error(
        "a port whose packets several workers decide on has no limits of rates; start the switch without --queues and --steer for it to have some"
    )]
    LimitOfQueues,
    /// All places of the address in the MAC table are taken by other static entries.
    #[error("no place is left in the MAC table for a static entry; start the switch with a larger table")]
    TableFull,
}
