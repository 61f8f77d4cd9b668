//! The requests of the control socket that only the L2 switch has. docs/switch.md describes them.

use serde::{Deserialize, Serialize};

use crate::config::MirrorConfig;

/// Most MAC addresses in one reply; `next` of the reply says where to go on.
pub const MACS_MAX: usize = 1024;

/// The requests that only the L2 switch answers. [`linerate_control::Command`] has the others.
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
    /// Copies packets to another port.
    AddMirror {
        /// As in a file.
        mirror: MirrorConfig,
    },
    /// Ends a mirror.
    RemoveMirror {
        /// Its number, from `show mirrors`.
        mirror: u32,
    },
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

#[cfg(test)]
mod tests {
    use linerate_control::{read_command, read_request, request_line};

    use super::*;

    #[test]
    fn requests_survive_the_way() {
        for request in [
            Request::Show { what: What::Macs, after: Some(7) },
            Request::AddMac { mac: "02:00:00:00:00:01".into(), port: "a".into(), vlan: None },
            Request::FlushMacs { port: None },
        ] {
            let line = request_line(&request);
            assert_eq!(read_request(line.as_bytes()).request.and_then(read_command), Ok(request), "{line}");
        }
        for line in [r#"{"v":1,"command":"add-mac","mac":1,"port":"a"}"#, r#"{"v":1,"command":"show","what":"all"}"#] {
            assert!(read_request(line.as_bytes()).request.and_then(read_command::<Request>).is_err(), "{line}");
        }
    }
}
