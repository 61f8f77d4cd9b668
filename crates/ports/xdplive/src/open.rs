//! From a spec to a port, and what is missing where that cannot be.

use linerate_bpf::{BpfError, Map};
use linerate_mem::Pool;
use linerate_port::{Caps, Device, OpenError, PortSpec};
use linerate_sys::netdev::Netdev;

use crate::account::DeviceCounters;
use crate::copy::{Copier, frame_len_max};
use crate::port::XdpLivePort;

/// Frames between flushes unless `batch=` says otherwise: the kernel's own default. The ring of a veth holds 256, and its
/// receiver runs between batches.
const BATCH_DEFAULT: u64 = 64;

/// Opens `xdplive:IF` with the frames of `pool`, in the calling thread's network namespace. The port may be used from other
/// threads, in whatever namespace they are.
///
/// # Errors
/// [`OpenError`] with what is missing (the interface, a capability, a kernel of 5.18 or later) and what to do.
pub fn open(mut spec: PortSpec, pool: &Pool) -> Result<Device<XdpLivePort>, OpenError> {
    let error = |cause: String, hint: &str| OpenError::new(&spec, cause, hint);
    let bpf = |problem: BpfError| error(problem.to_string(), bpf_hint(&problem));
    let device = Netdev::open(&spec.target).map_err(|e| error(e.to_string(), "`ip link` lists those there are"))?;
    let io = |problem: std::io::Error| error(problem.to_string(), "");
    if !device.is_up().map_err(io)? {
        return Err(error("the interface is down".into(), &format!("`ip link set {} up` brings it up", spec.target)));
    }
    let (ifindex, mtu) = (device.index().map_err(io)?, device.mtu().map_err(io)? as usize);
    let caps = caps(&spec, &device, mtu);
    let counters = DeviceCounters::open(device).map_err(io)?;
    let exit = Map::device("live_exit", 1).and_then(|map| map.set_u32(0, ifindex).map(|()| map)).map_err(bpf)?;
    let copier = Copier::load(&exit).map_err(bpf)?;
    let batch = spec.take_number("batch", 1, 256).map_err(|error| OpenError::new(&spec, error.problem, ""))?;
    spec.finish(&["batch", "tx_only"]).map_err(|error| OpenError::new(&spec, error.problem, ""))?;
    let batch_frames = batch.unwrap_or(BATCH_DEFAULT) as u32;
    Ok(Device::of(XdpLivePort::new(pool, caps, counters, exit, copier, batch_frames)))
}

fn bpf_hint(problem: &BpfError) -> &'static str {
    match problem {
        BpfError::Permission { .. } => {
            "live frames need CAP_BPF and CAP_NET_ADMIN; packet:IF and xdp:IF,tx_only do with less"
        }
        BpfError::Verifier { .. } => "live frames need Linux 5.18 or later; try xdp:IF",
        _ => "try xdp:IF or packet:IF",
    }
}

fn caps(spec: &PortSpec, device: &Netdev, mtu: usize) -> Caps {
    let speed_mbps = device.speed_mbps().ok().flatten();
    Caps {
        name: spec.to_string(),
        backend: "xdplive",
        transmits: true,
        frame_len_max: frame_len_max(mtu),
        // Parts are put together while they are copied.
        frags_max: usize::MAX,
        copies: "packets are copied into a map, and by a program into the kernel's frames; streams are made in place",
        detail: "live XDP frames by BPF_PROG_RUN".into(),
        link_bps: speed_mbps.map(|speed| u64::from(speed) * 1_000_000),
        mac: device.mac().ok(),
        async_tx: true,
        ..Caps::default()
    }
}
