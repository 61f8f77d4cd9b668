//! The protocol of the control socket: one JSON object a line in each direction. docs/switch.md describes it for others.
//!
//! ```text
//! -> {"v":1,"id":7,"command":"show","what":"ports"}
//! <- {"v":1,"id":7,"ok":{...}}              or {"v":1,"id":7,"error":{"cause":"...","hint":"..."}}
//! ```
//! `v` is the version, 1; `id` is anything the client wants to see again, and may be left out. Unknown words are errors.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::value::Settings;

/// The version of the protocol.
pub const VERSION: u64 = 1;
/// Longest request in bytes, with its end of line.
pub const REQUEST_LEN_MAX: usize = 64 << 10;

/// The commands that every datapath has. Its own are read by its [`crate::Service`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Opens a port.
    AddPort {
        /// Its name; derived from the spec if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Spec of the port.
        spec: String,
        /// Its settings.
        #[serde(default, skip_serializing_if = "Settings::is_empty")]
        settings: Settings,
    },
    /// Closes a port.
    RemovePort {
        /// Its name.
        port: String,
    },
    /// Changes settings of a port, or of the datapath.
    Set {
        /// The port; the datapath, if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<String>,
        /// The settings that change.
        settings: Settings,
    },
    /// Gives out a memif port that lives as long as this connection: `valeS:P` stands on it.
    Attach {
        /// Its name.
        port: String,
    },
    /// Ends the instance.
    Stop {},
}

impl Command {
    const NAMES: [&str; 5] = ["add-port", "remove-port", "set", "attach", "stop"];

    /// Reads a request; `None` if its command is not one of these.
    pub(crate) fn read(request: &Value) -> Option<Result<Command, ControlError>> {
        let name = request.get("command")?.as_str()?;
        Command::NAMES.contains(&name).then(|| read_command(request.clone()))
    }
}

/// Reads the command of a request.
///
/// # Errors
/// The command is unknown, or a member is missing, unknown or of a wrong type.
pub fn read_command<T: DeserializeOwned>(request: Value) -> Result<T, ControlError> {
    serde_json::from_value(request).map_err(|error| ControlError::new(format!("not a request: {error}"), HINT))
}

/// Why a request was not fulfilled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{cause}{}{hint}", if hint.is_empty() { "" } else { ": " })]
pub struct ControlError {
    /// The cause.
    pub cause: String,
    /// What to do; may be empty.
    pub hint: String,
    /// What a program can act on; most errors are for people only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ErrorKind>,
}

/// Errors that a program can tell from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// The name is that of another port, which may go.
    InUse,
    /// One that this version does not know.
    #[serde(other)]
    Other,
}

impl ControlError {
    /// An error with a hint.
    pub fn new(cause: impl Into<String>, hint: impl Into<String>) -> ControlError {
        ControlError { cause: cause.into(), hint: hint.into(), kind: None }
    }

    /// The same, for programs to act on.
    pub fn of_kind(self, kind: ErrorKind) -> ControlError {
        ControlError { kind: Some(kind), ..self }
    }
}

/// A request, with the mark that its reply repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// The client's own mark.
    pub id: Option<Value>,
    /// The command with its members, or what is wrong with the line.
    pub request: Result<Value, ControlError>,
}

const HINT: &str = "a request is a line as {\"v\":1,\"command\":\"show\",\"what\":\"ports\"}";

/// Reads a line. Every line has an answer.
pub fn read_request(line: &[u8]) -> Envelope {
    let mut object = match serde_json::from_slice::<Map<String, Value>>(line) {
        Ok(object) => object,
        Err(error) => {
            return Envelope { id: None, request: Err(ControlError::new(format!("not a JSON object: {error}"), HINT)) };
        }
    };
    let id = object.remove("id");
    let request = match object.remove("v").and_then(|version| version.as_u64()) {
        Some(VERSION) => Ok(Value::Object(object)),
        Some(other) => Err(ControlError::new(format!("unknown version {other}"), "this instance speaks version 1")),
        None => Err(ControlError::new("the version is missing", HINT)),
    };
    Envelope { id, request }
}

/// The line of a request, with its end.
pub fn request_line(request: &impl Serialize) -> String {
    let mut value = serde_json::to_value(request).unwrap_or_default();
    if let Some(object) = value.as_object_mut() {
        object.insert("v".into(), VERSION.into());
    }
    format!("{value}\n")
}

/// The line of a reply, with its end.
pub fn reply_line(id: Option<Value>, reply: Result<Value, ControlError>) -> String {
    let mut object = Map::new();
    object.insert("v".into(), VERSION.into());
    if let Some(id) = id {
        object.insert("id".into(), id);
    }
    match reply {
        Ok(value) => object.insert("ok".into(), value),
        Err(error) => object.insert("error".into(), serde_json::to_value(error).unwrap_or_default()),
    };
    format!("{}\n", Value::Object(object))
}

/// Reads the line of a reply.
///
/// # Errors
/// The error in the reply, or that the line is not a reply.
pub fn read_reply(line: &[u8]) -> Result<Value, ControlError> {
    let strange =
        || ControlError::new("the other side sent something that is not a reply", "is it of another version?");
    let mut object: Map<String, Value> = serde_json::from_slice(line).map_err(|_| strange())?;
    if let Some(error) = object.remove("error") {
        return Err(serde_json::from_value(error).unwrap_or_else(|_| strange()));
    }
    object.remove("ok").ok_or_else(strange)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::SettingValue;

    fn read(line: &str) -> Result<Command, ControlError> {
        read_request(line.as_bytes()).request.and_then(read_command)
    }

    #[test]
    fn commands_survive_the_way() {
        let settings: Settings = [("access".into(), SettingValue("10".into()))].into();
        for command in [
            Command::AddPort { name: Some("a".into()), spec: "tap:x".into(), settings: settings.clone() },
            Command::RemovePort { port: "a".into() },
            Command::Set { port: None, settings },
            Command::Attach { port: "a".into() },
            Command::Stop {},
        ] {
            let line = request_line(&command);
            assert!(line.ends_with('\n') && !line.trim_end().contains('\n'));
            assert_eq!(read(line.trim_end()), Ok(command.clone()), "{line}");
            let request = read_request(line.as_bytes()).request.unwrap();
            assert_eq!(Command::read(&request), Some(Ok(command)), "{line}");
        }
        assert_eq!(Command::read(&serde_json::json!({ "command": "show" })), None);
    }

    #[test]
    fn whatever_a_line_holds_there_is_an_answer() {
        let deep = format!("{{\"v\":{}", "[".repeat(60_000));
        for line in [
            "",
            "{",
            "[]",
            "null",
            "{}",
            "{\"v\":1}",
            "{\"v\":2,\"command\":\"stop\"}",
            "{\"v\":1,\"command\":\"fly\"}",
            "{\"v\":1,\"command\":\"stop\",\"why\":1}",
            "{\"v\":\"1\",\"command\":\"stop\"}",
            "\u{0}\u{1}",
            deep.as_str(),
            "{\"v\":1,\"command\":\"add-port\",\"spec\":1}",
        ] {
            let error = read(line).unwrap_err();
            let reply = reply_line(read_request(line.as_bytes()).id, Err(error.clone()));
            assert_eq!(read_reply(reply.as_bytes()), Err(error), "{line}");
        }
        let envelope = read_request(br#"{"v":1,"id":{"a":[1]},"command":"stop"}"#);
        assert_eq!(envelope.request.and_then(read_command), Ok(Command::Stop {}));
        assert!(reply_line(envelope.id, Ok(Value::Null)).contains(r#""id":{"a":[1]}"#));
        assert!(read_reply(b"x").is_err() && read_reply(b"{}").is_err());
    }

    #[test]
    fn a_program_can_tell_errors_apart() {
        let error = ControlError::new("port a is in use", "").of_kind(ErrorKind::InUse);
        let line = reply_line(None, Err(error.clone()));
        assert!(line.contains(r#""kind":"in-use""#), "{line}");
        assert_eq!(read_reply(line.as_bytes()), Err(error));
        let later = read_reply(br#"{"v":1,"error":{"cause":"x","hint":"","kind":"too-late"}}"#).unwrap_err();
        assert_eq!(later.kind, Some(ErrorKind::Other));
        assert!(!reply_line(None, Err(ControlError::new("x", ""))).contains("kind"));
    }
}
