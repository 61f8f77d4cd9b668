//! From a spec to an active libpcap handle and its port.

use linerate_mem::Pool;
use linerate_port::{Caps, Device as Opened, OpenError, PortSpec, RxRing, SpecError};
use linerate_sys::netdev;

use crate::device::{Device, VLAN_BYTES};
use crate::port::{PcapPort, SLOTS_MAX};
use crate::sys::{self, Handle, PcapError, Settings};

const OPTIONS: &[&str] = &["buffer", "timeout", "promisc", "filter", "tx_only"];

const BUFFER_BYTES_MIN: u64 = 64 << 10;
const BUFFER_BYTES_MAX: u64 = 1 << 30;
const BUFFER_BYTES_DEFAULT: u64 = 16 << 20;
const TIMEOUT_MS_DEFAULT: u64 = 8;

/// MAXIMUM_SNAPLEN of libpcap: no packet is cut. libpcap cuts its ring by the MTU where that is less.
const SNAPLEN: i32 = 262_144;

/// LINKTYPE_ETHERNET.
const ETHERNET: i32 = 1;

/// Opens interface `spec.target` of the calling thread's network namespace through libpcap.
///
/// # Errors
/// No libpcap, no such interface, no CAP_NET_RAW, an interface that is down or no Ethernet; each with what to do.
pub fn open(mut spec: PortSpec, pool: &Pool) -> Result<Opened<PcapPort>, OpenError> {
    let settings = settings(&mut spec).map_err(|error| OpenError::new(&spec, error.problem, ""))?;
    let version = sys::version().map_err(|error| no_library(&spec, &error))?;
    let port = || one(&spec, settings, &version, pool);
    // Each handle would receive all packets.
    let ports = if spec.options.receives() { 1 } else { spec.options.ports() };
    Ok(Opened::new(spec.to_string(), port()?, (1..ports).map(|_| port()).collect::<Result<_, _>>()?))
}

fn one(spec: &PortSpec, settings: Settings, version: &str, pool: &Pool) -> Result<PcapPort, OpenError> {
    let device = Device::open(&spec.target).map_err(|error| {
        let names = netdev::names().unwrap_or_default().join(", ");
        OpenError::new(spec, error.to_string(), format!("there are {names}"))
    })?;
    let mut handle = Handle::open(&spec.target, settings).map_err(|error| not_opened(spec, &error))?;
    if handle.link_type() != ETHERNET {
        let cause = format!("{} is no Ethernet interface (libpcap's link type {})", spec.target, handle.link_type());
        return Err(OpenError::new(spec, cause, "frames here are Ethernet frames; take another interface"));
    }
    if let Some(filter) = &spec.options.filter {
        handle
            .set_filter(filter)
            .map_err(|error| OpenError::new(spec, format!("filter `{filter}`: {}", error.text), ""))?;
    }
    let promiscuous = if settings.promiscuous { "promiscuous" } else { "not promiscuous" };
    let caps = Caps {
        name: spec.to_string(),
        backend: "pcap",
        receives: true,
        transmits: true,
        frame_len_max: device.frame_len_max,
        tag_bytes: VLAN_BYTES,
        frags_max: SLOTS_MAX,
        copies: "libpcap's ring and the kernel's skb copy each packet, and this port once more",
        detail: format!("{version}, buffer of {} KiB, {promiscuous}", settings.buffer_bytes >> 10),
        mac: device.mac(),
        filters: spec.options.filter.is_some(),
        rx_ring: Some(RxRing::of_packet_ring(settings.buffer_bytes as u64)),
        timestamps: true,
        async_tx: true,
        ..Caps::default()
    };
    Ok(PcapPort::new(caps, pool, device, handle, settings.timeout_ms as u64 * 1_000_000))
}

/// Whether there is a libpcap; opens no interface.
///
/// # Errors
/// What is missing, and what to do.
pub fn probe() -> Result<(), OpenError> {
    sys::version().map(drop).map_err(|error| no_library("pcap:", &error))
}

fn settings(spec: &mut PortSpec) -> Result<Settings, SpecError> {
    let buffer = spec.take_number("buffer", BUFFER_BYTES_MIN, BUFFER_BYTES_MAX)?;
    let timeout_ms = spec.take_number("timeout", 1, 1000)?;
    spec.finish(OPTIONS)?;
    let (options, default) = (&spec.options, BUFFER_BYTES_DEFAULT);
    let wanted = options.ring_bytes.map_or(default, |bytes| bytes.clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX));
    Ok(Settings {
        snaplen: SNAPLEN,
        promiscuous: options.promiscuous.unwrap_or(options.receives()),
        timeout_ms: timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT) as i32,
        buffer_bytes: buffer.unwrap_or(wanted) as i32,
    })
}

fn no_library(spec: impl std::fmt::Display, error: &str) -> OpenError {
    let hint = "install libpcap0.8 (Debian), libpcap (Fedora, Alpine), or use packet:IF";
    OpenError::new(spec, format!("libpcap cannot be loaded: {error}"), hint)
}

fn not_opened(spec: &PortSpec, error: &PcapError) -> OpenError {
    let name = &spec.target;
    match error.code {
        sys::ERROR_PERMISSION | sys::ERROR_PROMISCUOUS_PERMISSION => OpenError::new(
            spec,
            "opening an interface through libpcap needs CAP_NET_RAW",
            "run with sudo, or `sudo setcap cap_net_raw+ep` the program; pipe:a and file: need no rights",
        ),
        sys::ERROR_NOT_UP => {
            OpenError::new(spec, format!("{name} is down"), format!("`ip link set {name} up` sets it up"))
        }
        sys::ERROR_NO_SUCH_DEVICE => OpenError::new(spec, format!("libpcap knows no {name}: {}", error.text), ""),
        _ => OpenError::new(spec, format!("{}: {}", error.operation, error.text), ""),
    }
}
