//! The table of backends.

use linerate_mem::{Pool, PoolConfig};
use linerate_port::{Device, FarSide, OpenError, Port, PortSpec};
use linerate_sys::capability::{Capabilities, Capability};
use linerate_sys::pci::Address;

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
    /// Its receive rings consist of frames of the pool, which must be of a page at most.
    pub lends_frames: bool,
    /// Partial checksums of packets that are sent stay partial, and TCP segments with such checksums leave many at a time.
    pub offloads: bool,
}

pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

/// The row of the backend that a spec names; `None` for a bare interface, and for a name that is none.
pub(crate) fn of(spec: &PortSpec) -> Option<&'static Entry> {
    spec.backend.as_deref().and_then(find)
}

/// Whether an interface can be opened more than once at a time, say to send and to receive apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It can.
    Shared,
    /// A queue of it that is open is in use.
    Exclusive,
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

/// Whether this kernel has netmap, and this process may use it.
pub fn has_netmap() -> bool {
    linerate_port_netmap::probe().is_ok()
}

/// Whether this program opens network cards of the PCI bus.
pub fn has_pci_cards() -> bool {
    find("dpdk").is_some_and(|entry| entry.open.is_some() && (entry.probe)().is_ok())
}

/// The port of a network card by its address on the PCI bus. `bind`: a kernel driver has the card, and gives it away while the port is open.
pub fn pci_card(address: Address, bind: bool) -> Option<PortSpec> {
    let spec: PortSpec = format!("dpdk:{address}").parse().ok()?;
    if bind { spec.with("bind", "yes").ok() } else { Some(spec) }
}

/// How a spec's backend opens interfaces; `None` where it opens something else, and for a bare interface.
pub fn access(spec: &PortSpec) -> Option<Access> {
    of(spec)?.access
}

/// What is at the far side of the port that a spec names, before it is opened.
pub fn far_side(spec: &PortSpec) -> FarSide {
    of(spec).map_or(FarSide::Interface, |entry| entry.far_side)
}

/// True if a program that sends TCP segments by the port that a spec names had better leave their checksums partial: nobody computes them
/// then, and the port hands many segments over in one piece. Other ports complete them in software.
pub fn offloads(spec: &PortSpec) -> bool {
    of(spec).is_some_and(|entry| entry.offloads)
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
    far_side: FarSide::Interface,
    lends_frames: false,
    offloads: false,
    access: None,
};

pub(crate) const ENTRIES: &[Entry] = &[
    Entry {
        name: "xdp",
        syntax: "xdp:IF[@queue]",
        summary: "AF_XDP: takes the interface's packets away from the kernel; needs CAP_NET_RAW, to receive CAP_BPF too",
        probe: probe_xdp,
        open: Some(|spec, pool| boxed(linerate_port_xdp::open(spec, pool))),
        lends_frames: true,
        access: Some(Access::Exclusive),
        ..PLAIN
    },
    Entry {
        name: "xdplive",
        syntax: "xdplive:IF",
        summary: "sends frames that a program in the kernel makes; the fastest sender, on a veth if the far end runs NAPI",
        probe: probe_xdplive,
        open: Some(|spec, pool| boxed(linerate_port_xdplive::open(spec, pool))),
        access: Some(Access::Shared),
        ..PLAIN
    },
    Entry {
        name: "packet",
        syntax: "packet:IF[@queue]",
        summary: "AF_PACKET rings: a copy of what the kernel sees, on every Ethernet interface; needs CAP_NET_RAW",
        probe: || Ok(linerate_port_packet::probe()?),
        open: Some(|spec, pool| boxed(linerate_port_packet::open(spec, pool))),
        access: Some(Access::Shared),
        offloads: true,
        ..PLAIN
    },
    Entry {
        name: "tap",
        syntax: "tap:NAME",
        summary: "a TAP device made for this port: the kernel's own stack is the far side; needs CAP_NET_ADMIN",
        probe: || Ok(linerate_port_tap::probe()?),
        open: Some(|spec, pool| boxed(linerate_port_tap::open(spec, pool))),
        offloads: true,
        ..PLAIN
    },
    Entry {
        name: "vxlan",
        syntax: "vxlan:ADDRESS",
        summary: "the end of a VXLAN tunnel: ,key=N or (ofswitch) ,key=flow, ,local=ADDRESS; needs CAP_NET_RAW",
        probe: || Ok(linerate_port_tunnel::probe()?),
        open: Some(|spec, pool| boxed(linerate_port_tunnel::open_vxlan(spec, pool))),
        ..PLAIN
    },
    Entry {
        name: "gre",
        syntax: "gre:ADDRESS",
        summary: "the end of a GRE tunnel of Ethernet packets: options as vxlan; needs CAP_NET_RAW",
        probe: || Ok(linerate_port_tunnel::probe()?),
        open: Some(|spec, pool| boxed(linerate_port_tunnel::open_gre(spec, pool))),
        ..PLAIN
    },
    Entry {
        name: "pcap",
        syntax: "pcap:IF",
        summary: "libpcap, as tcpdump uses it; needs the library and CAP_NET_RAW",
        probe: probe_pcap,
        open: Some(|spec, pool| boxed(linerate_port_pcap::open(spec, pool))),
        access: Some(Access::Shared),
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
        name: "vhost",
        syntax: "vhost:SOCKET",
        summary: "the network card of a virtual machine (vhost-user), or of a DPDK program; needs no rights",
        open: Some(|spec, pool| boxed(linerate_port_vhost::open(spec, pool))),
        far_side: FarSide::Peer,
        ..PLAIN
    },
    Entry {
        name: "memif",
        syntax: "memif:SOCKET[@queue]",
        summary: "memory shared with another process (VPP, DPDK, Linerate): ,id=N, ,role=client to connect; needs no rights",
        open: Some(|spec, pool| boxed(linerate_port_memif::open(spec, pool))),
        far_side: FarSide::Peer,
        pool: Some((linerate_port_memif::has_own_memory, linerate_port_memif::pool)),
        ..PLAIN
    },
    Entry {
        name: "shm",
        syntax: "shm:SOCKET",
        summary: "between two processes of Linerate, which share one memory: nothing is copied (memif: two memories)",
        open: Some(|spec, pool| boxed(linerate_port_shm::open(spec, pool))),
        far_side: FarSide::Peer,
        pool: Some((|_| true, linerate_port_shm::pool)),
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
    Entry {
        name: "netmap",
        syntax: "netmap:PORT",
        summary: "netmap's kernel module: IF, IF-N, IF^, vale0:a (the kernel's switch), IF{1 (pipe), IF/r (monitor)",
        probe: || Ok(linerate_port_netmap::probe()?),
        open: Some(|spec, pool| boxed(linerate_port_netmap::open(spec, pool))),
        pool: Some((linerate_port_netmap::has_own_memory, linerate_port_netmap::pool)),
        ..PLAIN
    },
    #[cfg(feature = "dpdk")]
    Entry {
        name: "dpdk",
        syntax: DPDK_SYNTAX,
        summary: DPDK_SUMMARY,
        open: Some(|spec, pool| boxed(linerate_port_dpdk::open(spec, pool))),
        ..PLAIN
    },
    #[cfg(not(feature = "dpdk"))]
    Entry { name: "dpdk", syntax: DPDK_SYNTAX, summary: DPDK_SUMMARY, probe: without_dpdk, ..PLAIN },
];

const DPDK_SYNTAX: &str = "dpdk:DEVARGS";
const DPDK_SUMMARY: &str = "DPDK's drivers: a network card that the kernel gave away, or a virtual device (net_null0)";

#[cfg(not(feature = "dpdk"))]
fn without_dpdk() -> Result<(), Unusable> {
    Err(Unusable {
        cause: "this program was built without DPDK".into(),
        hint: "where libdpdk is installed (22.11 or later), `cargo build --release -p linerate --features dpdk` builds it in".into(),
    })
}

fn boxed<P: Port + 'static>(opened: Result<Device<P>, OpenError>) -> Result<Device, OpenError> {
    opened.map(Device::boxed)
}

fn usable() -> Result<(), Unusable> {
    Ok(())
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
    let unreadable = |error: std::io::Error| Unusable { cause: error.to_string(), hint: String::new() };
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
        cause: format!("needs {}", missing.join(" and ")),
        hint: format!(
            "run with sudo, or `sudo setcap cap_net_raw,cap_net_admin,cap_bpf,cap_perfmon+ep` the program; {otherwise}"
        ),
    })
}
