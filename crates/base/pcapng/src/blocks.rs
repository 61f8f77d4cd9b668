//! What a file begins with and what it says of its interfaces, to write.

use crate::options::{COMMENT, END, write, write_block, write_text, write_u64};
use crate::sections::{BYTE_ORDER_MAGIC, INTERFACE, SECTION_HEADER, STATISTICS};
use crate::{ETHERNET, FileFormat, PACKET_LEN_MAX};

/// What the head of a pcapng section says, beside its form; empty texts are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SectionHead {
    /// `shb_hardware`: the machine.
    pub hardware: String,
    /// `shb_os`: the operating system.
    pub os: String,
    /// `shb_userappl`: the program that writes.
    pub application: String,
    /// `opt_comment`.
    pub comment: String,
}

/// What a file says of an Ethernet interface; empty texts are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceHead {
    /// `if_name`.
    pub name: String,
    /// `if_description`.
    pub description: String,
    /// `if_filter`: the capture filter in tcpdump's language.
    pub filter: String,
    /// `if_os`.
    pub os: String,
    /// `opt_comment`; the place to say which clock timestamped the packets.
    pub comment: String,
    /// `if_MACaddr`.
    pub mac: Option<[u8; 6]>,
    /// `if_speed`, bit/s.
    pub speed_bps: Option<u64>,
    /// Most bytes kept of a packet; 0 = all.
    pub snaplen: u32,
}

/// An interface's counts up to a moment; `None` is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Number of the interface in the file, from 0.
    pub interface: u32,
    /// When the counts were taken, nanoseconds since 1970.
    pub time_ns: u64,
    /// `isb_starttime`: when the capture started, nanoseconds since 1970.
    pub start_ns: Option<u64>,
    /// `isb_endtime`: when it ended.
    pub end_ns: Option<u64>,
    /// `isb_ifrecv`: packets that the interface received.
    pub received: Option<u64>,
    /// `isb_ifdrop`: packets that the interface dropped for want of room.
    pub dropped_by_interface: Option<u64>,
    /// `isb_filteraccept`: packets that passed the filter.
    pub accepted: Option<u64>,
    /// `isb_osdrop`: packets that passed the filter and that the system dropped.
    pub dropped_by_system: Option<u64>,
    /// `isb_usrdeliv`: packets that were handed to the capturing program.
    pub delivered: Option<u64>,
    /// `opt_comment`.
    pub comment: String,
}

/// Appends what a file of a single, unnamed interface begins with: its head, and the interface.
pub fn file_start(out: &mut Vec<u8>, format: FileFormat, snaplen: usize) {
    let snaplen = snaplen.min(PACKET_LEN_MAX) as u32;
    match format {
        FileFormat::Pcap => {
            out.extend(0xa1b2_3c4du32.to_le_bytes());
            out.extend([2, 0, 4, 0]);
            out.extend([0; 8]);
            out.extend(snaplen.to_le_bytes());
            out.extend(u32::from(ETHERNET).to_le_bytes());
        }
        FileFormat::Pcapng => {
            section(out, &SectionHead { application: "linerate".into(), ..SectionHead::default() });
            interface(out, &InterfaceHead { snaplen, ..InterfaceHead::default() });
        }
    }
}

/// Appends the header of a section of unknown length.
pub fn section(out: &mut Vec<u8>, head: &SectionHead) {
    write_block(out, SECTION_HEADER, |out| {
        out.extend(BYTE_ORDER_MAGIC.to_le_bytes());
        out.extend([1, 0, 0, 0]);
        out.extend(u64::MAX.to_le_bytes());
        write_text(out, 2, &head.hardware);
        write_text(out, 3, &head.os);
        write_text(out, 4, &head.application);
        write_text(out, COMMENT, &head.comment);
        write(out, END, &[]);
    });
}

/// Appends an Ethernet interface that counts nanoseconds. The first one of a section has number 0.
pub fn interface(out: &mut Vec<u8>, head: &InterfaceHead) {
    const NANOSECONDS: u8 = 9;
    write_block(out, INTERFACE, |out| {
        out.extend(ETHERNET.to_le_bytes());
        out.extend([0; 2]);
        out.extend(head.snaplen.to_le_bytes());
        write_text(out, 2, &head.name);
        write_text(out, 3, &head.description);
        if let Some(mac) = head.mac {
            write(out, 6, &mac);
        }
        write_u64(out, 8, head.speed_bps);
        write(out, 9, &[NANOSECONDS]);
        if !head.filter.is_empty() {
            // The first byte says that the rest is a text in libpcap's language.
            write_text(out, 11, &format!("\0{}", head.filter));
        }
        write_text(out, 12, &head.os);
        write_text(out, COMMENT, &head.comment);
        write(out, END, &[]);
    });
}

/// Appends the counts of an interface.
pub fn statistics(out: &mut Vec<u8>, counts: &Statistics) {
    let time = |time_ns: u64| [((time_ns >> 32) as u32).to_le_bytes(), (time_ns as u32).to_le_bytes()].concat();
    write_block(out, STATISTICS, |out| {
        out.extend(counts.interface.to_le_bytes());
        out.extend(time(counts.time_ns));
        for (code, time_ns) in [(2, counts.start_ns), (3, counts.end_ns)] {
            if let Some(time_ns) = time_ns {
                write(out, code, &time(time_ns));
            }
        }
        write_u64(out, 4, counts.received);
        write_u64(out, 5, counts.dropped_by_interface);
        write_u64(out, 6, counts.accepted);
        write_u64(out, 7, counts.dropped_by_system);
        write_u64(out, 8, counts.delivered);
        write_text(out, COMMENT, &counts.comment);
        write(out, END, &[]);
    });
}

/// Shortest block.
const BLOCK_LEN_MIN: usize = 12;
/// A block type for local use (draft-ietf-opsawg-pcapng, section 11.1), which readers pass over.
const PADDING: u32 = 0x8000_0000 | 0x4c_5050;

/// Bytes of the padding block that makes `len` (a multiple of 4) a multiple of `alignment`: 0 where nothing is missing.
pub fn padding_len(len: usize, alignment: usize) -> usize {
    let missing = len.next_multiple_of(alignment) - len;
    if missing > 0 && missing < BLOCK_LEN_MIN { missing + alignment } else { missing }
}

/// Fills `to` with a block that means nothing, for writes whose length has to be a multiple of the disk's blocks. `to` has
/// [`padding_len`] bytes; if it has none, nothing is written.
pub fn padding(to: &mut [u8]) {
    let len = to.len();
    if len < BLOCK_LEN_MIN || !len.is_multiple_of(4) {
        return;
    }
    to.fill(0);
    to[..4].copy_from_slice(&PADDING.to_le_bytes());
    to[4..8].copy_from_slice(&(len as u32).to_le_bytes());
    to[len - 4..].copy_from_slice(&(len as u32).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CaptureReader;

    #[test]
    fn padding_fills_up_to_the_alignment_and_is_passed_over() {
        let mut file = Vec::new();
        file_start(&mut file, FileFormat::Pcapng, 0);
        let start = file.len();
        for more in (0..4096).step_by(4) {
            file.truncate(start);
            file.resize(start + more, 0);
            padding(&mut file[start..]);
            let len = file.len();
            file.resize(len + padding_len(len, 4096), 0);
            padding(&mut file[len..]);
            assert!(file.len().is_multiple_of(4096) && file.len() <= 8192 + 4096);
            let mut reader = CaptureReader::new(&file[..]).unwrap();
            // Fewer than 12 bytes cannot be a block: the first padding was none.
            assert_eq!(reader.next().is_ok(), more == 0 || more >= 12, "{more}");
        }
    }
}
