//! Configuration of the switch and of a controller's session (sections 7.3.2, 7.3.9 and 7.3.10).

/// What happens to IP fragments (`OFPC_FRAG_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u16)]
pub enum Fragments {
    /// They pass the tables like other packets, without ports of layer 4.
    #[default]
    Normal = 0,
    /// They are dropped.
    Drop = 1,
    /// They are put together first.
    Reassemble = 2,
}

/// `OFPT_SET_CONFIG`, `OFPT_GET_CONFIG_REPLY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Fragments.
    pub fragments: Fragments,
    /// Most bytes of a packet that matches no entry, or has an invalid TTL, which a packet-in carries.
    pub miss_send_len: u16,
}

impl Default for SwitchConfig {
    fn default() -> SwitchConfig {
        SwitchConfig { fragments: Fragments::Normal, miss_send_len: 128 }
    }
}

/// Role of a controller (`OFPCR_ROLE_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum ControllerRole {
    /// No change, in requests.
    NoChange = 0,
    /// Full access.
    #[default]
    Equal = 1,
    /// Full access, one of all.
    Master = 2,
    /// Reads only.
    Slave = 3,
}

/// Which messages a controller gets: a bit for each reason, first as master or equal, then as slave (`OFPT_SET_ASYNC`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncConfig {
    /// Packet-ins.
    pub packet_in: [u32; 2],
    /// Port status.
    pub port_status: [u32; 2],
    /// Flow-removed.
    pub flow_removed: [u32; 2],
}

impl Default for AsyncConfig {
    /// Section 6.3.5: masters and equals get all but packet-ins for invalid TTLs, slaves port status only.
    fn default() -> AsyncConfig {
        AsyncConfig { packet_in: [0b011, 0], port_status: [0b111, 0b111], flow_removed: [0b1111, 0] }
    }
}
