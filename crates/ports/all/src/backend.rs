//! What is known of a backend before a port of it is opened.

use linerate_port::{FarSide, PortSpec};

use crate::entry::{Access, Entry, Unusable};
use crate::table::{ENTRIES, NETMAP_ALONE};

/// What [`list`] says about a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// The word before the colon.
    pub name: &'static str,
    /// How its ports are written: `packet:IF[@queue]`.
    pub syntax: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Whether this process can use it on this machine (on a given interface more may be missing).
    pub usable: Result<(), Unusable>,
}

/// All backends, those that this program was built without as well, in the order of their usefulness to someone who looks for one.
pub fn list() -> Vec<Backend> {
    let backend = |entry: &Entry| Backend {
        name: entry.name,
        syntax: entry.syntax,
        summary: entry.summary,
        usable: (entry.probe)(),
    };
    ENTRIES.iter().map(backend).collect()
}

pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

/// The row of the backend that a spec names; `None` for a bare interface, and for a name that is none.
pub(crate) fn of(spec: &PortSpec) -> Option<&'static Entry> {
    spec.backend.as_deref().and_then(find)
}

/// True for a port whose ring a capture can look at without a copy (see [`crate::capture`]).
pub fn is_packet_socket(spec: &PortSpec) -> bool {
    spec.backend.as_deref() == Some("packet")
}

/// True for a port whose queues are those of a device: the device chooses which packet arrives by which.
pub fn spreads_by_device(spec: &PortSpec) -> bool {
    matches!(spec.backend.as_deref(), Some("xdp" | "netmap"))
}

/// The spec of a capture file, whatever its path looks like.
pub fn file(path: &str) -> PortSpec {
    PortSpec::new("file", path)
}

/// The spec of a link to another process of Linerate at this socket.
pub fn shm(socket: &str) -> PortSpec {
    PortSpec::new("shm", socket)
}

/// The spec of a memif server at this socket.
pub fn memif(socket: &std::path::Path) -> PortSpec {
    PortSpec::new("memif", &socket.to_string_lossy())
}

/// Whether names of netmap's ports mean these: this kernel has netmap, and this process may use it, or nothing else opens interfaces here.
pub fn has_netmap() -> bool {
    NETMAP_ALONE || linerate_port_netmap::probe().is_ok()
}

/// How a spec's backend opens interfaces; `None` where it opens something else, and for a bare interface.
pub fn access(spec: &PortSpec) -> Option<Access> {
    of(spec)?.access
}

/// What is at the far side of the port that a spec names, before it is opened.
pub fn far_side(spec: &PortSpec) -> FarSide {
    of(spec).map_or(FarSide::Interface, |entry| entry.far_side)
}

/// The interface of a port that could have the option `defer` and was not given it; `None` for other ports.
pub fn deferrable(spec: &PortSpec) -> Option<&str> {
    let can = spec.backend.is_none() || of(spec).is_some_and(|entry| entry.defers);
    let is_left_out = spec.own.iter().all(|(option, _)| option != "defer");
    (can && is_left_out).then_some(spec.target.as_str())
}

/// True if a program that sends TCP segments by the port that a spec names, with all its options, had better leave their checksums partial: nobody computes them
/// then, and the port hands many segments over in one piece. Other ports complete them in software.
pub fn offloads(spec: &PortSpec) -> bool {
    let merges = spec.options.merges_segments == Some(true) && spec.options.transmits();
    of(spec).is_some_and(|entry| entry.offloads || entry.merges && merges)
}

/// One line for each backend that can be written: its syntax and what it is.
pub(crate) fn lines() -> String {
    let built = ENTRIES.iter().filter(|entry| entry.open.is_some());
    built.map(|entry| format!("\n  {:20} {}", entry.syntax, entry.summary)).collect()
}
