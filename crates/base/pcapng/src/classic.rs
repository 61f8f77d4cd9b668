//! pcap (draft-ietf-opsawg-pcap): a header of 24 bytes, then records of 16 bytes and a packet each.

use std::io::Read;

use crate::byte_order::ByteOrder;
use crate::head::{Head, strip_fcs};
use crate::interface::Interface;
use crate::source::Source;
use crate::{CaptureError, Direction, PACKET_LEN_MAX};

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Alexey Kuznetsov's variant, with longer records.
const MODIFIED: u32 = 0xa1b2_cd34;

/// What the header of a pcap file says.
pub(crate) struct Classic {
    order: ByteOrder,
    /// Nanoseconds of a unit of the fraction.
    unit_ns: u64,
    interface: Box<Interface>,
    fcs_len: usize,
}

/// Byte order of a file that begins with one of the magic numbers.
pub(crate) fn order_of(magic: [u8; 4]) -> Option<ByteOrder> {
    [ByteOrder::Little, ByteOrder::Big]
        .into_iter()
        .find(|order| matches!(order.u32(&magic, 0), MICROSECONDS | NANOSECONDS | MODIFIED))
}

impl Classic {
    /// Reads the file header.
    pub fn open<R: Read>(source: &mut Source<R>, order: ByteOrder) -> Result<Classic, CaptureError> {
        let not_read = |what: &str| CaptureError::NotACapture { what: what.into() };
        let Some(header) = source.need(FILE_HEADER, "file header")? else { return Err(not_read("the file is empty")) };
        let unit_ns = match order.u32(header, 0) {
            MICROSECONDS => 1000,
            NANOSECONDS => 1,
            _ => {
                return Err(not_read("a pcap file of the \"modified\" kind; `editcap -F nsecpcap IN OUT` converts it"));
            }
        };
        let (major, minor) = (order.u16(header, 4), order.u16(header, 6));
        if major != 2 {
            return Err(not_read(&format!("a pcap file of version {major}.{minor}; 2.4 is the one that can be read")));
        }
        let link = order.u32(header, 20);
        // Bit 26 says that the top four bits are the length of the FCS, in units of two bytes.
        let fcs_len = if link & 1 << 26 != 0 { (link >> 28) as usize * 2 } else { 0 };
        let interface = Interface { link_type: link as u16, snaplen: order.u32(header, 16), ..Interface::default() };
        source.consume(FILE_HEADER);
        Ok(Classic { order, unit_ns, interface: Box::new(interface), fcs_len })
    }

    /// What the header says of all packets.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Looks at the next record, and at all of its bytes.
    #[inline]
    pub fn next<R: Read>(&self, source: &mut Source<R>) -> Result<Option<Head>, CaptureError> {
        let (offset, order) = (source.offset(), self.order);
        let Some(header) = source.need(RECORD_HEADER, "record")? else { return Ok(None) };
        let (seconds, fraction) = (order.u32(header, 0), order.u32(header, 4));
        let (len, original_len) = (order.u32(header, 8) as usize, order.u32(header, 12));
        if len > PACKET_LEN_MAX {
            let problem = format!("a packet of {len} bytes, more than {PACKET_LEN_MAX}");
            return Err(CaptureError::corrupt(offset, "record", problem));
        }
        source.need(RECORD_HEADER + len, "record")?;
        let time_ns = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.unit_ns;
        let record = RECORD_HEADER + len;
        let (len, original_len) = strip_fcs(len, original_len, self.fcs_len);
        let (link_type, direction) = (self.interface.link_type, Direction::Unknown);
        Ok(Some(Head { time_ns, original_len, link_type, interface: 0, direction, len, start: RECORD_HEADER, record }))
    }
}
