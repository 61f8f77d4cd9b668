//! The two ends of a path and the ports that are opened there.

use linerate_mem::Pool;
use linerate_port::{OpenError, OpenOptions, Port, PortSpec, TxFull};
use linerate_sys::netns::NetNs;

use super::endpoint::Endpoint;
use super::{TesterError, TesterSpec};
use linerate_testbed::topology::{FrameAddresses, Side};

/// An interface, and where it is.
#[derive(Clone, Copy)]
pub(super) struct Attachment<'a> {
    pub(super) namespace: &'a NetNs,
    pub(super) interface: &'a str,
    pub(super) index: u32,
}

impl<'a> Attachment<'a> {
    pub(super) fn of(side: &'a Side) -> Attachment<'a> {
        Attachment { namespace: &side.namespace, interface: side.interface.name, index: side.interface.index }
    }
}

/// One end: what sends from there, what counts there. One way, the first end only sends and the second only counts.
pub(super) struct End {
    pub(super) sender: Option<Box<dyn Port>>,
    pub(super) endpoint: Option<Endpoint>,
    /// Addresses of the frames that are sent from here.
    pub(super) link: FrameAddresses,
}

impl End {
    /// Opens on an interface what a direction needs there.
    pub(super) fn open(
        at: &Attachment<'_>,
        (sends, counts): (bool, bool),
        spec: &TesterSpec,
        link: FrameAddresses,
        pool: &Pool,
    ) -> Result<End, TesterError> {
        let sender = if sends { Some(open_sender(at, &spec.sender, pool)?) } else { None };
        let endpoint = if counts { Some(Endpoint::open(at, &spec.receiver, spec.sequences, pool)?) } else { None };
        Ok(End { sender, endpoint, link })
    }
}

fn open_sender(at: &Attachment<'_>, kind: &str, pool: &Pool) -> Result<Box<dyn Port>, TesterError> {
    let spec = PortSpec::new(kind, at.interface);
    Ok(at.namespace.run(|| open_port(&spec, OpenOptions::transmit(), pool))??)
}

/// Opens a port of the tester. A packet that it refuses is lost, or a slow device would hold the load back.
pub(super) fn open_port(spec: &PortSpec, options: OpenOptions, pool: &Pool) -> Result<Box<dyn Port>, OpenError> {
    let options = OpenOptions { tx_full: Some(TxFull::Drop), ..options };
    linerate_ports::open_device(spec, &options, pool).map(linerate_ports::Opened::into_port)
}
