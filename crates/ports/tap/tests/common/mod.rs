//! A namespace of its own for each test, and the two ends of a TAP device in it.
#![allow(dead_code)]

use linerate_mem::{Pool, PoolConfig};
use linerate_port::OpenError;
use linerate_port_packet::PacketPort;
use linerate_port_tap::TapPort;
use linerate_sys::netns::NetNs;
use linerate_testkit::or_skip;

pub const DEVICE: &str = "tap0";

/// A namespace in which new interfaces send nothing by themselves; `None`, and a line that says why, where there is none.
pub fn namespace() -> Option<NetNs> {
    let namespace = or_skip("no network namespace", NetNs::anonymous())?;
    let quiet = || std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    let _ = namespace.run(quiet);
    Some(namespace)
}

/// Whether TAP devices can be made in namespaces here; says why if not.
pub fn allowed() -> bool {
    or_skip("no TAP devices", linerate_port_tap::probe()).is_some() && namespace().is_some()
}

pub fn open_tap(namespace: &NetNs, options: &str, pool: &Pool) -> Result<TapPort, OpenError> {
    let spec = format!("tap:{DEVICE}{options}").parse().unwrap();
    namespace.run(|| linerate_port_tap::open(spec, pool)).unwrap().map(|device| device.into_port())
}

/// The kernel's side. With a queueing discipline between, what does not fit into the device's queue is lost there; without
/// one the sender is told as well, and would send it again.
pub fn open_packet(namespace: &NetNs, pool: &Pool) -> Result<PacketPort, OpenError> {
    open_packet_on(namespace, DEVICE, pool)
}

pub fn open_packet_on(namespace: &NetNs, device: &str, pool: &Pool) -> Result<PacketPort, OpenError> {
    let spec = format!("packet:{device},qdisc").parse().unwrap();
    namespace.run(|| linerate_port_packet::open(spec, pool)).unwrap().map(|device| device.into_port())
}

pub fn pool() -> Pool {
    Pool::new(PoolConfig { frames: 4096, ..PoolConfig::default() }).unwrap()
}
