//! What the tests share: a private network namespace with a veth pair, and packets that tell who they are.
#![allow(dead_code)]

mod sys;

use std::time::{Duration, Instant};

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Device, Interest, OpenError, Port, PortError};
use linerate_port_xdp::XdpPort;
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::veth::{self, VethEnd};
use linerate_testkit::or_skip;

#[allow(unused_imports)]
pub use sys::drop_capabilities;

/// A namespace that has a veth pair `near` - `far`, both up and silent, with `queues` queues each. It dies with its last user.
/// `None`, having said why, where the machine does not allow it.
pub fn pair(queues: u32) -> Option<NetNs> {
    let namespace = or_skip("no network namespace", NetNs::anonymous())?;
    let end = |name| VethEnd { name, namespace: &namespace };
    or_skip("no veth pair", veth::create(end("near"), end("far"), queues))?;
    let prepare = || {
        // Without IPv6 the pair is silent. Where there is none, there is nothing to switch off.
        for scope in ["all", "default", "near", "far"] {
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1");
        }
        veth::bring_up(&device("near"), &device("far")).unwrap();
        open("xdp:near", &small_pool()).map(drop)
    };
    let opened = namespace.run(prepare).expect("enter a namespace that was just made");
    or_skip("no AF_XDP", opened)?;
    Some(namespace)
}

/// Runs `test` on a thread in the namespace of a [`pair`].
pub fn on_a_pair(queues: u32, test: impl FnOnce(&NetNs) + Send) {
    if let Some(namespace) = pair(queues) {
        namespace.run(|| test(&namespace)).expect("enter a namespace that was just made");
    }
}

pub fn device(name: &str) -> Netdev {
    Netdev::open(name).unwrap()
}

pub fn set_up(name: &str, up: bool) {
    device(name).set_up(up).unwrap();
}

pub fn set_mtu(mtu: u32) {
    for name in ["near", "far"] {
        device(name).set_mtu(mtu).unwrap();
    }
}

/// Whether the interface is promiscuous, as sysfs shows it (the ioctl hides what sockets asked for); `None` where there is no
/// sysfs to look into.
pub fn promiscuous(namespace: &NetNs, name: &str) -> Option<bool> {
    let path = format!("/sys/class/net/{name}/flags");
    let text = namespace.run_with_sysfs(|| std::fs::read_to_string(path)).ok()?.ok()?;
    let flags = u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()?;
    const IFF_PROMISC: u32 = 0x100;
    Some(flags & IFF_PROMISC != 0)
}

/// 4,096 frames of 2,048 bytes.
pub fn small_pool() -> Pool {
    Pool::new(PoolConfig { frames: 4096, ..PoolConfig::default() }).unwrap()
}

pub fn open(spec: &str, pool: &Pool) -> Result<XdpPort, OpenError> {
    open_device(spec, pool).map(Device::into_port)
}

pub fn open_device(spec: &str, pool: &Pool) -> Result<Device<XdpPort>, OpenError> {
    linerate_port_xdp::open(spec.parse().unwrap(), pool)
}

/// Makes packet `number` in `bytes`: addresses of the documentation ranges, an experimental ethertype, the number, and bytes
/// that follow from it.
pub fn write_packet(bytes: &mut [u8], number: u32) {
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    for (place, byte) in bytes[18..].iter_mut().enumerate() {
        *byte = number.wrapping_mul(31).wrapping_add(place as u32) as u8;
    }
}

/// The number of a packet that is what `write_packet` made; `None` for any other.
pub fn read_packet(bytes: &[u8]) -> Option<u32> {
    let number = u32::from_be_bytes(bytes.get(14..18)?.try_into().ok()?);
    let mut wanted = vec![0; bytes.len()];
    write_packet(&mut wanted, number);
    (wanted == bytes).then_some(number)
}

/// Appends packets `first..first + count`, of lengths that `len` gives.
pub fn add_packets(pool: &mut Pool, batch: &mut Batch, first: u32, count: u32, len: impl Fn(u32) -> usize) {
    for number in first..first + count {
        let at = batch.len();
        assert_eq!(pool.alloc(batch, 1, len(number)), 1, "the pool is empty");
        write_packet(batch.packet_mut(at), number);
    }
}

/// Receives into `batch` until it holds `slots` slots or nothing has come for a minute.
pub fn receive_until(port: &mut dyn Port, batch: &mut Batch, slots: usize) -> Result<(), PortError> {
    while batch.len() < slots {
        if port.receive(batch)? == 0 && port.wait(Interest::Receive, 60_000_000_000)? != linerate_port::Readiness::Ready
        {
            break;
        }
    }
    Ok(())
}

/// Flushes until nothing is on its way.
pub fn flush(port: &mut dyn Port) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let pending = port.flush().unwrap();
        if pending == 0 {
            return;
        }
        assert!(Instant::now() < deadline, "{pending} packets are still on their way");
        port.wait(Interest::Transmit, 1_000_000).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Drops the ports and says whether every frame came back.
pub fn is_whole(pool: &mut Pool) -> bool {
    pool.flush();
    pool.is_whole()
}
