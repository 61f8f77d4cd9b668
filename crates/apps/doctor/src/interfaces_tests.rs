//! Judgements about interfaces, from facts written by hand.

use super::super::Severity;
use super::super::facts::{Cores, Rings};
use super::super::tests::about;
use super::*;

fn nic() -> Interface {
    Interface {
        name: "eth1".into(),
        driver: "ixgbe".into(),
        up: true,
        link: Some(true),
        mtu: 1500,
        hardware: true,
        ..Interface::default()
    }
}

fn host(cores: usize) -> Facts {
    let cores = Cores { online: cores, allowed: (0..cores).collect(), ..Cores::default() };
    Facts { cores, ..Facts::default() }
}

fn judge(interface: &Interface, topic: &str) -> (Severity, String) {
    let findings = check(interface, &host(4));
    let finding = about(&findings, topic);
    (finding.severity, finding.fix.clone())
}

#[test]
fn a_quiet_card_has_nothing_but_good_findings() {
    assert!(check(&nic(), &host(4)).iter().all(|finding| finding.severity == Severity::Good));
}

#[test]
fn links_that_are_down() {
    assert_eq!(judge(&Interface { link: Some(false), ..nic() }, "eth1 link").0, Severity::Warning);
    assert_eq!(judge(&Interface { up: false, ..nic() }, "eth1 link").1, "ip link set eth1 up");
    // A software interface that is down is in nobody's way.
    assert_eq!(check(&Interface { up: false, hardware: false, ..nic() }, &host(4)), []);
}

#[test]
fn whatever_merges_packets_is_named() {
    let on = |names: &[&str]| names.iter().map(|name| ((*name).to_string(), (true, true))).collect();
    let card = Interface { features: on(&["rx-gro", "rx-lro", "rx-gro-hw"]), ..nic() };
    assert_eq!(judge(&card, "eth1 LRO"), (Severity::Warning, "ethtool -K eth1 lro off".into()));
    assert_eq!(judge(&card, "eth1 GRO").0, Severity::Note);
    assert_eq!(judge(&card, "eth1 hardware GRO"), (Severity::Warning, "ethtool -K eth1 rx-gro-hw off".into()));
    // "on [fixed]", as ethtool -k says it.
    let fixed = Interface { features: [("rx-gro-hw".to_string(), (true, false))].into(), ..nic() };
    assert!(judge(&fixed, "eth1 hardware GRO").1.contains("another card"));
    let guest = Interface { driver: "virtio_net".into(), ..fixed };
    assert!(judge(&guest, "eth1 hardware GRO").1.contains("guest_tso4=off"));
    // On veth GRO is what switches NAPI on.
    let veth = Interface { driver: "veth".into(), features: on(&["rx-gro"]), ..nic() };
    assert!(!check(&veth, &host(4)).iter().any(|finding| finding.topic.contains("GRO")));
}

#[test]
fn small_rings_and_few_queues() {
    let rings = |rx| Interface { rings: Some(Rings { rx, rx_max: 8192, tx: 512, tx_max: 8192 }), ..nic() };
    assert_eq!(judge(&rings(512), "eth1 ring sizes"), (Severity::Warning, "ethtool -G eth1 rx 4096".into()));
    assert_eq!(judge(&rings(4096), "eth1 ring sizes").0, Severity::Good);
    let queues = |now| Interface { channels: Some((now, 16)), ..nic() };
    assert_eq!(judge(&queues(1), "eth1 queues").1, "ethtool -L eth1 combined 4");
    assert_eq!(judge(&queues(4), "eth1 queues").0, Severity::Good);
}

#[test]
fn interrupts_on_one_core() {
    let on = |cores: [&str; 2]| Interface {
        rx_queues: 2,
        interrupts: vec![(30, cores[0].into()), (31, cores[1].into())],
        ..nic()
    };
    let (severity, fix) = judge(&on(["1", "1"]), "eth1 interrupts");
    assert_eq!(severity, Severity::Warning);
    assert_eq!(fix, "echo 0 > /proc/irq/30/smp_affinity_list; echo 1 > /proc/irq/31/smp_affinity_list");
    assert_eq!(judge(&on(["0", "1"]), "eth1 interrupts").0, Severity::Good);
    assert_eq!(judge(&on(["0-3", "0-3"]), "eth1 interrupts").0, Severity::Good);
    let mut facts = host(4);
    facts.interrupt_balancers = vec!["irqbalance".into()];
    assert_eq!(about(&check(&on(["0", "1"]), &facts), "eth1 interrupt balancer").fix, "systemctl stop irqbalance");
}

#[test]
fn pause_frames_hide_loss() {
    assert_eq!(judge(&Interface { pause: Some((true, false)), ..nic() }, "eth1 pause frames").0, Severity::Warning);
    assert_eq!(judge(&Interface { pause: Some((false, false)), ..nic() }, "eth1 pause frames").0, Severity::Good);
}

#[test]
fn the_card_is_on_another_node() {
    let mut facts = host(4);
    facts.memory.nodes = [(0, "0-1".to_string()), (1, "2-3".to_string())].into();
    let card = Interface { node: Some(1), ..nic() };
    facts.memory.distances = [(0, vec![10, 21]), (1, vec![21, 10])].into();
    assert!(about(&check(&card, &facts), "eth1 NUMA node").what.ends_with("at a distance of up to 21 (10 is its own)"));
    let away = Interface { interrupts: vec![(30, "0-1".into()), (31, "2".into()), (32, "1".into())], ..card.clone() };
    let findings = check(&away, &facts);
    let finding = about(&findings, "eth1 NUMA node");
    assert_eq!(
        (finding.severity, finding.fix.as_str()),
        (Severity::Warning, "echo 2 > /proc/irq/30/smp_affinity_list; echo 3 > /proc/irq/32/smp_affinity_list")
    );
    assert_eq!(about(&check(&card, &facts), "eth1 NUMA node").fix, "taskset -c 2-3 linerate ...");
    facts.cores.allowed = vec![2, 3];
    assert_eq!(about(&check(&card, &facts), "eth1 NUMA node").severity, Severity::Good);
}

#[test]
fn damage_is_graver_than_loss() {
    let lost = |name: &str| Interface { losses: [(name.to_string(), 5)].into(), ..nic() };
    assert_eq!(judge(&lost("rx_missed_errors"), "eth1 losses").0, Severity::Note);
    assert_eq!(judge(&lost("rx_crc_errors"), "eth1 losses").0, Severity::Warning);
}
