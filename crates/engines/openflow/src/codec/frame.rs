//! Messages out of a stream of bytes, in bounded memory.

use super::header::{HEADER_BYTES, Header};

/// Collects bytes of a stream, and hands out whole messages.
#[derive(Debug, Default)]
pub struct Framer {
    bytes: Vec<u8>,
    /// Bytes before this place were handed out.
    start: usize,
}

/// The header of a message gives a length below 8, after which nothing can be told apart any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message gives a length below its header's 8 bytes; close the connection")]
pub struct BadLength(pub Header);

impl Framer {
    /// Most bytes that are held: two of the longest messages.
    pub const CAPACITY: usize = 128 * 1024;

    /// Takes bytes until [`Framer::CAPACITY`] are held, and returns how many it took.
    pub fn receive(&mut self, bytes: &[u8]) -> usize {
        if self.start > 0 && self.bytes.len() + bytes.len() > self.bytes.capacity().max(4096) {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        let taken = bytes.len().min(self.room());
        self.bytes.extend_from_slice(&bytes[..taken]);
        taken
    }

    /// Bytes that [`Framer::receive`] would take.
    pub fn room(&self) -> usize {
        Framer::CAPACITY - self.held()
    }

    /// Bytes that were not handed out yet.
    pub fn held(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// True if [`Framer::next_message`] would yield a message, or an error.
    pub fn has_message(&self) -> bool {
        Header::read(&self.bytes[self.start..])
            .is_some_and(|header| usize::from(header.length) <= self.held().max(HEADER_BYTES))
    }

    /// The next whole message with its header; `None` until more bytes arrive.
    pub fn next_message(&mut self) -> Result<Option<(Header, &[u8])>, BadLength> {
        let Some(header) = Header::read(&self.bytes[self.start..]) else {
            self.release();
            return Ok(None);
        };
        let length = usize::from(header.length);
        if length < HEADER_BYTES {
            return Err(BadLength(header));
        }
        if self.held() < length {
            return Ok(None);
        }
        let message = self.start..self.start + length;
        self.start += length;
        Ok(Some((header, &self.bytes[message])))
    }

    /// Forgets bytes that were handed out, without moving others, if nothing is left.
    fn release(&mut self) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }
}
