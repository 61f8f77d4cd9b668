//! Receive side scaling of one interface: what is hashed, whether queues get equal shares, whether both directions of a flow meet.

use super::Finding;
use super::facts::{Interface, Rss};

/// Bytes of the keys of most cards.
const KEY_LEN: usize = 40;

pub(super) fn check(interface: &Interface) -> Vec<Finding> {
    if interface.rx_queues.max(interface.channels.map_or(0, |(now, _)| now as usize)) < 2 {
        return Vec::new();
    }
    let Some(rss) = &interface.rss else { return vec![none(interface)] };
    let mut findings = vec![shares(interface, rss)];
    findings.extend(udp(interface, rss));
    findings.extend(directions(interface, rss));
    findings
}

fn topic(interface: &Interface, what: &str) -> String {
    format!("{} {what}", interface.name)
}

/// A driver without RSS, or one that does not tell.
fn none(interface: &Interface) -> Finding {
    let topic = topic(interface, "RSS");
    if interface.driver == "veth" {
        let why = "a packet arrives by the queue of the number that it was sent by: queues of the far end, and whoever sends there, choose";
        return Finding::note(&topic, "none: veth has no RSS", why);
    }
    let what = format!("the driver {} does not tell key and indirection table", interface.driver);
    Finding::note(&topic, what, "which flows share a queue cannot be known or set here; results show packets by queue")
}

fn shares(interface: &Interface, rss: &Rss) -> Finding {
    let topic = topic(interface, "RSS");
    let list: Vec<String> = rss.shares.iter().map(ToString::to_string).collect();
    let what = format!("{}, table entries by queue: {}; key {}", rss.function, list.join(" "), key(rss));
    let (least, most) = (rss.shares.iter().min().copied(), rss.shares.iter().max().copied().unwrap_or(0));
    let served = interface.channels.map_or(interface.rx_queues, |(now, _)| now as usize);
    if rss.shares.is_empty() || rss.shares.len() >= served && least.is_some_and(|least| most <= 2 * least) {
        return Finding::good(&topic, what);
    }
    let why = "the indirection table leaves queues out, or gives one more than twice what another gets, whatever the flows are";
    Finding::warning(&topic, what, why).fix(format!("ethtool -X {} equal {served}", interface.name))
}

fn key(rss: &Rss) -> String {
    match rss.key.as_str() {
        "" => "not told".into(),
        key => key.into(),
    }
}

fn udp(interface: &Interface, rss: &Rss) -> Vec<Finding> {
    let check = |(hashed, (name, flow)): (&Option<bool>, (&str, &str))| {
        let finding = Finding::note(
            &topic(interface, &format!("hash of {name}")),
            "addresses only",
            "all UDP packets between two addresses go to one queue, however many ports they have",
        );
        (*hashed == Some(false)).then(|| finding.fix(format!("ethtool -N {} rx-flow-hash {flow} sdfn", interface.name)))
    };
    rss.udp_ports.iter().zip([("UDP over IPv4", "udp4"), ("UDP over IPv6", "udp6")]).filter_map(check).collect()
}

fn directions(interface: &Interface, rss: &Rss) -> Option<Finding> {
    let len = if rss.key.is_empty() { KEY_LEN } else { rss.key.split(':').count() };
    let symmetric = linerate_sys::rss::Rss { key: linerate_sys::rss::Rss::symmetric_key(len), ..Default::default() };
    let finding = Finding::note(
        &topic(interface, "RSS of both directions"),
        "a flow and its answers go to different queues",
        "cores that keep state of a flow share it, or hand packets over",
    );
    (!rss.symmetric).then(|| finding.fix(format!("ethtool -X {} hkey {}", interface.name, symmetric.key_text())))
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::super::tests::about;
    use super::*;

    fn card(rss: Option<Rss>) -> Interface {
        Interface { name: "eth1".into(), driver: "ixgbe".into(), channels: Some((4, 8)), rss, ..Interface::default() }
    }

    fn rss() -> Rss {
        Rss {
            function: "Toeplitz".into(),
            key: ["6d:5a"; 20].join(":"),
            symmetric: true,
            shares: vec![32; 4],
            udp_ports: [Some(true), Some(true)],
        }
    }

    #[test]
    fn a_card_whose_queues_get_equal_shares_is_good() {
        let findings = check(&card(Some(rss())));
        assert!(findings.len() == 1 && findings[0].severity == Severity::Good, "{findings:?}");
        assert!(findings[0].what.contains("by queue: 32 32 32 32; key 6d:5a:"), "{findings:?}");
    }

    #[test]
    fn what_keeps_flows_together_is_named_with_what_to_do() {
        let fix = |rss: Rss, topic: &str| about(&check(&card(Some(rss))), topic).fix.clone();
        for shares in [vec![32, 32, 64], vec![128], vec![10, 10, 10, 98]] {
            assert_eq!(fix(Rss { shares, ..rss() }, "eth1 RSS"), "ethtool -X eth1 equal 4");
        }
        let udp = Rss { udp_ports: [Some(false), None], ..rss() };
        assert_eq!(fix(udp.clone(), "eth1 hash of UDP over IPv4"), "ethtool -N eth1 rx-flow-hash udp4 sdfn");
        assert!(!check(&card(Some(udp))).iter().any(|finding| finding.topic.contains("IPv6")));
        let one_way = Rss { symmetric: false, key: ["00"; 52].join(":"), ..rss() };
        let command = fix(one_way, "eth1 RSS of both directions");
        assert_eq!(command, format!("ethtool -X eth1 hkey {}", ["6d:5a"; 26].join(":")));
    }

    #[test]
    fn a_driver_without_rss_is_said_to_have_none() {
        let what = |interface: &Interface| about(&check(interface), "eth1 RSS").what.clone();
        assert_eq!(what(&card(None)), "the driver ixgbe does not tell key and indirection table");
        let veth = Interface { driver: "veth".into(), rx_queues: 4, channels: None, ..card(None) };
        assert_eq!(what(&veth), "none: veth has no RSS");
        assert!(check(&Interface { rx_queues: 1, ..veth }).is_empty(), "one queue needs none");
    }
}
