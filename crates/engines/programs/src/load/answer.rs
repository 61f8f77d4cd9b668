//! Reads answers from the bytes of a connection, and checks them.

use linerate_load::{Answer, Expected, Kind};

use super::wrong::Wrong;
use crate::http::{Body, Partial, response_head};

/// The answer that a connection is reading.
#[derive(Debug, Default)]
pub(super) struct Reader {
    at: At,
    /// The beginning of a head.
    partial: Partial,
    status: u16,
    keep_alive: bool,
    /// Bytes of content so far.
    content_len: u64,
    /// The content is another than expected, from this byte on.
    differs: Option<u64>,
}

#[derive(Debug, Default)]
enum At {
    /// Nothing of the answer was read, or a part of its head.
    #[default]
    Begin,
    Body(Body),
    Bytes(u64),
}

/// An answer that was read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    /// HTTP status; 0 of other protocols.
    pub(super) status: u16,
    /// The connection can take another request.
    pub(super) keep_alive: bool,
    /// It is not the expected one.
    pub(super) wrong: Option<Wrong>,
}

impl Reader {
    /// Reads on in `data`, which is not empty: the bytes taken, and the answer if it has come to its end.
    pub(super) fn read(&mut self, data: &[u8], kind: &Kind) -> Result<(usize, Option<Whole>), Wrong> {
        match (&mut self.at, &kind.answer) {
            (At::Begin, Answer::Http(expected)) => self.head(data, expected),
            (At::Begin, Answer::Bytes(len)) => {
                self.at = At::Bytes(*len);
                self.read(data, kind)
            }
            (At::Begin, Answer::Echo) => {
                self.at = At::Bytes(kind.bytes.len() as u64);
                self.read(data, kind)
            }
            (At::Bytes(left), answer) => {
                let taken = data.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                let ended = *left == 0;
                if *answer == Answer::Echo {
                    compare(&mut self.differs, &kind.bytes, self.content_len, &data[..taken]);
                }
                self.content_len += taken as u64;
                Ok((taken, ended.then(|| self.finish(None, true))))
            }
            (At::Body(body), answer) => {
                let expected = match answer {
                    Answer::Http(expected) => expected.body.as_deref(),
                    _ => None,
                };
                let (content_len, differs) = (&mut self.content_len, &mut self.differs);
                let mut check = |content: &[u8]| {
                    if let Some(expected) = expected {
                        compare(differs, expected, *content_len, content);
                    }
                    *content_len += content.len() as u64;
                };
                let step = body.take(data, &mut check).map_err(|_| Wrong::Coding)?;
                let whole = step.ended.then(|| self.finish_http(answer));
                Ok((step.taken, whole))
            }
        }
    }

    /// The server closed: the answer, if that is its end.
    pub(super) fn peer_closed(&mut self, kind: &Kind) -> Result<Option<Whole>, Wrong> {
        if !self.partial.is_empty() {
            response_head(self.partial.bytes(), false).map_err(|_| Wrong::NotHttp)?;
        }
        Ok(matches!(self.at, At::Body(Body::UntilClose)).then(|| self.finish_http(&kind.answer)))
    }

    fn head(&mut self, data: &[u8], expected: &Expected) -> Result<(usize, Option<Whole>), Wrong> {
        let kept = self.partial.len();
        if kept > 0 && !self.partial.push(data) {
            return Ok((data.len(), None));
        }
        let bytes = if kept > 0 { self.partial.bytes() } else { data };
        let Some(head) = response_head(bytes, expected.to_head).map_err(|_| Wrong::NotHttp)? else {
            if kept == 0 {
                self.partial.push(data);
            }
            self.partial.was_parsed();
            return Ok((data.len(), None));
        };
        let taken = head.len - kept;
        self.partial.clear();
        // The answer itself follows an interim one; nobody asked for another protocol.
        if head.status < 200 {
            return if head.status == 101 { Err(Wrong::Upgrade) } else { Ok((taken, None)) };
        }
        (self.status, self.keep_alive, self.at) = (head.status, head.keep_alive, At::Body(head.body));
        let whole = head.body.has_ended().then(|| self.finish_of(expected));
        Ok((taken, whole))
    }

    fn finish_http(&mut self, answer: &Answer) -> Whole {
        match answer {
            Answer::Http(expected) => self.finish_of(expected),
            Answer::Bytes(_) | Answer::Echo => self.finish(Some(Wrong::NotHttp), false),
        }
    }

    fn finish_of(&mut self, expected: &Expected) -> Whole {
        let status = !expected.statuses.is_empty() && !expected.statuses.contains(&self.status);
        // The head of an answer to HEAD tells of a body that it does not have.
        let is_len = |len: u64| expected.to_head || len == self.content_len;
        let len = expected.body_len.is_some_and(|len| !is_len(len))
            || expected.body.as_ref().is_some_and(|body| !is_len(body.len() as u64));
        let status = status.then_some(Wrong::Status(self.status));
        self.finish(status.or(len.then_some(Wrong::Length(self.content_len))), self.keep_alive)
    }

    /// The answer, and a reader for the next one.
    fn finish(&mut self, wrong: Option<Wrong>, keep_alive: bool) -> Whole {
        let whole = Whole { status: self.status, keep_alive, wrong: wrong.or(self.differs.map(Wrong::Content)) };
        (self.at, self.status, self.content_len, self.differs) = (At::Begin, 0, 0, None);
        whole
    }

    /// Forgets what was read.
    pub(super) fn reset(&mut self) {
        self.partial.clear();
        self.finish(None, false);
    }

    /// The bytes at which a fault was found: those of a head that was begun before `data`, or `data`.
    pub(super) fn shown<'a>(&'a self, data: &'a [u8]) -> &'a [u8] {
        if self.partial.is_empty() { data } else { self.partial.bytes() }
    }
}

/// Notes the first byte at which `content`, which begins at byte `from` of an answer, is not the expected one.
fn compare(differs: &mut Option<u64>, expected: &[u8], from: u64, content: &[u8]) {
    let start = from as usize;
    if differs.is_none() && expected.get(start..start + content.len()) != Some(content) {
        let expected = expected.get(start..).unwrap_or_default();
        let same = expected.iter().zip(content).take_while(|(one, other)| one == other).count();
        *differs = Some(from + same as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(answer: Answer) -> Kind {
        Kind { name: "x".into(), bytes: b"hello".to_vec(), answer, is_numbered: false }
    }

    /// All answers in `wire`, read in pieces.
    fn read(kind: &Kind, wire: &[u8], piece: usize) -> Result<Vec<Whole>, Wrong> {
        let (mut reader, mut all) = (Reader::default(), Vec::new());
        for data in wire.chunks(piece) {
            let mut rest = data;
            while !rest.is_empty() {
                let (taken, whole) = reader.read(rest, kind)?;
                all.extend(whole);
                rest = &rest[taken..];
            }
        }
        all.extend(reader.peer_closed(kind)?);
        Ok(all)
    }

    fn whole(status: u16, keep_alive: bool, wrong: Option<Wrong>) -> Whole {
        Whole { status, keep_alive, wrong }
    }

    #[test]
    fn responses_are_read_in_any_pieces() {
        let wire = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc\
            HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
            HTTP/1.1 204 No Content\r\n\r\nHTTP/1.0 200 OK\r\n\r\nabc";
        for piece in [1, 2, 5, 1000] {
            let plain = kind(Answer::Http(Expected::default()));
            let expected =
                [whole(200, true, None), whole(404, true, None), whole(204, true, None), whole(200, false, None)];
            assert_eq!(read(&plain, wire, piece).unwrap(), expected, "{piece}");
            let strict = kind(Answer::Http(Expected {
                statuses: vec![200],
                body: Some(b"abc".to_vec()),
                ..Expected::default()
            }));
            let wrong: Vec<_> = read(&strict, wire, piece).unwrap().iter().map(|whole| whole.wrong).collect();
            assert_eq!(wrong, [None, Some(Wrong::Status(404)), Some(Wrong::Status(204)), None], "{piece}");
        }
    }

    #[test]
    fn a_body_that_differs_is_a_wrong_answer() {
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        let cases =
            [("abd", Wrong::Content(2)), ("ab", Wrong::Length(3)), ("abcd", Wrong::Length(3)), ("", Wrong::Length(3))];
        for (body, wrong) in cases {
            let expected = Expected { body: Some(body.into()), ..Expected::default() };
            assert_eq!(read(&kind(Answer::Http(expected)), response, 7).unwrap()[0].wrong, Some(wrong), "{body}");
        }
        let len = Expected { body_len: Some(4), ..Expected::default() };
        assert_eq!(read(&kind(Answer::Http(len)), response, 7).unwrap()[0].wrong, Some(Wrong::Length(3)));
    }

    #[test]
    fn bytes_and_echoes_have_their_length() {
        assert_eq!(read(&kind(Answer::Echo), b"hellohello", 3).unwrap(), [whole(0, true, None); 2]);
        assert_eq!(
            read(&kind(Answer::Echo), b"hellohullo", 3).unwrap(),
            [whole(0, true, None), whole(0, true, Some(Wrong::Content(1)))]
        );
        assert_eq!(read(&kind(Answer::Bytes(2)), b"abcdef", 4).unwrap().len(), 3);
    }

    #[test]
    fn what_is_no_response_is_a_wrong_answer() {
        let http = kind(Answer::Http(Expected::default()));
        for (wire, wrong) in [
            (&b"SSH-2.0"[..], Wrong::NotHttp),
            (b"HTTP/1.1 101 Switching\r\n\r\n", Wrong::Upgrade),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz", Wrong::Coding),
        ] {
            assert_eq!(read(&http, wire, 5), Err(wrong));
        }
    }
}
