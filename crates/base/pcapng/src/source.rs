//! A window on a file that is read from front to end: memory does not grow with what the file holds or claims.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom};

use crate::{CaptureError, PACKET_LEN_MAX};

/// Bytes of the window: the longest packet, and as much again for the headers and options around it.
pub const BUFFER: usize = 2 * PACKET_LEN_MAX;

/// The window.
pub(crate) struct Source<R> {
    input: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Place of `buffer[start]` in the file.
    offset: u64,
}

impl<R: Read> Source<R> {
    pub fn new(input: R) -> Source<R> {
        Source { input, buffer: vec![0; BUFFER].into(), start: 0, end: 0, offset: 0 }
    }

    /// Place of the first byte that is not consumed.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next `len` bytes, or as many as the file still has. `len` is at most [`BUFFER`].
    #[inline]
    pub fn peek(&mut self, len: usize) -> Result<&[u8], CaptureError> {
        if self.end - self.start < len {
            self.fill(len)?;
        }
        let end = self.end.min(self.start + len);
        Ok(&self.buffer[self.start..end])
    }

    /// As [`Source::peek`], for bytes that must all be there: those of `what`, which begins here. `None` when the file ends
    /// just before it.
    #[inline]
    pub fn need(&mut self, len: usize, what: &'static str) -> Result<Option<&[u8]>, CaptureError> {
        let (offset, present) = (self.offset, self.peek(len)?.len());
        match present {
            0 => Ok(None),
            _ if present < len => Err(CaptureError::Truncated { offset, what, present, wanted: len }),
            _ => Ok(Some(&self.buffer[self.start..self.start + len])),
        }
    }

    /// Bytes that were peeked at, again: `len` from place `skip` behind the first one that is not consumed.
    #[inline]
    pub fn peeked(&self, skip: usize, len: usize) -> &[u8] {
        &self.buffer[self.start..self.end][skip..skip + len]
    }

    /// Passes over `len` bytes that were peeked at.
    #[inline]
    pub fn consume(&mut self, len: usize) {
        let len = len.min(self.end - self.start);
        self.start += len;
        self.offset += len as u64;
    }

    /// Passes over `len` bytes, which need not fit into the window; false when the file ends before.
    pub fn skip(&mut self, len: u64) -> Result<bool, CaptureError> {
        let mut left = len;
        while left > 0 {
            let step = left.min(BUFFER as u64) as usize;
            let present = self.peek(step)?.len();
            self.consume(present);
            left -= present as u64;
            if present < step {
                return Ok(false);
            }
        }
        Ok(true)
    }

    #[cold]
    fn fill(&mut self, len: usize) -> Result<(), CaptureError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < len.min(self.buffer.len()) {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(CaptureError::Io { offset: self.offset + self.end as u64, source }),
            }
        }
        Ok(())
    }
}

impl<R: Read + Seek> Source<R> {
    /// Goes back to the start of the file.
    pub fn rewind(&mut self) -> io::Result<()> {
        self.input.seek(SeekFrom::Start(0))?;
        (self.start, self.end, self.offset) = (0, 0, 0);
        Ok(())
    }
}
