//! The interfaces of this namespace, and what each can be opened with.

use linerate_mem::{Pool, PoolConfig};
use linerate_port::{OpenOptions, PortSpec};
use linerate_sys::netdev::{self, Netdev};
use linerate_sys::rss::Rss;
use linerate_sys::timestamping::Timestamping;

use crate::choose::{Facts, candidates};
use crate::entry::{Entry, Unusable};
use crate::open::open_with;
use crate::table::ENTRIES;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its driver, where it has one.
    pub driver: Option<String>,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// Has a link; `None` when the driver does not tell.
    pub link: Option<bool>,
    /// Rate of the link in Mbit/s; `None` when the driver does not tell.
    pub speed_mbps: Option<u32>,
    /// Hardware address.
    pub mac: Option<[u8; 6]>,
    /// Receive queues.
    pub queues: u32,
    /// How the card spreads packets over them; `None` where the driver has no RSS, or does not tell.
    pub rss: Option<Rss>,
    /// What its driver says of timestamps; `None` where it does not tell.
    pub timestamps: Option<Timestamping>,
    /// Why the host itself needs its packets: "eth0 has address 192.0.2.1".
    pub host_use: Option<String>,
    /// For each backend that stands on interfaces: its name, and whether it works here. What only receiving would show (an
    /// XDP program that is attached already) is not tried.
    pub backends: Vec<(&'static str, Result<(), Unusable>)>,
    /// What the bare name stands for: the first way that works, to send and receive; `None` when none does.
    pub bare: Option<String>,
}

/// The interfaces of the calling thread's network namespace, in the order of their indices. Opens sockets on them for a
/// moment; sends nothing, and does not touch the flow of their packets.
///
/// # Errors
/// When the kernel cannot be asked for names.
pub fn interfaces() -> std::io::Result<Vec<Interface>> {
    let pool = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() }).map_err(std::io::Error::other)?;
    // One that goes away meanwhile is none.
    Ok(netdev::names()?.iter().filter_map(|name| Netdev::open(name).ok()).map(|device| look(&device, &pool)).collect())
}

fn look(device: &Netdev, pool: &Pool) -> Interface {
    let facts = Facts::of(device);
    let on_interfaces = ENTRIES.iter().filter(|entry| entry.access.is_some() && entry.open.is_some());
    let backends: Vec<_> = on_interfaces.map(|entry| (entry.name, attempt(entry, device.name(), pool))).collect();
    let bare = bare_name(device.name()).and_then(|spec| {
        let works = |backend: &str| backends.iter().any(|(name, usable)| *name == backend && usable.is_ok());
        let mut candidates = candidates(&spec, &facts, &OpenOptions::default()).into_iter();
        let found = candidates.find(|candidate| candidate.spec.backend.as_deref().is_some_and(works));
        found.map(|candidate| candidate.spec.to_string())
    });
    Interface {
        name: device.name().into(),
        driver: device.driver_info().ok().flatten().map(|info| info.driver),
        mtu: device.mtu().unwrap_or(1500),
        up: device.is_up().unwrap_or(false),
        link: device.link().ok().flatten(),
        speed_mbps: device.speed_mbps().ok().flatten(),
        mac: device.mac().ok(),
        queues: facts.queues,
        rss: device.rss().ok().flatten(),
        timestamps: device.timestamping().ok().flatten(),
        host_use: facts.host_use,
        backends,
        bare,
    }
}

/// Opens it for sending, which has no side effects, after asking for the rights that receiving would need.
fn attempt(entry: &Entry, interface: &str, pool: &Pool) -> Result<(), Unusable> {
    (entry.probe)()?;
    let spec = PortSpec::new(entry.name, interface);
    open_with(entry, &spec, &OpenOptions::transmit(), pool).map(drop).map_err(Unusable::from)
}

fn bare_name(interface: &str) -> Option<PortSpec> {
    interface.parse().ok()
}
