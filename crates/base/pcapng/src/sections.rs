//! pcapng (draft-ietf-opsawg-pcapng): sections of blocks, each of which says its length in front and behind.
//!
//! ```text
//! block    type:32 length:32 body... length:32          length: all of it, a multiple of 4
//! section  header block, interface blocks, packet blocks; its header gives the byte order
//! ```

use std::io::Read;

use crate::byte_order::ByteOrder;
use crate::head::{Head, strip_fcs};
use crate::interface::{Interface, InterfaceStatistics, TextBudget};
use crate::options::{COMMENT, Options};
use crate::record::{Direction, ENHANCED_PACKET, OPTION_FLAGS};
use crate::scale::Scale;
use crate::source::{BUFFER, Source};
use crate::{CaptureError, PACKET_LEN_MAX};

/// Block type of a section header, the same in both byte orders.
pub(crate) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
pub(crate) const INTERFACE: u32 = 1;
const PACKET_OBSOLETE: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
pub(crate) const STATISTICS: u32 = 5;

pub(crate) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Longest block, as in Wireshark. Blocks of kinds that are not read are passed over, but not without end.
const BLOCK_LEN_MAX: usize = 16 << 20;
/// Most interfaces of a section.
const INTERFACES_MAX: usize = 65_536;

/// Type, length, and length again.
const FRAME: usize = 12;
const SECTION_LEN_MIN: usize = 28;
const INTERFACE_LEN_MIN: usize = 20;
/// Bytes before the packet in an enhanced (and in an obsolete) packet block.
const PACKET_START: usize = 28;
const SIMPLE_START: usize = 12;
/// Bytes before the options in a statistics block.
const STATISTICS_START: usize = 20;

const OPTION_NAME: u16 = 2;
const OPTION_DESCRIPTION: u16 = 3;
const OPTION_RESOLUTION: u16 = 9;
const OPTION_FILTER: u16 = 11;
const OPTION_FCS_LEN: u16 = 13;
const OPTION_TIME_OFFSET: u16 = 14;

/// Where the reader is: the byte order and the interfaces of the section.
pub(crate) struct Sections {
    order: ByteOrder,
    /// How to read the packets of each interface.
    forms: Vec<Form>,
    /// What the file says of each of them.
    interfaces: Vec<Interface>,
    texts: TextBudget,
    /// Sections that were begun.
    count: u64,
}

#[derive(Clone, Copy)]
struct Form {
    link_type: u16,
    /// Most bytes kept of a packet; 0 = all.
    snaplen: u32,
    scale: Scale,
    fcs_len: usize,
}

impl Default for Sections {
    fn default() -> Sections {
        let texts = TextBudget::default();
        Sections { order: ByteOrder::Little, forms: Vec::new(), interfaces: Vec::new(), texts, count: 0 }
    }
}

/// A block at the start of the window.
struct Block {
    offset: u64,
    kind: u32,
    len: usize,
}

impl Sections {
    /// Sections that were begun.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The interfaces that the section has named so far.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Goes on to the next packet, over all other blocks.
    pub fn next<R: Read>(&mut self, source: &mut Source<R>) -> Result<Option<Head>, CaptureError> {
        while let Some(block) = self.block(source)? {
            match block.kind {
                SECTION_HEADER => *self = Sections { order: self.order, count: self.count + 1, ..Sections::default() },
                INTERFACE => self.interface(source, &block)?,
                STATISTICS => self.statistics(source, &block)?,
                ENHANCED_PACKET | PACKET_OBSOLETE => return self.packet(source, &block).map(Some),
                SIMPLE_PACKET => return self.simple_packet(source, &block).map(Some),
                _ => {}
            }
            pass_over(source, &block, self.order)?;
        }
        Ok(None)
    }

    /// Looks at the next block's type and length. A section header sets the byte order.
    #[inline]
    fn block<R: Read>(&mut self, source: &mut Source<R>) -> Result<Option<Block>, CaptureError> {
        let offset = source.offset();
        let Some(start) = source.need(FRAME, "block")? else { return Ok(None) };
        let mut block = Block { offset, kind: self.order.u32(start, 0), len: 0 };
        let mut least = FRAME;
        if block.kind == SECTION_HEADER {
            self.order = [ByteOrder::Little, ByteOrder::Big]
                .into_iter()
                .find(|order| order.u32(start, 8) == BYTE_ORDER_MAGIC)
                .ok_or_else(|| block.corrupt("its byte order mark is none"))?;
            least = SECTION_LEN_MIN;
        }
        block.len = self.order.u32(start, 4) as usize;
        if block.len < least || !block.len.is_multiple_of(4) || block.len > BLOCK_LEN_MAX {
            let len = block.len;
            return Err(block.corrupt(format!("a length of {len} bytes (from {least} to {BLOCK_LEN_MAX}, in fours)")));
        }
        if block.kind == SECTION_HEADER {
            self.check_version(source, &block)?;
        }
        Ok(Some(block))
    }

    fn check_version<R: Read>(&self, source: &mut Source<R>, block: &Block) -> Result<(), CaptureError> {
        let Some(start) = source.need(SECTION_LEN_MIN, "section header")? else { return Ok(()) };
        let (major, minor) = (self.order.u16(start, 12), self.order.u16(start, 14));
        // 1.2 was written by some tools for what is 1.0.
        if major == 1 && matches!(minor, 0 | 2) {
            return Ok(());
        }
        Err(block.corrupt(format!("version {major}.{minor}; 1.0 is the one that can be read")))
    }

    fn interface<R: Read>(&mut self, source: &mut Source<R>, block: &Block) -> Result<(), CaptureError> {
        let order = self.order;
        if self.interfaces.len() == INTERFACES_MAX {
            return Err(block.corrupt(format!("more than {INTERFACES_MAX} interfaces")));
        }
        let whole = whole_block(source, block, INTERFACE_LEN_MIN, order)?;
        let (link_type, snaplen) = (order.u16(whole, 8), order.u32(whole, 12));
        let mut interface = Interface { link_type, snaplen, ..Interface::default() };
        let (mut resolution, mut offset_s, mut fcs_len) = (6, 0, 0);
        let mut options = Options::new(&whole[16..whole.len() - 4], order);
        let too_long = |(code, len)| block.corrupt(format!("option {code} of {len} bytes is longer than the block"));
        while let Some((code, value)) = options.next().map_err(too_long)? {
            match (code, value) {
                (OPTION_RESOLUTION, [value]) => resolution = *value,
                (OPTION_FCS_LEN, [bits]) => fcs_len = usize::from(*bits).div_ceil(8),
                (OPTION_TIME_OFFSET, _) if value.len() == 8 => offset_s = order.u64(value, 0) as i64,
                (OPTION_NAME, _) => self.texts.put(&mut interface.name, value),
                (OPTION_DESCRIPTION, _) => self.texts.put(&mut interface.description, value),
                (OPTION_FILTER, [0, text @ ..]) => self.texts.put(&mut interface.filter, text),
                (COMMENT, _) => self.texts.put(&mut interface.comment, value),
                _ => {}
            }
        }
        self.interfaces.push(interface);
        self.forms.push(Form { link_type, snaplen, scale: Scale::new(resolution, offset_s), fcs_len });
        Ok(())
    }

    /// Notes the counts of an interface. A block that cannot be used is passed over: it changes no packet.
    fn statistics<R: Read>(&mut self, source: &mut Source<R>, block: &Block) -> Result<(), CaptureError> {
        if !(STATISTICS_START + 4..=BUFFER).contains(&block.len) {
            return Ok(());
        }
        let order = self.order;
        let whole = whole_block(source, block, STATISTICS_START + 4, order)?;
        if let Some(interface) = self.interfaces.get_mut(order.u32(whole, 8) as usize) {
            let options = Options::new(&whole[STATISTICS_START..whole.len() - 4], order);
            let statistics = interface.statistics.get_or_insert_with(InterfaceStatistics::default);
            statistics.read(options, order, &mut self.texts);
        }
        Ok(())
    }

    /// An enhanced packet block, or the obsolete packet block, which differs in the width of the interface's number.
    #[inline]
    fn packet<R: Read>(&self, source: &mut Source<R>, block: &Block) -> Result<Head, CaptureError> {
        let order = self.order;
        let whole = whole_block(source, block, PACKET_START + 4, order)?;
        let number = if block.kind == ENHANCED_PACKET { order.u32(whole, 8) } else { u32::from(order.u16(whole, 8)) };
        let units = u64::from(order.u32(whole, 12)) << 32 | u64::from(order.u32(whole, 16));
        let (len, original_len) = (order.u32(whole, 20) as usize, order.u32(whole, 24));
        let form = self.form_of(block, number)?;
        check_packet_len(block, len, PACKET_START)?;
        let direction = direction(whole, PACKET_START + len.next_multiple_of(4), order);
        let (len, original_len) = strip_fcs(len, original_len, form.fcs_len);
        let time_ns = form.scale.time_ns(units);
        let (link_type, start, record) = (form.link_type, PACKET_START, block.len);
        Ok(Head { time_ns, original_len, link_type, interface: number, direction, len, start, record })
    }

    /// A simple packet block: interface 0, no time, and a length that follows from the interface's snaplen.
    fn simple_packet<R: Read>(&self, source: &mut Source<R>, block: &Block) -> Result<Head, CaptureError> {
        let whole = whole_block(source, block, SIMPLE_START + 4, self.order)?;
        let original_len = self.order.u32(whole, 8);
        let form = self.form_of(block, 0)?;
        let len = if form.snaplen == 0 { original_len } else { original_len.min(form.snaplen) } as usize;
        check_packet_len(block, len, SIMPLE_START)?;
        let (len, original_len) = strip_fcs(len, original_len, form.fcs_len);
        let (link_type, start, record) = (form.link_type, SIMPLE_START, block.len);
        let direction = Direction::Unknown;
        Ok(Head { time_ns: 0, original_len, link_type, interface: 0, direction, len, start, record })
    }

    #[inline]
    fn form_of(&self, block: &Block, number: u32) -> Result<&Form, CaptureError> {
        let count = self.forms.len();
        self.forms
            .get(number as usize)
            .ok_or_else(|| block.corrupt(format!("a packet of interface {number}, of {count} interfaces")))
    }
}

impl Block {
    fn corrupt(&self, problem: impl Into<String>) -> CaptureError {
        CaptureError::corrupt(self.offset, "block", problem)
    }
}

/// Which way a packet went, from the options of its block, which start at `at`. (Both kinds of blocks have the option.)
#[inline]
fn direction(whole: &[u8], at: usize, order: ByteOrder) -> Direction {
    let mut options = Options::new(whole.get(at..whole.len() - 4).unwrap_or(&[]), order);
    while let Ok(Some((code, value))) = options.next() {
        if code == OPTION_FLAGS && value.len() == 4 {
            return Direction::of_flags(order.u32(value, 0));
        }
    }
    Direction::Unknown
}

/// All bytes of a block that has to fit into the window.
#[inline]
fn whole_block<'a, R: Read>(
    source: &'a mut Source<R>,
    block: &Block,
    least: usize,
    order: ByteOrder,
) -> Result<&'a [u8], CaptureError> {
    let len = block.len;
    if len < least || len > BUFFER {
        let kind = block.kind;
        return Err(block.corrupt(format!("a block of type {kind} with {len} bytes (from {least} to {BUFFER})")));
    }
    // A block that begins is never "no block".
    let whole = source.need(len, "block")?.unwrap_or(&[]);
    check_trailer(block, order.u32(whole, len - 4))?;
    Ok(whole)
}

/// Passes over a block of any length.
fn pass_over<R: Read>(source: &mut Source<R>, block: &Block, order: ByteOrder) -> Result<(), CaptureError> {
    let complete = source.skip(block.len as u64 - 4)?;
    let trailer = source.peek(4)?;
    if !complete || trailer.len() < 4 {
        let present = source.offset() - block.offset + source.peek(4)?.len() as u64;
        let (offset, wanted) = (block.offset, block.len);
        return Err(CaptureError::Truncated { offset, what: "block", present: present as usize, wanted });
    }
    check_trailer(block, order.u32(trailer, 0))?;
    source.consume(4);
    Ok(())
}

#[inline]
fn check_trailer(block: &Block, trailer: u32) -> Result<(), CaptureError> {
    if trailer as usize == block.len {
        return Ok(());
    }
    Err(block.corrupt(format!("its length is {} in front and {trailer} behind", block.len)))
}

/// The packet must lie inside its block.
#[inline]
fn check_packet_len(block: &Block, len: usize, start: usize) -> Result<(), CaptureError> {
    let room = block.len - start - 4;
    if len <= room.min(PACKET_LEN_MAX) {
        return Ok(());
    }
    Err(block.corrupt(format!("a packet of {len} bytes in a block with room for {room} (at most {PACKET_LEN_MAX})")))
}
