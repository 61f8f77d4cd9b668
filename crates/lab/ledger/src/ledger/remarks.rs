//! What a trial's account should be read with: what was not seen, and what moved beside the losses.

use super::Ledger;
use crate::counters::{Difference, InterfaceCounters};
use linerate_report::Loss;
use linerate_testbed::proc_net::Counters;

/// What the counters and reasons of a trial say beyond its account, in sentences.
pub fn remarks(difference: &Difference, ledger: &Ledger) -> Vec<String> {
    let mut remarks = ledger.contradictions.clone();
    remarks.extend(difference.blind_spot.as_ref().filter(|_| is_guessed(ledger)).map(|why| {
        format!(
            "the kernel's drop reasons were not read ({why}): causes without a counter are inferred or not named at all"
        )
    }));
    if let Some(drops) = difference.drops.as_ref().filter(|drops| drops.uncounted > 0) {
        remarks.push(format!("{} drops found no room in the table of drop reasons", drops.uncounted));
    }
    let squeezed: u64 = difference.host.softnet.values().map(|core| core.time_squeeze).sum();
    if squeezed > 0 && ledger.account.lost_total() > 0 {
        remarks.push(format!(
            "the receive softirq ran out of its budget {squeezed} times, on the whole machine (net.core.netdev_budget)"
        ));
    }
    if let Some(dut) = &difference.dut {
        let clashes = count(&dut.protocols, "conntrack.clash_resolve");
        if clashes > 0 {
            remarks
                .push(format!("connection tracking resolved {clashes} clashes of packets of one new flow (not lost)"));
        }
        remarks.extend([&dut.ingress, &dut.egress].into_iter().flat_map(paused));
    }
    remarks.extend([&difference.generator.interface, &difference.receiver.interface].into_iter().flat_map(paused));
    remarks
}

/// Links of the tester's own network cards that went away, where the device is outside the lab. (What happens to the links of the lab's own
/// devices is a part of their losses.)
pub fn link_flaps(difference: &Difference) -> Vec<String> {
    let cards = [&difference.generator.interface, &difference.receiver.interface];
    let flapped = cards.into_iter().filter(|card| difference.outside && card.was_away());
    let sentence = |card: &InterfaceCounters| {
        let went_away = match card.carrier_losses {
            0 => "was away when the trial began".to_owned(),
            1 => "went away once during the trial".to_owned(),
            times => format!("went away {times} times during the trial"),
        };
        let now = if card.running { "" } else { " and is not back" };
        format!("the link of {} {went_away}{now}: look at its cable, its transceivers and the device", card.name)
    };
    flapped.map(sentence).collect()
}

/// Whether the kernel's drop reasons could say more of a trial's losses than its counters did.
pub fn is_unsure(ledger: &Ledger) -> bool {
    ledger.account.unexplained() != 0 || is_guessed(ledger)
}

/// Whether losses are named without a counter that says so.
fn is_guessed(ledger: &Ledger) -> bool {
    !ledger.unnamed.is_empty() || ledger.account.lost().iter().any(Loss::is_inferred)
}

/// Pause frames that an interface received and sent (IEEE 802.3 annex 31B).
fn paused(interface: &InterfaceCounters) -> Vec<String> {
    let name = &interface.name;
    let [received, sent] = interface.pause_frames();
    let of = |frames: u64, says: String| (frames > 0).then_some(says);
    let words = [
        of(
            received,
            format!(
                "{name} received {received} pause frames: its link partner held it back (ethtool -A turns them off)"
            ),
        ),
        of(
            sent,
            format!(
                "{name} sent {sent} pause frames: it held its link partner back, whose losses can be its own then (ethtool -A)"
            ),
        ),
    ];
    words.into_iter().flatten().collect()
}

fn count(counters: &Counters, name: &str) -> u64 {
    counters.get(name).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::DutCounters;
    use crate::drops::DropCounts;
    use linerate_report::{Account, Counted};

    fn ledger(lost: Vec<Loss>) -> Ledger {
        let account = Account::new(Counted { intended: 10, sent: 10, ..Counted::default() }, lost).expect("balances");
        Ledger { account, unnamed: Vec::new(), contradictions: vec!["odd".into()] }
    }

    #[test]
    fn a_guess_says_what_was_not_seen_and_a_counter_does_not() {
        let guess = ledger(vec![Loss::new("a", "nftables chain c", 10).inferred_from("its hook")]);
        let blind = Difference { blind_spot: Some("no rights".into()), ..Difference::default() };
        let said = remarks(&blind, &guess);
        assert!(said.len() == 2 && said[0] == "odd" && said[1].contains("no rights"), "{said:?}");
        let counted = ledger(vec![Loss::new("a", "no route", 10).counted_by("InNoRoutes")]);
        assert_eq!(remarks(&blind, &counted).len(), 1);
        assert_eq!(remarks(&Difference::default(), &guess).len(), 1);
    }

    #[test]
    fn a_link_of_the_testers_that_went_away_is_told_where_the_device_is_outside() {
        let mut difference = Difference { outside: true, ..Difference::default() };
        let cards = [&mut difference.generator.interface, &mut difference.receiver.interface];
        for (card, (name, times)) in cards.into_iter().zip([("eth0", 1), ("eth1", 3)]) {
            (card.name, card.carrier_losses, card.running) = (name.into(), times, times == 1);
        }
        let said = link_flaps(&difference);
        assert!(said.len() == 2 && said[0].contains("eth0 went away once during the trial:"), "{said:?}");
        assert!(said[1].contains("eth1 went away 3 times during the trial and is not back"), "{said:?}");
        let cards = [&mut difference.generator.interface, &mut difference.receiver.interface];
        for (card, away_before) in cards.into_iter().zip([true, false]) {
            (card.carrier_losses, card.away_before, card.running) = (0, away_before, true);
        }
        let said = link_flaps(&difference);
        assert!(said.len() == 1 && said[0].contains("eth0 was away when the trial began:"), "{said:?}");
        difference.outside = false;
        assert!(link_flaps(&difference).is_empty());
    }

    #[test]
    fn what_moved_beside_the_losses_is_said() {
        let mut dut = DutCounters::default();
        dut.ingress.name = "eth7".into();
        dut.ingress.driver.insert("rx_pause_frames".into(), 3);
        dut.ingress.driver.insert("tx_pause_frames".into(), 2);
        dut.protocols.insert("conntrack.clash_resolve".into(), 4);
        let drops = Some(DropCounts { uncounted: 5, ..DropCounts::default() });
        let difference = Difference { dut: Some(dut), drops, ..Difference::default() };
        let said = remarks(&difference, &ledger(Vec::new())).join("; ");
        for words in ["5 drops", "4 clashes", "eth7 received 3 pause frames", "eth7 sent 2 pause frames"] {
            assert!(said.contains(words), "{words}: {said}");
        }
    }
}
