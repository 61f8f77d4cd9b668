//! The PCI network cards in `linerate ports`.

use std::fmt::Write;

use linerate_pci::{Bus, GroupMember, Names, PciDevice, PciInterface, Refusal};
use serde::Serialize;

/// A card, and why its port would not take it from its kernel driver.
pub(super) struct Card {
    device: PciDevice,
    vendor_name: Option<String>,
    device_name: Option<String>,
    refusal: Option<Refusal>,
    /// A killed process left it with vfio-pci.
    left: bool,
}

/// The cards of this machine. Reads only.
pub(super) fn cards() -> Vec<Card> {
    let bus = Bus::default();
    let devices = bus.network_devices();
    let names = if devices.is_empty() { Names::default() } else { Names::of_this_machine() };
    let left = bus.left();
    let card = |device: PciDevice| {
        let (vendor_name, device_name) = names.find(device.vendor, device.device);
        let refusal = if device.kept().is_some() { None } else { bus.refusal(&device, false) };
        let left = left.iter().any(|one| one.address == device.address);
        Card { device, vendor_name, device_name, refusal, left }
    };
    devices.into_iter().map(card).collect()
}

/// The lines about cards; none without cards. `usable`: the program can open their ports.
pub(super) fn text(cards: &[Card], usable: bool) -> String {
    let mut out = String::new();
    if !cards.is_empty() {
        out += "\nPCI network cards\n";
    }
    for card in cards {
        let device = &card.device;
        let names = [card.vendor_name.as_deref(), card.device_name.as_deref()].into_iter().flatten();
        let mut name = names.collect::<Vec<_>>().join(" ");
        if !name.is_empty() {
            name.push(' ');
        }
        let driver = device.driver.as_deref().map_or("no driver".into(), |driver| format!("driver {driver}"));
        let mut facts = vec![format!("{name}({:04x}:{:04x})", device.vendor, device.device), driver];
        facts.extend(device.interfaces.iter().map(|one| format!("{} ({})", one.name, state(one))));
        facts.extend(device.hidden_interface.then(|| "an interface in another network namespace".into()));
        facts.push(group(device));
        facts.extend(device.numa_node.map(|node| format!("NUMA node {node}")));
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {:<20} {}", device.address.to_string(), facts.join(", "));
        let _ = writeln!(out, "  {:<20} {}", "", access(card, usable));
    }
    out
}

fn state(interface: &PciInterface) -> &'static str {
    match (interface.up, interface.link) {
        (false, _) => "down",
        (true, Some(false)) => "up without a link",
        (true, _) => "up",
    }
}

fn group(device: &PciDevice) -> String {
    let Some(number) = device.iommu_group else { return "no IOMMU group".into() };
    let kind = if device.noiommu { " without an IOMMU" } else { "" };
    let member = |member: &GroupMember| match &member.driver {
        Some(driver) => format!("{} ({driver})", member.address),
        None => member.address.to_string(),
    };
    let others: Vec<String> = device.group_members.iter().map(member).collect();
    let others = if others.is_empty() { String::new() } else { format!(" with {}", others.join(", ")) };
    format!("IOMMU group {number}{kind}{others}")
}

/// The port that has it, and whether that can be opened.
fn access(card: &Card, usable: bool) -> String {
    let able = if usable { "usable" } else { "possible, but this program has no such ports, see below" };
    let (bind, answer) = match &card.refusal {
        _ if card.left => {
            (false, "a killed process left it with vfio-pci; the next port of this kind gives it back".into())
        }
        Some(refusal) => (true, refusal.to_string()),
        None => match card.device.kept() {
            Some(why) => (false, format!("{able}: {why}")),
            None => (true, able.into()),
        },
    };
    let spec = linerate_ports::pci_card(card.device.address, bind).map_or(String::new(), |spec| spec.to_string());
    format!("{spec:<24} {answer}")
}

/// A card in the JSON document.
#[derive(Serialize)]
pub(super) struct Row<'a> {
    address: String,
    /// Four hexadecimal digits.
    vendor: String,
    device: String,
    vendor_name: Option<&'a str>,
    device_name: Option<&'a str>,
    driver: Option<&'a str>,
    interfaces: Vec<InterfaceRow<'a>>,
    /// An interface of it is in another network namespace.
    interface_elsewhere: bool,
    iommu_group: Option<u32>,
    noiommu: bool,
    group_members: Vec<MemberRow<'a>>,
    numa_node: Option<u32>,
    left_by_killed_process: bool,
    /// DPDK can use it with the driver that it has.
    bound: bool,
    /// Why its port would not take it from its kernel driver.
    cause: Option<&'a str>,
    hint: Option<&'a str>,
}

#[derive(Serialize)]
struct InterfaceRow<'a> {
    name: &'a str,
    up: bool,
    link: Option<bool>,
}

#[derive(Serialize)]
struct MemberRow<'a> {
    address: String,
    driver: Option<&'a str>,
}

/// The same for the JSON document.
pub(super) fn rows(cards: &[Card]) -> Vec<Row<'_>> {
    fn interface(one: &PciInterface) -> InterfaceRow<'_> {
        InterfaceRow { name: &one.name, up: one.up, link: one.link }
    }
    fn member(one: &GroupMember) -> MemberRow<'_> {
        MemberRow { address: one.address.to_string(), driver: one.driver.as_deref() }
    }
    fn row(card: &Card) -> Row<'_> {
        let Card { device, vendor_name, device_name, refusal, left } = card;
        Row {
            address: device.address.to_string(),
            vendor: format!("{:04x}", device.vendor),
            device: format!("{:04x}", device.device),
            vendor_name: vendor_name.as_deref(),
            device_name: device_name.as_deref(),
            driver: device.driver.as_deref(),
            interfaces: device.interfaces.iter().map(interface).collect(),
            interface_elsewhere: device.hidden_interface,
            iommu_group: device.iommu_group,
            noiommu: device.noiommu,
            group_members: device.group_members.iter().map(member).collect(),
            numa_node: device.numa_node,
            left_by_killed_process: *left,
            bound: device.kept().is_some(),
            cause: refusal.as_ref().map(|refusal| refusal.cause.as_str()),
            hint: refusal.as_ref().map(|refusal| refusal.hint.as_str()),
        }
    }
    cards.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> Card {
        let interface = PciInterface { name: "eth1".into(), index: 2, up: true, link: Some(false), uppers: Vec::new() };
        let twin = GroupMember { address: "01:00.1".parse().unwrap(), driver: Some("ixgbe".into()), bridge: false };
        let device = PciDevice {
            address: "01:00.0".parse().unwrap(),
            vendor: 0x8086,
            device: 0x10fb,
            class: 0x020000,
            driver: Some("ixgbe".into()),
            driver_override: String::new(),
            interfaces: vec![interface],
            hidden_interface: false,
            iommu_group: Some(12),
            noiommu: false,
            group_members: vec![twin],
            numa_node: Some(1),
            virtual_functions: 0,
        };
        let refusal = Some(Refusal { cause: "vfio-pci is not loaded".into(), hint: "modprobe vfio-pci".into() });
        let vendor_name = Some("Intel Corporation".into());
        Card { device, vendor_name, device_name: Some("82599ES".into()), refusal, left: false }
    }

    #[test]
    fn a_card_has_two_lines() {
        assert_eq!(text(&[], true), "");
        let mut cards = [card()];
        let first = "  0000:01:00.0         Intel Corporation 82599ES (8086:10fb), driver ixgbe, eth1 (up without a link), IOMMU group 12 \
                     with 0000:01:00.1 (ixgbe), NUMA node 1\n";
        let second = "                       dpdk:0000:01:00.0,bind   vfio-pci is not loaded: modprobe vfio-pci\n";
        assert_eq!(text(&cards, true), format!("\nPCI network cards\n{first}{second}"));
        cards[0].refusal = None;
        assert!(text(&cards, true).ends_with("dpdk:0000:01:00.0,bind   usable\n"));
        assert!(text(&cards, false).contains(",bind   possible, but"));
        cards[0].device.driver = Some("vfio-pci".into());
        cards[0].device.interfaces.clear();
        let shown = text(&cards, true);
        assert!(shown.contains("dpdk:0000:01:00.0        usable: 0000:01:00.0 was with vfio-pci"), "{shown}");
        cards[0] = Card { left: true, vendor_name: None, device_name: None, ..card() };
        (cards[0].device.iommu_group, cards[0].device.driver) = (None, None);
        let shown = text(&cards, true);
        assert!(
            shown.contains("  (8086:10fb), no driver, eth1 (up without a link), no IOMMU group, NUMA node 1\n"),
            "{shown}"
        );
        assert!(shown.contains("the next port of this kind gives it back"), "{shown}");
    }

    #[test]
    fn json_has_the_same() {
        let cards = [card()];
        let value = serde_json::to_value(rows(&cards)).unwrap();
        let row = &value[0];
        assert_eq!(
            (&row["address"], &row["vendor"], &row["device"]),
            (&"0000:01:00.0".into(), &"8086".into(), &"10fb".into())
        );
        assert_eq!((&row["interfaces"][0]["name"], &row["interfaces"][0]["link"]), (&"eth1".into(), &false.into()));
        assert_eq!((&row["group_members"][0]["driver"], &row["iommu_group"]), (&"ixgbe".into(), &12.into()));
        assert_eq!((&row["cause"], &row["bound"]), (&"vfio-pci is not loaded".into(), &false.into()));
    }
}
