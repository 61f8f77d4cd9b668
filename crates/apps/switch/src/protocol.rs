//! What goes over the control socket: one JSON object a line in each direction. docs/switch.md describes it for others.
//!
//! ```text
//! -> {"v":1,"id":7,"command":"show","what":"ports"}
//! <- {"v":1,"id":7,"ok":{...}}              or {"v":1,"id":7,"error":{"cause":"...","hint":"..."}}
//! ```
//! `v` is the version, 1; `id` is anything the client wants to see again, and may be left out. Unknown words are errors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::words::Word;

/// The version of the protocol.
pub const VERSION: u64 = 1;
/// Longest request in bytes, with its end of line.
pub const REQUEST_LEN_MAX: usize = 64 << 10;
/// Most MAC addresses in one reply; `next` of the reply says where to go on.
pub const MACS_MAX: usize = 1024;

/// What a client can ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// A table.
    Show {
        /// Which.
        what: What,
        /// Of `macs`: where to go on, from `next` of the reply before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
    },
    /// Opens a port.
    AddPort {
        /// Its name; derived from the spec if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// What to open.
        spec: String,
        /// Its settings.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        settings: BTreeMap<String, Word>,
    },
    /// Closes a port.
    RemovePort {
        /// Its name.
        port: String,
    },
    /// Changes settings of a port, or of the switch.
    Set {
        /// The port; the switch, if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<String>,
        /// What is to change.
        settings: BTreeMap<String, Word>,
    },
    /// Adds a static address.
    AddMac {
        /// The address.
        mac: String,
        /// Where it is.
        port: String,
        /// Its VLAN; 0, that of packets without a tag on ports without VLANs, if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vlan: Option<u16>,
    },
    /// Forgets an address, static or learned.
    RemoveMac {
        /// The address.
        mac: String,
        /// Its VLAN.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vlan: Option<u16>,
    },
    /// Forgets learned addresses.
    FlushMacs {
        /// Only those of this port.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<String>,
    },
    /// Copies what passes to another port.
    AddMirror {
        /// As in a file.
        mirror: crate::config::MirrorConfig,
    },
    /// Ends a mirror.
    RemoveMirror {
        /// Its number, from `show mirrors`.
        mirror: u32,
    },
    /// Gives out a memif port that lives as long as this connection: what `valeS:P` stands on.
    Attach {
        /// Its name.
        port: String,
    },
    /// Ends the switch.
    Stop {},
}

/// A table that can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Ports: state, settings, counters.
    Ports,
    /// The MAC table.
    Macs,
    /// Totals, and whether they add up.
    Stats,
    /// Drops by reason and port.
    Drops,
    /// Packets by VLAN.
    Vlans,
    /// Latency by pair of ports.
    Latency,
    /// Mirrors.
    Mirrors,
}

/// Why a request was not fulfilled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{cause}{}{hint}", if hint.is_empty() { "" } else { ": " })]
pub struct Refusal {
    /// What is wrong.
    pub cause: String,
    /// What to do; may be empty.
    pub hint: String,
    /// What a program can act on; most refusals are for people only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<RefusalKind>,
}

/// Refusals that a program can tell from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// The name is that of another port, which may go.
    InUse,
    /// One that this version does not know.
    #[serde(other)]
    Other,
}

impl Refusal {
    /// A refusal with a hint.
    pub fn new(cause: impl Into<String>, hint: impl Into<String>) -> Refusal {
        Refusal { cause: cause.into(), hint: hint.into(), kind: None }
    }

    /// The same, for programs to act on.
    pub fn of_kind(self, kind: RefusalKind) -> Refusal {
        Refusal { kind: Some(kind), ..self }
    }
}

/// A request, with what its reply repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// The client's own mark.
    pub id: Option<Value>,
    /// What it asks for, or what is wrong with the line.
    pub request: Result<Request, Refusal>,
}

/// Reads a line. Whatever it holds, there is an answer to it.
pub fn read_request(line: &[u8]) -> Envelope {
    let nothing = |cause: String, hint: &str| Envelope { id: None, request: Err(Refusal::new(cause, hint)) };
    let hint = "a request is a line as {\"v\":1,\"command\":\"show\",\"what\":\"ports\"}";
    let mut object = match serde_json::from_slice::<Map<String, Value>>(line) {
        Ok(object) => object,
        Err(error) => return nothing(format!("no JSON object: {error}"), hint),
    };
    let id = object.remove("id");
    let request = match object.remove("v").and_then(|version| version.as_u64()) {
        Some(VERSION) => serde_json::from_value(Value::Object(object))
            .map_err(|error| Refusal::new(format!("no request: {error}"), hint)),
        Some(other) => Err(Refusal::new(format!("version {other} is not known here"), "this switch speaks version 1")),
        None => Err(Refusal::new("there is no version", hint)),
    };
    Envelope { id, request }
}

/// The line of a request, with its end.
pub fn request_line(request: &Request) -> String {
    let mut value = serde_json::to_value(request).unwrap_or_default();
    if let Some(object) = value.as_object_mut() {
        object.insert("v".into(), VERSION.into());
    }
    format!("{value}\n")
}

/// The line of a reply, with its end.
pub fn reply_line(id: Option<Value>, reply: Result<Value, Refusal>) -> String {
    let mut object = Map::new();
    object.insert("v".into(), VERSION.into());
    if let Some(id) = id {
        object.insert("id".into(), id);
    }
    match reply {
        Ok(value) => object.insert("ok".into(), value),
        Err(refusal) => object.insert("error".into(), serde_json::to_value(refusal).unwrap_or_default()),
    };
    format!("{}\n", Value::Object(object))
}

/// Reads the line of a reply.
///
/// # Errors
/// What the switch refused, or that this is no reply.
pub fn read_reply(line: &[u8]) -> Result<Value, Refusal> {
    let strange = || Refusal::new("the switch answered something that is no reply", "is it of another version?");
    let mut object: Map<String, Value> = serde_json::from_slice(line).map_err(|_| strange())?;
    if let Some(refusal) = object.remove("error") {
        return Err(serde_json::from_value(refusal).unwrap_or_else(|_| strange()));
    }
    object.remove("ok").ok_or_else(strange)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_the_way() {
        let settings: BTreeMap<String, Word> = [("access".into(), Word("10".into()))].into();
        for request in [
            Request::Show { what: What::Macs, after: Some(7) },
            Request::AddPort { name: Some("a".into()), spec: "tap:x".into(), settings: settings.clone() },
            Request::RemovePort { port: "a".into() },
            Request::Set { port: None, settings },
            Request::AddMac { mac: "02:00:00:00:00:01".into(), port: "a".into(), vlan: None },
            Request::FlushMacs { port: None },
            Request::Attach { port: "a".into() },
            Request::Stop {},
        ] {
            let line = request_line(&request);
            assert!(line.ends_with('\n') && !line.trim_end().contains('\n'));
            assert_eq!(read_request(line.trim_end().as_bytes()).request, Ok(request), "{line}");
        }
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
            "{\"v\":1,\"command\":\"add-mac\",\"mac\":1,\"port\":\"a\"}",
            "{\"v\":1,\"command\":\"show\",\"what\":\"all\"}",
        ] {
            let envelope = read_request(line.as_bytes());
            let refusal = envelope.request.unwrap_err();
            let reply = reply_line(envelope.id, Err(refusal.clone()));
            assert_eq!(read_reply(reply.as_bytes()), Err(refusal), "{line}");
        }
        let envelope = read_request(br#"{"v":1,"id":{"a":[1]},"command":"stop"}"#);
        assert_eq!(envelope.request, Ok(Request::Stop {}));
        assert!(reply_line(envelope.id, Ok(Value::Null)).contains(r#""id":{"a":[1]}"#));
        assert!(read_reply(b"x").is_err() && read_reply(b"{}").is_err());
    }

    #[test]
    fn a_program_can_tell_refusals_apart() {
        let refusal = Refusal::new("port a is in use", "").of_kind(RefusalKind::InUse);
        let line = reply_line(None, Err(refusal.clone()));
        assert!(line.contains(r#""kind":"in-use""#), "{line}");
        assert_eq!(read_reply(line.as_bytes()), Err(refusal));
        let later = read_reply(br#"{"v":1,"error":{"cause":"x","hint":"","kind":"too-late"}}"#).unwrap_err();
        assert_eq!(later.kind, Some(RefusalKind::Other));
        assert!(!reply_line(None, Err(Refusal::new("x", ""))).contains("kind"));
    }
}
