//! From a spec to the end of a tunnel.

use std::io;
use std::net::Ipv4Addr;

use linerate_mem::Pool;
use linerate_port::{Caps, Device, OpenError, PortSpec, SpecError};
use linerate_sys::capability::{Capabilities, Capability};
use linerate_wire::vxlan;

use crate::encapsulation::{Encapsulation, Key, Protocol};
use crate::port::{FRAGS_MAX, TunnelPort};
use crate::sys;

/// Bytes of an Ethernet header and a VLAN tag.
const ETHERNET_BYTES: usize = 18;
const MTU_DEFAULT: u64 = 1500;
const MTU_MIN: u64 = 68;
/// An IP packet has 65,535 bytes at most, of which the headers take at most 64.
const MTU_MAX: u64 = 65_450;
/// The number of GRE among the protocols of IP.
const GRE: libc::c_int = 47;

/// Opens the end of a VXLAN tunnel to `spec.target`.
///
/// # Errors
/// An option is wrong, there is no CAP_NET_RAW, or somebody has the UDP port; each with what to do.
pub fn open_vxlan(mut spec: PortSpec, pool: &Pool) -> Result<Device<TunnelPort>, OpenError> {
    let port = number(&mut spec, "port", 1, u16::MAX.into())?.unwrap_or(vxlan::PORT.into()) as u16;
    open(spec, Protocol::Vxlan { port }, vxlan::MAX_VNI, pool)
}

/// Opens the end of a GRE tunnel to `spec.target`.
///
/// # Errors
/// An option is wrong, or there is no CAP_NET_RAW; each with what to do.
pub fn open_gre(spec: PortSpec, pool: &Pool) -> Result<Device<TunnelPort>, OpenError> {
    open(spec, Protocol::Gre, u32::MAX, pool)
}

/// Whether this process can open raw sockets; opens none.
///
/// # Errors
/// What is missing, and what to do.
pub fn probe() -> Result<(), OpenError> {
    match Capabilities::read() {
        Ok(held) if !held.has(Capability::NetRaw) => Err(no_right("vxlan:")),
        _ => Ok(()),
    }
}

fn open(mut spec: PortSpec, protocol: Protocol, key_max: u32, pool: &Pool) -> Result<Device<TunnelPort>, OpenError> {
    let remote = address(&spec, &spec.target).map_err(|error| wrong(&spec, error))?;
    let local =
        spec.take("local").map(|text| address(&spec, &text)).transpose().map_err(|error| wrong(&spec, error))?;
    let key = key(&mut spec, key_max)?;
    let mtu = number(&mut spec, "mtu", MTU_MIN, MTU_MAX)?.unwrap_or(MTU_DEFAULT) as usize;
    let known: &[&str] = match protocol {
        Protocol::Vxlan { .. } => &["key", "local", "port", "mtu"],
        Protocol::Gre => &["key", "local", "mtu"],
    };
    spec.finish(known).map_err(|error| wrong(&spec, error))?;
    let (backend, number, udp_port) = match protocol {
        Protocol::Vxlan { port } => ("vxlan", libc::IPPROTO_UDP, Some(port)),
        Protocol::Gre => ("gre", GRE, None),
    };
    let encapsulation = Encapsulation { protocol, key, remote };
    let reserved = udp_port.map(|port| sys::reserve(local, port)).transpose();
    let reserved = reserved.map_err(|error| not_opened(&spec, &error))?;
    let socket = sys::open(number, local, remote, udp_port).map_err(|error| not_opened(&spec, &error))?;
    let keys = match key {
        Key::Fixed(Some(key)) => format!("key {key}"),
        Key::Fixed(None) => "no key".into(),
        Key::Flow => "packets bring their keys".into(),
    };
    let caps = Caps {
        rx_syscalls: true,
        name: spec.to_string(),
        backend,
        receives: true,
        transmits: true,
        frame_len_max: mtu + ETHERNET_BYTES + encapsulation.prefix_bytes(),
        frags_max: FRAGS_MAX,
        copies: "the kernel copies each packet between an skb and the pool's frame",
        detail: format!("tunnel to {remote}, {keys}, MTU {mtu}"),
        tunnel_keys: key == Key::Flow,
        async_tx: true,
        ..Caps::default()
    };
    Ok(Device::of(TunnelPort::new(caps, pool, socket, reserved, encapsulation)))
}

fn wrong(spec: &PortSpec, error: SpecError) -> OpenError {
    OpenError::new(spec, error.problem, "")
}

fn number(spec: &mut PortSpec, key: &str, least: u64, most: u64) -> Result<Option<u64>, OpenError> {
    spec.take_number(key, least, most).map_err(|error| wrong(spec, error))
}

fn key(spec: &mut PortSpec, most: u32) -> Result<Key, OpenError> {
    if spec.own.iter().any(|(name, value)| name == "key" && value == "flow") {
        spec.take("key");
        return Ok(Key::Flow);
    }
    Ok(Key::Fixed(number(spec, "key", 0, most.into())?.map(|key| key as u32)))
}

/// The address of a host.
fn address(spec: &PortSpec, text: &str) -> Result<Ipv4Addr, SpecError> {
    let host = |address: &Ipv4Addr| !address.is_multicast() && !address.is_unspecified() && !address.is_broadcast();
    text.parse().ok().filter(host).ok_or_else(|| spec.error(format!("{text:?} is not the IPv4 address of a host")))
}

fn no_right(spec: impl std::fmt::Display) -> OpenError {
    let hint = "run with sudo, or `sudo setcap cap_net_raw+ep` the program";
    OpenError::new(spec, "the end of a tunnel needs CAP_NET_RAW", hint)
}

fn not_opened(spec: &PortSpec, error: &io::Error) -> OpenError {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => no_right(spec),
        Some(libc::EADDRINUSE) => OpenError::new(
            spec,
            "another program, or a VXLAN device of the kernel, has the UDP port",
            "give port=N, at the far end too, or remove the device",
        ),
        Some(libc::EADDRNOTAVAIL) => OpenError::new(
            spec,
            "this host does not have the address that local= names",
            "`ip addr` shows those it has",
        ),
        Some(libc::ENETUNREACH) => OpenError::new(spec, "there is no route to it", "`ip route` shows those there are"),
        _ => OpenError::new(spec, error.to_string(), ""),
    }
}
