//! Capture files: pcapng (draft-ietf-opsawg-pcapng) and pcap (draft-ietf-opsawg-pcap), read and written. The one place of this
//! workspace that knows their layout.
//!
//! **Reading** is hostile ground: [`CaptureReader`] streams a file through one window of half a megabyte, whatever its size and
//! whatever it claims about the sizes in it; a file that is cut or corrupt is read up to its last complete record, and the
//! error gives the offset of what is wrong.
//!
//! **Encoding** is for speed: [`record`] lays a record around a place for the packet's bytes, so that a capture copies a packet
//! once, from the ring into the buffer that is written. Times are in nanoseconds, numbers little-endian.
//!
//! ```text
//! source.rs     a window on the file            blocks.rs      section, interface and statistics blocks, to write
//! classic.rs    pcap                            record.rs      packets, to write
//! sections.rs   pcapng                          scan.rs        whole records in bytes that were written
//! interface.rs  what a file says of interfaces  options.rs     the options of blocks
//! scale.rs      timestamps to nanoseconds      reader.rs      any of the formats, packet by packet
//! ```
#![forbid(unsafe_code)]

mod blocks;
mod byte_order;
mod classic;
mod error;
mod head;
mod interface;
mod options;
mod reader;
mod record;
mod scale;
mod scan;
mod sections;
mod source;

pub use blocks::{
    InterfaceHead, SectionHead, Statistics, file_start, interface, padding, padding_len, section, statistics,
};
pub use error::CaptureError;
pub use head::Head;
pub use interface::{Interface, InterfaceStatistics};
pub use reader::CaptureReader;
pub use record::{Direction, FileFormat, PacketHead, record, record_len};
pub use scan::whole_records;

/// Longest packet, in bytes, that these formats may hold for Ethernet: `MAXIMUM_SNAPLEN` of libpcap.
pub const PACKET_LEN_MAX: usize = 262_144;

/// Link type of Ethernet in both formats (`LINKTYPE_ETHERNET`).
pub const ETHERNET: u16 = 1;
