//! VLANs: the VLAN of a packet, the ports that have it, and changes of tags (IEEE 802.1Q clauses 6.9 and 8.6).
//!
//! A packet has *its* tag when the outermost tag is of the port's kind (EtherType 0x8100 unless a trunk says otherwise). Other
//! tags are payload. VLAN 0 stands for "in no VLAN": such packets are never changed.

use linerate_mem::Batch;

use crate::DropReason;

/// EtherType of a customer tag (802.1Q), the one that is meant by "VLAN tag".
pub const CUSTOMER_TAG: u16 = 0x8100;
/// EtherType of a service tag (802.1ad), the outer one of two.
pub const SERVICE_TAG: u16 = 0x88a8;
/// VLAN ids are below this; 4095 itself is reserved.
pub(crate) const VLANS: usize = 4096;

/// The VLANs of a port, and the tags on its packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VlanMode {
    /// Untagged packets are in this VLAN; tagged ones are dropped, but for those that only carry a priority (VLAN id 0). What
    /// leaves here has no tag.
    Access {
        /// VLAN id; 0 for no VLAN.
        vlan: u16,
    },
    /// Tagged packets are in the VLAN of their tag, if the port has it.
    Trunk {
        /// VLAN of untagged packets, which leaves here untagged, too; `None` drops them.
        native: Option<u16>,
        /// VLANs that the port has beside the native one.
        allowed: VlanSet,
        /// EtherType of the tag: [`CUSTOMER_TAG`], or [`SERVICE_TAG`] towards a provider's network.
        ethertype: u16,
    },
    /// All packets, with whatever tags of their own, are in this VLAN: the customer's side of QinQ. Trunks put one more tag in
    /// front of theirs, which is taken off again where they leave.
    Tunnel {
        /// VLAN id of the service.
        vlan: u16,
    },
    /// In no VLAN, so nothing comes in or goes out but the copies of a mirror.
    None,
}

impl Default for VlanMode {
    /// Every packet passes unchanged; addresses are learned by VLAN.
    fn default() -> VlanMode {
        VlanMode::Trunk { native: Some(0), allowed: VlanSet::all(), ethertype: CUSTOMER_TAG }
    }
}

/// A set of VLAN ids.
#[derive(Clone, PartialEq, Eq)]
pub struct VlanSet {
    words: Box<[u64; VLANS / 64]>,
}

impl VlanSet {
    /// No VLAN.
    pub fn none() -> VlanSet {
        VlanSet { words: Box::new([0; VLANS / 64]) }
    }

    /// The VLANs 1 to 4094.
    pub fn all() -> VlanSet {
        (1..4095).collect()
    }

    /// Adds a VLAN; 0 and numbers above 4094 are ignored.
    pub fn insert(&mut self, vlan: u16) {
        if (1..4095).contains(&vlan) {
            self.words[usize::from(vlan) / 64] |= 1 << (vlan % 64);
        }
    }

    /// True when it is in the set.
    #[inline]
    pub fn contains(&self, vlan: u16) -> bool {
        self.words.get(usize::from(vlan) / 64).is_some_and(|word| word & 1 << (vlan % 64) != 0)
    }

    /// The ids, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        (0..VLANS as u16).filter(|vlan| self.contains(*vlan))
    }
}

impl FromIterator<u16> for VlanSet {
    fn from_iter<I: IntoIterator<Item = u16>>(vlans: I) -> VlanSet {
        let mut set = VlanSet::none();
        vlans.into_iter().for_each(|vlan| set.insert(vlan));
        set
    }
}

impl std::fmt::Debug for VlanSet {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "VlanSet of {}", self.iter().count())
    }
}

/// Which tag of the port's kind a packet has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Tag {
    #[default]
    Absent = 0,
    /// With the id of the packet's VLAN.
    Own = 1,
    /// With VLAN id 0, which says a priority only.
    Priority = 2,
}

/// A change of a packet's tag before it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    Keep,
    Pop,
    Push { ethertype: u16, vlan: u16 },
    Change { ethertype: u16, vlan: u16 },
}

impl Edit {
    /// Bytes by which the packet gets longer.
    pub(crate) fn growth(self) -> usize {
        if matches!(self, Edit::Push { .. }) { TAG_LEN } else { 0 }
    }
}

/// Bytes of a tag.
pub(crate) const TAG_LEN: usize = 4;
/// Bytes of the two addresses in front of it.
const ADDRESSES: usize = 12;

impl VlanMode {
    /// EtherType of the tags that are the port's own.
    #[inline]
    pub(crate) fn ethertype(&self) -> u16 {
        match self {
            VlanMode::Trunk { ethertype, .. } => *ethertype,
            _ => CUSTOMER_TAG,
        }
    }

    /// VLAN of a packet that arrives; `tag` is the control information of the tag of the port's kind, if there is one.
    #[inline]
    pub(crate) fn classify(&self, tag: Option<u16>) -> Result<(u16, Tag), DropReason> {
        let id = tag.map(|tag| tag & 0xfff);
        match (self, id) {
            (VlanMode::Trunk { native, .. }, None | Some(0)) => {
                let vlan = native.ok_or(DropReason::UntaggedNotAdmitted)?;
                Ok((vlan, if id.is_none() { Tag::Absent } else { Tag::Priority }))
            }
            (VlanMode::Trunk { native, allowed, .. }, Some(id)) => {
                let has = *native == Some(id) || allowed.contains(id);
                if has { Ok((id, Tag::Own)) } else { Err(DropReason::VlanNotAllowed) }
            }
            (VlanMode::Access { vlan }, None) => Ok((*vlan, Tag::Absent)),
            (VlanMode::Access { vlan }, Some(0)) => Ok((*vlan, Tag::Priority)),
            (VlanMode::Tunnel { vlan }, _) => Ok((*vlan, Tag::Absent)),
            (VlanMode::Access { .. }, Some(_)) | (VlanMode::None, _) => Err(DropReason::VlanNotAllowed),
        }
    }

    /// True when packets of the VLAN may leave here.
    #[inline]
    pub(crate) fn has(&self, vlan: u16) -> bool {
        match self {
            VlanMode::Access { vlan: own } | VlanMode::Tunnel { vlan: own } => *own == vlan,
            VlanMode::Trunk { native, allowed, .. } => *native == Some(vlan) || allowed.contains(vlan),
            VlanMode::None => false,
        }
    }

    /// The change that a packet of `vlan` needs to leave here; it arrived with this tag, of EtherType `arrived_as`.
    #[inline]
    pub(crate) fn edit(&self, vlan: u16, tag: Tag, arrived_as: u16) -> Edit {
        if vlan == 0 {
            return Edit::Keep;
        }
        let ethertype = match self {
            VlanMode::Trunk { native, ethertype, .. } if *native != Some(vlan) => *ethertype,
            _ => return if tag == Tag::Absent { Edit::Keep } else { Edit::Pop },
        };
        match tag {
            Tag::Absent => Edit::Push { ethertype, vlan },
            Tag::Own if arrived_as == ethertype => Edit::Keep,
            _ => Edit::Change { ethertype, vlan },
        }
    }
}

/// Does it to the packet that begins in slot `at`, whose first slot holds its header; false, and nothing has happened, when
/// there is no room for a tag in front of it in its frame. A priority is kept.
pub(crate) fn apply(edit: Edit, batch: &mut Batch, at: usize) -> bool {
    match edit {
        Edit::Keep => true,
        Edit::Pop => {
            if batch.packet(at).len() >= ADDRESSES + TAG_LEN {
                batch.packet_mut(at).copy_within(..ADDRESSES, TAG_LEN);
                batch.adj(at, TAG_LEN);
            }
            true
        }
        Edit::Push { ethertype, vlan } => {
            if !batch.prepend(at, TAG_LEN) {
                return false;
            }
            batch.packet_mut(at).copy_within(TAG_LEN..TAG_LEN + ADDRESSES, 0);
            write(batch.packet_mut(at), ethertype, vlan);
            true
        }
        Edit::Change { ethertype, vlan } => {
            let bytes = batch.packet_mut(at);
            if let Some(tag) = bytes.get(ADDRESSES + 2..ADDRESSES + TAG_LEN) {
                let priority = u16::from_be_bytes([tag[0], tag[1]]) & 0xf000;
                write(bytes, ethertype, priority | vlan);
            }
            true
        }
    }
}

fn write(bytes: &mut [u8], ethertype: u16, control: u16) {
    if let Some(tag) = bytes.get_mut(ADDRESSES..ADDRESSES + TAG_LEN) {
        tag[..2].copy_from_slice(&ethertype.to_be_bytes());
        tag[2..].copy_from_slice(&control.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_mem::{Pool, PoolConfig};

    fn trunk(native: Option<u16>, allowed: &[u16], ethertype: u16) -> VlanMode {
        VlanMode::Trunk { native, allowed: allowed.iter().copied().collect(), ethertype }
    }

    #[test]
    fn packets_are_put_into_their_vlan() {
        let access = VlanMode::Access { vlan: 10 };
        assert_eq!(access.classify(None), Ok((10, Tag::Absent)));
        assert_eq!(access.classify(Some(0xe000)), Ok((10, Tag::Priority)));
        assert_eq!(access.classify(Some(10)), Err(DropReason::VlanNotAllowed));
        let tagged_only = trunk(None, &[10, 4094], CUSTOMER_TAG);
        assert_eq!(tagged_only.classify(None), Err(DropReason::UntaggedNotAdmitted));
        assert_eq!(tagged_only.classify(Some(0)), Err(DropReason::UntaggedNotAdmitted));
        assert_eq!(tagged_only.classify(Some(0xf00a)), Ok((10, Tag::Own)));
        assert_eq!(tagged_only.classify(Some(11)), Err(DropReason::VlanNotAllowed));
        assert_eq!(tagged_only.classify(Some(4095)), Err(DropReason::VlanNotAllowed));
        assert_eq!(trunk(Some(5), &[], CUSTOMER_TAG).classify(Some(5)), Ok((5, Tag::Own)));
        assert_eq!(VlanMode::Tunnel { vlan: 7 }.classify(Some(99)), Ok((7, Tag::Absent)));
        assert_eq!(VlanMode::None.classify(None), Err(DropReason::VlanNotAllowed));
        assert_eq!(VlanMode::default().classify(Some(99)), Ok((99, Tag::Own)));
    }

    #[test]
    fn tags_are_pushed_and_popped_as_the_two_ports_want() {
        let native = trunk(Some(10), &[20], CUSTOMER_TAG);
        assert_eq!(native.edit(10, Tag::Absent, CUSTOMER_TAG), Edit::Keep);
        assert_eq!(native.edit(10, Tag::Own, CUSTOMER_TAG), Edit::Pop);
        assert_eq!(native.edit(20, Tag::Own, CUSTOMER_TAG), Edit::Keep);
        assert_eq!(native.edit(20, Tag::Absent, CUSTOMER_TAG), Edit::Push { ethertype: CUSTOMER_TAG, vlan: 20 });
        assert_eq!(native.edit(20, Tag::Priority, CUSTOMER_TAG), Edit::Change { ethertype: CUSTOMER_TAG, vlan: 20 });
        assert_eq!(native.edit(20, Tag::Own, SERVICE_TAG), Edit::Change { ethertype: CUSTOMER_TAG, vlan: 20 });
        assert_eq!(VlanMode::Tunnel { vlan: 20 }.edit(20, Tag::Own, SERVICE_TAG), Edit::Pop);
        assert_eq!(VlanMode::default().edit(0, Tag::Priority, CUSTOMER_TAG), Edit::Keep);
        assert!(native.has(10) && native.has(20) && !native.has(0) && !native.has(30));
        assert!(VlanMode::default().has(0) && VlanMode::default().has(4094) && !VlanMode::None.has(0));
    }

    #[test]
    fn a_pushed_tag_comes_off_again() {
        let addresses: Vec<u8> = (0..12).collect();
        let mut pool = Pool::new(PoolConfig { frames: 8, frame_size: 1024 }).unwrap();
        let mut batch = Batch::new(&pool, 8);
        pool.alloc(&mut batch, 8, 60);
        for at in 0..8 {
            batch.packet_mut(at).iter_mut().zip(0..).for_each(|(byte, value)| *byte = value);
            let before = batch.packet(at).to_vec();
            assert!(apply(Edit::Push { ethertype: SERVICE_TAG, vlan: 0xabc }, &mut batch, at));
            let packet = batch.packet(at);
            assert_eq!(
                (packet.len(), &packet[..12], &packet[12..16]),
                (64, &addresses[..], &[0x88, 0xa8, 0xa, 0xbc][..])
            );
            assert_eq!(packet[16..], before[12..]);
            assert!(apply(Edit::Change { ethertype: CUSTOMER_TAG, vlan: 1 }, &mut batch, at));
            assert_eq!(batch.packet(at)[12..16], [0x81, 0, 0, 1]);
            assert!(apply(Edit::Pop, &mut batch, at));
            assert_eq!(batch.packet(at), &before[..]);
        }
        // A frame that is full to the first byte has no room for a tag.
        while batch.prepend(0, 1) {}
        let full = batch.packet(0).to_vec();
        assert!(!apply(Edit::Push { ethertype: CUSTOMER_TAG, vlan: 1 }, &mut batch, 0));
        assert_eq!(batch.packet(0), full);
    }

    #[test]
    fn sets_hold_what_can_be() {
        let set: VlanSet = [0, 1, 64, 4094, 4095, 9999].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [1, 64, 4094]);
        assert!(!set.contains(9999));
        assert_eq!(VlanSet::all().iter().count(), 4094);
    }
}
