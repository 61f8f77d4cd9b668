//! The backend of a bare interface name: the fastest that works there **and does no harm**.
//!
//! ```text
//! to send       xdp (sends without a program, so nothing else changes), packet
//! to receive,   packet, if the host itself uses the interface (it has an address, or a bridge or bond above it), because
//! or both         AF_XDP takes packets away from the host: on the way in to this machine that cuts its user off;
//!               else xdp in the driver, on all queues; else packet
//! ```
//! Why in this order: into a veth pair, AF_XDP sends about 1.5 times as many packets a second as AF_PACKET, and receives 5
//! times as many when it runs in the driver. In the stack (`xdp:IF,generic`) it saves little, and takes the packets away all
//! the same, so it is not chosen by itself. `xdplive` needs a far side that takes XDP frames and packets that a small program
//! can make, and libpcap stands on AF_PACKET: neither is chosen by itself.

use std::fs;

use linerate_mem::Pool;
use linerate_port::{OpenError, PortSpec};
use linerate_sys::netdev::{self, Netdev};

use crate::backend::find;
use crate::open::{Opened, Usage, open_with, parse};

/// A way to open an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub backend: &'static str,
    pub spec: String,
    /// Why it is worth being the one.
    pub why: String,
}

/// What matters about an interface.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Receive queues.
    pub queues: u32,
    /// Bytes of the MTU.
    pub mtu: u32,
    /// Why the host needs the interface's packets.
    pub host_use: Option<String>,
}

impl Facts {
    pub(crate) fn of(device: &Netdev) -> Facts {
        let channels = device.channels().ok().flatten();
        Facts {
            queues: channels.map_or(1, |channels| channels.rx.0 + channels.combined.0).max(1),
            mtu: device.mtu().unwrap_or(1500),
            host_use: host_use(device),
        }
    }
}

/// Opens interface `spec.target` with the first candidate that works.
pub(crate) fn open_bare(spec: &PortSpec, pool: &Pool, usage: Usage) -> Result<Opened, OpenError> {
    if let Some((option, _)) = spec.options.first() {
        let hint = format!("name it: packet:{spec}, or xdp:{spec}");
        return Err(OpenError::new(spec, format!("option {option} is a matter of the backend"), hint));
    }
    let device = Netdev::open(&spec.target).map_err(|error| {
        let names = netdev::names().unwrap_or_default().join(", ");
        OpenError::new(spec, error.to_string(), format!("there are {names}; or write backend:target, as in pipe:a"))
    })?;
    let mut refused: Vec<OpenError> = Vec::new();
    for candidate in candidates(spec, &Facts::of(&device), usage, pool.packet_len_max()) {
        let Some(entry) = find(candidate.backend) else { continue };
        match open_with(entry, parse(&candidate.spec)?, usage, pool) {
            Ok(port) => {
                let others = refused.iter().map(|error| format!("; not {}: {}", error.spec, error.cause));
                let others: String = others.collect();
                let choice = format!("{} ({}{others})", port.caps().name, candidate.why);
                return Ok(Opened { port, choice: Some(choice) });
            }
            Err(error) => refused.push(error),
        }
    }
    let causes: Vec<String> = refused.iter().map(|error| format!("{}: {}", error.spec, error.cause)).collect();
    let hint = refused.pop().map(|error| error.hint).unwrap_or_default();
    Err(OpenError::new(spec, causes.join("; "), hint))
}

/// The ways to open it, best first. `frame_len` is what one frame of the pool holds.
pub(crate) fn candidates(spec: &PortSpec, facts: &Facts, usage: Usage, frame_len: usize) -> Vec<Candidate> {
    let interface = escaped(&spec.target);
    let at_queue = spec.queue.map(|queue| format!("@{queue}")).unwrap_or_default();
    // Two tags may come on top of the MTU.
    let frags = if facts.mtu as usize + 22 > frame_len { ",frags" } else { "" };
    let xdp = |options: String, why: &str| Candidate {
        backend: "xdp",
        spec: format!("xdp:{interface}{at_queue}{options}{frags}"),
        why: why.into(),
    };
    let packet = |why: String| Candidate { backend: "packet", spec: format!("packet:{interface}{at_queue}"), why };
    if usage == Usage::Sending {
        // Sending does not depend on the receive queue, and AF_PACKET cannot choose one.
        let packet = Candidate { spec: format!("packet:{interface}"), ..packet("works everywhere".into()) };
        return vec![xdp(",tx_only".into(), "AF_XDP is the fastest sender for packets of any contents"), packet];
    }
    if let Some(host_use) = &facts.host_use {
        let why = format!("{host_use}, and AF_XDP would take its packets away from the host; xdp:{interface} does so");
        return vec![packet(why)];
    }
    let queues =
        if spec.queue.is_none() && facts.queues > 1 { format!(",queues={}", facts.queues) } else { String::new() };
    vec![
        xdp(format!(",native{queues}"), "AF_XDP in the driver is the fastest way in both directions"),
        packet("works everywhere".into()),
    ]
}

/// Why the host would miss the packets of this interface.
fn host_use(device: &Netdev) -> Option<String> {
    let name = device.name();
    let addresses = netdev::addresses(name).unwrap_or_default();
    if let Some(address) = addresses.first() {
        return Some(format!("{name} has address {address}"));
    }
    // /sys may show another namespace; the index tells.
    let shown = fs::read_to_string(format!("/sys/class/net/{name}/ifindex")).ok()?;
    if shown.trim().parse().ok() != device.index().ok() {
        return None;
    }
    let master = fs::read_link(format!("/sys/class/net/{name}/master")).ok()?;
    Some(format!("{name} belongs to {}", master.file_name()?.to_string_lossy()))
}

/// The name as a target of the grammar.
fn escaped(name: &str) -> String {
    let escape = |letter: char| match letter {
        ',' | '@' | ':' | '\\' => format!("\\{letter}"),
        other => other.to_string(),
    };
    name.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs(text: &str, facts: &Facts, usage: Usage) -> Vec<String> {
        let candidates = candidates(&text.parse().unwrap(), facts, usage, 1600);
        candidates.into_iter().map(|candidate| candidate.spec).collect()
    }

    #[test]
    fn xdp_first_where_it_harms_nobody() {
        let free = Facts { queues: 4, mtu: 1500, host_use: None };
        assert_eq!(specs("eth1", &free, Usage::Both), ["xdp:eth1,native,queues=4", "packet:eth1"]);
        assert_eq!(specs("eth1@2", &free, Usage::Receiving), ["xdp:eth1@2,native", "packet:eth1@2"]);
        assert_eq!(specs("eth1", &free, Usage::Sending), ["xdp:eth1,tx_only", "packet:eth1"]);
        let jumbo = Facts { mtu: 9000, queues: 1, host_use: None };
        assert_eq!(specs("eth1", &jumbo, Usage::Both), ["xdp:eth1,native,frags", "packet:eth1"]);
        let used = Facts { host_use: Some("eth1 has address 192.0.2.1".into()), ..free };
        assert_eq!(specs("eth1", &used, Usage::Both), ["packet:eth1"]);
        assert_eq!(specs("eth1", &used, Usage::Sending), ["xdp:eth1,tx_only", "packet:eth1"]);
        assert_eq!(specs("ETH:1", &used, Usage::Both), ["packet:ETH\\:1"]);
    }
}
