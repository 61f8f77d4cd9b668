//! The header actions, on a packet in place (section 5.12 and 7.2.5).
//!
//! An action applies to the outermost header of its kind, also behind headers that were pushed before. An action whose header the packet does
//! not have changes nothing. Checksums that covered a changed byte are updated, so that a packet that was damaged before stays recognizable.

mod checksum;
mod crc32c;
mod set_field;
mod tags;
mod ttl;

use linerate_openflow::Action;

use super::{Headers, PacketBuffer, PipelineFields};

/// Why an action could not be done; the packet is to be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActionDrop {
    /// The TTL that was to be decremented is 0 or 1. The controller may want to see the packet (`OFPR_INVALID_TTL`).
    InvalidTtl,
    /// There is no room in front of the packet for another header.
    NoHeadroom,
    /// The checksum cannot be updated: SCTP's covers all fragments, and this packet is one of them.
    ChecksumOutOfReach,
}

/// Does a header action. Actions that are none (output, group, queue), or an experimenter's, change nothing.
///
/// `headers` are those of the packet, and are kept up to date.
///
/// # Errors
/// The packet is to be dropped.
#[inline]
pub fn apply(
    action: &Action,
    packet: &mut impl PacketBuffer,
    headers: &mut Headers,
    fields: &mut PipelineFields,
) -> Result<(), ActionDrop> {
    match *action {
        Action::SetField(field, value) => set_field::set(packet, headers, fields, field, value)?,
        Action::PushVlan(ethertype) => tags::push_vlan(packet, headers, ethertype)?,
        Action::PopVlan => tags::pop_vlan(packet, headers),
        Action::PushMpls(ethertype) => tags::push_mpls(packet, headers, ethertype)?,
        Action::PopMpls(ethertype) => tags::pop_mpls(packet, headers, ethertype),
        Action::PushPbb(ethertype) => tags::push_pbb(packet, headers, ethertype)?,
        Action::PopPbb => tags::pop_pbb(packet, headers),
        Action::CopyTtlOut => ttl::copy_out(packet, headers),
        Action::CopyTtlIn => ttl::copy_in(packet, headers),
        Action::SetMplsTtl(ttl) => ttl::set_mpls(packet, headers, ttl),
        Action::DecMplsTtl => ttl::decrement_mpls(packet, headers)?,
        Action::SetNwTtl(ttl) => ttl::set_ip(packet, headers, ttl),
        Action::DecNwTtl => ttl::decrement_ip(packet, headers)?,
        Action::Output { .. } | Action::SetQueue(_) | Action::Group(_) => {}
        Action::SetExperimenterField(_) | Action::Experimenter(_) => {}
    }
    Ok(())
}
