//! Why an answer is a wrong one, and the first of them in words: the account only says how many there were.

use linerate_load::Kind;

/// Bytes of an answer that are shown.
const SHOWN: usize = 40;

/// What is wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// It is no HTTP response.
    NotHttp,
    /// Its content is not coded as its head says.
    Coding,
    /// The server changes to another protocol, for which nobody asked.
    Upgrade,
    /// Its status is not one of those that are right.
    Status(u16),
    /// Its content has so many bytes, and should have others.
    Length(u64),
    /// Its content differs from the expected one, first at this byte.
    Content(u64),
    /// It came before a request did, or behind the answer to the last one.
    Unasked,
    /// It is another datagram than the expected one.
    Datagram,
}

impl Wrong {
    /// In words, of an answer to a request of `kind`; `bytes` are where it was found.
    pub(super) fn describe(self, kind: Option<&Kind>, bytes: &[u8]) -> String {
        let shown = bytes[..bytes.len().min(SHOWN)].escape_ascii();
        let more = if bytes.len() > SHOWN { "..." } else { "" };
        let is_own = |kind: &Kind| !bytes.is_empty() && kind.bytes.starts_with(&bytes[..bytes.len().min(SHOWN)]);
        let expected = |len| match kind.and_then(Kind::content_len) {
            Some(expected) if expected != len => format!(" where {expected} are expected"),
            _ => String::new(),
        };
        match self {
            Wrong::NotHttp if kind.is_some_and(is_own) => {
                "the request itself came back; an echo server is written tcp://HOST:PORT".into()
            }
            Wrong::NotHttp => format!("no HTTP response: `{shown}{more}`"),
            Wrong::Coding => format!("content that is not coded as its head says: `{shown}{more}`"),
            Wrong::Upgrade => "status 101, for which no request asked".into(),
            Wrong::Status(status) => format!("status {status}"),
            Wrong::Length(len) => format!("{len} bytes of content{}", expected(len)),
            Wrong::Content(at) => format!("content that differs from the expected one, first at byte {at}"),
            Wrong::Unasked => format!("bytes that no request asked for: `{shown}{more}`"),
            Wrong::Datagram => {
                format!("a datagram of {} bytes{}: `{shown}{more}`", bytes.len(), expected(bytes.len() as u64))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_load::{Answer, Expected};

    #[test]
    fn what_is_said_shows_the_bytes_and_no_more_than_some() {
        let kind = Kind {
            name: "x".into(),
            bytes: b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
            answer: Answer::Http(Expected { body: Some(b"abc".to_vec()), ..Expected::default() }),
            is_numbered: false,
        };
        let say = |wrong: Wrong, bytes: &[u8]| wrong.describe(Some(&kind), bytes);
        assert_eq!(say(Wrong::NotHttp, b"SSH-2.0\r\n"), "no HTTP response: `SSH-2.0\\r\\n`");
        assert!(say(Wrong::NotHttp, b"GET / HT").contains("tcp://"));
        assert_eq!(say(Wrong::Length(2), b""), "2 bytes of content where 3 are expected");
        let long = say(Wrong::Unasked, &[b'x'; 1000]);
        assert!(long.len() < 100 && long.ends_with("...`"), "{long}");
        assert!(Wrong::NotHttp.describe(None, b"").ends_with("``"));
    }
}
