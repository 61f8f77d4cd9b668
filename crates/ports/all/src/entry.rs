//! A row of the table of backends.

use linerate_mem::{Pool, PoolConfig};
use linerate_port::{Device, FarSide, OpenError, Port, PortSpec};

/// Why something cannot be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unusable {
    /// What is missing.
    pub cause: String,
    /// What to do about it; may be empty.
    pub hint: String,
}

impl From<OpenError> for Unusable {
    fn from(error: OpenError) -> Unusable {
        Unusable { cause: error.cause, hint: error.hint }
    }
}

/// Whether an interface can be opened more than once at a time, say to send and to receive apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It can.
    Shared,
    /// A queue of it that is open is in use.
    Exclusive,
}

/// Tells which ports of a backend must be opened on a pool of their own.
pub(crate) type HasOwnMemory = fn(&PortSpec) -> bool;
/// Makes the pool of a port.
pub(crate) type MakePool = fn(&PortSpec, PoolConfig) -> Result<Pool, OpenError>;
type Open = fn(PortSpec, &Pool) -> Result<Device, OpenError>;

/// A row of the table.
pub(crate) struct Entry {
    pub name: &'static str,
    pub syntax: &'static str,
    pub summary: &'static str,
    /// Tells whether it can be used, without side effects.
    pub probe: fn() -> Result<(), Unusable>,
    /// `None`: this program was built without it.
    pub open: Option<Open>,
    /// For ports whose memory is their own: which these are, and what makes the pool that they must be opened on.
    pub pool: Option<(HasOwnMemory, MakePool)>,
    /// What is at the far side of its ports.
    pub far_side: FarSide,
    /// Whether an interface can be opened more than once at a time; `None` for what stands on no interface.
    pub access: Option<Access>,
    /// Its ports have the option `defer`: the interface that they receive from collects packets before its receive work runs.
    pub defers: bool,
    /// Its receive rings consist of frames of the pool, which must be of a page at most.
    pub lends_frames: bool,
    /// Partial checksums of packets that are sent stay partial, and TCP segments with such checksums leave many at a time.
    pub offloads: bool,
    /// The same if the port is opened for it (`OpenOptions::merges_segments`).
    pub merges: bool,
}

/// What most rows have.
pub(crate) const PLAIN: Entry = Entry {
    name: "",
    syntax: "",
    summary: "",
    probe: usable,
    open: None,
    pool: None,
    far_side: FarSide::Interface,
    defers: false,
    lends_frames: false,
    offloads: false,
    merges: false,
    access: None,
};

/// As the table has them, whatever the backend.
pub(crate) fn boxed<P: Port + 'static>(opened: Result<Device<P>, OpenError>) -> Result<Device, OpenError> {
    opened.map(Device::boxed)
}

/// For what can be used everywhere.
fn usable() -> Result<(), Unusable> {
    Ok(())
}
