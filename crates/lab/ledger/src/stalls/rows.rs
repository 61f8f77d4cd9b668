//! Divides the ledger's rows "ring full" into what a ring lost while its core was away, and the rest.

use linerate_report::{Account, AccountError, Loss, StalledPart, units};

use super::causes::Stall;
use crate::attribution::RING_FULL;
use crate::drops::hints;

/// Whether a ring can have lost packets because of a stall that others caused: one of the DUT's core.
pub(super) fn costs_packets(stall: &Stall) -> bool {
    stall.is_interruption && stall.part == StalledPart::Dut
}

/// The account with the packets `lost` (by stall) in rows of their own, and how many these are. No more are taken than rings lost;
/// the last stalls then have fewer.
pub(super) fn divide(account: &Account, stalls: &[Stall], lost: &mut [u64]) -> Result<(Account, u64), AccountError> {
    let in_rings: u64 = account.lost().iter().filter(|loss| loss.cause == RING_FULL).map(|loss| loss.packets).sum();
    let mut left = in_rings;
    for lost in lost.iter_mut() {
        *lost = (*lost).min(left);
        left -= *lost;
    }
    let taken = in_rings - left;
    if taken == 0 {
        return Ok((account.clone(), 0));
    }
    let cause = words(stalls, lost);
    let mut rows = Vec::with_capacity(account.lost().len() + 1);
    let mut left = taken;
    for loss in account.lost() {
        if loss.cause != RING_FULL || left == 0 {
            rows.push(loss.clone());
            continue;
        }
        let here = left.min(loss.packets);
        left -= here;
        rows.push(Loss { cause: cause.clone(), packets: here, hint: None, ..loss.clone() });
        if loss.packets > here {
            rows.push(Loss { packets: loss.packets - here, ..loss.clone() });
        }
    }
    hints::add(&mut rows);
    Ok((account.clone().with_lost(rows)?, taken))
}

/// `ring full while core 1 was away (2 times, up to 2.30 ms)`: of the stalls that cost something.
fn words(stalls: &[Stall], lost: &[u64]) -> String {
    let costly: Vec<&Stall> = stalls.iter().zip(lost).filter(|(_, lost)| **lost > 0).map(|(stall, _)| stall).collect();
    let mut cores: Vec<u32> = costly.iter().filter_map(|stall| stall.core).collect();
    cores.sort_unstable();
    cores.dedup();
    let numbers = cores.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let who = if cores.len() == 1 { format!("core {numbers} was") } else { format!("cores {numbers} were") };
    let longest = costly.iter().map(|stall| stall.span.length_ns()).max().unwrap_or(0);
    let times = if costly.len() == 1 { "once".to_owned() } else { format!("{} times", costly.len()) };
    format!("ring full while {who} away ({times}, up to {})", units::nanoseconds(longest as f64))
}

#[cfg(test)]
mod tests {
    use linerate_report::{Counted, StallCause};

    use super::*;
    use crate::turns::Span;

    fn stall(length_us: u64) -> Stall {
        Stall {
            core: Some(1),
            part: StalledPart::Dut,
            span: Span { start_ns: 1_000, end_ns: 1_000 + length_us * 1_000 },
            by: StallCause::Hypervisor,
            exact: false,
            is_interruption: true,
        }
    }

    fn account(rows: Vec<Loss>) -> Account {
        let lost: u64 = rows.iter().map(|row| row.packets).sum();
        let counted = Counted { intended: 10_000, sent: 10_000, delivered: 9_990 - lost, ..Counted::default() };
        Account::new(counted, rows).expect("an account")
    }

    fn shown(account: &Account) -> Vec<(&str, u64)> {
        account.lost().iter().map(|loss| (loss.cause.as_str(), loss.packets)).collect()
    }

    #[test]
    fn a_row_is_divided_and_the_account_still_balances() {
        let before = account(vec![
            Loss::new("a", "no route", 5),
            Loss::new("receive ring of b", RING_FULL, 300).counted_by("tx_dropped"),
        ]);
        let mut lost = [120, 0, 30];
        let (after, taken) = divide(&before, &[stall(2_300), stall(9_000), stall(400)], &mut lost).expect("an account");
        let cause = "ring full while core 1 was away (2 times, up to 2.30 ms)";
        assert_eq!(shown(&after), [("no route", 5), (cause, 150), (RING_FULL, 150)]);
        assert_eq!((taken, after.unexplained(), after.lost_total()), (150, 10, before.lost_total()));
        let row = &after.lost()[1];
        assert_eq!((row.place.as_str(), row.counter.as_deref()), ("receive ring of b", Some("tx_dropped")));
        assert!(row.hint.is_some());
    }

    #[test]
    fn no_more_is_taken_than_rings_lost() {
        let before = account(vec![Loss::new("a", "no route", 500), Loss::new("ring", RING_FULL, 100)]);
        let mut lost = [80, 70];
        let (after, taken) = divide(&before, &[stall(1_000), stall(2_000)], &mut lost).expect("an account");
        assert_eq!((taken, lost), (100, [80, 20]));
        assert_eq!(shown(&after)[1], ("ring full while core 1 was away (2 times, up to 2.00 ms)", 100));
        let (same, none) = divide(&before, &[], &mut []).expect("an account");
        assert_eq!((same, none), (before, 0));
    }

    #[test]
    fn only_interruptions_of_the_device_cost_packets() {
        assert!(costs_packets(&stall(1)));
        assert!(!costs_packets(&Stall { part: StalledPart::Generator, ..stall(1) }));
        assert!(!costs_packets(&Stall { is_interruption: false, ..stall(1) }));
    }
}
