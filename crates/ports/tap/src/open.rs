//! From a spec to a device and its port.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use linerate_mem::Pool;
use linerate_port::{Caps, Device as Opened, OpenError, PortSpec, VnetHeader};
use linerate_sys::capability::{Capabilities, Capability};
use linerate_sys::netdev::Netdev;

use crate::device::Device;
use crate::port::{ETHERNET_BYTES, SLOTS_MAX, TapPort};
use crate::sys;

const CLONE_DEVICE: &str = "/dev/net/tun";

/// Smallest MTU of IPv4, and the largest that the kernel gives a TAP device.
const MTU_MIN: u64 = 68;
const MTU_MAX: u64 = 65_521;

/// Makes TAP device `spec.target` in the calling thread's network namespace and opens its far end.
///
/// # Errors
/// No CAP_NET_ADMIN, no /dev/net/tun, the name is taken; each with what to do.
pub fn open(mut spec: PortSpec, pool: &Pool) -> Result<Opened<TapPort>, OpenError> {
    let mtu = spec.take_number("mtu", MTU_MIN, MTU_MAX).map_err(|error| OpenError::new(&spec, error.problem, ""))?;
    let offload = !spec.take_flag("no_offload").map_err(|error| OpenError::new(&spec, error.problem, ""))?;
    spec.finish(&["mtu", "no_offload"]).map_err(|error| OpenError::new(&spec, error.problem, ""))?;
    let name = spec.target.as_str();
    if name.is_empty() {
        return Err(OpenError::new(&spec, "names no device", "write tap:NAME, with a name that no interface has"));
    }
    let file = open_clone_device().map_err(|error| no_clone_device(&spec, &error))?;
    let existed = Netdev::open(name).is_ok();
    sys::attach(&file, name).map_err(|error| not_attached(&spec, &error))?;
    let failed = |error: io::Error| OpenError::new(&spec, format!("setting up {name}: {error}"), "");
    sys::set_up_notes(&file, VnetHeader::BYTES as i32, offload).map_err(failed)?;
    let netdev = Netdev::open(name).map_err(failed)?;
    if let Some(mtu) = mtu {
        netdev.set_mtu(mtu as u32).map_err(failed)?;
    }
    netdev.set_up(true).map_err(failed)?;
    let mtu = netdev.mtu().map_err(failed)?;
    let made = if existed { "which was there before" } else { "made for this port" };
    let left = if offload { "checksums and segmentation left to whoever needs them" } else { "no offloads" };
    let caps = Caps {
        rx_syscalls: true,
        name: spec.to_string(),
        backend: "tap",
        receives: true,
        transmits: true,
        frame_len_max: mtu as usize + ETHERNET_BYTES,
        frags_max: SLOTS_MAX,
        copies: "the kernel copies each packet between an skb and the pool's frame",
        detail: format!("TAP device {name}, {made}, MTU {mtu}, {left}"),
        mac: netdev.mac().ok(),
        async_tx: true,
        makes_interface: !existed,
        ..Caps::default()
    };
    let device = Device::open(name).map_err(failed)?;
    Ok(Opened::of(TapPort::new(caps, pool, file, device, offload)))
}

/// Whether this process can make TAP devices; makes none.
///
/// # Errors
/// What is missing, and what to do.
pub fn probe() -> Result<(), OpenError> {
    open_clone_device().map_err(|error| no_clone_device("tap:", &error))?;
    match Capabilities::read() {
        Ok(held) if !held.has(Capability::NetAdmin) => Err(no_right("tap:")),
        _ => Ok(()),
    }
}

fn open_clone_device() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(CLONE_DEVICE)
}

fn no_right(spec: impl std::fmt::Display) -> OpenError {
    let hint = "run with sudo, or `sudo setcap cap_net_admin+ep` the program; pipe:a needs no rights";
    OpenError::new(spec, "making a TAP device needs CAP_NET_ADMIN", hint)
}

fn no_clone_device(spec: impl std::fmt::Display, error: &io::Error) -> OpenError {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "`modprobe tun`; a container must be given the device",
        io::ErrorKind::PermissionDenied => "run with sudo; a container must be given the device",
        _ => "",
    };
    OpenError::new(spec, format!("cannot open {CLONE_DEVICE}: {error}"), hint)
}

fn not_attached(spec: &PortSpec, error: &io::Error) -> OpenError {
    let name = &spec.target;
    match error.raw_os_error() {
        Some(libc::EPERM) => no_right(spec),
        Some(libc::EBUSY) => {
            OpenError::new(spec, format!("another process has TAP device {name}"), "end it, or take another name")
        }
        Some(libc::EINVAL) => OpenError::new(
            spec,
            format!("{name} is an interface that is no TAP device, or no name for one"),
            "take another name, of at most 15 bytes",
        ),
        Some(libc::ENAMETOOLONG) => {
            OpenError::new(spec, format!("{name} is too long for an interface"), "take at most 15 bytes")
        }
        _ => OpenError::new(spec, format!("making TAP device {name}: {error}"), ""),
    }
}
