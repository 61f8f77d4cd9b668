//! The table of backends of Linux.

use linerate_port::FarSide;
use linerate_sys::capability::{Capabilities, Capability};

use crate::entry::{Access, Entry, PLAIN, Unusable, boxed};
use crate::merging;

/// Whether netmap is the only backend that opens interfaces.
pub(crate) const NETMAP_ALONE: bool = false;

/// All of them, in the order of their usefulness to someone who looks for one.
pub(crate) const ENTRIES: &[Entry] = &[
    Entry {
        name: "xdp",
        syntax: "xdp:IF[@queue]",
        summary: "AF_XDP: takes the interface's packets away from the kernel; needs CAP_NET_RAW, to receive CAP_BPF too",
        probe: probe_xdp,
        open: Some(merging::open),
        merges: true,
        defers: true,
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
        defers: true,
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
