//! The other end of the control socket: for `linerate switch ctl`, and for ports attached by name.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;

use crate::place::{Place, check_own};
use crate::protocol::{Refusal, Request, read_reply, request_line};

/// How long an answer may take; opening a port is the longest.
const ANSWER: Duration = Duration::from_secs(30);
/// Longest reply in bytes.
const REPLY_LEN_MAX: u64 = 64 << 20;

/// A connection to a switch.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<UnixStream>,
}

impl Connection {
    /// Connects to the switch at `place`.
    ///
    /// # Errors
    /// There is none, or its socket is another user's.
    pub fn to(place: &Place) -> Result<Connection, Refusal> {
        let path = place.control();
        let none = |why: String| {
            let hint = format!("`linerate switch --name {} ...` starts one", place.name());
            Refusal::new(format!("there is no switch {} ({why})", place.name()), hint)
        };
        if !path.exists() {
            return Err(none(format!("no {}", path.display())));
        }
        check_own(&path).map_err(|error| Refusal::new(error.to_string(), ""))?;
        let stream = UnixStream::connect(&path).map_err(|error| none(format!("{}: {error}", path.display())))?;
        stream.set_read_timeout(Some(ANSWER)).map_err(lost)?;
        stream.set_write_timeout(Some(ANSWER)).map_err(lost)?;
        Ok(Connection { stream: BufReader::new(stream) })
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// What the switch refused; it is gone.
    pub fn ask(&mut self, request: &Request) -> Result<Value, Refusal> {
        self.stream.get_mut().write_all(request_line(request).as_bytes()).map_err(lost)?;
        let mut line = Vec::new();
        (&mut self.stream).take(REPLY_LEN_MAX).read_until(b'\n', &mut line).map_err(lost)?;
        if line.last() != Some(&b'\n') {
            return Err(lost(io::ErrorKind::UnexpectedEof.into()));
        }
        read_reply(&line)
    }
}

fn lost(error: io::Error) -> Refusal {
    Refusal::new(format!("the connection to the switch was lost: {error}"), "")
}
