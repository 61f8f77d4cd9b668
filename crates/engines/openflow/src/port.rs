//! Ports: numbers, description, state, changes (section 7.2.1).

/// Number of an OpenFlow port. Numbers of switch ports are 1 to 0xffffff00; those above are reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortNumber(pub u32);

impl PortNumber {
    /// Highest number of a switch port (`OFPP_MAX`).
    pub const MAX: PortNumber = PortNumber(0xffff_ff00);
    /// The port by which the packet arrived (`OFPP_IN_PORT`).
    pub const IN_PORT: PortNumber = PortNumber(0xffff_fff8);
    /// The first table: in packet-outs only (`OFPP_TABLE`).
    pub const TABLE: PortNumber = PortNumber(0xffff_fff9);
    /// The switch as it would forward without OpenFlow (`OFPP_NORMAL`).
    pub const NORMAL: PortNumber = PortNumber(0xffff_fffa);
    /// All ports of the VLAN but the ingress port and blocked ports (`OFPP_FLOOD`).
    pub const FLOOD: PortNumber = PortNumber(0xffff_fffb);
    /// All ports but the ingress port (`OFPP_ALL`).
    pub const ALL: PortNumber = PortNumber(0xffff_fffc);
    /// The controllers (`OFPP_CONTROLLER`).
    pub const CONTROLLER: PortNumber = PortNumber(0xffff_fffd);
    /// The switch's own host (`OFPP_LOCAL`).
    pub const LOCAL: PortNumber = PortNumber(0xffff_fffe);
    /// No port; any port, as a filter (`OFPP_ANY`).
    pub const ANY: PortNumber = PortNumber(0xffff_ffff);
}

/// Bits of a port's configuration, which a controller sets (`OFPPC_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortConfig(pub u32);

impl PortConfig {
    /// The port is down by the administrator's will.
    pub const PORT_DOWN: u32 = 1 << 0;
    /// Packets that arrive by it are dropped.
    pub const NO_RECV: u32 = 1 << 2;
    /// Packets forwarded to it are dropped.
    pub const NO_FWD: u32 = 1 << 5;
    /// Packets that arrive by it and match no flow entry make no packet-in.
    pub const NO_PACKET_IN: u32 = 1 << 6;
    /// All bits.
    pub const ALL: u32 = Self::PORT_DOWN | Self::NO_RECV | Self::NO_FWD | Self::NO_PACKET_IN;
}

/// Bits of a port's state, which the switch knows (`OFPPS_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortState(pub u32);

impl PortState {
    /// There is no link.
    pub const LINK_DOWN: u32 = 1 << 0;
    /// A protocol outside OpenFlow blocks the port.
    pub const BLOCKED: u32 = 1 << 1;
    /// The port is live for fast-failover groups.
    pub const LIVE: u32 = 1 << 2;
}

/// What a switch says of a port (`ofp_port`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortDescription {
    /// Its number.
    pub number: PortNumber,
    /// Its Ethernet address.
    pub hw_addr: [u8; 6],
    /// Its name; at most 15 bytes are sent.
    pub name: String,
    /// Its configuration.
    pub config: PortConfig,
    /// Its state.
    pub state: PortState,
    /// Current features (`OFPPF_*`).
    pub current: u32,
    /// Features that it advertises.
    pub advertised: u32,
    /// Features that it supports.
    pub supported: u32,
    /// Features that its peer advertises.
    pub peer: u32,
    /// Current bit rate in kbit/s.
    pub current_kbps: u32,
    /// Highest bit rate in kbit/s.
    pub max_kbps: u32,
}

/// A controller changes a port's configuration (`OFPT_PORT_MOD`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMod {
    /// The port.
    pub number: PortNumber,
    /// Its address, which must be the right one.
    pub hw_addr: [u8; 6],
    /// New bits.
    pub config: PortConfig,
    /// Which bits change.
    pub mask: u32,
    /// Features to advertise; 0: unchanged.
    pub advertise: u32,
}

/// Why a port status is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PortStatusReason {
    /// The port was added.
    Add = 0,
    /// The port was removed.
    Delete = 1,
    /// An attribute changed.
    Modify = 2,
}

/// A port changed (`OFPT_PORT_STATUS`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// What happened.
    pub reason: PortStatusReason,
    /// The port as it is now.
    pub port: PortDescription,
}
