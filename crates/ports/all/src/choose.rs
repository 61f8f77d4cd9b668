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
use linerate_port::{Direction, OpenError, OpenOptions, PortSpec};
use linerate_sys::netdev::{self, Netdev};

use crate::backend::of;
use crate::open::{Opened, open_with};

/// A way to open an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub spec: PortSpec,
    /// Why it is worth being the one.
    pub why: String,
}

/// What matters about an interface.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Receive queues; 1 where the driver does not tell.
    pub queues: u32,
    /// Whether the driver tells.
    pub queues_known: bool,
    /// Why the host needs the interface's packets.
    pub host_use: Option<String>,
}

impl Facts {
    pub(crate) fn of(device: &Netdev) -> Facts {
        let channels = device.channels().ok().flatten();
        Facts {
            queues_known: channels.is_some(),
            queues: channels.map_or(1, |channels| channels.rx.0 + channels.combined.0).max(1),
            host_use: host_use(device),
        }
    }
}

/// Opens interface `spec.target` with the first candidate that works.
pub(crate) fn open_bare(spec: &PortSpec, options: &OpenOptions, pool: &Pool) -> Result<Opened, OpenError> {
    spec.finish(&["@"]).map_err(|_| {
        let hint = format!("name it: packet:{spec}, or xdp:{spec}");
        OpenError::new(spec, "options are a matter of the backend", hint)
    })?;
    let device = Netdev::open(&spec.target).map_err(|error| {
        let names = netdev::names().unwrap_or_default().join(", ");
        OpenError::new(spec, error.to_string(), format!("there are {names}; or write backend:target, as in pipe:a"))
    })?;
    let facts = Facts::of(&device);
    check_queue(spec, &facts)?;
    let mut refused: Vec<OpenError> = Vec::new();
    for candidate in candidates(spec, &facts, options) {
        let Some(entry) = of(&candidate.spec) else { continue };
        match open_with(entry, &candidate.spec, options, pool) {
            Ok(device) => {
                let others = refused.iter().map(|error| format!("; not {}: {}", error.spec, error.cause));
                let others: String = others.collect();
                let choice = format!("{} ({}{others})", device.name(), candidate.why);
                return Ok(Opened { device, choice: Some(choice) });
            }
            Err(error) => refused.push(error),
        }
    }
    let causes: Vec<String> = refused.iter().map(|error| format!("{}: {}", error.spec, error.cause)).collect();
    let hint = refused.pop().map(|error| error.hint).unwrap_or_default();
    Err(OpenError::new(spec, causes.join("; "), hint))
}

/// A queue that is not there is refused in both directions: to send, AF_PACKET would take the name without the queue.
fn check_queue(spec: &PortSpec, facts: &Facts) -> Result<(), OpenError> {
    let queues = facts.queues;
    match spec.options.first_queue {
        Some(queue) if facts.queues_known && queue >= queues => {
            let queues = if queues == 1 { "one queue".into() } else { format!("{queues} queues") };
            let cause = format!("{} has {queues}, counted from 0", spec.target);
            Err(OpenError::new(spec, cause, "leave out @queue, or name one that is there"))
        }
        _ => Ok(()),
    }
}

/// The ways to open it, best first.
pub(crate) fn candidates(spec: &PortSpec, facts: &Facts, options: &OpenOptions) -> Vec<Candidate> {
    let named = |backend: &str, options: &[(&str, String)]| {
        let bare = PortSpec::new(backend, &spec.target);
        options.iter().try_fold(bare, |made, (key, value)| made.with(key, value)).ok()
    };
    let queue: Vec<_> = spec.options.first_queue.map(|queue| ("@", queue.to_string())).into_iter().collect();
    let xdp = |options: &[(&str, String)], why: &str| {
        named("xdp", &[&queue[..], options].concat()).map(|spec| Candidate { spec, why: why.into() })
    };
    let packet = |queue: &[(&str, String)], why: String| named("packet", queue).map(|spec| Candidate { spec, why });
    let everywhere = || "works everywhere".to_string();
    let transmits_only = options.direction == Some(Direction::Transmit);
    let ways = if options.threads.is_some_and(|threads| threads > facts.queues as usize) {
        [packet(&queue, "it has fewer queues than there are threads".into()), None]
    } else if transmits_only {
        // Sending does not depend on the receive queue, and AF_PACKET cannot choose one.
        [xdp(&[], "AF_XDP is the fastest sender for packets of any contents"), packet(&[], everywhere())]
    } else if let Some(host_use) = &facts.host_use {
        let name = named("xdp", &[]).map(|spec| spec.to_string()).unwrap_or_default();
        let why = format!("{host_use}, and AF_XDP would take its packets away from the host; {name} does so");
        [packet(&queue, why), None]
    } else {
        let mut chosen = vec![("native", "yes".to_string())];
        if queue.is_empty() && facts.queues > 1 {
            chosen.push(("queues", facts.queues.to_string()));
        }
        [xdp(&chosen, "AF_XDP in the driver is the fastest way in both directions"), packet(&queue, everywhere())]
    };
    ways.into_iter().flatten().collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn specs(text: &str, facts: &Facts, options: &OpenOptions) -> Vec<String> {
        let found = candidates(&text.parse().unwrap(), facts, options);
        found.into_iter().map(|candidate| candidate.spec.to_string()).collect()
    }

    #[test]
    fn xdp_first_where_it_harms_nobody() {
        let (both, receive, transmit) = (OpenOptions::default(), OpenOptions::receive(), OpenOptions::transmit());
        let free = Facts { queues: 4, queues_known: true, host_use: None };
        assert_eq!(specs("eth1", &free, &both), ["xdp:eth1,native,queues=4", "packet:eth1"]);
        assert_eq!(specs("eth1@2", &free, &receive), ["xdp:eth1@2,native", "packet:eth1@2"]);
        assert_eq!(specs("eth1", &free, &transmit), ["xdp:eth1", "packet:eth1"]);
        let used = Facts { host_use: Some("eth1 has address 192.0.2.1".into()), ..free.clone() };
        assert_eq!(specs("eth1", &used, &both), ["packet:eth1"]);
        assert_eq!(specs("eth1", &used, &transmit), ["xdp:eth1", "packet:eth1"]);
        assert_eq!(specs("ETH:1", &used, &both), ["packet:ETH\\:1"]);
        let threads = |threads, options: OpenOptions| OpenOptions { threads: Some(threads), ..options };
        assert_eq!(specs("eth1", &free, &threads(2, receive.clone())), ["xdp:eth1,native,queues=4", "packet:eth1"]);
        assert_eq!(specs("eth1", &free, &threads(4, transmit.clone())), ["xdp:eth1", "packet:eth1"]);
        assert_eq!(specs("eth1", &free, &threads(5, receive)), ["packet:eth1"]);
        assert_eq!(specs("eth1", &free, &threads(5, transmit)), ["packet:eth1"]);
    }

    #[test]
    fn a_queue_that_is_not_there_is_refused() {
        let check = |text: &str, queues, queues_known| {
            let facts = Facts { queues, queues_known, host_use: None };
            check_queue(&text.parse().unwrap(), &facts).map_err(|error| error.to_string())
        };
        let error = check("va@3", 1, true).unwrap_err();
        assert!(error.contains("va has one queue") && error.contains("leave out @queue"), "{error}");
        assert!(check("va@3", 3, true).is_err() && check("va@3", 4, true).is_ok() && check("va", 1, true).is_ok());
        assert!(check("va@3", 1, false).is_ok(), "where the driver does not tell, the backend finds out");
    }
}
