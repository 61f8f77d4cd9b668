//! A packet on its way through the switch: its addresses, its VLAN, the verdict on it, and the port that its batch came from.

use linerate_mem::Part;
use linerate_port::PortIndex;

use crate::counters::DropReason;
use crate::table::Key;
use crate::vlan::{Tag, VLANS};

/// Packets that are looked at together.
pub(crate) const CHUNK: usize = 64;
/// Place of the counters of packets that were not put into a VLAN.
pub(crate) const UNCLASSIFIED: usize = VLANS;

/// Everything that the switch reads from a packet, or decides about it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packet {
    pub(crate) destination: Key,
    pub(crate) source: Key,
    pub(crate) verdict: Verdict,
    /// Bytes, in all of its slots.
    pub(crate) len: u32,
    pub(crate) slots: u32,
    /// Places of the first buckets of both keys in the MAC table.
    pub(crate) destination_bucket: u32,
    pub(crate) source_bucket: u32,
}

/// The VLAN of a packet, and where the packet goes, in one word, so that one comparison tells whether two verdicts are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict(u32);

/// A verdict taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Port(u16),
    Flood,
    Drop(DropReason),
}

impl Verdict {
    /// Codes above those of ports.
    const FLOODS: u32 = 0xff00;
    const DROPS: u32 = 0xff80;
    const CODES: u32 = 0xffff;
    /// Set in verdicts that drop, beside their code, because a bit is tested faster than a range.
    const DROP: u32 = 1 << 31;

    pub(crate) fn new(vlan: u16, tag: Tag) -> Verdict {
        Verdict(u32::from(vlan & 0xfff) << 16 | (tag as u32) << 28)
    }

    /// Dropped before it was put into a VLAN.
    pub(crate) fn unclassified(reason: DropReason) -> Verdict {
        Verdict(1 << 30).drop(reason)
    }

    #[inline]
    pub(crate) fn with(self, code: u32) -> Verdict {
        Verdict(self.0 & !Verdict::CODES | code)
    }

    #[inline]
    pub(crate) fn drop(self, reason: DropReason) -> Verdict {
        self.with(drop_code(reason))
    }

    #[inline]
    pub(crate) fn is_drop(self) -> bool {
        self.0 & Verdict::DROP != 0
    }

    /// Number of the storm limit that it is under, when it is flooded.
    #[inline]
    pub(crate) fn storm(self) -> Option<usize> {
        let code = self.0 & Verdict::CODES;
        (Verdict::FLOODS..Verdict::DROPS).contains(&code).then(|| (code - Verdict::FLOODS) as usize)
    }

    #[inline]
    pub(crate) fn vlan(self) -> u16 {
        (self.0 >> 16) as u16 & 0xfff
    }

    /// Place of its VLAN's counters.
    #[inline]
    pub(crate) fn account(self) -> usize {
        if self.0 & 1 << 30 != 0 { UNCLASSIFIED } else { usize::from(self.vlan()) }
    }

    #[inline]
    pub(crate) fn tag(self) -> Tag {
        match self.0 >> 28 & 3 {
            0 => Tag::Absent,
            1 => Tag::Own,
            _ => Tag::Priority,
        }
    }

    #[inline]
    pub(crate) fn action(self) -> Action {
        match self.0 & Verdict::CODES {
            code if code < Verdict::FLOODS => Action::Port(code as u16),
            code if code < Verdict::DROPS => Action::Flood,
            code => {
                let reason = DropReason::ALL.get((code - Verdict::DROPS) as usize);
                Action::Drop(reason.copied().unwrap_or(DropReason::Runt))
            }
        }
    }
}

/// Kinds of floods, in the order of [`Limits::storm`].
pub(crate) const UNKNOWN: u32 = Verdict::FLOODS;
pub(crate) const TO_ALL: u32 = Verdict::FLOODS + 1;
pub(crate) const TO_GROUP: u32 = Verdict::FLOODS + 2;

pub(crate) const fn drop_code(reason: DropReason) -> u32 {
    Verdict::DROP | (Verdict::DROPS + reason as u32)
}

/// Where a batch comes from.
#[derive(Clone, Copy)]
pub(crate) struct IngressContext {
    pub(crate) port: PortIndex,
    /// EtherType of the port's own tags.
    pub(crate) ethertype: u16,
    pub(crate) isolated: bool,
    pub(crate) learning: bool,
    pub(crate) mirrored: bool,
    pub(crate) now_ns: u64,
}

impl IngressContext {
    /// For copies of packets that came in at a port.
    pub(crate) fn of_mirror(port: PortIndex, now_ns: u64) -> IngressContext {
        IngressContext { port, ethertype: 0, isolated: false, learning: false, mirrored: false, now_ns }
    }
}

impl Packet {
    #[cold]
    pub(crate) fn refuse(&mut self, reason: DropReason) {
        self.verdict = Verdict::unclassified(reason);
    }

    /// Adds the other slots of a packet.
    #[cold]
    pub(crate) fn read_on<'a>(&mut self, parts: &mut impl Iterator<Item = Part<'a>>) {
        for part in parts {
            self.len += part.bytes.len() as u32;
            self.slots += 1;
            if !part.more {
                return;
            }
        }
        self.refuse(DropReason::Runt);
    }
}
