//! The other end of the control socket: for `linerate switch ctl`, and for ports attached by name.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::protocol::{ControlError, read_reply, request_line};
use crate::runtime_dir::{RuntimeDir, check_own};

/// How long an answer may take; opening a port is the longest.
const ANSWER: Duration = Duration::from_secs(30);
/// Longest reply in bytes.
const REPLY_LEN_MAX: u64 = 64 << 20;

/// A connection to an instance.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<UnixStream>,
}

impl Connection {
    /// Connects to the instance at `dir`.
    ///
    /// # Errors
    /// No instance is running there, or its socket is another user's.
    pub fn to(dir: &RuntimeDir) -> Result<Connection, ControlError> {
        let path = dir.control();
        let none = |why: String| {
            let hint =
                format!("`linerate {} --help` tells how to start one, with --name {}", dir.program(), dir.name());
            ControlError::new(format!("{} {:?} is not running ({why})", dir.program(), dir.name()), hint)
        };
        if !path.exists() {
            return Err(none(format!("no {}", path.display())));
        }
        check_own(&path).map_err(|error| ControlError::new(error.to_string(), ""))?;
        let stream = UnixStream::connect(&path).map_err(|error| none(format!("{}: {error}", path.display())))?;
        stream.set_read_timeout(Some(ANSWER)).map_err(lost)?;
        stream.set_write_timeout(Some(ANSWER)).map_err(lost)?;
        Ok(Connection { stream: BufReader::new(stream) })
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// The instance refused the request, or the connection was lost.
    pub fn ask(&mut self, request: &impl Serialize) -> Result<Value, ControlError> {
        self.ask_for(request)
    }

    /// As [`Connection::ask`], with an answer that is read as a document of this type.
    ///
    /// # Errors
    /// As with [`Connection::ask`], and that the answer is not such a document.
    pub fn ask_for<T: DeserializeOwned>(&mut self, request: &impl Serialize) -> Result<T, ControlError> {
        read_reply(&self.ask_line(request)?)
    }

    /// As [`Connection::ask`], with the line of the reply, whatever it says ([`crate::read_reply`] reads it).
    ///
    /// # Errors
    /// The connection was lost.
    pub fn ask_line(&mut self, request: &impl Serialize) -> Result<Vec<u8>, ControlError> {
        self.stream.get_mut().write_all(request_line(request).as_bytes()).map_err(lost)?;
        let mut line = Vec::new();
        (&mut self.stream).take(REPLY_LEN_MAX).read_until(b'\n', &mut line).map_err(lost)?;
        if line.last() != Some(&b'\n') {
            return Err(lost(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(line)
    }
}

fn lost(error: io::Error) -> ControlError {
    ControlError::new(format!("the connection was lost: {error}"), "")
}
