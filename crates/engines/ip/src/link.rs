//! The link: Ethernet, with one VLAN tag if the shard is in a VLAN.

use linerate_wire::{EtherType, MacAddress, ethernet, vlan};

/// The link header of frames to one neighbour, ready to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkHeader {
    bytes: [u8; LinkHeader::LEN_MAX],
    len: u8,
}

impl LinkHeader {
    /// Longest link header: Ethernet with a VLAN tag.
    pub const LEN_MAX: usize = ethernet::HEADER_LEN + vlan::HEADER_LEN;

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        if self.len == ethernet::HEADER_LEN as u8 { &self.bytes[..ethernet::HEADER_LEN] } else { &self.bytes }
    }

    /// The bytes of a header without a VLAN tag.
    #[inline]
    pub fn untagged(&self) -> Option<&[u8; ethernet::HEADER_LEN]> {
        if self.len == ethernet::HEADER_LEN as u8 { self.bytes.first_chunk() } else { None }
    }

    /// Number of bytes: 14 or 18.
    #[inline]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// False: a link header has bytes.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The neighbour's MAC address.
    pub fn dst(&self) -> MacAddress {
        ethernet::Packet::new_unchecked(&self.bytes[..]).dst()
    }
}

/// Own MAC address and VLAN.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Own MAC address.
    pub mac: MacAddress,
    /// VLAN ID.
    pub vlan: Option<u16>,
}

/// What the link header of a received frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Who sent the frame.
    pub src: MacAddress,
    /// To whom: our own, or a group address.
    pub dst: MacAddress,
    /// Kind of what follows.
    pub ethertype: EtherType,
    /// Where it begins.
    pub offset: usize,
}

/// Why a frame is not for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotForUs {
    /// It is shorter than its link header.
    Truncated,
    /// It is of another VLAN, or has a tag where none is expected.
    Vlan,
    /// It is for another MAC address.
    Mac,
    /// It was sent with our own, or with a group's MAC address.
    Source,
}

impl Link {
    /// The header of frames to `dst`.
    pub fn header(&self, dst: MacAddress, ethertype: EtherType) -> LinkHeader {
        let mut bytes = [0; LinkHeader::LEN_MAX];
        let kind = if self.vlan.is_some() { EtherType::VLAN } else { ethertype };
        ethernet::Header { dst, src: self.mac, ethertype: kind }.emit(&mut bytes);
        if let Some(vid) = self.vlan {
            let tag = vlan::Header { vid, ethertype, ..Default::default() };
            tag.emit(&mut bytes[ethernet::HEADER_LEN..]);
        }
        LinkHeader { bytes, len: self.header_len() as u8 }
    }

    /// Bytes of the link header.
    #[inline]
    pub fn header_len(&self) -> usize {
        if self.vlan.is_some() { LinkHeader::LEN_MAX } else { ethernet::HEADER_LEN }
    }

    /// Reads the link header of a frame.
    ///
    /// # Errors
    /// The frame is not for us.
    pub fn receive(&self, frame: &[u8]) -> Result<Arrived, NotForUs> {
        let ethernet = ethernet::Packet::new_checked(frame).map_err(|_| NotForUs::Truncated)?;
        let (src, dst) = (ethernet.src(), ethernet.dst());
        if src.is_multicast() || src == self.mac {
            return Err(NotForUs::Source);
        }
        if dst != self.mac && !dst.is_multicast() {
            return Err(NotForUs::Mac);
        }
        let ethertype = ethernet.ethertype();
        if ethertype != EtherType::VLAN {
            let arrived = Arrived { src, dst, ethertype, offset: ethernet::HEADER_LEN };
            return if self.vlan.is_none() { Ok(arrived) } else { Err(NotForUs::Vlan) };
        }
        let tag = vlan::Packet::new_checked(ethernet.payload()).map_err(|_| NotForUs::Truncated)?;
        // A tag of VLAN 0 carries a priority only.
        let is_ours = tag.vid() == self.vlan.unwrap_or(0);
        let arrived = Arrived { src, dst, ethertype: tag.ethertype(), offset: LinkHeader::LEN_MAX };
        if is_ours && !arrived.ethertype.is_vlan() { Ok(arrived) } else { Err(NotForUs::Vlan) }
    }
}
