//! The table of backends.

use linerate_mem::{Pool, PoolConfig};
use linerate_port::{OpenError, Port, PortSpec};
use linerate_sys::capability::{Capabilities, Capability};

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

/// Why something cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// What is missing.
    pub why: String,
    /// What to do about it; may be empty.
    pub what_to_do: String,
}

impl From<OpenError> for Unusable {
    fn from(error: OpenError) -> Unusable {
        Unusable { why: error.cause, what_to_do: error.hint }
    }
}

/// All backends, the ones that are not built yet as well, in the order of their usefulness to someone who looks for one.
pub fn list() -> Vec<Backend> {
    let backend = |entry: &Entry| Backend {
        name: entry.name,
        syntax: entry.syntax,
        summary: entry.summary,
        usable: (entry.probe)(),
    };
    ENTRIES.iter().map(backend).collect()
}

/// Tells which ports of a backend must be opened on a pool of their own.
pub(crate) type HasOwnMemory = fn(&PortSpec) -> bool;
/// Makes the pool of a port.
pub(crate) type MakePool = fn(&PortSpec, PoolConfig) -> Result<Pool, OpenError>;
type Open = fn(PortSpec, &Pool) -> Result<Box<dyn Port>, OpenError>;

/// A row of the table.
pub(crate) struct Entry {
    pub name: &'static str,
    pub syntax: &'static str,
    pub summary: &'static str,
    /// Tells whether it can be used, without side effects.
    pub probe: fn() -> Result<(), Unusable>,
    /// `None`: not built yet.
    pub open: Option<Open>,
    /// For ports whose memory is their own: which these are, and what makes the pool that they must be opened on.
    pub pool: Option<(HasOwnMemory, MakePool)>,
    /// Option for a port that only sends, and the options (and `@`) beside which it makes no sense.
    pub only_sends: Option<(&'static str, &'static [&'static str])>,
    /// The same for a port that only receives.
    pub only_receives: Option<(&'static str, &'static [&'static str])>,
    /// The same for a port on which each packet waits for the one before.
    pub answers: Option<(&'static str, &'static [&'static str])>,
    /// Stands on a network interface.
    pub on_interfaces: bool,
}

pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

/// One line for each backend that can be written: its syntax and what it is.
pub(crate) fn lines() -> String {
    let built = ENTRIES.iter().filter(|entry| entry.open.is_some());
    built.map(|entry| format!("\n  {:20} {}", entry.syntax, entry.summary)).collect()
}

/// What most rows have.
const PLAIN: Entry = Entry {
    name: "",
    syntax: "",
    summary: "",
    probe: usable,
    open: None,
    pool: None,
    only_sends: None,
    only_receives: None,
    answers: None,
    on_interfaces: false,
};

pub(crate) const ENTRIES: &[Entry] = &[
    Entry {
        name: "xdp",
        syntax: "xdp:IF[@queue]",
        summary: "AF_XDP: takes the interface's packets away from the kernel; needs CAP_NET_RAW, to receive CAP_BPF too",
        probe: probe_xdp,
        open: Some(|spec, pool| boxed(linerate_port_xdp::open(spec, pool))),
        only_sends: Some(("tx_only", &[])),
        on_interfaces: true,
        ..PLAIN
    },
    Entry {
        name: "xdplive",
        syntax: "xdplive:IF",
        summary: "sends frames that a program in the kernel makes; the fastest sender, on a veth if the far end runs NAPI",
        probe: probe_xdplive,
        open: Some(|spec, pool| boxed(linerate_port_xdplive::open(spec, pool))),
        on_interfaces: true,
        ..PLAIN
    },
    Entry {
        name: "packet",
        syntax: "packet:IF[@queue]",
        summary: "AF_PACKET rings: a copy of what the kernel sees, on every Ethernet interface; needs CAP_NET_RAW",
        probe: || Ok(linerate_port_packet::probe()?),
        open: Some(|spec, pool| boxed(linerate_port_packet::open(spec, pool))),
        pool: None,
        only_sends: Some(("tx_only", &["@", "ring", "retire", "prompt", "fanout", "rx_only"])),
        only_receives: Some(("rx_only", &["qdisc", "refused", "tx_only"])),
        answers: Some(("prompt", &["retire", "tx_only"])),
        on_interfaces: true,
    },
    Entry {
        name: "tap",
        syntax: "tap:NAME",
        summary: "a TAP device made for this port: the kernel's own stack is the far side; needs CAP_NET_ADMIN",
        probe: || Ok(linerate_port_tap::probe()?),
        open: Some(|spec, pool| boxed(linerate_port_tap::open(spec, pool))),
        ..PLAIN
    },
    Entry {
        name: "pcap",
        syntax: "pcap:IF",
        summary: "libpcap, as tcpdump uses it; needs the library and CAP_NET_RAW",
        probe: probe_pcap,
        open: Some(|spec, pool| boxed(linerate_port_pcap::open(spec, pool))),
        only_sends: Some(("promisc=no", &["promisc"])),
        on_interfaces: true,
        ..PLAIN
    },
    Entry {
        name: "pipe",
        syntax: "pipe:NAME",
        summary: "between two threads of this process; needs no rights",
        open: Some(|spec, pool| boxed(linerate_port_pipe::open(spec, pool))),
        ..PLAIN
    },
    Entry {
        name: "vhost",
        syntax: "vhost:SOCKET",
        summary: "the network card of a virtual machine (vhost-user), or of a DPDK program; needs no rights",
        open: Some(|spec, pool| boxed(linerate_port_vhost::open(spec, pool))),
        ..PLAIN
    },
    Entry {
        name: "memif",
        syntax: "memif:SOCKET[@queue]",
        summary: "memory shared with another process (VPP, DPDK, Linerate): ,id=N, ,role=client to connect; needs no rights",
        open: Some(|spec, pool| boxed(linerate_port_memif::open(spec, pool))),
        pool: Some((linerate_port_memif::has_own_memory, linerate_port_memif::pool)),
        ..PLAIN
    },
    Entry {
        name: "shm",
        syntax: "shm:SOCKET",
        summary: "between two processes of Linerate, which share one memory: nothing is copied (memif: two memories)",
        open: Some(|spec, pool| boxed(linerate_port_shm::open(spec, pool))),
        pool: Some((|_| true, linerate_port_shm::pool)),
        ..PLAIN
    },
    Entry {
        name: "file",
        syntax: "file:PATH",
        summary: "pcap and pcapng files, read or (,write) written",
        open: Some(|spec, pool| boxed(linerate_port_file::open(spec, pool))),
        ..PLAIN
    },
    Entry {
        name: "null",
        syntax: "null:",
        summary: "takes everything and keeps nothing",
        open: Some(|spec, pool| boxed(linerate_port_null::open(spec, pool))),
        ..PLAIN
    },
    Entry { name: "netmap", syntax: "netmap:IF, valeS:P", summary: "netmap, on kernels that have it", ..UNBUILT },
    Entry { name: "dpdk", syntax: "dpdk:DEVARGS", summary: "DPDK's poll mode drivers", ..UNBUILT },
];

const UNBUILT: Entry = Entry { probe: not_built, ..PLAIN };

fn boxed<P: Port + 'static>(opened: Result<P, OpenError>) -> Result<Box<dyn Port>, OpenError> {
    opened.map(|port| Box::new(port) as Box<dyn Port>)
}

fn usable() -> Result<(), Unusable> {
    Ok(())
}

pub(crate) const NOT_BUILT: &str = "this backend is not built yet";

fn not_built() -> Result<(), Unusable> {
    Err(Unusable { why: NOT_BUILT.into(), what_to_do: String::new() })
}

fn probe_xdp() -> Result<(), Unusable> {
    needs(
        &[Capability::NetRaw, Capability::NetAdmin, Capability::Bpf],
        "xdp:IF,tx_only, which only sends, needs CAP_NET_RAW alone",
    )
}

/// libpcap stands on AF_PACKET.
fn probe_pcap() -> Result<(), Unusable> {
    linerate_port_pcap::probe()?;
    Ok(linerate_port_packet::probe()?)
}

fn probe_xdplive() -> Result<(), Unusable> {
    needs(&[Capability::NetAdmin, Capability::Bpf, Capability::Perfmon], "packet:IF does with CAP_NET_RAW")
}

/// Rights that count for the machine: programs are loaded for it, not for a namespace. CAP_SYS_ADMIN includes
/// CAP_BPF and CAP_PERFMON.
fn needs(capabilities: &[Capability], otherwise: &str) -> Result<(), Unusable> {
    let unreadable = |error: std::io::Error| Unusable { why: error.to_string(), what_to_do: String::new() };
    let held = Capabilities::read().map_err(unreadable)?;
    let has = |wanted: Capability| match wanted {
        Capability::Bpf | Capability::Perfmon => held.has_for_host(wanted) || held.has_for_host(Capability::SysAdmin),
        other => held.has(other),
    };
    let missing: Vec<&str> = capabilities.iter().filter(|wanted| !has(**wanted)).map(|wanted| wanted.name()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Unusable {
        why: format!("needs {}", missing.join(" and ")),
        what_to_do: format!(
            "run with sudo, or `sudo setcap cap_net_raw,cap_net_admin,cap_bpf,cap_perfmon+ep` the program; {otherwise}"
        ),
    })
}
