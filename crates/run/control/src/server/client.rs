//! One connection to the control socket. It holds one request and one reply at most, however its other end behaves.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use crate::protocol::REQUEST_LEN_MAX;

/// Bytes read at a time.
const STEP: usize = 4096;

pub(crate) struct Client {
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    /// When it last did something.
    pub active_ns: u64,
    /// The ports that live as long as this connection.
    pub leases: Vec<String>,
    /// Nothing more is read; it is closed once it has its reply.
    closing: bool,
    gone: bool,
}

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// No whole line yet.
    Nothing,
    /// A line, without its end.
    Line(Vec<u8>),
    /// A line that is too long to be a request.
    TooLong,
}

impl Client {
    pub(super) fn new(stream: UnixStream, now_ns: u64) -> io::Result<Client> {
        stream.set_nonblocking(true)?;
        Ok(Client {
            stream,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            active_ns: now_ns,
            leases: Vec::new(),
            closing: false,
            gone: false,
        })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// A client that does not read its reply is not listened to.
    pub(super) fn wants_to_read(&self) -> bool {
        !self.closing && self.output.is_empty()
    }

    pub(super) fn wants_to_write(&self) -> bool {
        !self.output.is_empty()
    }

    /// A whole line is here already.
    pub(super) fn has_line(&self) -> bool {
        self.wants_to_read() && self.input.contains(&b'\n')
    }

    pub(super) fn is_over(&self) -> bool {
        self.gone || self.closing && self.output.is_empty()
    }

    /// Nothing more is read.
    pub(super) fn close(&mut self) {
        self.closing = true;
    }

    /// Reads a little, and takes the next line.
    pub(super) fn read(&mut self) -> Input {
        if !self.input.contains(&b'\n') {
            self.fill();
        }
        if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
            let rest = self.input.split_off(end + 1);
            let mut line = std::mem::replace(&mut self.input, rest);
            line.pop();
            return Input::Line(line);
        }
        if self.input.len() >= REQUEST_LEN_MAX {
            self.input = Vec::new();
            return Input::TooLong;
        }
        Input::Nothing
    }

    fn fill(&mut self) {
        let mut bytes = [0; STEP];
        match self.stream.read(&mut bytes) {
            // Its other end may still read the reply to what came before.
            Ok(0) => self.gone = true,
            Ok(len) => self.input.extend_from_slice(&bytes[..len]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.gone = true,
        }
    }

    /// Sends a reply, or the part of it that the socket takes now.
    pub(super) fn reply(&mut self, line: String) {
        self.output = line.into_bytes();
        self.written = 0;
        self.write();
    }

    pub(super) fn write(&mut self) {
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(len) => self.written += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.gone = true;
                    return;
                }
            }
        }
        self.output = Vec::new();
        self.written = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (UnixStream, Client) {
        let (far, near) = UnixStream::pair().unwrap();
        (far, Client::new(near, 0).unwrap())
    }

    #[test]
    fn lines_come_one_by_one_however_they_were_written() {
        let (mut far, mut client) = pair();
        far.write_all(b"one\ntwo\nthr").unwrap();
        assert_eq!(client.read(), Input::Line(b"one".into()));
        assert!(client.has_line());
        assert_eq!(client.read(), Input::Line(b"two".into()));
        assert_eq!(client.read(), Input::Nothing);
        far.write_all(b"ee\n").unwrap();
        assert_eq!(client.read(), Input::Line(b"three".into()));
        drop(far);
        assert_eq!(client.read(), Input::Nothing);
        assert!(client.is_over());
    }

    #[test]
    fn a_line_without_end_is_bounded() {
        let (mut far, mut client) = pair();
        let writing = std::thread::spawn(move || {
            let _ = far.write_all(&vec![b'x'; 2 * REQUEST_LEN_MAX]);
        });
        let mut read = Input::Nothing;
        for _ in 0..100_000 {
            read = client.read();
            if read != Input::Nothing {
                break;
            }
            std::thread::yield_now();
        }
        assert_eq!(read, Input::TooLong);
        client.close();
        assert!(client.is_over());
        drop(client);
        writing.join().unwrap();
    }

    #[test]
    fn who_does_not_read_is_not_listened_to() {
        let (mut far, mut client) = pair();
        client.reply("x".repeat(1 << 20));
        assert!(client.wants_to_write() && !client.wants_to_read() && !client.is_over());
        far.write_all(b"more\n").unwrap();
        assert!(!client.has_line());
        let reading = std::thread::spawn(move || {
            let mut bytes = vec![0; 1 << 20];
            far.read_exact(&mut bytes).unwrap();
            far
        });
        while client.wants_to_write() {
            client.write();
            std::thread::yield_now();
        }
        let _far = reading.join().unwrap();
        assert_eq!(client.read(), Input::Line(b"more".into()));
    }
}
