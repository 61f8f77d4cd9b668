//! Next hops that do not answer: one row for all of them, or one for each where the kernel says how many packets waited for it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use linerate_report::Loss;

use super::Path;
use crate::counters::DutCounters;
use crate::drops::DropCounts;

/// Where packets wait for the address of a next hop.
pub(super) const NEIGHBOUR_TABLE: &str = "DUT, neighbour table";
const WAITED: &str = "neigh:neigh_event_send_done";

impl Path {
    /// Divides the rows of several next hops by the packets that had to wait for each.
    pub(super) fn apart_by_next_hop(&mut self, dut: &DutCounters, drops: Option<&DropCounts>) {
        let (Some(drops), Some(words)) = (drops, silent_neighbours(dut)) else { return };
        let silent = |address: &&IpAddr| dut.unresolved_neighbours.contains(address);
        let mut waited: BTreeMap<IpAddr, u64> = drops
            .waited
            .iter()
            .filter(|(address, _)| silent(address))
            .map(|(address, packets)| (*address, *packets))
            .collect();
        if dut.unresolved_neighbours.len() < 2 || waited.is_empty() {
            return;
        }
        let is_meant = |row: &Loss| row.place == NEIGHBOUR_TABLE && row.cause == words;
        let lost: Vec<u64> = self.losses.rows.iter().filter(|row| is_meant(row)).map(|row| row.packets).collect();
        // How those that still wait divide is not known of itself.
        let is_exact = lost == [waited.values().sum::<u64>()];
        let rows = std::mem::take(&mut self.losses.rows);
        for row in rows {
            match is_meant(&row) {
                true => self.losses.rows.extend(divided(row, &mut waited, is_exact)),
                false => self.losses.rows.push(row),
            }
        }
    }
}

/// A row by next hop, in proportion to the packets that waited and are in no row yet; what is more than those stays together.
fn divided(row: Loss, waited: &mut BTreeMap<IpAddr, u64>, is_exact: bool) -> Vec<Loss> {
    let all: u64 = waited.values().sum();
    let most = row.packets.min(all);
    let mut left = most;
    let mut rows = Vec::new();
    let last = waited.iter().filter(|(_, packets)| **packets > 0).map(|(address, _)| *address).next_back();
    for (address, packets) in waited.iter_mut().filter(|(_, packets)| **packets > 0) {
        let share = (u128::from(most) * u128::from(*packets) / u128::from(all)) as u64;
        let share = if Some(*address) == last { left } else { share };
        *packets = packets.saturating_sub(share);
        left -= share;
        let cause = format!("next hop {address} does not answer");
        let part = Loss { cause, packets: share, ..row.clone() };
        rows.push(match (is_exact, &row.counter) {
            (true, Some(counter)) if !row.is_inferred() => part.counted_by(format!("{counter}, {WAITED}")),
            _ if row.is_inferred() => part,
            _ => part.inferred_from(format!("the share of packets that waited for it ({WAITED})")),
        });
    }
    rows.push(Loss { packets: row.packets - most, ..row });
    rows.retain(|row| row.packets > 0);
    rows
}

/// The next hops of the DUT that did not answer, in words.
pub(super) fn silent_neighbours(dut: &DutCounters) -> Option<String> {
    let mut addresses = dut.unresolved_neighbours.clone();
    addresses.sort_unstable();
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    match addresses.as_slice() {
        [] => None,
        [address] => Some(format!("next hop {address} does not answer")),
        addresses => Some(format!("next hops {} do not answer", addresses.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_divided_by_the_packets_that_waited_and_the_rest_stays() {
        let waited = |counts: &[(u8, u64)]| -> BTreeMap<IpAddr, u64> {
            counts.iter().map(|(last, packets)| ([198, 18, 1, *last].into(), *packets)).collect()
        };
        let row = |packets| Loss::new(NEIGHBOUR_TABLE, "next hops a, b do not answer", packets).counted_by("kfree_skb");
        let found = |row: Loss, waited: &mut BTreeMap<IpAddr, u64>, is_exact| -> Vec<(String, u64, bool)> {
            let rows = divided(row, waited, is_exact).into_iter();
            rows.map(|row| (row.cause.clone(), row.packets, row.is_inferred())).collect()
        };
        let of = |last: u8| format!("next hop 198.18.1.{last} does not answer");
        let (both, exact) = ("next hops a, b do not answer".to_owned(), [(77, 60), (78, 40)]);
        assert_eq!(found(row(100), &mut waited(&exact), true), [(of(77), 60, false), (of(78), 40, false)]);
        assert_eq!(found(row(50), &mut waited(&exact), false), [(of(77), 30, true), (of(78), 20, true)]);
        assert_eq!(
            found(row(107), &mut waited(&exact), false),
            [(of(77), 60, true), (of(78), 40, true), (both, 7, false)]
        );
        // Dropped ones and those that still wait are two rows.
        let mut left = waited(&exact);
        assert_eq!(found(row(75), &mut left, false), [(of(77), 45, true), (of(78), 30, true)]);
        let waiting = row(25).inferred_from("the neighbour table");
        assert_eq!(found(waiting, &mut left, false), [(of(77), 15, true), (of(78), 10, true)]);
        assert_eq!(left.values().sum::<u64>(), 0);
    }
}
