//! An HTTP/1.1 server: keep-alive, pipelining, request bodies of both kinds, HTTP/1.0.
//!
//! A request that lies whole in what arrived is parsed where it lies; only the beginning of a head that comes in parts is kept. An answer that
//! does not fit into the send buffer is continued when there is room, and nothing more is taken from the client until then.

use core::net::SocketAddr;

use linerate_tcp::{CloseReason, Conn};

use super::site::Found;
use super::{Content, Served, Server, Site, listen};
use crate::http::{Body, Malformed, Partial, RequestHead, request_head};
use crate::network::{Network, Program};
use crate::table::Table;

/// An HTTP server.
pub struct HttpServer {
    addresses: Vec<SocketAddr>,
    site: Site,
    /// State of connections by their word, less one.
    connections: Table<Connection>,
    served: Served,
    date: Date,
    /// The answer that is being made.
    scratch: Vec<u8>,
}

#[derive(Default)]
struct Connection {
    /// The beginning of a head.
    partial: Partial,
    /// The rest of a request's body, and the answer that follows it.
    body: Option<(Body, Response)>,
    /// The answer that is being sent, and how much of it was.
    sending: Option<(Response, usize)>,
    /// Nothing more is read; the connection is closed after the answer.
    closing: bool,
}

/// An answer, of few words: its bytes are made when they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Response {
    status: Status,
    /// Number of the content, or of the location if it moved.
    content: u32,
    head_only: bool,
    close: bool,
    is_1_0: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Continue,
    Ok,
    Moved,
    BadRequest,
    NotFound,
    NotAllowed,
    TooLarge,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Status::Continue => "100 Continue",
            Status::Ok => "200 OK",
            Status::Moved => "301 Moved Permanently",
            Status::BadRequest => "400 Bad Request",
            Status::NotFound => "404 Not Found",
            Status::NotAllowed => "405 Method Not Allowed",
            Status::TooLarge => "431 Request Header Fields Too Large",
        }
    }
}

impl HttpServer {
    /// A server at these addresses. `epoch_ns` is the time of day at time 0 of the stack, in nanoseconds since 1970: the `Date` field is made of it.
    pub fn new(addresses: Vec<SocketAddr>, site: Site, epoch_ns: u64) -> HttpServer {
        HttpServer {
            addresses,
            site,
            connections: Table::default(),
            served: Served::default(),
            date: Date { epoch_ns, text: None, until_ns: 0 },
            scratch: Vec::new(),
        }
    }

    /// The answer to a request.
    fn respond(&self, head: &RequestHead<'_>) -> Response {
        let is_read = matches!(head.method, "GET" | "HEAD");
        let found = self.site.find(head.target);
        let (status, content) = match found {
            _ if !is_read && !self.site.takes_all_methods() => (Status::NotAllowed, 0),
            Some(Found::Content(number)) => (Status::Ok, number),
            Some(Found::Moved(number)) => (Status::Moved, number),
            None => (Status::NotFound, 0),
        };
        Response { status, content, head_only: head.method == "HEAD", close: !head.keep_alive, is_1_0: head.is_1_0 }
    }

    /// Sends an answer, from byte `from` on. Returns the number of bytes sent altogether, if some are left.
    fn send<N: Network>(&mut self, conn: Conn, response: Response, from: usize, network: &mut N) -> Option<usize> {
        let HttpServer { scratch, site, date, served, .. } = self;
        scratch.clear();
        let body = write_head(scratch, response, site, date.at(network.time_ns()));
        let head_len = scratch.len();
        if body.len() <= COPIED_MAX {
            scratch.extend_from_slice(body);
        }
        let mut sent = from;
        if sent < scratch.len() {
            sent += network.send(conn, &scratch[sent..]);
        }
        if body.len() > COPIED_MAX && sent >= head_len {
            sent += network.send(conn, &body[sent - head_len..]);
        }
        served.tx_bytes += (sent - from) as u64;
        (sent < head_len + body.len()).then_some(sent)
    }

    /// Begins to send an answer.
    fn answer<N: Network>(&mut self, number: u32, conn: Conn, response: Response, network: &mut N) {
        if response.status != Status::Continue {
            self.served.requests += 1;
            self.served.errors += u64::from(!matches!(response.status, Status::Ok | Status::Moved));
        }
        let left = self.send(conn, response, 0, network);
        let Some(connection) = self.connections.get_mut(number) else { return };
        connection.closing |= response.close;
        match left {
            Some(sent) => connection.sending = Some((response, sent)),
            None if connection.closing => network.close(conn),
            None => {}
        }
    }

    /// Reads one step on in `data`; returns the bytes taken.
    fn step<N: Network>(&mut self, number: u32, conn: Conn, data: &[u8], network: &mut N) -> usize {
        let Some(connection) = self.connections.get_mut(number) else { return data.len() };
        if let Some((body, response)) = &mut connection.body {
            let response = *response;
            return match body.take(data, &mut |_| ()) {
                Ok(step) => {
                    if step.ended {
                        connection.body = None;
                        self.answer(number, conn, response, network);
                    }
                    step.taken
                }
                Err(malformed) => self.refuse(number, conn, malformed, data.len(), network),
            };
        }
        let mut partial = std::mem::take(&mut connection.partial);
        let kept = partial.len();
        if kept > 0 && !partial.push(data) {
            connection.partial = partial;
            return data.len();
        }
        let bytes = if kept > 0 { partial.bytes() } else { data };
        match request_head(bytes) {
            Ok(Some(head)) => {
                let (taken, response) = (head.len - kept, self.respond(&head));
                let (body, expects_continue) = (head.body, head.expects_continue);
                if body.has_ended() {
                    self.answer(number, conn, response, network);
                    return taken;
                }
                if let Some(connection) = self.connections.get_mut(number) {
                    connection.body = Some((body, response));
                }
                if expects_continue {
                    let go_on = Response { status: Status::Continue, head_only: true, close: false, ..response };
                    self.answer(number, conn, go_on, network);
                }
                taken
            }
            Ok(None) => {
                if kept == 0 {
                    partial.push(data);
                }
                partial.was_parsed();
                if let Some(connection) = self.connections.get_mut(number) {
                    connection.partial = partial;
                }
                data.len()
            }
            Err(malformed) => self.refuse(number, conn, malformed, data.len(), network),
        }
    }

    /// Answers what is no request, and reads nothing more.
    #[cold]
    fn refuse<N: Network>(&mut self, number: u32, conn: Conn, why: Malformed, len: usize, network: &mut N) -> usize {
        let status = if why == Malformed::TooLong { Status::TooLarge } else { Status::BadRequest };
        let response = Response { status, content: 0, head_only: false, close: true, is_1_0: false };
        if let Some(connection) = self.connections.get_mut(number) {
            connection.body = None;
        }
        self.answer(number, conn, response, network);
        len
    }

    fn number<N: Network>(&self, conn: Conn, network: &N) -> u32 {
        (network.token(conn) as u32).wrapping_sub(1)
    }
}

/// Longest body that is sent in one piece with its head.
const COPIED_MAX: usize = 16 * 1024;

/// Writes the head of an answer; returns its body.
fn write_head<'a>(out: &mut Vec<u8>, response: Response, site: &'a Site, date: &[u8; 29]) -> &'a [u8] {
    let Response { status, content, head_only, close, is_1_0 } = response;
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.line().as_bytes());
    if status == Status::Continue {
        out.extend_from_slice(b"\r\n\r\n");
        return &[];
    }
    out.extend_from_slice(b"\r\nServer: linerate\r\nDate: ");
    out.extend_from_slice(date);
    let ok = site.content(content).filter(|_| status == Status::Ok);
    let (media_type, body) = match ok {
        Some(Content { media_type, body }) => (*media_type, &body[..]),
        None => ("text/plain", status.line().as_bytes()),
    };
    out.extend_from_slice(b"\r\nContent-Type: ");
    out.extend_from_slice(media_type.as_bytes());
    out.extend_from_slice(b"\r\nContent-Length: ");
    write_number(out, body.len());
    if status == Status::Moved
        && let Some(location) = site.location(content)
    {
        out.extend_from_slice(b"\r\nLocation: ");
        out.extend_from_slice(location.as_bytes());
    }
    if status == Status::NotAllowed {
        out.extend_from_slice(b"\r\nAllow: GET, HEAD");
    }
    if close {
        out.extend_from_slice(b"\r\nConnection: close");
    } else if is_1_0 {
        out.extend_from_slice(b"\r\nConnection: keep-alive");
    }
    out.extend_from_slice(b"\r\n\r\n");
    if head_only { &[] } else { body }
}

/// Appends a number in decimal digits.
fn write_number(out: &mut Vec<u8>, mut number: usize) {
    let (mut digits, mut at) = ([0; 20], 20);
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// The time as the `Date` field has it, made once a second.
struct Date {
    epoch_ns: u64,
    text: Option<[u8; 29]>,
    until_ns: u64,
}

impl Date {
    fn at(&mut self, now_ns: u64) -> &[u8; 29] {
        if now_ns >= self.until_ns || self.text.is_none() {
            let realtime_ns = self.epoch_ns.saturating_add(now_ns);
            self.until_ns = now_ns.saturating_add(1_000_000_000 - realtime_ns % 1_000_000_000);
            self.text = Some(date(realtime_ns / 1_000_000_000));
        }
        self.text.get_or_insert([b' '; 29])
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 section 5.6.7) of seconds since 1970.
fn date(seconds: u64) -> [u8; 29] {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days of eras of 400 years that begin in March (Hinnant, "chrono-compatible low-level date algorithms").
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = year_of_era + era * 400 + u64::from(month < 2);
    let (day_name, month) = (DAYS[(days % 7) as usize], MONTHS[month as usize]);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    let text =
        format!("{day_name}, {day:02} {month} {:04} {hour:02}:{minute:02}:{:02} GMT", year % 10_000, second % 60);
    let mut bytes = [b' '; 29];
    bytes.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
    bytes
}

impl Program for HttpServer {
    fn start<N: Network>(&mut self, network: &mut N) -> Result<(), String> {
        listen(&self.addresses, network)
    }

    fn connected<N: Network>(&mut self, conn: Conn, network: &mut N) {
        self.served.connections += 1;
        let number = self.connections.insert(Connection::default());
        network.set_token(conn, u64::from(number) + 1);
    }

    fn received<N: Network>(&mut self, conn: Conn, data: &[u8], network: &mut N) -> usize {
        let number = self.number(conn, network);
        let mut taken = 0;
        while taken < data.len() {
            match self.connections.get(number) {
                Some(Connection { sending: Some(_), .. }) => break,
                // What follows the last request of a connection is nothing that anybody waits for.
                Some(Connection { closing: false, .. }) => {}
                _ => taken = data.len(),
            }
            if taken < data.len() {
                taken += self.step(number, conn, &data[taken..], network);
            }
        }
        self.served.rx_bytes += taken as u64;
        taken
    }

    fn sendable<N: Network>(&mut self, conn: Conn, network: &mut N) {
        let number = self.number(conn, network);
        let Some(connection) = self.connections.get_mut(number) else { return };
        let Some((response, from)) = connection.sending.take() else { return };
        let left = self.send(conn, response, from, network);
        let Some(connection) = self.connections.get_mut(number) else { return };
        match left {
            Some(sent) => connection.sending = Some((response, sent)),
            None if connection.closing => network.close(conn),
            None => network.resume(conn),
        }
    }

    fn peer_closed<N: Network>(&mut self, conn: Conn, network: &mut N) {
        let number = self.number(conn, network);
        let Some(connection) = self.connections.get_mut(number) else { return };
        let partial = std::mem::take(&mut connection.partial);
        if !partial.is_empty()
            && let Err(malformed) = request_head(partial.bytes())
        {
            self.refuse(number, conn, malformed, 0, network);
            return;
        }
        connection.closing = true;
        if connection.sending.is_none() {
            network.close(conn);
        }
    }

    fn closed<N: Network>(&mut self, conn: Conn, why: CloseReason, network: &mut N) {
        let number = self.number(conn, network);
        self.connections.remove(number);
        self.served.end(why);
    }
}

impl Server for HttpServer {
    fn served(&self) -> Served {
        self.served
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loopback::Loopback;
    use crate::serve::Files;
    use crate::testing::Talker;

    const ADDRESS: &str = "198.18.5.1:80";

    /// What a server answers to these bytes, which come in pieces of `piece`; the client closes after them.
    fn talk(site: Site, text: &str, piece: usize, room: usize) -> (String, Served) {
        let address: SocketAddr = ADDRESS.parse().unwrap();
        let mut net = Loopback::new(Talker::new(address, text.as_bytes()), HttpServer::new(vec![address], site, 0));
        (net.state.piece, net.state.room) = (piece, room);
        net.start();
        net.run(1_000, 10_000_000_000);
        assert_eq!((net.open(), net.server.connections.len()), (0, 0), "everything ended");
        (String::from_utf8(net.client.received.clone()).unwrap(), net.server.served)
    }

    fn files() -> Site {
        let content = |body: &str| Content { media_type: "text/html", body: body.as_bytes().to_vec() };
        let mut files = Files::default();
        for (path, body) in [("/index.html", "top"), ("/big", &"z".repeat(100_000)), ("/sub/index.html", "below")] {
            files.add(path.to_owned(), content(body));
        }
        Site::Files(files)
    }

    #[test]
    fn requests_of_one_connection_are_answered_in_order() {
        let text = "GET / HTTP/1.1\r\nHost: a\r\n\r\nHEAD /big HTTP/1.1\r\n\r\nGET /none HTTP/1.1\r\n\r\n\
                    POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        for piece in [1, 7, 1400] {
            let (answers, served) = talk(files(), text, piece, 64 * 1024);
            let lines: Vec<&str> = answers.lines().filter(|line| line.contains("HTTP/1.1 ")).collect();
            let statuses: Vec<&str> =
                lines.iter().map(|line| &line[line.find("HTTP/1.1 ").unwrap() + 9..][..3]).collect();
            assert_eq!(statuses, ["200", "200", "404", "405", "200"], "{answers}");
            assert!(answers.contains("Content-Length: 100000\r\n") && answers.ends_with("\r\n\r\ntop"), "{answers}");
            assert_eq!((served.requests, served.errors), (5, 2));
        }
    }

    #[test]
    fn a_folder_without_its_slash_is_redirected_to() {
        for (method, body) in [("GET", "301 Moved Permanently"), ("HEAD", "")] {
            let text = format!("{method} /sub HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let (answer, served) = talk(files(), &text, 1400, 64 * 1024);
            assert!(answer.starts_with("HTTP/1.1 301 Moved Permanently\r\n"), "{answer}");
            assert!(answer.contains("\r\nLocation: /sub/\r\n") && answer.contains("\r\nContent-Length: 21\r\n"));
            assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{answer}");
            assert_eq!((served.requests, served.errors), (1, 0));
        }
    }

    #[test]
    fn long_answers_wait_for_room() {
        let text = "GET /big HTTP/1.1\r\n\r\nGET /big HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
        for room in [1000, 64 * 1024] {
            let (answers, served) = talk(files(), text, 500, room);
            assert_eq!(answers.matches('z').count(), 200_000);
            assert_eq!((served.requests, served.tx_bytes), (2, answers.len() as u64));
            assert!(answers.contains("Connection: keep-alive"));
        }
    }

    #[test]
    fn bodies_of_requests_are_skipped() {
        let text = "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc";
        let (answers, served) = talk(Site::of_len(10), text, 3, 64 * 1024);
        assert_eq!((answers.matches("HTTP/1.1 200 OK").count(), served.requests), (2, 2), "{answers}");
        assert!(answers.contains("HTTP/1.1 100 Continue\r\n\r\n"), "{answers}");
    }

    #[test]
    fn what_is_no_request_is_refused_and_the_connection_closed() {
        let endless = format!("GET / HTTP/1.1\r\nA: {}", "b".repeat(20_000));
        for (text, status) in [
            ("\u{16}\u{3}\u{1}", "400"),
            ("GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", "400"),
            (endless.as_str(), "431"),
        ] {
            let (answers, served) = talk(Site::of_len(10), &format!("{text}GET / HTTP/1.1\r\n\r\n"), 1400, 64 * 1024);
            assert!(
                answers.starts_with(&format!("HTTP/1.1 {status} ")) && answers.contains("Connection: close"),
                "{answers}"
            );
            assert_eq!((served.requests, served.errors), (1, 1));
        }
    }

    #[test]
    fn dates_are_those_of_the_standard() {
        let text = |seconds: u64| String::from_utf8(date(seconds).to_vec()).unwrap();
        assert_eq!(text(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(text(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(text(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(text(1_798_761_599), "Thu, 31 Dec 2026 23:59:59 GMT");
    }
}
