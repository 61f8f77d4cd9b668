//! Packets to and from controllers (sections 7.3.7 and 7.4.1).

use crate::{Action, Match, PortNumber};

/// Why a packet goes to the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketInReason {
    /// It matched the table-miss entry.
    NoMatch = 0,
    /// An action said so.
    Action = 1,
    /// Its TTL is invalid.
    InvalidTtl = 2,
}

/// A packet for the controllers (`OFPT_PACKET_IN`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketIn {
    /// Buffer that holds the packet, or [`crate::NO_BUFFER`].
    pub buffer_id: u32,
    /// Length of the whole packet in bytes.
    pub total_len: u16,
    /// Why.
    pub reason: PacketInReason,
    /// Table of the entry that sent it.
    pub table: u8,
    /// Cookie of that entry; all ones if there is none.
    pub cookie: u64,
    /// Fields of the packet's path: in_port always; in_phy_port, metadata, tunnel_id where they are not 0 or the same.
    pub matching: Match,
    /// The packet, or its beginning.
    pub data: Vec<u8>,
}

/// A packet from a controller (`OFPT_PACKET_OUT`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// Buffer that holds the packet, or [`crate::NO_BUFFER`].
    pub buffer_id: u32,
    /// The port by which the packet arrived, or [`PortNumber::CONTROLLER`].
    pub in_port: PortNumber,
    /// What to do; nothing drops it.
    pub actions: Vec<Action>,
    /// The packet, if no buffer holds it.
    pub data: Vec<u8>,
}
