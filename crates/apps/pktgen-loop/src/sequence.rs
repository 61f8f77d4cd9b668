//! `-f rxseq`: follows the numbers that `-f txseq` writes, over all flows and queues of the port.

use linerate_gen::{SequenceCounts, SequenceTracker, Start, WINDOW_DEFAULT};
use linerate_mem::Batch;
use linerate_sys::clock;
use linerate_wire::{LayerKind, Parsed};

use crate::diag;

/// What `txseq` writes behind the headers of a packet: its number, in bytes.
pub const SEQUENCE_LEN: usize = 4;

/// Most lines about gaps in a second.
const LINES_PER_SECOND: u32 = 2;

/// The numbers seen so far.
pub struct Numbers {
    tracker: SequenceTracker,
    seen_any: bool,
    without_number: u64,
    second: u64,
    lines: u32,
}

impl Default for Numbers {
    fn default() -> Numbers {
        let tracker = SequenceTracker::new(Start::FirstSeen, WINDOW_DEFAULT);
        Numbers { tracker, seen_any: false, without_number: 0, second: 0, lines: 0 }
    }
}

impl Numbers {
    /// Follows the packets of a batch. Of a packet over several slots the first one has the number.
    pub fn record(&mut self, batch: &Batch) {
        let mut continued = false;
        for (position, packet) in batch.iter().enumerate() {
            if !continued {
                match number_of(packet) {
                    Some(number) => self.follow(number),
                    None => self.without_number += 1,
                }
            }
            continued = batch.more(position);
        }
    }

    fn follow(&mut self, number: u32) {
        let expected = self.tracker.next_expected();
        let full = if self.seen_any { unwrap(number, expected) } else { u64::from(number) };
        if self.seen_any && full != expected {
            self.say(number, expected as u32, full > expected);
        }
        self.seen_any = true;
        // The packets carry no time, so no restart of the sender can be told from them.
        self.tracker.record(full, 0);
    }

    fn say(&mut self, found: u32, expected: u32, gap: bool) {
        let second = clock::now_ns() / 1_000_000_000;
        if second != self.second {
            (self.second, self.lines) = (second, 0);
        }
        self.lines += 1;
        if self.lines <= LINES_PER_SECOND {
            let what = if gap { "GAP" } else { "OUT OF ORDER" };
            diag!("rxseq_body", "Sequence {what}: exp {expected} found {found}");
        }
    }

    /// The line of totals.
    pub fn totals(&self) -> String {
        let SequenceCounts { delivered, lost, duplicated, reordered, beyond_window, .. } = self.tracker.counts();
        let mut line =
            format!("Sequence: {delivered} delivered, {lost} lost, {duplicated} duplicated, {reordered} reordered.");
        if beyond_window > 0 {
            line += &format!(" {beyond_window} older than {WINDOW_DEFAULT} numbers, duplicated or late.");
        }
        if self.without_number > 0 {
            line += &format!(" {} other packets.", self.without_number);
        }
        line
    }
}

/// The number at the start of a UDP payload.
fn number_of(packet: &[u8]) -> Option<u32> {
    let parsed = Parsed::parse(packet).ok()?;
    let transport = parsed.ip?.transport?;
    if transport.kind != LayerKind::Udp {
        return None;
    }
    let number = packet.get(transport.payload_offset..transport.payload_offset + SEQUENCE_LEN)?;
    Some(u32::from_be_bytes(number.try_into().ok()?))
}

/// The number whose low 32 bits were sent, nearest to what is expected.
fn unwrap(low: u32, expected: u64) -> u64 {
    let ahead = low.wrapping_sub(expected as u32);
    if ahead < 1 << 31 {
        return expected + u64::from(ahead);
    }
    let behind = u64::from(ahead.wrapping_neg());
    // Before the first number there is none: then it is one far ahead.
    expected.checked_sub(behind).unwrap_or(expected + u64::from(ahead))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(numbers: &[u32]) -> String {
        let mut all = Numbers::default();
        numbers.iter().for_each(|number| all.follow(*number));
        all.totals()
    }

    #[test]
    fn totals_name_what_happened() {
        assert_eq!(follow(&[5, 6, 7]), "Sequence: 3 delivered, 0 lost, 0 duplicated, 0 reordered.");
        assert_eq!(follow(&[5, 8, 6, 6, 9]), "Sequence: 4 delivered, 1 lost, 1 duplicated, 1 reordered.");
        assert_eq!(follow(&[]), "Sequence: 0 delivered, 0 lost, 0 duplicated, 0 reordered.");
        assert!(follow(&[u32::MAX - 1, u32::MAX, 0, 1]).starts_with("Sequence: 4 delivered, 0 lost"));
    }

    #[test]
    fn numbers_go_on_after_their_32_bits() {
        for expected in [0, 7, 1 << 31, (1 << 32) - 1, 1 << 32, (5 << 32) + 3] {
            for distance in [-1000i64, -1, 0, 1, 1000] {
                let Some(full) = u64::checked_add_signed(expected, distance) else { continue };
                assert_eq!(unwrap(full as u32, expected), full, "{expected} {distance}");
            }
        }
    }
}
