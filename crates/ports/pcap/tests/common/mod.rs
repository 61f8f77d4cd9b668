//! A veth pair with each end in a namespace of its own.
#![allow(dead_code)]

use linerate_mem::{Pool, PoolConfig};
use linerate_port::OpenError;
use linerate_port_pcap::PcapPort;
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::veth::{self, VethEnd};
use linerate_testkit::or_skip;

pub const INTERFACE: &str = "veth0";

/// One end: interface `veth0` of its namespace.
pub struct End {
    pub namespace: NetNs,
    pub device: Netdev,
}

pub struct Wire {
    pub left: End,
    pub right: End,
}

impl Wire {
    /// `None`, and a line that says why, where there is no libpcap or no namespace.
    pub fn new(mtu: u32) -> Option<Wire> {
        if let Err(error) = linerate_port_pcap::probe() {
            eprintln!("skipped: {error}");
            return None;
        }
        let namespace = || or_skip("no network namespace", NetNs::anonymous());
        let (left, right) = (namespace()?, namespace()?);
        let end = |namespace| VethEnd { name: INTERFACE, namespace };
        veth::create(end(&left), end(&right), 1).unwrap();
        let wire = Wire { left: End::new(left), right: End::new(right) };
        for end in [&wire.left, &wire.right] {
            end.device.set_mtu(mtu).unwrap();
        }
        veth::bring_up(&wire.left.device, &wire.right.device).unwrap();
        Some(wire)
    }
}

impl End {
    fn new(namespace: NetNs) -> End {
        let device = namespace.run(|| {
            // Without IPv6 the kernel sends nothing by itself here.
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{INTERFACE}/disable_ipv6"), "1");
            Netdev::open(INTERFACE)
        });
        End { namespace, device: device.unwrap().unwrap() }
    }

    pub fn open(&self, options: &str, pool: &Pool) -> Result<PcapPort, OpenError> {
        let spec = format!("pcap:{INTERFACE}{options}").parse().unwrap();
        self.namespace.run(|| linerate_port_pcap::open(spec, pool)).unwrap().map(|device| device.into_port())
    }
}

pub fn pool() -> Pool {
    Pool::new(PoolConfig { frames: 4096, ..PoolConfig::default() }).unwrap()
}

/// `IFF_PROMISC` as sysfs shows it; `None` where there is no sysfs to look into.
pub fn promiscuous(end: &End) -> Option<bool> {
    let path = format!("/sys/class/net/{INTERFACE}/flags");
    let text = end.namespace.run_with_sysfs(|| std::fs::read_to_string(path)).ok()?.ok()?;
    let flags = u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()?;
    Some(flags & libc::IFF_PROMISC as u32 != 0)
}
