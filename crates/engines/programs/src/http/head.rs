//! Heads of requests and responses: what a reader needs to know of them.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Request, Response, Status};

use super::body::Body;
use super::malformed::Malformed;

/// Longest head in bytes that is read.
pub const HEAD_LEN_MAX: usize = 16 * 1024;
/// Most header fields of a message.
const FIELDS_MAX: usize = 64;

/// What a server needs to know of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct RequestHead<'a> {
    /// The method, as written.
    pub method: &'a str,
    /// The target, as written.
    pub target: &'a str,
    /// The body that follows.
    pub body: Body,
    /// The connection stays open afterwards.
    pub keep_alive: bool,
    /// HTTP/1.0: the answer says that the connection stays open.
    pub is_1_0: bool,
    /// The client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// Bytes of the head.
    pub len: usize,
}

/// What a client needs to know of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status.
    pub status: u16,
    /// The body that follows.
    pub body: Body,
    /// The connection stays open afterwards.
    pub keep_alive: bool,
    /// Bytes of the head.
    pub len: usize,
}

/// Fields that tell how long a message is and what becomes of the connection.
#[derive(Default)]
struct Framing {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
}

impl Framing {
    fn of(fields: &[Header<'_>]) -> Result<Framing, Malformed> {
        let mut framing = Framing::default();
        for field in fields {
            // The length of the name tells most fields apart without a comparison.
            match field.name.len() {
                14 if field.name.eq_ignore_ascii_case("content-length") => {
                    let length = std::str::from_utf8(field.value).ok().filter(|value| value.bytes().all(is_digit));
                    let length = length.and_then(|value| value.parse().ok()).ok_or(Malformed::Length)?;
                    if framing.length.replace(length).is_some_and(|before| before != length) {
                        return Err(Malformed::Length);
                    }
                }
                17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                    // Other codings than `chunked` alone were never asked for (RFC 9112 section 6.1).
                    if framing.chunked || !field.value.eq_ignore_ascii_case(b"chunked") {
                        return Err(Malformed::Length);
                    }
                    framing.chunked = true;
                }
                10 if field.name.eq_ignore_ascii_case("connection") => {
                    for word in field.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                        framing.close |= word.eq_ignore_ascii_case(b"close");
                        framing.keep_alive |= word.eq_ignore_ascii_case(b"keep-alive");
                    }
                }
                6 if field.name.eq_ignore_ascii_case("expect") => {
                    framing.expects_continue |= field.value.eq_ignore_ascii_case(b"100-continue");
                }
                _ => {}
            }
        }
        Ok(framing)
    }

    fn keeps_alive(&self, is_1_0: bool) -> bool {
        !self.close && (!is_1_0 || self.keep_alive)
    }
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit()
}

/// Reads the head of a request; `None` if it is not complete yet.
///
/// # Errors
/// The bytes are not the beginning of a request that this server reads.
pub fn request_head(bytes: &[u8]) -> Result<Option<RequestHead<'_>>, Malformed> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut request = Request::new(&mut []);
    let parsed = ParserConfig::default().parse_request_with_uninit_headers(&mut request, bytes, &mut fields);
    let Some(len) = complete(parsed, bytes)? else { return Ok(None) };
    let framing = Framing::of(request.headers)?;
    let is_1_0 = request.version == Some(0);
    let body = match framing {
        // A request with both is an attempt to be read in two ways (RFC 9112 section 6.3).
        Framing { chunked: true, length: Some(_), .. } => return Err(Malformed::Length),
        Framing { chunked: true, .. } if is_1_0 => return Err(Malformed::Length),
        Framing { chunked: true, .. } => Body::chunked(),
        Framing { length, .. } => Body::Length(length.unwrap_or(0)),
    };
    Ok(Some(RequestHead {
        method: request.method.unwrap_or_default(),
        target: request.path.unwrap_or_default(),
        body,
        keep_alive: framing.keeps_alive(is_1_0),
        is_1_0,
        expects_continue: framing.expects_continue && !is_1_0,
        len,
    }))
}

/// Reads the head of a response, to a HEAD request if `to_head`; `None` if it is not complete yet.
///
/// # Errors
/// The bytes are not the beginning of a response.
pub fn response_head(bytes: &[u8], to_head: bool) -> Result<Option<ResponseHead>, Malformed> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut response = Response::new(&mut []);
    let parsed = ParserConfig::default().parse_response_with_uninit_headers(&mut response, bytes, &mut fields);
    let Some(len) = complete(parsed, bytes)? else { return Ok(None) };
    let framing = Framing::of(response.headers)?;
    let status = response.code.unwrap_or(0);
    let keep_alive = framing.keeps_alive(response.version == Some(0));
    let body = match framing {
        _ if to_head || status < 200 || status == 204 || status == 304 => Body::EMPTY,
        Framing { chunked: true, .. } => Body::chunked(),
        Framing { length: Some(length), .. } => Body::Length(length),
        Framing { length: None, .. } => Body::UntilClose,
    };
    let keep_alive = keep_alive && body != Body::UntilClose;
    Ok(Some(ResponseHead { status, body, keep_alive, len }))
}

fn complete(parsed: httparse::Result<usize>, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    match parsed {
        Ok(Status::Complete(len)) if len <= HEAD_LEN_MAX => Ok(Some(len)),
        Ok(Status::Partial) if bytes.len() < HEAD_LEN_MAX => Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => Err(Malformed::TooLong),
        Err(_) => Err(Malformed::Head),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_say_what_follows() {
        let head = |text: &'static str| request_head(text.as_bytes());
        let get = head("GET /a?b HTTP/1.1\r\nHost: x\r\n\r\nGET").unwrap().unwrap();
        assert_eq!((get.method, get.target, get.body, get.keep_alive, get.len), ("GET", "/a?b", Body::EMPTY, true, 30));
        assert_eq!(head("GET / HTTP/1.1\r\nHost"), Ok(None));
        assert!(!head("GET / HTTP/1.0\r\n\r\n").unwrap().unwrap().keep_alive);
        assert!(head("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").unwrap().unwrap().keep_alive);
        assert!(!head("GET / HTTP/1.1\r\nConnection: te, close\r\n\r\n").unwrap().unwrap().keep_alive);
        let post = head("POST / HTTP/1.1\r\nContent-Length: 7\r\nExpect: 100-continue\r\n\r\n").unwrap().unwrap();
        assert!(post.body == Body::Length(7) && post.expects_continue);
        let chunked = head("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap().unwrap();
        assert_eq!(chunked.body, Body::chunked());
    }

    #[test]
    fn requests_that_could_be_read_in_two_ways_are_refused() {
        for fields in [
            "Content-Length: 1\r\nTransfer-Encoding: chunked",
            "Content-Length: 1\r\nContent-Length: 2",
            "Content-Length: +1",
            "Content-Length: ",
            "Content-Length: 99999999999999999999",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        ] {
            let text = format!("POST / HTTP/1.1\r\n{fields}\r\n\r\n");
            assert_eq!(request_head(text.as_bytes()), Err(Malformed::Length), "{fields}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65));
        assert_eq!(request_head(many.as_bytes()), Err(Malformed::TooLong));
        let endless = format!("GET /{} ", "a".repeat(HEAD_LEN_MAX));
        assert_eq!(request_head(endless.as_bytes()), Err(Malformed::TooLong));
        assert_eq!(request_head(b"\x16\x03\x01\x02\x00"), Err(Malformed::Head));
    }

    #[test]
    fn responses_say_what_follows() {
        let head = |text: &'static str| response_head(text.as_bytes(), false).unwrap().unwrap();
        let found = head("HTTP/1.1 200 OK\r\nContent-Length: 615\r\n\r\n");
        assert_eq!((found.status, found.body, found.keep_alive), (200, Body::Length(615), true));
        assert_eq!(
            response_head(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n", true).unwrap().unwrap().body,
            Body::EMPTY
        );
        assert_eq!(head("HTTP/1.1 304 Not Modified\r\nContent-Length: 6\r\n\r\n").body, Body::EMPTY);
        let until_close = head("HTTP/1.1 200 OK\r\n\r\n");
        assert!(until_close.body == Body::UntilClose && !until_close.keep_alive);
        assert!(!head("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n").keep_alive);
        assert_eq!(response_head(b"HTTP/1.1 20", false), Ok(None));
        assert_eq!(response_head(b"SSH-2.0-OpenSSH", false), Err(Malformed::Head));
    }
}
