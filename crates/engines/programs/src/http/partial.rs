//! The beginning of a head that comes in pieces.

use super::head::HEAD_LEN_MAX;

/// Bytes of a head that is not complete. The parser always starts at the first byte, so it is asked again only when the head's end has come, or
/// when there are twice as many bytes as it saw last, so that bytes that are no head are found early. It reads each byte four times at most,
/// however short the pieces are.
#[derive(Debug, Default)]
pub struct Partial {
    bytes: Vec<u8>,
    /// Bytes that the parser has seen; it is asked again at twice as many.
    parsed: usize,
    /// Bytes in which the end was looked for.
    scanned: usize,
    /// Bytes of the line that is being read, without its end.
    line_len: usize,
    /// A line that is not empty has begun: empty lines before it say nothing (RFC 9112 section 2.2).
    has_begun: bool,
    /// The empty line behind the fields is among the bytes.
    has_ended: bool,
}

impl Partial {
    /// True if nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Number of bytes that are kept.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes that are kept.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends a piece. True if the parser is to be asked now.
    pub fn push(&mut self, piece: &[u8]) -> bool {
        self.bytes.extend_from_slice(piece);
        self.look_for_end();
        self.has_ended || self.bytes.len() >= (2 * self.parsed).min(HEAD_LEN_MAX)
    }

    /// Notes that the parser has seen all bytes.
    pub fn was_parsed(&mut self) {
        (self.parsed, self.has_ended) = (self.bytes.len(), false);
    }

    /// Forgets all bytes.
    pub fn clear(&mut self) {
        self.bytes.clear();
        *self = Partial { bytes: std::mem::take(&mut self.bytes), ..Partial::default() };
    }

    fn look_for_end(&mut self) {
        for byte in &self.bytes[self.scanned..] {
            match byte {
                b'\n' => {
                    self.has_ended |= self.has_begun && self.line_len == 0;
                    self.line_len = 0;
                }
                b'\r' => {}
                _ => {
                    self.line_len += 1;
                    self.has_begun = true;
                }
            }
        }
        self.scanned = self.bytes.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request_head;

    /// How many bytes the parser reads of a head that comes byte by byte, and after how many bytes it knows what they are.
    fn read_byte_by_byte(head: &[u8]) -> (usize, usize) {
        let (mut partial, mut work) = (Partial::default(), 0);
        for (at, byte) in head.iter().enumerate() {
            if !partial.push(&[*byte]) {
                continue;
            }
            work += partial.len();
            match request_head(partial.bytes()) {
                Ok(None) => partial.was_parsed(),
                _ => return (work, at + 1),
            }
        }
        (work, head.len() + 1)
    }

    #[test]
    fn a_head_is_known_at_its_last_byte_and_each_byte_is_read_a_few_times() {
        let fields = "A: b\r\n".repeat(60);
        let target = "a".repeat(14_000);
        for head in [
            "GET / HTTP/1.1\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\n\n".to_owned(),
            format!("\r\n\r\n\nGET /{target} HTTP/1.1\r\n{fields}\r\n"),
            format!("GET / HTTP/1.1\r\nB: {target}\n{fields}\n"),
        ] {
            let (work, known) = read_byte_by_byte(head.as_bytes());
            assert_eq!(known, head.len(), "{:?}", &head[..20.min(head.len())]);
            assert!(work <= 4 * head.len(), "{work} bytes were read of {}", head.len());
        }
    }

    #[test]
    fn bytes_that_are_no_head_are_found_early_and_endless_ones_at_the_limit() {
        let (_, known) = read_byte_by_byte(&b"GET \x01".repeat(100));
        assert!(known <= 8, "{known}");
        let (work, known) = read_byte_by_byte(&vec![b'\n'; 2 * HEAD_LEN_MAX]);
        assert!(known == HEAD_LEN_MAX && work <= 3 * HEAD_LEN_MAX, "{known} {work}");
    }
}
