//! The protocol of the control socket: one JSON object a line in each direction. docs/switch.md describes it for others.
//!
//! ```text
//! -> {"v":1,"id":7,"command":"show","what":"ports"}
//! <- {"v":1,"id":7,"ok":{...}}              or {"v":1,"id":7,"error":{"cause":"...","hint":"..."}}
//! ```
//! `v` is the version, 1; `id` is anything the client wants to see again, and may be left out. Unknown words are errors.

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};
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

/// The document that answers a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A document.
    Document(Value),
    /// A long document that is JSON already, in one line.
    Text(String),
}

impl From<Value> for Answer {
    fn from(document: Value) -> Answer {
        Answer::Document(document)
    }
}

/// [`reply_line`] of an answer.
pub(crate) fn answer_line(id: Option<Value>, answer: Result<Answer, ControlError>) -> String {
    match answer {
        Ok(Answer::Document(document)) => reply_line(id, Ok(document)),
        Ok(Answer::Text(text)) => {
            let id = id.map(|id| format!("\"id\":{id},")).unwrap_or_default();
            format!("{{{id}\"ok\":{text},\"v\":{VERSION}}}\n")
        }
        Err(error) => reply_line(id, Err(error)),
    }
}

/// Reads the line of a reply, its document straight from the text.
///
/// # Errors
/// The error in the reply, or that the line is not a reply, or its document not a `T`.
pub fn read_reply<T: DeserializeOwned>(line: &[u8]) -> Result<T, ControlError> {
    const HINT: &str = "is it of another version?";
    let strange = || ControlError::new("the other side sent something that is not a reply", HINT);
    match serde_json::from_slice(line) {
        Ok(Reply { error: Some(error), .. }) => Err(error),
        Ok(Reply { ok: Some(document), .. }) => Ok(document),
        Ok(Reply { ok: None, error: None }) => Err(strange()),
        Err(error) if error.is_data() && serde_json::from_slice::<Reply<IgnoredAny>>(line).is_ok() => {
            Err(ControlError::new(format!("the program answered something strange: {error}"), HINT))
        }
        Err(_) => Err(strange()),
    }
}

/// A reply has one of the two.
#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Reply<T> {
    #[serde(default = "absent", deserialize_with = "present")]
    ok: Option<T>,
    #[serde(default)]
    error: Option<ControlError>,
}

fn absent<T>() -> Option<T> {
    None
}

/// Also a document that is `null`.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
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
            assert_eq!(read_reply::<Value>(reply.as_bytes()), Err(error), "{line}");
        }
        let envelope = read_request(br#"{"v":1,"id":{"a":[1]},"command":"stop"}"#);
        assert_eq!(envelope.request.and_then(read_command), Ok(Command::Stop {}));
        assert!(reply_line(envelope.id, Ok(Value::Null)).contains(r#""id":{"a":[1]}"#));
        assert!(read_reply::<Value>(b"x").is_err() && read_reply::<Value>(b"{}").is_err());
    }

    #[test]
    fn a_program_can_tell_errors_apart() {
        let error = ControlError::new("port a is in use", "").of_kind(ErrorKind::InUse);
        let line = reply_line(None, Err(error.clone()));
        assert!(line.contains(r#""kind":"in-use""#), "{line}");
        assert_eq!(read_reply::<Value>(line.as_bytes()), Err(error));
        let later = read_reply::<Value>(br#"{"v":1,"error":{"cause":"x","hint":"","kind":"too-late"}}"#).unwrap_err();
        assert_eq!(later.kind, Some(ErrorKind::Other));
        assert!(!reply_line(None, Err(ControlError::new("x", ""))).contains("kind"));
    }

    #[test]
    fn a_document_is_read_as_what_was_asked_for() {
        let line = reply_line(Some(7.into()), Ok(serde_json::json!([1, 2])));
        assert_eq!(read_reply(line.as_bytes()), Ok(vec![1u32, 2]));
        let strange = read_reply::<Vec<String>>(line.as_bytes()).unwrap_err();
        assert!(strange.cause.contains("something strange"), "{strange}");
        assert_eq!(read_reply::<Value>(reply_line(None, Ok(Value::Null)).as_bytes()), Ok(Value::Null));
        for id in [None, Some(Value::from("a\"b"))] {
            assert_eq!(
                answer_line(id.clone(), Ok(Answer::Text("[1,2]".into()))),
                reply_line(id, Ok(serde_json::json!([1, 2])))
            );
        }
        let refused = ControlError::new("x", "");
        assert_eq!(read_reply::<Vec<u32>>(reply_line(None, Err(refused.clone())).as_bytes()), Err(refused));
    }
}
