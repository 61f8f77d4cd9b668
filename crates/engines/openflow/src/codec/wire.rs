//! Numbers and texts in network byte order: a reader that checks every length, and writing into a vector.

use crate::ErrorKind;

/// Reads from a part of a message. Reading past its end yields the error that the part was made with.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    short: ErrorKind,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8], short: ErrorKind) -> Reader<'a> {
        Reader { rest: bytes, short }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn len(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], ErrorKind> {
        let (first, rest) = self.rest.split_first_chunk::<N>().ok_or(self.short)?;
        self.rest = rest;
        Ok(*first)
    }

    #[inline]
    pub fn u8(&mut self) -> Result<u8, ErrorKind> {
        Ok(self.array::<1>()?[0])
    }

    #[inline]
    pub fn u16(&mut self) -> Result<u16, ErrorKind> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    #[inline]
    pub fn u32(&mut self) -> Result<u32, ErrorKind> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    #[inline]
    pub fn u64(&mut self) -> Result<u64, ErrorKind> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// A duration: seconds and nanoseconds of 32 bits each.
    pub fn duration_ns(&mut self) -> Result<u64, ErrorKind> {
        let (seconds, nanoseconds) = (self.u32()?, self.u32()?);
        Ok(u64::from(seconds) * 1_000_000_000 + u64::from(nanoseconds.min(999_999_999)))
    }

    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], ErrorKind> {
        let (first, rest) = self.rest.split_at_checked(count).ok_or(self.short)?;
        self.rest = rest;
        Ok(first)
    }

    /// The next `count` bytes as a part of their own, which yields `short` at its end.
    #[inline]
    pub fn part(&mut self, count: usize, short: ErrorKind) -> Result<Reader<'a>, ErrorKind> {
        Ok(Reader::new(self.bytes(count)?, short))
    }

    #[inline]
    pub fn skip(&mut self, count: usize) -> Result<(), ErrorKind> {
        self.bytes(count).map(|_| ())
    }

    /// Skips at most `count` bytes: padding that some senders leave out at the end.
    pub fn skip_padding(&mut self, count: usize) {
        self.rest = &self.rest[count.min(self.rest.len())..];
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// The text in a field of `size` bytes, which ends at the first 0, or before the last byte. In a text that is not UTF-8, bytes that are not ASCII
    /// become question marks.
    pub fn text(&mut self, size: usize) -> Result<String, ErrorKind> {
        let bytes = &self.bytes(size)?[..size - 1];
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(size - 1);
        let ascii = |byte: &u8| if byte.is_ascii() { char::from(*byte) } else { '?' };
        Ok(match std::str::from_utf8(&bytes[..end]) {
            Ok(text) => text.to_string(),
            Err(_) => bytes[..end].iter().map(ascii).collect(),
        })
    }

    /// Yields an error unless everything was read.
    pub fn end(&self) -> Result<(), ErrorKind> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.short) }
    }
}

/// Writing in network byte order.
pub(super) trait Writer {
    fn u8(&mut self, value: u8);
    fn u16(&mut self, value: u16);
    fn u32(&mut self, value: u32);
    fn u64(&mut self, value: u64);
    /// Seconds and nanoseconds of 32 bits each; seconds saturate.
    fn duration_ns(&mut self, value: u64);
    fn zeros(&mut self, count: usize);
    /// A field of `size` bytes: the text, cut to leave at least one 0 at the end.
    fn text(&mut self, text: &str, size: usize);
    /// Writes the number of bytes from `start` on into the 16 bits at `at`. The outermost length of a message is checked; inner ones are
    /// smaller.
    fn set_length(&mut self, at: usize, start: usize);
    /// Pads with zeros until the length from `start` on is a multiple of 8.
    fn pad_to_8(&mut self, start: usize);
}

impl Writer for Vec<u8> {
    #[inline]
    fn u8(&mut self, value: u8) {
        self.push(value);
    }

    #[inline]
    fn u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    #[inline]
    fn u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    #[inline]
    fn u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn duration_ns(&mut self, value: u64) {
        self.u32(u32::try_from(value / 1_000_000_000).unwrap_or(u32::MAX));
        self.u32((value % 1_000_000_000) as u32);
    }

    #[inline]
    fn zeros(&mut self, count: usize) {
        self.resize(self.len() + count, 0);
    }

    fn text(&mut self, text: &str, size: usize) {
        let bytes = &text.as_bytes()[..text.len().min(size - 1)];
        self.extend_from_slice(bytes);
        self.zeros(size - bytes.len());
    }

    #[inline]
    fn set_length(&mut self, at: usize, start: usize) {
        let length = (self.len() - start) as u16;
        self[at..at + 2].copy_from_slice(&length.to_be_bytes());
    }

    #[inline]
    fn pad_to_8(&mut self, start: usize) {
        self.zeros((self.len() - start).wrapping_neg() % 8);
    }
}
