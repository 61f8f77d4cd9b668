//! The requests of the control socket that only the OpenFlow switch has. docs/ofswitch.md describes them.

use serde::{Deserialize, Serialize};

/// Most entries of a list in one reply; `next` of the reply says where to go on.
pub const PART_MAX: usize = 4096;

/// The requests that only the OpenFlow switch answers. [`linerate_control::Command`] has the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// A document.
    Show {
        /// Which.
        what: What,
        /// Of `flow` and `state`: where to go on, from `next` of the reply before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
    },
    /// Changes flow entries.
    Flow {
        /// What to do.
        action: Change,
        /// Entries in the syntax of ovs-ofctl, in their order; the first that is refused ends it.
        flows: Vec<String>,
    },
    /// Changes groups.
    Group {
        /// What to do.
        action: Change,
        /// The group in the syntax of ovs-ofctl.
        group: String,
    },
    /// Changes meters.
    Meter {
        /// What to do.
        action: Change,
        /// The meter in the syntax of ovs-ofctl.
        meter: String,
    },
    /// Walks a packet through the tables and says what would happen to it.
    Trace {
        /// Fields in the syntax of ovs-ofctl, or `hex:` and the bytes of a packet.
        packet: String,
        /// The port by which it arrives; 1, or that of the fields, if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        in_port: Option<String>,
    },
    /// Adds flow entries, groups and meters of a saved state: lines as `show state` returned them.
    Restore {
        /// The lines.
        lines: Vec<String>,
    },
}

/// What is done to entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Adds, or replaces what is the same.
    Add,
    /// Changes those that match.
    Modify,
    /// Changes the one that is the same.
    ModifyStrict,
    /// Removes those that match.
    Delete,
    /// Removes the one that is the same.
    DeleteStrict,
}

/// A document that can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Flow entries.
    Flow,
    /// Flow tables: entries, lookups, matches.
    Table,
    /// The caches of the workers.
    Flowcache,
    /// Ports as devices: state, counters, what the device itself lost.
    Interface,
    /// The switch: datapath ID, capabilities, fail mode, ports.
    BridgeDomains,
    /// Connections to controllers.
    Controller,
    /// Groups with their counters.
    Group,
    /// Meters with their counters.
    Meter,
    /// Ports as OpenFlow sees them.
    Port,
    /// Queues with their counters.
    Queue,
    /// The account of all packets.
    Stats,
    /// Drops by reason.
    Drops,
    /// Time in the switch, by egress port.
    Latency,
    /// All that `restore` takes: meters, groups and flow entries as lines.
    State,
}

#[cfg(test)]
mod tests {
    use linerate_control::{read_command, read_request, request_line};

    use super::*;

    #[test]
    fn requests_survive_the_way() {
        for request in [
            Request::Show { what: What::BridgeDomains, after: None },
            Request::Trace { packet: "in_port=1".into(), in_port: None },
            Request::Flow { action: Change::ModifyStrict, flows: vec!["actions=drop".into()] },
        ] {
            let line = request_line(&request);
            assert_eq!(read_request(line.as_bytes()).request.and_then(read_command), Ok(request), "{line}");
        }
        for line in
            [r#"{"v":1,"command":"flow","action":"fly","flows":[]}"#, r#"{"v":1,"command":"show","what":"macs"}"#]
        {
            assert!(read_request(line.as_bytes()).request.and_then(read_command::<Request>).is_err(), "{line}");
        }
    }
}
