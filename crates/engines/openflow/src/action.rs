//! Actions and instructions (sections 7.2.4 and 7.2.5).

use crate::{ExperimenterField, ExperimenterPart, Field, PortNumber};

/// An action on a packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Sends the packet to a port; to the controller at most `max_len` bytes of it (0xffff: all of it, unbuffered).
    Output {
        /// The port.
        port: PortNumber,
        /// Bytes for the controller.
        max_len: u16,
    },
    /// Copies the TTL of the next-to-outermost header to the outermost.
    CopyTtlOut,
    /// Copies the TTL of the outermost header to the next.
    CopyTtlIn,
    /// Sets the TTL of the outermost MPLS header.
    SetMplsTtl(u8),
    /// Decrements it.
    DecMplsTtl,
    /// Pushes a VLAN tag with this EtherType: 0x8100 or 0x88a8.
    PushVlan(u16),
    /// Removes the outermost VLAN tag.
    PopVlan,
    /// Pushes an MPLS header with this EtherType: 0x8847 or 0x8848.
    PushMpls(u16),
    /// Removes the outermost MPLS header; the packet goes on with this EtherType.
    PopMpls(u16),
    /// Chooses the queue of the port that the packet is sent to.
    SetQueue(u32),
    /// Gives the packet to a group.
    Group(u32),
    /// Sets the TTL of IPv4 or the hop limit of IPv6.
    SetNwTtl(u8),
    /// Decrements it.
    DecNwTtl,
    /// Sets a field.
    SetField(Field, u128),
    /// Pushes a PBB service tag with this EtherType: 0x88e7.
    PushPbb(u16),
    /// Removes the outermost PBB service tag.
    PopPbb,
    /// Sets a field that the specification does not define. Switches refuse it.
    SetExperimenterField(Box<ExperimenterField>),
    /// An experimenter's action. Switches refuse it.
    Experimenter(Box<ExperimenterPart>),
}

/// An instruction of a flow entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// Goes on with a later table.
    GotoTable(u8),
    /// Replaces the bits `mask` of the metadata.
    WriteMetadata {
        /// The bits to write.
        metadata: u64,
        /// Which bits are written.
        mask: u64,
    },
    /// Merges actions into the action set.
    WriteActions(Vec<Action>),
    /// Applies actions at once, in their order.
    ApplyActions(Vec<Action>),
    /// Empties the action set.
    ClearActions,
    /// Sends the packet through a meter.
    Meter(u32),
    /// An experimenter's instruction. Switches refuse it.
    Experimenter(Box<ExperimenterPart>),
}

impl Action {
    /// Type on the wire (`OFPAT_*`).
    pub fn number(&self) -> u16 {
        match self {
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
            Action::SetField(..) | Action::SetExperimenterField(_) => 25,
            Action::PushPbb(_) => 26,
            Action::PopPbb => 27,
            Action::Experimenter(_) => 0xffff,
        }
    }
}

impl Instruction {
    /// Type on the wire (`OFPIT_*`).
    pub fn number(&self) -> u16 {
        match self {
            Instruction::GotoTable(_) => 1,
            Instruction::WriteMetadata { .. } => 2,
            Instruction::WriteActions(_) => 3,
            Instruction::ApplyActions(_) => 4,
            Instruction::ClearActions => 5,
            Instruction::Meter(_) => 6,
            Instruction::Experimenter(_) => 0xffff,
        }
    }
}
