//! What the tests share: a private network namespace with a veth pair whose far end takes XDP frames.
#![allow(dead_code)]

mod sys;

use linerate_bpf::programs::drop_count::DropCount;
use linerate_bpf::{AttachMode, XdpLink};
use linerate_mem::{Pool, PoolConfig};
use linerate_port::OpenError;
use linerate_port_xdplive::XdpLivePort;
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::veth::{self, VethEnd};
use linerate_testkit::or_skip;

pub use sys::*;

/// A namespace that has a veth pair `near` - `far`, both up and silent. It dies with its last user.
/// `None`, having said why, where the machine does not allow it.
pub fn pair() -> Option<NetNs> {
    let namespace = or_skip("no network namespace", NetNs::anonymous())?;
    let end = |name| VethEnd { name, namespace: &namespace };
    or_skip("no veth pair", veth::create(end("near"), end("far"), 1))?;
    let prepare = || {
        // Without IPv6 the pair is silent. Where there is none, there is nothing to switch off.
        for scope in ["all", "default", "near", "far"] {
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1");
        }
        veth::bring_up(&device("near"), &device("far")).unwrap();
        open("xdplive:near", &small_pool()).map(drop)
    };
    let opened = namespace.run(prepare).expect("enter a namespace that was just made");
    or_skip("no live frames", opened)?;
    Some(namespace)
}

/// Runs `test` on a thread in the namespace of a [`pair`].
pub fn on_a_pair(test: impl FnOnce(&NetNs) + Send) {
    if let Some(namespace) = pair() {
        namespace.run(|| test(&namespace)).expect("enter a namespace that was just made");
    }
}

pub fn device(name: &str) -> Netdev {
    Netdev::open(name).unwrap()
}

pub fn set_up(name: &str, up: bool) {
    device(name).set_up(up).unwrap();
}

/// 4,096 frames of 2,048 bytes.
pub fn small_pool() -> Pool {
    Pool::new(PoolConfig { frames: 4096, ..PoolConfig::default() }).unwrap()
}

pub fn open(spec: &str, pool: &Pool) -> Result<XdpLivePort, OpenError> {
    linerate_port_xdplive::open(spec.parse().unwrap(), pool).map(|device| device.into_port())
}

/// Makes `far` count what arrives and drop it.
pub fn sink() -> (DropCount, XdpLink) {
    let sink = DropCount::load(false).unwrap();
    let link = XdpLink::attach(sink.program(), device("far").index().unwrap(), AttachMode::Native).unwrap();
    (sink, link)
}

/// Makes `far` hand what arrives to its stack, and returns a socket that sees it there.
pub fn stack() -> PacketSocket {
    device("far").set_features(&[("rx-gro", true)]).unwrap();
    PacketSocket::open(device("far").index().unwrap()).unwrap()
}
