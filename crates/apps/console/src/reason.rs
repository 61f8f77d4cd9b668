//! Why the queues of an interface get unequal shares of its packets, as far as its driver tells (ethtool(8)).

use linerate_port::PortSpec;
use linerate_sys::netdev::Netdev;
use linerate_sys::rss::{FlowType, HashFields, Rss};

/// Why queues of the interface under a port may get unequal shares, as far as its driver tells; `None` for other ports. The name
/// is looked up in the calling thread's network namespace.
pub fn known_reason(port: &str) -> Option<String> {
    let spec: PortSpec = port.parse().ok()?;
    // Where packets are spread by the backend, or lie in memory, the card is not asked.
    if linerate_ports::spreads_by_device(&spec) {
        let device = Netdev::open(&spec.target).ok()?;
        let driver = device.driver_info().ok().flatten().map(|info| info.driver).unwrap_or_default();
        let udp = device.hash_fields(FlowType::UdpV4).ok().flatten();
        return reason(&spec.target, &driver, device.rss().ok().flatten().as_ref(), udp);
    }
    None
}

/// The reason that follows from what a driver tells.
fn reason(name: &str, driver: &str, rss: Option<&Rss>, udp: Option<HashFields>) -> Option<String> {
    if driver == "veth" {
        let text = "a veth has no RSS: packets arrive by the queue of the number by which the far end of";
        return Some(format!("{text} {name} sent them"));
    }
    let shares = rss?.shares();
    let (least, most) = (shares.iter().min()?, shares.iter().max()?);
    if *most > 2 * least || shares.len() < 2 {
        return Some(format!("its indirection table is uneven; `ethtool -X {name} equal N` makes it even"));
    }
    let addresses_only = udp.is_some_and(|fields| fields.addresses() && !fields.ports());
    addresses_only.then(|| {
        format!("{name} hashes UDP by addresses only; `ethtool -N {name} rx-flow-hash udp4 sdfn` adds the ports; or they are of one flow")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_tells_is_the_reason() {
        let even = Rss { table: vec![0, 1, 0, 1], ..Rss::default() };
        let uneven = Rss { table: vec![0, 1, 1, 1], ..Rss::default() };
        let (ports, addresses) = (HashFields::from_bits(0xf0), HashFields::from_bits(0x30));
        let text = |driver, rss: Option<&Rss>, udp| reason("eth1", driver, rss, udp).unwrap_or_default();
        assert!(text("veth", None, None).contains("by which the far end of eth1 sent them"));
        assert!(text("ixgbe", Some(&uneven), Some(ports)).contains("ethtool -X eth1 equal"));
        assert!(text("ixgbe", Some(&even), Some(addresses)).contains("rx-flow-hash udp4 sdfn"));
        assert_eq!(reason("eth1", "ixgbe", Some(&even), Some(ports)), None);
        assert_eq!(reason("eth1", "tun", None, None), None);
        assert_eq!((known_reason("memif:/a@0"), known_reason("not a port")), (None, None));
    }
}
