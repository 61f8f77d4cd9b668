//! The table of backends of FreeBSD.

use linerate_port::FarSide;

use crate::entry::{Entry, PLAIN, boxed};

/// Whether netmap is the only backend that opens interfaces. What keeps a port of it from being opened then says so itself.
pub(crate) const NETMAP_ALONE: bool = true;

/// All of them, in the order of their usefulness to someone who looks for one.
pub(crate) const ENTRIES: &[Entry] = &[
    Entry {
        name: "netmap",
        syntax: "netmap:PORT",
        summary: "netmap of the kernel: IF, IF-N, IF^, vale0:a (the kernel's switch), IF{1 (pipe), IF/r (monitor)",
        probe: || Ok(linerate_port_netmap::probe()?),
        open: Some(|spec, pool| boxed(linerate_port_netmap::open(spec, pool))),
        pool: Some((linerate_port_netmap::has_own_memory, linerate_port_netmap::pool)),
        ..PLAIN
    },
    Entry {
        name: "pipe",
        syntax: "pipe:NAME",
        summary: "between two threads of this process; needs no rights",
        open: Some(|spec, pool| boxed(linerate_port_pipe::open(spec, pool))),
        far_side: FarSide::Process,
        ..PLAIN
    },
    Entry {
        name: "file",
        syntax: "file:PATH",
        summary: "pcap and pcapng files, read or (,write) written",
        open: Some(linerate_port_file::open),
        far_side: FarSide::File,
        ..PLAIN
    },
    Entry {
        name: "null",
        syntax: "null:",
        summary: "takes everything and keeps nothing",
        open: Some(|spec, pool| boxed(linerate_port_null::open(spec, pool))),
        far_side: FarSide::Nothing,
        ..PLAIN
    },
];
