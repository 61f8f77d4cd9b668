//! Any of the formats, packet by packet.

use std::io::{self, Read, Seek};

use crate::CaptureError;
use crate::classic::{self, Classic};
use crate::head::Head;
use crate::interface::Interface;
use crate::sections::{self, Sections};
use crate::source::Source;

/// Reads a capture file from front to end.
///
/// ```
/// use linerate_pcapng::CaptureReader;
/// let file: &[u8] = &[
///     0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0, // file header
///     1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 60, 0, 0, 0, 7, 8, 9, // a packet of 60 bytes, of which 3 were kept
/// ];
/// let mut reader = CaptureReader::new(file).unwrap();
/// let head = reader.next().unwrap().unwrap();
/// assert_eq!((head.time_ns, head.original_len, reader.packet()), (1_000_002_000, 60, &[7, 8, 9][..]));
/// assert!(reader.next().unwrap().is_none());
/// ```
pub struct CaptureReader<R> {
    source: Source<R>,
    format: Format,
    current: Option<Head>,
    failed: bool,
}

enum Format {
    Classic(Classic),
    Sections(Sections),
}

impl<R: Read> CaptureReader<R> {
    /// Looks at the first bytes of the file and reads its header.
    pub fn new(input: R) -> Result<CaptureReader<R>, CaptureError> {
        let mut source = Source::new(input);
        let format = open_format(&mut source)?;
        Ok(CaptureReader { source, format, current: None, failed: false })
    }

    /// Goes on to the next packet; `None` at the end of the file. What came before an error was complete;
    /// nothing comes after it.
    #[expect(
        clippy::should_implement_trait,
        reason = "the packet borrows from the reader, which an Iterator cannot say"
    )]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Head>, CaptureError> {
        if let Some(head) = self.current.take() {
            self.source.consume(head.record);
        }
        if self.failed {
            let problem = "an earlier error was the end of reading";
            return Err(CaptureError::corrupt(self.source.offset(), "file", problem));
        }
        let next = match &mut self.format {
            Format::Classic(classic) => classic.next(&mut self.source),
            Format::Sections(sections) => sections.next(&mut self.source),
        };
        self.failed = next.is_err();
        self.current = next?;
        Ok(self.current)
    }

    /// Bytes of the packet that [`CaptureReader::next`] went on to; empty before the first and after the last.
    #[inline]
    pub fn packet(&self) -> &[u8] {
        self.current.map_or(&[], |head| self.source.peeked(head.start, head.len))
    }

    /// Place in the file, in bytes, of the record that is read next (or of the current one).
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// Sections that were begun so far; numbers of interfaces are those of one section. 1 for pcap.
    pub fn sections(&self) -> u64 {
        match &self.format {
            Format::Classic(_) => 1,
            Format::Sections(sections) => sections.count(),
        }
    }

    /// The interfaces that the present section has named so far; for pcap, the one that its header stands for.
    pub fn interfaces(&self) -> &[Interface] {
        match &self.format {
            Format::Classic(classic) => std::slice::from_ref(classic.interface()),
            Format::Sections(sections) => sections.interfaces(),
        }
    }

    /// "pcap" or "pcapng".
    pub fn format_name(&self) -> &'static str {
        match self.format {
            Format::Classic(_) => "pcap",
            Format::Sections(_) => "pcapng",
        }
    }

    /// Link type of all packets, where the file has only one (pcap).
    pub fn link_type(&self) -> Option<u16> {
        match &self.format {
            Format::Classic(classic) => Some(classic.interface().link_type),
            Format::Sections(_) => None,
        }
    }
}

impl<R: Read + Seek> CaptureReader<R> {
    /// Begins again at the first packet.
    pub fn rewind(&mut self) -> Result<(), CaptureError> {
        (self.current, self.failed) = (None, false);
        self.source.rewind().map_err(|source: io::Error| CaptureError::Io { offset: 0, source })?;
        self.format = open_format(&mut self.source)?;
        Ok(())
    }
}

fn open_format<R: Read>(source: &mut Source<R>) -> Result<Format, CaptureError> {
    let first = source.peek(4)?;
    let Ok(magic) = <[u8; 4]>::try_from(first) else {
        let what = if first.is_empty() { "the file is empty" } else { "too short for a capture file" };
        return Err(CaptureError::NotACapture { what: what.into() });
    };
    if let Some(order) = classic::order_of(magic) {
        return Ok(Format::Classic(Classic::open(source, order)?));
    }
    if magic == sections::SECTION_HEADER.to_be_bytes() {
        return Ok(Format::Sections(Sections::default()));
    }
    let what = match magic {
        [0x1f, 0x8b, ..] => "compressed with gzip; `gunzip` it first".into(),
        [0x28, 0xb5, 0x2f, 0xfd] => "compressed with zstd; `unzstd` it first".into(),
        [0x04, 0x22, 0x4d, 0x18] => "compressed with lz4; `unlz4` it first".into(),
        other => format!("neither pcap nor pcapng: it begins with {other:02x?}"),
    };
    Err(CaptureError::NotACapture { what })
}
