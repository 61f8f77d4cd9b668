//! Network cards that no kernel driver has: those for DPDK, those that a killed process left so, and those without any driver.

use linerate_pci::VFIO;

use super::Finding;
use super::facts::{Facts, PciCard};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    facts.pci_cards.iter().filter_map(card).collect()
}

fn card(card: &PciCard) -> Option<Finding> {
    let topic = format!("card {}", card.address);
    if card.left {
        let before = card.driver_before.as_deref();
        let what = format!("left with vfio-pci by a process that was killed; it had {}", before.unwrap_or("no driver"));
        let why = "the kernel has no interface of it; the next dpdk: port of Linerate gives it back";
        return Some(Finding::warning(&topic, what, why).fix(give_back(card, before)));
    }
    match card.driver.as_deref() {
        Some(VFIO) => {
            let why = "the kernel has no interface of it";
            Some(Finding::note(&topic, "with vfio-pci, for DPDK or a virtual machine", why).fix(give_back(card, None)))
        }
        None => {
            let why = "the kernel has no interface of it, and nobody else uses it";
            let fix = format!("echo {} > /sys/bus/pci/drivers_probe", card.address);
            Some(Finding::note(&topic, "no driver", why).fix(fix))
        }
        Some(_) => None,
    }
}

/// The commands that give a card back to `driver`, or to the one that the kernel finds for it.
fn give_back(card: &PciCard, driver: Option<&str>) -> String {
    let address = &card.address;
    let unbind = match card.driver.as_deref() {
        Some(VFIO) => format!("echo {address} > /sys/bus/pci/drivers/vfio-pci/unbind; "),
        _ => String::new(),
    };
    let bind = driver.map_or("drivers_probe".into(), |driver| format!("drivers/{driver}/bind"));
    format!("{unbind}echo > /sys/bus/pci/devices/{address}/driver_override; echo {address} > /sys/bus/pci/{bind}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Severity;

    fn card(driver: Option<&str>) -> PciCard {
        PciCard { address: "0000:01:00.0".into(), driver: driver.map(str::to_owned), ..PciCard::default() }
    }

    fn findings(cards: Vec<PciCard>) -> Vec<Finding> {
        check(&Facts { pci_cards: cards, ..Facts::default() })
    }

    #[test]
    fn cards_with_a_kernel_driver_are_no_finding() {
        assert_eq!(findings(vec![card(Some("ixgbe"))]), []);
    }

    #[test]
    fn cards_that_the_kernel_lacks_are_told_with_the_way_back() {
        let left = PciCard { left: true, driver_before: Some("ixgbe".into()), ..card(Some(VFIO)) };
        let half = PciCard { driver: None, ..left.clone() };
        let found = findings(vec![left, half, card(Some(VFIO)), card(None)]);
        assert_eq!(
            found.iter().map(|one| one.severity).collect::<Vec<_>>(),
            [Severity::Warning, Severity::Warning, Severity::Note, Severity::Note]
        );
        let (unbind, bind) = ("echo 0000:01:00.0 > /sys/bus/pci/drivers/vfio-pci/unbind; ", "drivers/ixgbe/bind");
        assert!(found[0].fix.starts_with(unbind) && found[0].fix.ends_with(bind), "{:?}", found[0]);
        assert!(found[1].fix.starts_with("echo > ") && found[1].fix.ends_with(bind), "{:?}", found[1]);
        assert!(found[2].fix.starts_with(unbind) && found[2].fix.ends_with("drivers_probe"), "{:?}", found[2]);
        assert_eq!(found[3].fix, "echo 0000:01:00.0 > /sys/bus/pci/drivers_probe");
    }
}
