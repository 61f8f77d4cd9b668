//! Spec text to port.

use linerate_impair::Impairments;
use linerate_mem::{Pool, PoolConfig};
use linerate_port::{OpenError, Port, PortSpec};

use crate::backend::{Entry, MakePool, NOT_BUILT, find, lines};
use crate::choose;

/// What a port is opened for. A backend that can leave out the other direction's memory and side effects does so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// To send and to receive.
    Both,
    /// To send only.
    Sending,
    /// To receive only.
    Receiving,
    /// To send and to receive, where each packet waits for the one before: what counts is how soon it is seen.
    LowLatency,
}

/// An open port.
pub struct Opened {
    /// The port.
    pub port: Box<dyn Port>,
    /// For a bare interface name: which backend was chosen, and why, in one line.
    pub choice: Option<String>,
}

/// Opens the port that `spec_text` names, for both directions, with the frames of `pool`, in the calling thread's network
/// namespace.
///
/// # Errors
/// The name means nothing, or what it means cannot be had here: with what is missing and what to do.
pub fn open(spec_text: &str, pool: &Pool) -> Result<Box<dyn Port>, OpenError> {
    open_for(spec_text, pool, Usage::Both).map(|opened| opened.port)
}

/// True for a port that must be opened on the pool that [`pool_for`] makes.
pub fn has_own_memory(spec: &PortSpec) -> bool {
    own_pool(spec).is_some()
}

/// What makes the pool of a port whose memory is its own.
fn own_pool(spec: &PortSpec) -> Option<MakePool> {
    let (has_own_memory, make) = spec.backend.as_deref().and_then(find)?.pool?;
    has_own_memory(spec).then_some(make)
}

/// The pool that the port `spec_text` must be opened on, where its memory is its own (`shm:`, `memif:` with `zerocopy`): with the frames of `config`, or
/// the one that is there already. `None`: any pool will do.
///
/// # Errors
/// The name means nothing, or the memory cannot be had.
pub fn pool_for(spec_text: &str, config: PoolConfig) -> Result<Option<Pool>, OpenError> {
    let (spec, _) = impaired(parse(spec_text)?)?;
    own_pool(&spec).map(|make| make(&spec, config)).transpose()
}

/// As [`open`], for a known purpose.
///
/// # Errors
/// As [`open`].
pub fn open_for(spec_text: &str, pool: &Pool, usage: Usage) -> Result<Opened, OpenError> {
    let (spec, impairments) = impaired(parse(spec_text)?)?;
    let opened = open_unimpaired(spec, pool, usage)?;
    Ok(Opened { port: impairments.wrap(opened.port, pool)?, ..opened })
}

/// What a spec says of the packets of the port, and the spec of the port behind that.
fn impaired(mut spec: PortSpec) -> Result<(PortSpec, Impairments), OpenError> {
    let impairments = Impairments::take(&mut spec).map_err(|error| OpenError::new(error.text, error.problem, ""))?;
    Ok((spec, impairments))
}

/// Frames of the pool in which packets may wait that the port `spec` delays.
pub fn frames_held(spec: &PortSpec) -> usize {
    impaired(spec.clone()).map_or(0, |(_, impairments)| impairments.frames())
}

fn open_unimpaired(spec: PortSpec, pool: &Pool, usage: Usage) -> Result<Opened, OpenError> {
    let Some(name) = spec.backend.as_deref() else { return choose::open_bare(&spec, pool, usage) };
    let Some(entry) = find(name) else {
        let hint = format!("a port is one of{}\n  {:20} the fastest of these that works on IF", lines(), "IF");
        return Err(OpenError::new(&spec, format!("there is no backend {name}"), hint));
    };
    let port = open_with(entry, spec, usage, pool)?;
    Ok(Opened { port, choice: None })
}

/// Opens a spec of a known backend.
pub(crate) fn open_with(entry: &Entry, spec: PortSpec, usage: Usage, pool: &Pool) -> Result<Box<dyn Port>, OpenError> {
    let Some(open) = entry.open else {
        return Err(OpenError::new(&spec, NOT_BUILT, format!("there are{}", lines())));
    };
    open(narrowed(entry, spec, usage), pool)
}

/// Adds the option that leaves out the unused direction (or the waiting for more packets), where the backend has one and
/// nothing that the user wrote is about that.
fn narrowed(entry: &Entry, spec: PortSpec, usage: Usage) -> PortSpec {
    let narrowing = match usage {
        Usage::Both => None,
        Usage::Sending => entry.only_sends,
        Usage::Receiving => entry.only_receives,
        Usage::LowLatency => entry.answers,
    };
    let Some((option, clashes)) = narrowing else { return spec };
    let written = |key: &str| spec.options.iter().any(|(name, _)| name == key) || key == "@" && spec.queue.is_some();
    if written(option) || clashes.iter().any(|clash| written(clash)) {
        return spec;
    }
    format!("{spec},{option}").parse().unwrap_or(spec)
}

pub(crate) fn parse(spec_text: &str) -> Result<PortSpec, OpenError> {
    spec_text.parse().map_err(|error: linerate_port::SpecError| OpenError::new(&error.text, error.problem, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn narrow(text: &str, usage: Usage) -> String {
        let spec: PortSpec = text.parse().unwrap();
        let entry = find(spec.backend.as_deref().unwrap()).unwrap();
        narrowed(entry, spec, usage).to_string()
    }

    #[test]
    fn which_ports_need_a_pool_of_their_own() {
        let own = |text: &str| has_own_memory(&text.parse().unwrap());
        assert!(own("shm:/a") && own("memif:/a,role=client,zerocopy"));
        assert!(!own("memif:/a,role=client") && !own("memif:/a,zerocopy=no") && !own("null:") && !own("eth0"));
    }

    #[test]
    fn an_unused_direction_is_left_out_unless_the_user_wrote_about_it() {
        assert_eq!(narrow("packet:a", Usage::Sending), "packet:a,tx_only");
        assert_eq!(narrow("packet:a,qdisc", Usage::Sending), "packet:a,qdisc,tx_only");
        assert_eq!(narrow("packet:a", Usage::Receiving), "packet:a,rx_only");
        for kept in ["packet:a@1", "packet:a,ring=99999", "packet:a,tx_only", "packet:a,rx_only", "null:", "pipe:a"] {
            assert_eq!(narrow(kept, Usage::Sending), kept);
        }
        assert_eq!(narrow("packet:a,qdisc", Usage::Receiving), "packet:a,qdisc");
        assert_eq!(narrow("xdp:a,ring=64", Usage::Sending), "xdp:a,ring=64,tx_only");
        assert_eq!(narrow("xdp:a", Usage::Receiving), "xdp:a");
        assert_eq!(narrow("packet:a", Usage::Both), "packet:a");
        assert_eq!(narrow("packet:a", Usage::LowLatency), "packet:a,prompt");
        for kept in ["packet:a,retire=4", "packet:a,prompt", "xdp:a", "tap:a"] {
            assert_eq!(narrow(kept, Usage::LowLatency).replace("=yes", ""), kept);
        }
        assert_eq!(narrow("pcap:a", Usage::Sending), "pcap:a,promisc=no");
        assert_eq!(narrow("pcap:a,promisc", Usage::Sending), "pcap:a,promisc");
    }
}
