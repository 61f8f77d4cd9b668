//! Bytes that wait for the connection.

use crate::codec::{Event, Splitter, TooLong, encode, encode_event, encode_with};
use crate::{ErrorKind, Message, MultipartReply};

/// Bytes for the peer, and the multipart reply from which more are made when they run low.
#[derive(Default)]
pub(super) struct Output {
    bytes: Vec<u8>,
    /// Bytes before this place have left.
    start: usize,
    reply: Option<Splitter>,
}

/// From so many waiting bytes on, no more are made from a multipart reply, and no request comes out of a session.
pub(super) const HIGH_WATER: usize = 128 * 1024;
/// An empty buffer that is larger than this is given back.
const KEPT_CAPACITY: usize = 256 * 1024;

impl Output {
    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// True if a request may be worked on: nothing that it answers could grow without bound.
    pub fn has_room(&self) -> bool {
        self.reply.is_none() && self.len() < HIGH_WATER
    }

    pub fn bytes(&mut self) -> &[u8] {
        self.refill();
        &self.bytes[self.start..]
    }

    pub fn consume(&mut self, count: usize) {
        self.start += count.min(self.len());
        if self.start == self.bytes.len() {
            self.start = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEPT_CAPACITY {
                self.bytes = Vec::new();
            }
        } else if self.start > self.bytes.len() / 2 && self.start >= HIGH_WATER {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }

    pub fn put(&mut self, xid: u32, message: &Message) -> Result<(), TooLong> {
        encode(&mut self.bytes, xid, message)
    }

    pub fn put_event(&mut self, event: Event) -> Result<(), TooLong> {
        const NO_XID: u32 = 0;
        encode_event(&mut self.bytes, NO_XID, event)
    }

    /// A message of this type with these bytes behind its header.
    pub fn put_raw(&mut self, kind: u8, xid: u32, body: &[u8]) {
        // The body came in a message of the same size.
        let written = encode_with(&mut self.bytes, kind, xid, |out| out.extend_from_slice(body));
        debug_assert!(written.is_ok());
    }

    pub fn put_error(&mut self, xid: u32, error: ErrorKind, data: &[u8]) {
        const ERROR: u8 = 1;
        let (kind, code) = error.numbers();
        let written = encode_with(&mut self.bytes, ERROR, xid, |out| {
            out.extend_from_slice(&kind.to_be_bytes());
            out.extend_from_slice(&code.to_be_bytes());
            out.extend_from_slice(data);
        });
        debug_assert!(written.is_ok(), "data are short");
    }

    /// A multipart reply, whose messages are made as there is room for them.
    pub fn put_multipart(&mut self, xid: u32, reply: MultipartReply, continues: bool) {
        while self.reply.is_some() {
            self.next_of_reply();
        }
        self.reply = Some(Splitter::new(xid, reply, continues));
        self.refill();
    }

    fn refill(&mut self) {
        while self.reply.is_some() && self.len() < HIGH_WATER {
            self.next_of_reply();
        }
    }

    fn next_of_reply(&mut self) {
        if self.reply.as_mut().is_some_and(|reply| !reply.next_message(&mut self.bytes)) {
            self.reply = None;
        }
    }
}
