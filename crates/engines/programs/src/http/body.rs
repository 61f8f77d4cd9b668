//! Where a body ends (RFC 9112 section 6): after a length, after the last chunk, or where the connection ends.

use super::malformed::Malformed;

/// Bytes of chunk extensions and trailers that one body may have.
const OVERHEAD_MAX: u32 = 16 * 1024;

/// A body that is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// So many bytes are left.
    Length(u64),
    /// Chunks (`Transfer-Encoding: chunked`).
    Chunked(Chunks),
    /// Everything until the sender closes.
    UntilClose,
}

/// What a piece of the connection's bytes was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the piece that belong to the body, its chunk headers included.
    pub taken: usize,
    /// The body has ended.
    pub ended: bool,
}

/// Where in a chunked body the reader is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chunks {
    at: At,
    /// Bytes that are left of the chunk.
    left: u64,
    /// Digits of the chunk's size, at most 16.
    digits: u8,
    /// Bytes of extensions and trailers so far.
    overhead: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Size,
    Extension,
    SizeEnd,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    Trailer,
    TrailerLf,
    LastLf,
    Ended,
}

impl Body {
    /// A body without bytes.
    pub const EMPTY: Body = Body::Length(0);

    /// A body in chunks, at its beginning.
    pub fn chunked() -> Body {
        Body::Chunked(Chunks::default())
    }

    /// True if nothing of the body is left.
    pub fn has_ended(&self) -> bool {
        matches!(self, Body::Length(0)) || matches!(self, Body::Chunked(chunks) if chunks.at == At::Ended)
    }

    /// Reads on in `data`, and hands the content to `content`, piece by piece.
    ///
    /// # Errors
    /// The chunks are malformed, or their extensions and trailers have more than 16 KiB.
    pub fn take(&mut self, data: &[u8], content: &mut impl FnMut(&[u8])) -> Result<Step, Malformed> {
        let taken = match self {
            Body::UntilClose => {
                content(data);
                data.len()
            }
            Body::Length(left) => {
                let part = data.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                content(&data[..part]);
                *left -= part as u64;
                part
            }
            Body::Chunked(chunks) => chunks.take(data, content)?,
        };
        Ok(Step { taken, ended: self.has_ended() })
    }
}

impl Chunks {
    fn take(&mut self, data: &[u8], content: &mut impl FnMut(&[u8])) -> Result<usize, Malformed> {
        let mut taken = 0;
        while taken < data.len() && self.at != At::Ended {
            if self.at == At::Data {
                let part = (data.len() - taken).min(usize::try_from(self.left).unwrap_or(usize::MAX));
                content(&data[taken..taken + part]);
                taken += part;
                self.left -= part as u64;
                if self.left == 0 {
                    self.at = At::DataCr;
                }
                continue;
            }
            self.step(data[taken])?;
            taken += 1;
        }
        Ok(taken)
    }

    /// A byte that is not data.
    fn step(&mut self, byte: u8) -> Result<(), Malformed> {
        self.at = match (self.at, byte) {
            (At::Size, b'\r') if self.digits > 0 => At::SizeEnd,
            (At::Size, b';' | b' ' | b'\t') if self.digits > 0 => At::Extension,
            (At::Size, _) => {
                let digit = (byte as char).to_digit(16).ok_or(Malformed::Chunk)?;
                self.digits += 1;
                if self.digits > 16 {
                    return Err(Malformed::Chunk);
                }
                self.left = self.left << 4 | u64::from(digit);
                At::Size
            }
            (At::Extension, b'\r') => At::SizeEnd,
            (At::SizeEnd, b'\n') => {
                self.digits = 0;
                if self.left == 0 { At::TrailerStart } else { At::Data }
            }
            (At::DataCr, b'\r') => At::DataLf,
            (At::DataLf, b'\n') => At::Size,
            (At::TrailerStart, b'\r') => At::LastLf,
            (At::LastLf, b'\n') => At::Ended,
            (At::Trailer, b'\r') => At::TrailerLf,
            (At::TrailerLf, b'\n') => At::TrailerStart,
            (At::Extension | At::TrailerStart | At::Trailer, b) if b != b'\n' => {
                self.overhead += 1;
                if self.overhead > OVERHEAD_MAX {
                    return Err(Malformed::Chunk);
                }
                if self.at == At::Extension { At::Extension } else { At::Trailer }
            }
            _ => return Err(Malformed::Chunk),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads `wire` in pieces of these lengths; returns the content and how many bytes the body took.
    fn read(mut body: Body, wire: &[u8], pieces: &[usize]) -> Result<(Vec<u8>, usize), Malformed> {
        let (mut content, mut at, mut pieces) = (Vec::new(), 0, pieces.iter().cycle());
        while at < wire.len() && !body.has_ended() {
            let end = (at + pieces.next().copied().unwrap_or(1).max(1)).min(wire.len());
            let step = body.take(&wire[at..end], &mut |part| content.extend_from_slice(part))?;
            at += step.taken;
            assert!(step.ended == body.has_ended() && (step.ended || at == end));
        }
        Ok((content, at))
    }

    #[test]
    fn chunks_with_extensions_and_trailers_are_read() {
        let wire =
            b"4;a=b\r\nWiki\r\n6 ;x\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nExpires: never\r\nA: b\r\n\r\nGET";
        let (content, taken) = read(Body::chunked(), wire, &[1]).unwrap();
        assert_eq!(content, b"Wikipedia in \r\n\r\nchunks.");
        assert_eq!(&wire[taken..], b"GET");
    }

    #[test]
    fn malformed_chunks_are_refused() {
        for wire in ["\r\n", "g\r\n", "4\n", "4\r\nWikiX", "11111111111111111\r\n", "-1\r\n", "4;\n", "0\r\nA\n"] {
            assert_eq!(read(Body::chunked(), wire.as_bytes(), &[3]), Err(Malformed::Chunk), "{wire:?}");
        }
        let long = format!("1;{}", "x".repeat(OVERHEAD_MAX as usize + 1));
        assert_eq!(read(Body::chunked(), long.as_bytes(), &[100]), Err(Malformed::Chunk));
    }

    #[test]
    fn a_length_takes_no_more() {
        assert_eq!(read(Body::Length(3), b"abcdef", &[2]), Ok((b"abc".to_vec(), 3)));
        assert_eq!(read(Body::EMPTY, b"abc", &[2]), Ok((Vec::new(), 0)));
        assert_eq!(read(Body::UntilClose, b"abc", &[2]), Ok((b"abc".to_vec(), 3)));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..6),
            pieces in proptest::collection::vec(1usize..50, 1..5)) {
            let mut wire: Vec<u8> = Vec::new();
            for chunk in &chunks {
                wire.extend(format!("{:x}\r\n", chunk.len()).bytes());
                wire.extend(chunk);
                wire.extend(b"\r\n");
            }
            wire.extend(b"0\r\n\r\nrest");
            let (content, taken) = read(Body::chunked(), &wire, &pieces).unwrap();
            prop_assert_eq!(content, chunks.concat());
            prop_assert_eq!(&wire[taken..], b"rest");
        }

        #[test]
        fn no_bytes_make_it_panic(wire in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(Body::chunked(), &wire, &[7]);
        }
    }
}
