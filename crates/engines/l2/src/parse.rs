//! Reads the headers of a batch: the addresses and the VLAN of each packet.

use linerate_mem::Batch;

use crate::counters::DropReason;
use crate::packet::{Packet, Verdict};
use crate::table::{Finder, Key, Table};
use crate::vlan::VlanMode;

/// Bytes of an Ethernet header.
const HEADER: usize = 14;
/// All bits of an address.
pub(crate) const BROADCAST: u64 = 0xffff_ffff_ffff;
/// The bit of group addresses.
const GROUP: u64 = 1 << 40;

/// How the packets of a port are read.
pub(crate) struct Reader<'a> {
    vlan: &'a VlanMode,
    /// EtherType of a tag of the port's kind; more than 16 bits where no tag is.
    tag: u32,
    /// VLAN and verdict of packets without a tag.
    untagged: Class,
}

/// The VLAN of a packet, and its verdict so far.
#[derive(Clone, Copy)]
struct Class {
    vlan: Key,
    verdict: Verdict,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(vlan: &'a VlanMode) -> Reader<'a> {
        let tag = match vlan {
            VlanMode::Tunnel { .. } => u32::MAX,
            vlan => u32::from(vlan.ethertype()),
        };
        Reader { vlan, tag, untagged: classify(vlan, None) }
    }

    /// Reads the headers of up to [`CHUNK`] packets, and asks for the lines of the MAC table that will be wanted; returns how many.
    #[inline(never)]
    pub(crate) fn parse(&self, arrived: &Batch, table: &Table, packets: &mut [Packet]) -> usize {
        let (mut parts, table) = (arrived.parts(), table.finder());
        let mut count = 0;
        for packet in &mut *packets {
            let Some(part) = parts.next() else { break };
            count += 1;
            self.read(part.bytes, &table, packet);
            if part.more {
                packet.read_on(&mut parts);
            }
        }
        count
    }

    /// Reads one header.
    #[inline]
    fn read(&self, bytes: &[u8], table: &Finder<'_>, packet: &mut Packet) {
        packet.len = bytes.len() as u32;
        packet.slots = 1;
        let Some(header) = bytes.first_chunk::<HEADER>() else { return packet.refuse(DropReason::Runt) };
        let destination = word(header, 0) >> 16;
        let source = word(header, 4) & BROADCAST;
        if source & GROUP != 0 {
            return packet.refuse(DropReason::MulticastSource);
        }
        let tagged = u32::from(u16::from_be_bytes([header[12], header[13]])) == self.tag;
        let class = if tagged { self.read_tag(bytes) } else { self.untagged };
        packet.destination = class.vlan.with_mac(destination);
        packet.source = class.vlan.with_mac(source);
        packet.destination_bucket = table.prefetch(packet.destination);
        packet.source_bucket = table.prefetch(packet.source);
        packet.verdict = class.verdict;
    }

    #[inline(never)]
    fn read_tag(&self, bytes: &[u8]) -> Class {
        // The packet ends within its tag.
        match bytes.get(HEADER - 2..HEADER + 4) {
            Some([_, _, high, low, ..]) => classify(self.vlan, Some(u16::from_be_bytes([*high, *low]))),
            _ => Class { vlan: Key::new(0, 0), verdict: Verdict::unclassified(DropReason::Runt) },
        }
    }
}

/// Eight bytes of a header, as they are sent; `at` is at most 6.
#[inline]
fn word(header: &[u8; HEADER], at: usize) -> u64 {
    header[at..].first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

fn classify(vlan: &VlanMode, tag: Option<u16>) -> Class {
    match vlan.classify(tag) {
        Ok((vlan, tag)) => Class { vlan: Key::new(vlan, 0), verdict: Verdict::new(vlan, tag) },
        Err(reason) => Class { vlan: Key::new(0, 0), verdict: Verdict::unclassified(reason) },
    }
}
