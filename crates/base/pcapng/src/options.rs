//! Options of blocks (draft-ietf-opsawg-pcapng, section 3.5): code, length, value, padding to four bytes.

use crate::byte_order::ByteOrder;

/// `opt_endofopt`.
pub(crate) const END: u16 = 0;
/// `opt_comment`.
pub(crate) const COMMENT: u16 = 1;

/// Longest text that is written; the length has 16 bits.
const TEXT_LEN_MAX: usize = 65_532;

/// Code and length of an option that is longer than its block.
pub(crate) type TooLong = (u16, usize);

/// Goes through options as they stand in a block.
pub(crate) struct Options<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> Options<'a> {
    pub fn new(bytes: &'a [u8], order: ByteOrder) -> Options<'a> {
        Options { bytes, order }
    }

    /// Code and value of the next one.
    #[inline]
    pub fn next(&mut self) -> Result<Option<(u16, &'a [u8])>, TooLong> {
        if self.bytes.len() < 4 {
            return Ok(None);
        }
        let (code, len) = (self.order.u16(self.bytes, 0), usize::from(self.order.u16(self.bytes, 2)));
        if code == END {
            self.bytes = &[];
            return Ok(None);
        }
        let value = self.bytes.get(4..4 + len).ok_or((code, len))?;
        self.bytes = self.bytes.get(4 + len.next_multiple_of(4)..).unwrap_or(&[]);
        Ok(Some((code, value)))
    }
}

/// Appends a block: what `body` appends, between type and lengths.
pub(crate) fn write_block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend(kind.to_le_bytes());
    out.extend([0; 4]);
    body(out);
    let len = ((out.len() - start + 4) as u32).to_le_bytes();
    out[start + 4..start + 8].copy_from_slice(&len);
    out.extend(len);
}

/// Appends an option; one that is too long for its length field is left out.
pub(crate) fn write(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let Ok(len) = u16::try_from(value.len()) else { return };
    out.extend(code.to_le_bytes());
    out.extend(len.to_le_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Appends a text, cut where an option cannot be longer; an empty one is left out.
pub(crate) fn write_text(out: &mut Vec<u8>, code: u16, text: &str) {
    if !text.is_empty() {
        write(out, code, &text.as_bytes()[..text.floor_char_boundary(TEXT_LEN_MAX)]);
    }
}

/// Appends a number of 64 bits.
pub(crate) fn write_u64(out: &mut Vec<u8>, code: u16, value: Option<u64>) {
    if let Some(value) = value {
        write(out, code, &value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut out = Vec::new();
        write(&mut out, 9, &[6]);
        write_text(&mut out, 2, "eth0");
        write_text(&mut out, 3, "");
        write_u64(&mut out, 4, Some(7));
        write_u64(&mut out, 5, None);
        // Never cut inside of a letter.
        write_text(&mut out, COMMENT, &"ä".repeat(40_000));
        write(&mut out, END, &[]);
        write(&mut out, 8, b"behind the end");
        let mut options = Options::new(&out, ByteOrder::Little);
        assert_eq!(options.next(), Ok(Some((9, &[6][..]))));
        assert_eq!(options.next(), Ok(Some((2, &b"eth0"[..]))));
        assert_eq!(options.next(), Ok(Some((4, &7u64.to_le_bytes()[..]))));
        let (code, text) = options.next().unwrap().unwrap();
        assert_eq!((code, std::str::from_utf8(text).map(str::len)), (COMMENT, Ok(TEXT_LEN_MAX)));
        assert_eq!(options.next(), Ok(None));
        assert_eq!(options.next(), Ok(None));
        assert_eq!(Options::new(&[1, 0, 9, 0, 1, 2, 3, 4], ByteOrder::Little).next(), Err((1, 9)));
    }
}
